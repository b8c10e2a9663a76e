// Binding of symbols and checks of tensors at the boundary.
#include "runtime/boundary.h"

#include <algorithm>

#include "base/text.h"

namespace tilewright {

std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes, const std::vector<int64_t>& order) {
  if (order.empty()) return TensorRef::dense_strides(sizes);
  std::vector<int64_t> strides(sizes.size(), 1);
  int64_t step = 1;
  for (size_t position = order.size(); position-- > 0;) {
    const size_t dim = static_cast<size_t>(order[position]);
    strides[dim] = step;
    step *= std::max<int64_t>(sizes[dim], 1);
  }
  return strides;
}

std::optional<std::pair<int, int>> find_overlap(std::vector<ByteRange>& a, std::vector<ByteRange>& b) {
  const auto by_begin = [](const ByteRange& x, const ByteRange& y) { return x.begin < y.begin; };
  std::sort(a.begin(), a.end(), by_begin);
  std::sort(b.begin(), b.end(), by_begin);
  size_t first = 0;
  for (const ByteRange& range : a) {
    if (range.begin == range.end) continue;
    // Ranges of `b` may nest, so that only those whose begin is past our end can be left out.
    while (first < b.size() && b[first].end <= range.begin && b[first].begin < range.begin) ++first;
    for (size_t at = first; at < b.size() && b[at].begin < range.end; ++at)
      if (b[at].begin != b[at].end && b[at].end > range.begin)
        return std::pair(range.argument, b[at].argument);
  }
  return std::nullopt;
}

Boundary::Boundary(const Graph& graph)
    : graph_(graph), sources_(graph.symbols.size()), conditions_(find_conditions(graph)) {
  for (size_t symbol = 0; symbol < graph.symbols.size(); ++symbol) {
    for (size_t input = 0; input < graph.inputs.size() && sources_[symbol].input < 0; ++input) {
      const Shape& shape = graph.type(graph.inputs[input].value).shape;
      for (size_t dim = 0; dim < shape.size(); ++dim) {
        if (shape[dim].as_symbol() != graph.symbols[symbol].name) continue;
        sources_[symbol] = {static_cast<int>(input), static_cast<int>(dim)};
        break;
      }
    }
  }
}

std::string Boundary::input_name(int index) const {
  return cat("input ", index, " ", graph_.value_name(graph_.inputs[static_cast<size_t>(index)].value));
}

std::string Boundary::output_name(int index) const {
  const std::string& name = graph_.outputs[static_cast<size_t>(index)].name;
  return name.empty() ? cat("output ", index) : cat("output ", index, " ", name);
}

Status Boundary::bind(std::span<const TensorView* const> inputs, const Bindings& given,
                      std::vector<int64_t>* symbols) const {
  symbols->resize(graph_.symbols.size());
  for (size_t index = 0; index < sources_.size(); ++index) {
    const Source& source = sources_[index];
    const std::string& name = graph_.symbols[index].name;
    const TensorView* tensor = source.input >= 0 ? inputs[static_cast<size_t>(source.input)] : nullptr;
    const auto option = given.empty() ? given.end() : given.find(name);
    if (tensor) {
      const int rank = graph_.type(graph_.inputs[static_cast<size_t>(source.input)].value).rank();
      if (tensor->rank != rank)
        return Status::invalid(cat("run @", graph_.name, ": ", input_name(source.input), " has rank ",
                                   tensor->rank, ", expected ", rank));
      (*symbols)[index] = tensor->sizes[source.dim];
      if (option != given.end() && option->second != (*symbols)[index])
        return Status::invalid(cat("run @", graph_.name, ": symbol ", name, " is given as ", option->second,
                                   ", but ", input_name(source.input), " dim ", source.dim, " is ",
                                   (*symbols)[index]));
    } else if (option != given.end()) {
      (*symbols)[index] = option->second;
    } else {
      return Status::invalid(cat("run @", graph_.name, ": symbol ", name,
                                 " is no size of an input and was not given as a run option"));
    }
  }
  return Status::ok();
}

namespace {

Result<std::vector<int64_t>> evaluate(const Shape& shape, const Bindings& bindings, const std::string& what) {
  std::vector<int64_t> sizes;
  for (const Dim& dim : shape) {
    Result<int64_t> size = dim.evaluate(bindings);
    if (!size.is_ok()) return size.status().because(cat(what, " size ", dim.to_string()));
    if (*size < 0)
      return Status::invalid(cat(what, ": size ", dim.to_string(), " is ", *size, ", expected 0 or more"));
    sizes.push_back(*size);
  }
  return sizes;
}

}  // namespace

Result<BoundSizes> Boundary::resolve(std::vector<int64_t> symbols) const {
  BoundSizes bound;
  for (size_t index = 0; index < symbols.size(); ++index) {
    const Symbol& symbol = graph_.symbols[index];
    if (symbols[index] < symbol.min || symbols[index] > symbol.max)
      return Status::invalid(cat("run @", graph_.name, ": symbol ", symbol.name, " is ", symbols[index],
                                 ", expected ", symbol.min, " to ", symbol.max));
    bound.bindings[symbol.name] = symbols[index];
  }
  bound.symbols = std::move(symbols);
  for (size_t index = 0; index < graph_.inputs.size(); ++index) {
    const Input& input = graph_.inputs[index];
    const std::string what = cat("run @", graph_.name, ": ", input_name(static_cast<int>(index)));
    TW_ASSIGN_OR_RETURN(std::vector<int64_t> sizes,
                        evaluate(graph_.type(input.value).shape, bound.bindings, what));
    std::vector<int64_t> strides;
    if (input.layout.kind == Layout::Kind::Dense) {
      strides = dense_strides(sizes, input.layout.order);
    } else if (input.layout.kind == Layout::Kind::Strided) {
      for (const Dim& stride : input.layout.strides) {
        TW_ASSIGN_OR_RETURN(int64_t value, stride.evaluate(bound.bindings));
        strides.push_back(value);
      }
    }
    bound.input_strides.push_back(std::move(strides));
    bound.inputs.push_back(std::move(sizes));
  }
  // Before the outputs: the node that asks for too much is named, not the output that got a size below zero.
  if (Status met = check_conditions(conditions_, bound.bindings); !met.is_ok())
    return Status::invalid(cat("run @", graph_.name, ": ", met.message()));
  for (size_t index = 0; index < graph_.outputs.size(); ++index) {
    const std::string what = cat("run @", graph_.name, ": ", output_name(static_cast<int>(index)));
    TW_ASSIGN_OR_RETURN(std::vector<int64_t> sizes,
                        evaluate(graph_.type(graph_.outputs[index].value).shape, bound.bindings, what));
    bound.outputs.push_back(std::move(sizes));
  }
  return bound;
}

Status Boundary::check_tensor(const std::string& what, const TensorType& type,
                              const std::vector<int64_t>& sizes, const TensorView& tensor) const {
  const auto wrong = [&](const std::string& found) {
    return Status::invalid(cat("run @", graph_.name, ": ", what, " ", found));
  };
  if (tensor.dtype != type.dtype)
    return wrong(cat("has dtype ", dtype_name(tensor.dtype), ", expected ", dtype_name(type.dtype)));
  if (tensor.rank != type.rank()) return wrong(cat("has rank ", tensor.rank, ", expected ", type.rank()));
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (tensor.sizes[dim] == sizes[dim]) continue;
    const std::string expected =
        type.shape[dim].is_constant() ? cat(sizes[dim]) : cat(type.shape[dim].to_string(), " = ", sizes[dim]);
    return wrong(cat("has size ", tensor.sizes[dim], " in dim ", dim, ", expected ", expected));
  }
  if (!tensor.data && tensor.elements() > 0) return wrong("has no data");
  return Status::ok();
}

Status Boundary::check_input(const BoundSizes& sizes, int index, const TensorView& tensor) const {
  const size_t at = static_cast<size_t>(index);
  const TensorType& type = graph_.type(graph_.inputs[at].value);
  if (tensor.dtype == type.dtype && tensor.data && tensor.rank == type.rank() &&
      std::equal(tensor.sizes, tensor.sizes + tensor.rank, sizes.inputs[at].begin()))
    return Status::ok();
  return check_tensor(input_name(index), type, sizes.inputs[at], tensor);
}

Status Boundary::check_output(const BoundSizes& sizes, int index, const TensorView& tensor) const {
  const size_t at = static_cast<size_t>(index);
  TW_RETURN_IF_ERROR(
      check_tensor(output_name(index), graph_.type(graph_.outputs[at].value), sizes.outputs[at], tensor));
  // Each element of an output has a place of its own: sorted by stride, every dim steps over those below it.
  if (!tensor.strides || tensor.elements() == 0) return Status::ok();
  std::vector<std::pair<uint64_t, int32_t>> steps;  // by size of stride
  for (int32_t dim = 0; dim < tensor.rank; ++dim) {
    const int64_t stride = tensor.strides[dim];
    if (tensor.sizes[dim] > 1)
      steps.emplace_back(stride < 0 ? 0 - static_cast<uint64_t>(stride) : static_cast<uint64_t>(stride), dim);
  }
  std::sort(steps.begin(), steps.end());
  uint64_t reach = 0;  // of the dims so far, in elements
  for (const auto& [stride, dim] : steps) {
    if (stride <= reach)
      return Status::invalid(cat("run @", graph_.name, ": ", output_name(index), " has stride ",
                                 tensor.strides[dim], " in dim ", dim, ", expected distinct elements"));
    reach += stride * static_cast<uint64_t>(tensor.sizes[dim] - 1);
  }
  return Status::ok();
}

bool Boundary::fits_layout(const BoundSizes& sizes, int index, const TensorView& tensor) const {
  const size_t at = static_cast<size_t>(index);
  const std::vector<int64_t>& required = sizes.input_strides[at];
  const uintptr_t address = reinterpret_cast<uintptr_t>(tensor.data);
  if (address % static_cast<uintptr_t>(dtype_bytes(tensor.dtype)) != 0) return false;
  if (graph_.inputs[at].layout.kind == Layout::Kind::Any) return true;
  const bool dense = graph_.inputs[at].layout.kind == Layout::Kind::Dense;
  if (dense && graph_.inputs[at].layout.order.empty()) return tensor.is_row_major();
  const std::vector<int64_t> dense_row_major =
      tensor.strides ? std::vector<int64_t>() : TensorRef::dense_strides(sizes.inputs[at]);
  const int64_t* strides = tensor.strides ? tensor.strides : dense_row_major.data();
  for (size_t dim = 0; dim < required.size(); ++dim)
    if (tensor.sizes[dim] > 1 && strides[dim] != required[dim]) return false;
  return true;
}

}  // namespace tilewright
