// What belongs to no handle: versions, targets, the op table, element types, the log.
#include "base/build_id.h"
#include "base/json.h"
#include "base/log.h"
#include "capi/handles.h"
#include "ir/lexer.h"
#include "ir/op_table.h"

using namespace tilewright;
using capi::guarded;

namespace {

struct HostLog {
  tw_log_function function;
  void* context;
};

// "; did you mean softmax?" for a slip of the pen.
std::string nearest_op(std::string_view name) {
  std::vector<std::string_view> names;
  for (const OpInfo& info : all_ops()) names.push_back(info.name);
  const std::string found = nearest(name, names);
  return found.empty() ? found : cat("; did you mean ", found, "?");
}

void write_type_columns(JsonWriter& json, const OpInfo& info) {
  json.key("operands").begin_array();
  for (const OperandInfo& operand : info.operands) {
    json.begin_object().field("name", operand.name).field("optional", operand.optional);
    json.field("variadic", operand.variadic).field("variable", operand.variable).key("dtypes").begin_array();
    for (DType dtype : operand.types.members()) json.value(dtype_name(dtype));
    json.end_array().end_object();
  }
  json.end_array().key("results").begin_array();
  for (const ResultInfo& result : info.results)
    json.begin_object().field("name", result.name).field("variadic", result.variadic).end_object();
  json.end_array().field("attributes", info.attribute_text);
  json.field("min_regions", info.min_regions).field("max_regions", info.max_regions);
}

}  // namespace

extern "C" {

const char* tw_version(void) { return library_version(); }

void tw_api_version(int32_t* major, int32_t* minor) {
  if (major) *major = TW_API_MAJOR;
  if (minor) *minor = TW_API_MINOR;
}

const char* tw_build_id(void) { return build_id().c_str(); }

tw_status* tw_targets(tw_text** json) {
  if (json) *json = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(json);
    JsonWriter writer;
    writer.begin_array();
    for (const TargetListing& target : list_targets()) {
      writer.begin_object().field("spelling", target.spelling).field("family", target.family);
      writer.field("summary", target.summary).field("host_reason", target.host_reason).end_object();
    }
    writer.end_array();
    *json = capi::make_text(writer.text());
    return Status::ok();
  });
}

tw_status* tw_target_describe(const char* spelling, tw_text** json) {
  if (json) *json = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(spelling);
    TW_REQUIRE(json);
    TW_ASSIGN_OR_RETURN(std::shared_ptr<Target> target, create_target(spelling));
    const TargetInfo& info = target->info();
    JsonWriter writer;
    writer.begin_object().field("family", info.family).field("name", info.name);
    writer.field("description", info.description).field("isa", info.isa);
    writer.field("cache_identity", info.cache_identity).field("host_reason", info.host_reason);
    writer.field("dlpack_device", static_cast<int64_t>(info.dlpack_device));
    writer.field("device_index", static_cast<int64_t>(info.device_index));
    writer.field("limits", info.limits.to_text()).end_object();
    *json = capi::make_text(writer.text());
    return Status::ok();
  });
}

int64_t tw_op_count(void) { return static_cast<int64_t>(all_ops().size()); }

int32_t tw_op_id(int64_t index) {
  if (index < 0 || index >= tw_op_count()) return -1;
  return all_ops()[static_cast<size_t>(index)].id;
}

const char* tw_op_name(int32_t op) {
  const std::optional<Op> found = op_from_id(op);
  return found ? op_name(*found) : nullptr;
}

tw_status* tw_op_find(const char* name, int32_t* op) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(name);
    TW_REQUIRE(op);
    const std::optional<Op> found = parse_op(name);
    if (!found) return Status::not_found(cat(call, ": no op ", name, nearest_op(name)));
    *op = op_info(*found).id;
    return Status::ok();
  });
}

tw_status* tw_op_describe(int32_t op, tw_text** json) {
  if (json) *json = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(json);
    const std::optional<Op> found = op_from_id(op);
    if (!found) return Status::not_found(cat(call, ": no op with id ", op));
    const OpInfo& info = op_info(*found);
    JsonWriter writer;
    writer.begin_object().field("name", info.name).field("id", info.id).field("composite", info.composite);
    write_type_columns(writer, info);
    static constexpr const char* kGradients[] = {"zero", "rule", "expansion"};
    writer.field("kind", kind_name(info.kind)).field("accuracy", accuracy_name(info.accuracy));
    writer.field("commutative", info.has(Trait::Commutative))
        .field("side_effect", info.has(Trait::SideEffect));
    writer.field("gradient", kGradients[static_cast<int>(info.gradient)])
        .field("meaning", info.meaning)
        .end_object();
    *json = capi::make_text(writer.text());
    return Status::ok();
  });
}

const char* tw_dtype_name(int32_t dtype) {
  return dtype >= 0 && dtype < kDTypeCount ? dtype_name(static_cast<DType>(dtype)) : nullptr;
}

int64_t tw_dtype_size(int32_t dtype) {
  return dtype >= 0 && dtype < kDTypeCount ? dtype_bytes(static_cast<DType>(dtype)) : 0;
}

tw_status* tw_dtype_find(const char* name, int32_t* dtype) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(name);
    TW_REQUIRE(dtype);
    const std::optional<DType> found = parse_dtype(name);
    if (!found) return Status::not_found(cat(call, ": no dtype ", name));
    *dtype = static_cast<int32_t>(*found);
    return Status::ok();
  });
}

void tw_set_log(tw_log_function function, void* context) {
  if (!function) return set_log_sink(nullptr, nullptr);
  // Leaked: a line may be on its way to the old sink.
  auto* log = new (std::nothrow) HostLog{function, context};
  if (!log) return;
  set_log_sink(
      [](void* sink, LogComponent component, LogLevel level, std::string_view message) {
        const auto* host = static_cast<const HostLog*>(sink);
        host->function(host->context, static_cast<int32_t>(level), log_component_name(component),
                       message.data(), static_cast<int64_t>(message.size()));
      },
      log);
}

}  // extern "C"
