// Conversions between C arguments and ours.
#include "capi/handles.h"
#include "ir/types.h"

namespace tilewright::capi {
namespace {

// Symbolic handles count up from INT64_MIN.
constexpr int64_t kFirstHandle = INT64_MIN;
constexpr int64_t kHandles = int64_t{1} << 32;

bool is_handle(tw_dim dim) { return dim < kFirstHandle + kHandles; }

}  // namespace

Status check_list(const char* function, const char* name, const void* data, int64_t count) {
  if (count < 0)
    return Status::invalid(cat(function, ": ", name, " has count ", count, ", expected 0 or more"));
  if (count > 0 && !data)
    return Status::invalid(cat(function, ": ", name, " is null, but has count ", count));
  return Status::ok();
}

Status find_extension(const char* function, const tw_extension* chain, int32_t kind,
                      const tw_extension** found) {
  *found = nullptr;
  for (const tw_extension* each = chain; each; each = each->next) {
    if (each->kind != kind) return Status::invalid(cat(function, ": unknown extension kind ", each->kind));
    *found = each;
  }
  return Status::ok();
}

Result<Dim> to_dim(const tw_graph& graph, tw_dim dim) {
  if (!is_handle(dim)) return Dim(dim);
  const size_t index = static_cast<size_t>(dim - kFirstHandle);
  std::lock_guard lock(graph.dims_mutex);
  if (index >= graph.dims.size())
    return Status::invalid(cat("dim handle ", index, " belongs to no symbol of graph @", graph.graph.name));
  return graph.dims[index];
}

Result<Shape> to_shape(const tw_graph& graph, const tw_dim* dims, int64_t rank) {
  Shape shape;
  for (int64_t at = 0; at < rank; ++at) {
    TW_ASSIGN_OR_RETURN(Dim dim, to_dim(graph, dims[at]));
    shape.push_back(std::move(dim));
  }
  return shape;
}

tw_dim from_dim(const tw_graph& graph, const Dim& dim) {
  if (dim.is_constant()) return dim.constant();
  std::lock_guard lock(graph.dims_mutex);
  for (size_t index = 0; index < graph.dims.size(); ++index)
    if (graph.dims[index] == dim) return kFirstHandle + static_cast<int64_t>(index);
  graph.dims.push_back(dim);
  return kFirstHandle + static_cast<int64_t>(graph.dims.size() - 1);
}

Result<ValueId> to_value(const tw_graph& graph, tw_value value) {
  if (value == TW_NO_VALUE) return ValueId{};
  if (value < 0 || value >= static_cast<int64_t>(graph.graph.value_count()))
    return Status::invalid(cat("value ", value, " is not a value of graph @", graph.graph.name));
  return ValueId{static_cast<uint32_t>(value)};
}

Result<DType> to_dtype(const char* function, int32_t dtype) {
  if (dtype < 0 || dtype >= kDTypeCount)
    return Status::invalid(cat(function, ": unknown dtype ", dtype, ", expected one of TW_DTYPE_*"));
  return static_cast<DType>(dtype);
}

namespace {

Result<Types> to_types(const tw_graph& graph, const tw_attribute& attribute) {
  Types types;
  const auto* first = static_cast<const tw_tensor_type*>(attribute.data);
  for (int64_t at = 0; at < attribute.count; ++at) {
    tw_tensor_type type;
    TW_RETURN_IF_ERROR(read_element("tw_graph_append", "tw_tensor_type", first, at, &type));
    TW_RETURN_IF_ERROR(check_list("tw_graph_append", "dims", type.dims, type.rank));
    TensorType made;
    TW_ASSIGN_OR_RETURN(made.dtype, to_dtype("tw_graph_append", type.dtype));
    TW_ASSIGN_OR_RETURN(made.shape, to_shape(graph, type.dims, type.rank));
    types.push_back(std::move(made));
  }
  return types;
}

Result<Attribute> to_attribute(const tw_graph& graph, const tw_attribute& attribute) {
  const bool is_list = attribute.kind >= TW_ATTRIBUTE_INTS && attribute.kind <= TW_ATTRIBUTE_TYPES;
  if (is_list)
    TW_RETURN_IF_ERROR(check_list("tw_graph_append", attribute.name, attribute.data, attribute.count));
  switch (attribute.kind) {
    case TW_ATTRIBUTE_BOOL: return Attribute(attribute.i != 0);
    case TW_ATTRIBUTE_INT: return Attribute(attribute.i);
    case TW_ATTRIBUTE_FLOAT: return Attribute(attribute.f);
    case TW_ATTRIBUTE_STRING: {
      const char* text = static_cast<const char*>(attribute.data);
      if (!text && attribute.count != 0)
        return Status::invalid(cat("tw_graph_append: attribute ", attribute.name, " is a null string"));
      if (!text) return Attribute(std::string());
      return Attribute(attribute.count < 0 ? std::string(text)
                                           : std::string(text, static_cast<size_t>(attribute.count)));
    }
    case TW_ATTRIBUTE_DTYPE: {
      TW_ASSIGN_OR_RETURN(DType dtype, to_dtype("tw_graph_append", static_cast<int32_t>(attribute.i)));
      return Attribute(dtype);
    }
    case TW_ATTRIBUTE_INTS: {
      const auto* values = static_cast<const int64_t*>(attribute.data);
      return Attribute(Ints(values, values + attribute.count));
    }
    case TW_ATTRIBUTE_FLOATS: {
      const auto* values = static_cast<const double*>(attribute.data);
      return Attribute(Floats(values, values + attribute.count));
    }
    case TW_ATTRIBUTE_DIMS: {
      TW_ASSIGN_OR_RETURN(Shape dims,
                          to_shape(graph, static_cast<const tw_dim*>(attribute.data), attribute.count));
      return Attribute(std::move(dims));
    }
    case TW_ATTRIBUTE_TYPES: {
      TW_ASSIGN_OR_RETURN(Types types, to_types(graph, attribute));
      return Attribute(std::move(types));
    }
    case TW_ATTRIBUTE_CONSTANT:
      if (!attribute.data)
        return Status::invalid(cat("tw_graph_append: attribute ", attribute.name, " is a null constant"));
      return Attribute(static_cast<const tw_constant*>(attribute.data)->constant);
    default:
      return Status::invalid(
          cat("tw_graph_append: attribute ", attribute.name, " has unknown kind ", attribute.kind));
  }
}

}  // namespace

Result<AttributeMap> to_attributes(const tw_graph& graph, const tw_attribute* attributes, int64_t count) {
  TW_RETURN_IF_ERROR(check_list("tw_graph_append", "attributes", attributes, count));
  AttributeMap map;
  for (int64_t at = 0; at < count; ++at) {
    tw_attribute attribute;
    TW_RETURN_IF_ERROR(read_element("tw_graph_append", "tw_attribute", attributes, at, &attribute));
    if (!attribute.name) return Status::invalid(cat("tw_graph_append: attribute ", at, " has no name"));
    TW_ASSIGN_OR_RETURN(Attribute value, to_attribute(graph, attribute));
    if (!map.emplace(attribute.name, std::move(value)).second)
      return Status::invalid(cat("tw_graph_append: attribute ", attribute.name, " is given twice"));
  }
  return map;
}

}  // namespace tilewright::capi
