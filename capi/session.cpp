// tw_session: creation with the host's services, effective options, report, memory, cache counters, custom
// calls.
#include "capi/handles.h"

using namespace tilewright;
using capi::guarded;

namespace {

// Between tensors of one type and shape, wherever they lie.
Status copy_tensor(const Session& session, const TensorView& from, const TensorView& to, void* stream) {
  const TensorRef source = from.ref(), destination = to.ref();
  if (source.dtype != destination.dtype || source.sizes != destination.sizes)
    return Status::invalid(cat("from is ", from.to_string(), ", to is ", to.to_string()));
  if (source.elements() == 0) return Status::ok();
  if (!source.data || !destination.data) return Status::invalid("a tensor has no data");
  if (!from.on_device && !to.on_device) {
    copy_strided(source, destination);
    return Status::ok();
  }
  const Device& device = *session.device();
  if (!from.on_device) return device.store(source, destination, stream);
  if (to.on_device && source.is_dense() && destination.is_dense())
    return device.move(destination.data, source.data, source.bytes(), stream);
  if (!to.on_device && source.is_dense() && destination.is_dense())
    return device.download(destination.data, source.data, source.bytes(), stream);
  TW_ASSIGN_OR_RETURN(OwnedTensor dense, device.fetch(source, stream));
  if (to.on_device) return device.store(dense.ref, destination, stream);
  copy_strided(dense.ref, destination);
  return Status::ok();
}

// Fills in dtype and sizes; returns the bytes.
Result<int64_t> describe_tensor(const char* call, int32_t dtype, const int64_t* sizes, int32_t rank,
                                AskedTensor* made) {
  TW_RETURN_IF_ERROR(capi::check_list(call, "sizes", sizes, rank));
  TW_ASSIGN_OR_RETURN(made->dtype, capi::to_dtype(call, dtype));
  int64_t bytes = dtype_bytes(made->dtype);
  for (int32_t dim = 0; dim < rank; ++dim) {
    if (sizes[dim] < 0) return Status::invalid(cat(call, ": size ", sizes[dim], " in dim ", dim));
    if (__builtin_mul_overflow(bytes, sizes[dim], &bytes))
      return Status::exhausted(cat(call, ": tensor is too large"));
    made->sizes.push_back(sizes[dim]);
  }
  return bytes;
}

Result<HostServices> to_services(const char* call, const tw_session_info& info) {
  HostServices services;
  const tw_extension* found = nullptr;
  TW_RETURN_IF_ERROR(capi::find_extension(call, info.next, TW_EXTENSION_HOST_SERVICES, &found));
  if (!found) return services;
  tw_host_services host;
  std::memset(&host, 0, sizeof host);
  const int64_t size = found->struct_size;
  if (size < static_cast<int64_t>(sizeof(tw_extension)))
    return Status::invalid(
        cat(call, ": tw_host_services has struct_size ", size, ", expected sizeof(tw_host_services)"));
  std::memcpy(static_cast<void*>(&host), found, std::min<size_t>(static_cast<size_t>(size), sizeof host));
  services.context = host.context;
  services.allocator.context = host.context;
  services.allocator.allocate = host.allocate;
  services.allocator.deallocate = host.deallocate;
  services.parallel_for = host.parallel_for;
  services.thread_count = host.thread_count;
  services.should_abort = host.should_abort;
  return services;
}

void describe_tensor(const TensorRef& tensor, void* storage) {
  static_assert(sizeof(DLTensor) <= 64);
  DLTensor described;
  std::memset(&described, 0, sizeof described);
  described.data = tensor.data;
  described.device.device_type = kDLCPU;
  described.ndim = tensor.rank();
  described.dtype = capi::to_dlpack_type(tensor.dtype);
  described.shape = const_cast<int64_t*>(tensor.sizes.data());
  described.strides = const_cast<int64_t*>(tensor.strides.data());
  std::memcpy(storage, &described, sizeof described);
}

Result<CustomCallSpec> to_spec(const char* name, const tw_custom_call& call) {
  CustomCallSpec spec;
  spec.name = call.name;
  spec.function = call.function;
  spec.library = call.library ? call.library : "";
  spec.symbol = call.symbol ? call.symbol : "";
  spec.return_type = static_cast<CType>(call.return_ctype);
  spec.operand_count = call.operand_count;
  spec.result_count = call.result_count;
  spec.context = call.context;
  spec.take_status = [](void* handle) { return capi::take_status(static_cast<tw_status*>(handle)); };
  spec.describe_tensor = describe_tensor;
  for (int64_t at = 0; at < call.argument_count; ++at) {
    tw_custom_argument argument;
    TW_RETURN_IF_ERROR(capi::read_element(name, "tw_custom_argument", call.arguments, at, &argument));
    spec.arguments.push_back({static_cast<ArgumentKind>(argument.kind), static_cast<CType>(argument.ctype),
                              argument.tensor, argument.index, argument.i, argument.f});
  }
  return spec;
}

}  // namespace

extern "C" {

tw_status* tw_session_create(const tw_options* options, const tw_session_info* info, tw_session** session) {
  if (session) *session = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(session);
    tw_session_info given;
    TW_RETURN_IF_ERROR(capi::read_struct(call, "tw_session_info", info, &given));
    TW_ASSIGN_OR_RETURN(HostServices services, to_services(call, given));
    std::unique_ptr<tw_options> from_environment;
    if (!options) {
      tw_options* made = nullptr;
      TW_RETURN_IF_ERROR(capi::take_status(tw_options_create(&made)));
      from_environment.reset(made);
      options = made;
    }
    TW_ASSIGN_OR_RETURN(std::shared_ptr<Session> created, Session::create(options->flags, services));
    auto handle = std::make_unique<tw_session>();
    handle->session = std::move(created);
    *session = handle.release();
    return Status::ok();
  });
}

tw_session* tw_session_retain(tw_session* session) { return capi::retain(session); }
void tw_session_release(tw_session* session) { capi::release(session); }

tw_status* tw_session_option(const tw_session* session, const char* name, const char** value,
                             int32_t* origin) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(session);
    TW_REQUIRE(name);
    TW_REQUIRE(value);
    const FlagInfo* info = find_flag(name);
    if (!info) return Status::not_found(cat(call, ": no option ", name));
    *value = session->session->flags().text(info->flag).c_str();
    if (origin) *origin = static_cast<int32_t>(session->session->flags().origin(info->flag));
    return Status::ok();
  });
}

tw_status* tw_session_report(const tw_session* session, tw_text** json) {
  if (json) *json = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(session);
    TW_REQUIRE(json);
    *json = capi::make_text(session->session->report_json());
    return Status::ok();
  });
}

tw_status* tw_session_allocate(tw_session* session, int32_t dtype, const int64_t* sizes, int32_t rank,
                               DLManagedTensorVersioned** tensor) {
  if (tensor) *tensor = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(session);
    TW_REQUIRE(tensor);
    AskedTensor made;
    TW_ASSIGN_OR_RETURN(int64_t bytes, describe_tensor(call, dtype, sizes, rank, &made));
    TW_ASSIGN_OR_RETURN(made.block, session->session->memory().allocate(bytes));
    *tensor = capi::to_managed(std::move(made), session->session->target().info());
    return Status::ok();
  });
}

tw_status* tw_session_allocate_on_device(tw_session* session, int32_t dtype, const int64_t* sizes,
                                         int32_t rank, void* stream, DLManagedTensorVersioned** tensor) {
  if (tensor) *tensor = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(session);
    TW_REQUIRE(tensor);
    Device* device = session->session->device();
    if (!device) return Status::precondition(cat(call, ": this target has no device memory"));
    AskedTensor made;
    made.on_device = true;
    TW_ASSIGN_OR_RETURN(int64_t bytes, describe_tensor(call, dtype, sizes, rank, &made));
    TW_ASSIGN_OR_RETURN(made.block, device->allocate(bytes, stream));
    *tensor = capi::to_managed(std::move(made), session->session->target().info());
    return Status::ok();
  });
}

tw_status* tw_session_copy(tw_session* session, const DLTensor* from, const DLTensor* to, void* stream) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(session);
    TW_REQUIRE(from);
    TW_REQUIRE(to);
    const TargetInfo& target = session->session->target().info();
    TW_ASSIGN_OR_RETURN(TensorView source, capi::to_view(cat(call, ": from"), *from, &target));
    TW_ASSIGN_OR_RETURN(TensorView destination, capi::to_view(cat(call, ": to"), *to, &target));
    return copy_tensor(*session->session, source, destination, stream).because(call);
  });
}

tw_status* tw_session_synchronize(tw_session* session, void* stream) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(session);
    const Device* device = session->session->device();
    if (device) return device->synchronize(stream);
    if (stream) return Status::invalid(cat(call, ": a stream is given, but this target has none"));
    return Status::ok();
  });
}

tw_status* tw_session_trim(tw_session* session) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(session);
    session->session->memory().trim();
    if (Device* device = session->session->device()) device->trim();
    return Status::ok();
  });
}

tw_status* tw_session_cache_stats(const tw_session* session, tw_cache_stats* stats) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(session);
    TW_REQUIRE(stats);
    tw_cache_stats filled;
    TW_RETURN_IF_ERROR(capi::read_struct(call, "tw_cache_stats", stats, &filled));
    const SessionCounters& counters = session->session->counters();
    filled.kernel_hits_memory = counters.kernel_hits_memory;
    filled.kernel_hits_disk = counters.kernel_hits_disk;
    filled.kernel_misses = counters.kernel_misses;
    filled.graph_hits_memory = counters.graph_hits_memory;
    filled.graph_hits_disk = counters.graph_hits_disk;
    filled.graph_misses = counters.graph_misses;
    const CacheStats cache = session->session->cache_stats();
    filled.faults = cache.fault_total();
    filled.bytes_read = cache.bytes_read;
    filled.bytes_written = cache.bytes_written;
    std::memcpy(stats, &filled, std::min<size_t>(static_cast<size_t>(stats->struct_size), sizeof filled));
    return Status::ok();
  });
}

tw_status* tw_session_cache_directory(tw_session* session, tw_text** directory, tw_text** reason) {
  if (directory) *directory = nullptr;
  if (reason) *reason = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(session);
    Cache* cache = session->session->cache();
    std::unique_ptr<tw_text> found(capi::make_text(cache ? cache->directory() : ""));
    if (reason) *reason = capi::make_text(session->session->cache_reason());
    if (directory) *directory = found.release();
    return Status::ok();
  });
}

tw_status* tw_session_register_custom_call(tw_session* session, const tw_custom_call* call_info) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(session);
    TW_REQUIRE(call_info);
    tw_custom_call given;
    TW_RETURN_IF_ERROR(capi::read_struct(call, "tw_custom_call", call_info, &given));
    TW_REQUIRE(given.name);
    TW_RETURN_IF_ERROR(capi::check_list(call, "arguments", given.arguments, given.argument_count));
    TW_ASSIGN_OR_RETURN(CustomCallSpec spec, to_spec(call, given));
    return session->session->custom_calls().add(std::move(spec));
  });
}

}  // extern "C"
