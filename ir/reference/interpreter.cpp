// The interpreter: binds symbols, runs nodes in order on reference kernels, frees values after their last
// use.
#include "ir/reference/interpreter.h"

#include <cstdlib>

#include "base/float_environment.h"
#include "base/text.h"
#include "ir/conditions.h"
#include "ir/reference/strided.h"

namespace tilewright {

OwnedTensor allocate_tensor(DType dtype, const std::vector<int64_t>& sizes) {
  OwnedTensor tensor;
  tensor.ref = TensorRef{dtype, sizes, TensorRef::dense_strides(sizes), nullptr};
  int64_t bytes = tensor.ref.bytes();
  size_t rounded = (static_cast<size_t>(bytes) + 127) / 64 * 64;
  if (bytes < 0) return tensor;
  tensor.storage =
      std::shared_ptr<void>(std::aligned_alloc(64, rounded), [](void* memory) { std::free(memory); });
  tensor.ref.data = tensor.storage.get();
  return tensor;
}

namespace {

Status check_size(const Graph& graph, const Input& input, size_t dim_index, int64_t size,
                  const Bindings& bindings) {
  const Dim& dim = graph.type(input.value).shape[dim_index];
  TW_ASSIGN_OR_RETURN(int64_t expected, dim.evaluate(bindings));
  if (expected == size) return Status::ok();
  return Status::invalid(cat("input ", graph.value_name(input.value), ": dim ", dim_index, " has size ", size,
                             ", expected ", dim.to_string(),
                             dim.is_constant() ? std::string() : cat(" = ", expected)));
}

Status check_ranges(const Graph& graph, const Bindings& bindings) {
  for (const Symbol& symbol : graph.symbols) {
    auto found = bindings.find(symbol.name);
    if (found == bindings.end()) {
      return Status::invalid(cat("symbol ", symbol.name, " of @", graph.name,
                                 " is not bound by any input; give it as a run option"));
    }
    if (found->second < symbol.min || found->second > symbol.max) {
      return Status::invalid(cat("symbol ", symbol.name, " = ", found->second, " is outside its range ",
                                 symbol.min, "..", symbol.max));
    }
  }
  return Status::ok();
}

}  // namespace

Result<Bindings> bind_symbols(const Graph& graph, std::span<const std::vector<int64_t>> input_sizes,
                              const Bindings& given) {
  if (input_sizes.size() != graph.inputs.size()) {
    return Status::invalid(
        cat("@", graph.name, " takes ", graph.inputs.size(), " inputs, got ", input_sizes.size()));
  }
  Bindings bindings = given;
  for (size_t i = 0; i < input_sizes.size(); ++i) {
    const Input& input = graph.inputs[i];
    const TensorType& type = graph.type(input.value);
    if (input_sizes[i].size() != type.shape.size()) {
      return Status::invalid(cat("input ", graph.value_name(input.value), ": rank ", input_sizes[i].size(),
                                 ", expected ", type.to_string()));
    }
    for (size_t dim = 0; dim < type.shape.size(); ++dim) {
      std::string name = type.shape[dim].as_symbol();
      if (!name.empty()) bindings.emplace(name, input_sizes[i][dim]);
    }
  }
  TW_RETURN_IF_ERROR(check_ranges(graph, bindings));
  for (size_t i = 0; i < input_sizes.size(); ++i) {
    for (size_t dim = 0; dim < input_sizes[i].size(); ++dim) {
      TW_RETURN_IF_ERROR(check_size(graph, graph.inputs[i], dim, input_sizes[i][dim], bindings));
    }
  }
  return bindings;
}

namespace {

Result<std::vector<int64_t>> bound_sizes(const TensorType& type, const Bindings& bindings) {
  std::vector<int64_t> sizes;
  sizes.reserve(type.shape.size());
  for (const Dim& dim : type.shape) {
    TW_ASSIGN_OR_RETURN(int64_t size, dim.evaluate(bindings));
    if (size < 0) return Status::invalid(cat("dim ", dim.to_string(), " = ", size, " is negative"));
    sizes.push_back(size);
  }
  return sizes;
}

// One run of one graph; nested for regions.
class Run {
 public:
  Run(const Graph& graph, const Bindings& bindings, StickyError& error, const InterpreterOptions& options)
      : graph_(graph), bindings_(bindings), error_(error), options_(options), values_(graph.value_count()) {}

  Status execute(std::span<const TensorRef> inputs, std::span<const TensorRef> outputs) {
    for (size_t i = 0; i < inputs.size(); ++i) values_[graph_.inputs[i].value.index].ref = inputs[i];
    place_outputs(outputs);
    find_last_uses();
    for (uint32_t i = 0; i < graph_.node_count(); ++i) {
      if (options_.abort_check) TW_RETURN_IF_ERROR(options_.abort_check());
      TW_RETURN_IF_ERROR(run_one(NodeId{i}));
      for (uint32_t value : dying_[i]) values_[value] = OwnedTensor{};
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      const TensorRef& value = values_[graph_.outputs[i].value.index].ref;
      if (value.data != outputs[i].data) reference::copy_elements(outputs[i], value);
    }
    return Status::ok();
  }

 private:
  // A node's result that is an output is computed in place, unless two outputs share it.
  void place_outputs(std::span<const TensorRef> outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      ValueId value = graph_.outputs[i].value;
      if (!graph_.value(value).node.is_valid() || !outputs[i].is_dense()) continue;
      OwnedTensor& place = values_[value.index];
      if (place.ref.data == nullptr) place.ref = outputs[i];
    }
  }

  void find_last_uses() {
    std::vector<uint32_t> last(graph_.value_count(), UINT32_MAX);
    for (uint32_t i = 0; i < graph_.node_count(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      for (ValueId operand : node.operands) {
        if (operand.is_valid()) last[operand.index] = i;
      }
      for (ValueId result : node.results) last[result.index] = i;
    }
    for (const Output& output : graph_.outputs) last[output.value.index] = UINT32_MAX;
    dying_.resize(graph_.node_count());
    for (uint32_t value = 0; value < last.size(); ++value) {
      if (last[value] != UINT32_MAX) dying_[last[value]].push_back(value);
    }
  }

  Status run_one(NodeId id) {
    const Node& node = graph_.node(id);
    std::vector<const TensorRef*> inputs;
    for (ValueId operand : node.operands)
      inputs.push_back(operand.is_valid() ? &values_[operand.index].ref : nullptr);
    std::vector<OwnedTensor> held;
    if (options_.before) options_.before(graph_, id, inputs, held);
    std::vector<TensorRef> outputs;
    for (ValueId result : node.results) {
      TW_RETURN_IF_ERROR(prepare(result, node));
      outputs.push_back(values_[result.index].ref);
    }
    bool borrowed = node.op == Op::Constant && values_[node.results[0].index].storage == nullptr;
    if (!borrowed || !is_borrowed_constant(node)) {
      Status status = run_node(graph_, node, bindings_, inputs, outputs, error_, options_);
      if (!status.is_ok()) return status.because(cat("cannot run ", node_name(graph_, id)));
    }
    if (options_.observe) options_.observe(id, outputs);
    return Status::ok();
  }

  // A dense constant is read where it lies.
  bool is_borrowed_constant(const Node& node) const {
    const Attribute* value = find_attribute(node.op, node.attributes, "value");
    const ConstantRef& constant = std::get<ConstantRef>(*value);
    return values_[node.results[0].index].ref.data == constant->data;
  }

  Status prepare(ValueId result, const Node& node) {
    OwnedTensor& place = values_[result.index];
    if (place.ref.data != nullptr) return Status::ok();
    TW_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, bound_sizes(graph_.type(result), bindings_));
    DType dtype = graph_.type(result).dtype;
    if (node.op == Op::Constant) {
      const ConstantRef& constant = std::get<ConstantRef>(*find_attribute(node.op, node.attributes, "value"));
      if (!constant->splat) {
        place.ref = {dtype, sizes, TensorRef::dense_strides(sizes), const_cast<void*>(constant->data)};
        if (place.ref.data != nullptr) return Status::ok();
      }
    }
    place = allocate_tensor(dtype, sizes);
    if (!place.storage) return Status::exhausted(cat("cannot allocate ", place.ref.bytes(), " bytes"));
    return Status::ok();
  }

  const Graph& graph_;
  const Bindings& bindings_;
  StickyError& error_;
  const InterpreterOptions& options_;
  std::vector<OwnedTensor> values_;
  std::vector<std::vector<uint32_t>> dying_;  // values whose last use is at the node
};

Status check_inputs(const Graph& graph, std::span<const TensorRef> inputs) {
  for (size_t i = 0; i < inputs.size() && i < graph.inputs.size(); ++i) {
    const TensorType& type = graph.type(graph.inputs[i].value);
    if (inputs[i].dtype != type.dtype) {
      return Status::invalid(cat("input ", graph.value_name(graph.inputs[i].value), ": dtype ",
                                 dtype_name(inputs[i].dtype), ", expected ", type.to_string()));
    }
  }
  return Status::ok();
}

Result<Bindings> bind_inputs(const Graph& graph, std::span<const TensorRef> inputs, const Bindings& given) {
  std::vector<std::vector<int64_t>> sizes;
  for (const TensorRef& input : inputs) sizes.push_back(input.sizes);
  return bind_symbols(graph, sizes, given);
}

Status run_region(const Graph& region, std::span<const TensorRef> inputs, std::span<TensorRef> outputs,
                  const Bindings& outer, StickyError& error, const InterpreterOptions& options) {
  TW_RETURN_IF_ERROR(check_inputs(region, inputs));
  TW_ASSIGN_OR_RETURN(Bindings bindings, bind_inputs(region, inputs, outer));
  InterpreterOptions nested = options;
  nested.observe = nullptr;  // node ids of a region mean nothing to the observer
  TW_RETURN_IF_ERROR(Run(region, bindings, error, nested).execute(inputs, outputs));
  if (options.after_region) options.after_region(region, outputs);
  return Status::ok();
}

}  // namespace

Status run_node(const Graph& graph, const Node& node, const Bindings& bindings,
                std::span<const TensorRef* const> inputs, std::span<TensorRef> outputs, StickyError& error,
                const InterpreterOptions& options) {
  (void)graph;
  if (node.op == Op::Uninitialized && !options.fill_uninitialized) return Status::ok();
  DefaultFloatEnvironment environment;  // a host that flushes subnormals must not change what ops mean
  RegionRunner region_runner = [&](const Graph& region, std::span<const TensorRef> region_inputs,
                                   std::span<TensorRef> region_outputs) {
    return run_region(region, region_inputs, region_outputs, bindings, error, options);
  };
  KernelCall call{node.op,
                  AttributeReader(node.op, node.attributes),
                  bindings,
                  inputs,
                  outputs,
                  node.regions,
                  error,
                  region_runner,
                  options.custom_call};
  return reference_kernel(node.op)(call);
}

Result<std::vector<OwnedTensor>> interpret(const Graph& graph, std::span<const TensorRef> inputs,
                                           const Bindings& given, const InterpreterOptions& options) {
  TW_RETURN_IF_ERROR(check_inputs(graph, inputs));
  TW_ASSIGN_OR_RETURN(Bindings bindings, bind_inputs(graph, inputs, given));
  TW_RETURN_IF_ERROR(check_conditions(find_conditions(graph), bindings));
  std::vector<OwnedTensor> outputs;
  std::vector<TensorRef> refs;
  for (const Output& output : graph.outputs) {
    const TensorType& type = graph.type(output.value);
    TW_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, bound_sizes(type, bindings));
    outputs.push_back(allocate_tensor(type.dtype, sizes));
    refs.push_back(outputs.back().ref);
    if (!outputs.back().storage)
      return Status::exhausted(cat("cannot allocate ", refs.back().bytes(), " bytes"));
  }
  StickyError error;
  TW_RETURN_IF_ERROR(Run(graph, bindings, error, options).execute(inputs, refs));
  if (error.is_set()) return error.get();
  return outputs;
}

}  // namespace tilewright
