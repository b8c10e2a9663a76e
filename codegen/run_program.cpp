// Executes the launches of a program in order, on memory that is filled with NaN patterns before.
#include "codegen/run_program.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "codegen/tile/interpreter.h"
#include "ir/reference/strided.h"

namespace tilewright {

namespace {

constexpr int kPoison = 0xff;  // NaN in every float type

Result<std::vector<int64_t>> bound_sizes(const TensorType& type, const Bindings& bindings) {
  std::vector<int64_t> sizes;
  for (const Dim& dim : type.shape) {
    TW_ASSIGN_OR_RETURN(int64_t size, dim.evaluate(bindings));
    if (size < 0) return Status::invalid(cat("dim ", dim.to_string(), " = ", size, " is negative"));
    sizes.push_back(size);
  }
  return sizes;
}

class ProgramRun {
 public:
  ProgramRun(const Program& program, Bindings bindings, const RunProgramOptions& options)
      : program_(program), bindings_(std::move(bindings)), options_(options) {}

  Result<std::vector<OwnedTensor>> run(std::span<const TensorRef> inputs, size_t output_count) {
    TW_RETURN_IF_ERROR(allocate(inputs));
    TW_RETURN_IF_ERROR(run_launches(program_.launches));
    if (error_.is_set()) return error_.get();
    TW_RETURN_IF_ERROR(error_of_word(program_, error_word_, bindings_));
    std::vector<OwnedTensor> outputs(output_count);
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      const Buffer& buffer = program_.buffers[b];
      if (buffer.kind != BufferKind::Output) continue;
      if (buffer.index < 0 || buffer.index >= static_cast<int>(output_count)) {
        return Status::internal(cat("buffer of output ", buffer.index, ", but there are ", output_count));
      }
      outputs[buffer.index] = storage_[b];
    }
    for (size_t i = 0; i < output_count; ++i) {
      if (!outputs[i].storage) return Status::internal(cat("output ", i, " has no buffer"));
    }
    return outputs;
  }

 private:
  Status allocate(std::span<const TensorRef> inputs) {
    for (const Buffer& buffer : program_.buffers) {
      TW_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, bound_sizes(buffer.type, bindings_));
      OwnedTensor tensor = allocate_tensor(buffer.type.dtype, sizes);
      if (!tensor.storage) return Status::exhausted(cat("cannot allocate ", tensor.ref.bytes(), " bytes"));
      std::memset(tensor.ref.data, kPoison, static_cast<size_t>(tensor.ref.bytes()));
      if (buffer.kind == BufferKind::Input) {
        if (buffer.index < 0 || buffer.index >= static_cast<int>(inputs.size())) {
          return Status::internal(cat("buffer of input ", buffer.index, ", but there are ", inputs.size()));
        }
        reference::copy_elements(tensor.ref, inputs[buffer.index]);
      }
      if (buffer.kind == BufferKind::Constant) TW_RETURN_IF_ERROR(fill_constant(buffer, tensor.ref));
      storage_.push_back(std::move(tensor));
    }
    return Status::ok();
  }

  static Status fill_constant(const Buffer& buffer, const TensorRef& tensor) {
    const Constant& constant = *buffer.constant;
    int64_t width = dtype_bytes(tensor.dtype), elements = tensor.elements();
    auto* to = static_cast<std::byte*>(tensor.data);
    if (!constant.splat && constant.bytes != elements * width) {
      return Status::internal(
          cat("constant ", buffer.name, " of ", constant.bytes, " bytes, expected ", elements * width));
    }
    if (!constant.splat) std::memcpy(to, constant.data, static_cast<size_t>(constant.bytes));
    for (int64_t i = 0; constant.splat && i < elements; ++i)
      std::memcpy(to + i * width, constant.data, width);
    return Status::ok();
  }

  Status run_launches(const std::vector<Launch>& launches) {
    for (const Launch& launch : launches) {
      Status status = run_launch(launch);
      if (!status.is_ok()) return status;
    }
    return Status::ok();
  }

  Status run_launch(const Launch& launch) {
    switch (launch.kind) {
      case LaunchKind::Kernel: return run_kernel(launch);
      case LaunchKind::Builtin: return options_.run_builtin ? run_builtin(launch) : run_reference(launch);
      case LaunchKind::Reference: return run_reference(launch);
      case LaunchKind::Copy: return run_copy(launch);
      case LaunchKind::Loop: return run_loop(launch);
    }
    return Status::internal("unknown kind of launch");
  }

  Result<std::byte*> address(const BufferUse& use) const {
    if (use.buffer.index >= storage_.size()) return Status::internal("launch of an unknown buffer");
    TW_ASSIGN_OR_RETURN(int64_t offset, use.offset.evaluate(bindings_));
    const TensorRef& tensor = storage_[use.buffer.index].ref;
    auto advanced = advances_.find(use.buffer.index);
    if (advanced != advances_.end()) offset += advanced->second;
    return static_cast<std::byte*>(tensor.data) + offset * dtype_bytes(tensor.dtype);
  }

  Status run_kernel(const Launch& launch) {
    const tile::Kernel& kernel = program_.kernels[launch.kernel].kernel;
    std::vector<void*> buffers;
    for (const BufferUse& use : launch.buffers) {
      TW_ASSIGN_OR_RETURN(std::byte * data, address(use));
      buffers.push_back(data);
    }
    if (kernel.reports) buffers.push_back(error_word_);
    std::vector<int64_t> scalars;
    for (const Dim& scalar : launch.scalars) {
      TW_ASSIGN_OR_RETURN(int64_t value, scalar.evaluate(bindings_));
      scalars.push_back(value);
    }
    TW_ASSIGN_OR_RETURN(int64_t count, tile::grid_size(kernel, scalars));
    if (options_.run_kernel) return options_.run_kernel(kernel, buffers, scalars, count);
    if (!options_.backwards) return tile::interpret(kernel, buffers, scalars, 0, count);
    constexpr int64_t kRanges = 5;
    int64_t length = std::max<int64_t>(1, (count + kRanges - 1) / kRanges);
    for (int64_t last = count; last > 0; last -= length) {
      TW_RETURN_IF_ERROR(
          tile::interpret(kernel, buffers, scalars, std::max<int64_t>(0, last - length), last));
    }
    return Status::ok();
  }

  Status run_builtin(const Launch& launch) {
    std::vector<void*> buffers;
    for (const BufferUse& use : launch.buffers) {
      TW_ASSIGN_OR_RETURN(std::byte * data, address(use));
      buffers.push_back(data);
    }
    TW_ASSIGN_OR_RETURN(BuiltinCall call,
                        make_builtin_call(launch.builtin, *launch.node, bindings_, buffers));
    return options_.run_builtin(call);
  }

  Status run_reference(const Launch& launch) {
    const Graph& graph = *launch.node;
    if (graph.node_count() != 1) return Status::internal("a launch of a graph that is not one node");
    const Node& node = graph.node(NodeId{0});
    size_t next = 0;
    auto bind = [&](ValueId value) -> Result<TensorRef> {
      TW_ASSERT(next < launch.buffers.size());
      const BufferUse& use = launch.buffers[next++];
      TW_ASSIGN_OR_RETURN(std::byte * data, address(use));
      TW_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, bound_sizes(graph.type(value), bindings_));
      std::vector<int64_t> strides = TensorRef::dense_strides(sizes);
      return TensorRef{graph.type(value).dtype, std::move(sizes), std::move(strides), data};
    };
    std::vector<TensorRef> operands(node.operands.size()), results;
    std::vector<const TensorRef*> inputs(node.operands.size(), nullptr);
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (!node.operands[i].is_valid()) continue;
      TW_ASSIGN_OR_RETURN(operands[i], bind(node.operands[i]));
      inputs[i] = &operands[i];
    }
    for (ValueId result : node.results) {
      TW_ASSIGN_OR_RETURN(TensorRef tensor, bind(result));
      results.push_back(std::move(tensor));
    }
    return run_node(graph, node, bindings_, inputs, results, error_, options_.interpreter);
  }

  Status run_copy(const Launch& launch) {
    TW_ASSERT(launch.buffers.size() == 2);
    TW_ASSIGN_OR_RETURN(std::byte * from, address(launch.buffers[0]));
    TW_ASSIGN_OR_RETURN(std::byte * to, address(launch.buffers[1]));
    const TensorRef& source = storage_[launch.buffers[0].buffer.index].ref;
    const TensorRef& target = storage_[launch.buffers[1].buffer.index].ref;
    std::memmove(to, from, static_cast<size_t>(std::min(source.bytes(), target.bytes())));
    return Status::ok();
  }

  Status run_loop(const Launch& launch) {
    TW_ASSIGN_OR_RETURN(int64_t trips, launch.count.evaluate(bindings_));
    std::map<uint32_t, int64_t> outer = advances_;
    for (int64_t trip = 0; trip < trips; ++trip) {
      for (const auto& [buffer, elements] : launch.advances) {
        TW_ASSIGN_OR_RETURN(int64_t step, elements.evaluate(bindings_));
        auto before = outer.find(buffer.index);
        advances_[buffer.index] = (before == outer.end() ? 0 : before->second) + trip * step;
      }
      TW_RETURN_IF_ERROR(run_launches(launch.body));
    }
    advances_ = std::move(outer);
    return Status::ok();
  }

  const Program& program_;
  Bindings bindings_;
  const RunProgramOptions& options_;
  std::vector<OwnedTensor> storage_;  // by buffer
  std::map<uint32_t, int64_t> advances_;
  int64_t error_word_[3] = {};
  StickyError error_;
};

}  // namespace

Status error_of_word(const Program& program, const int64_t* word, const Bindings& bindings) {
  if (word[0] == 0) return Status::ok();
  size_t index = static_cast<size_t>(word[0] - 1);
  if (index >= program.sites.size()) return Status::internal(cat("error word names site ", word[0]));
  const ErrorSite& site = program.sites[index];
  Result<int64_t> bound = site.bound.evaluate(bindings);
  std::string limit = bound.is_ok() ? cat(std::max<int64_t>(*bound, 0)) : site.bound.to_string();
  return Status::out_of_range(
      cat(op_name(site.op), ": index ", word[1], " is outside [0, ", limit, ") at ", site.node));
}

Result<std::vector<OwnedTensor>> run_program(const Program& program, const Graph& graph,
                                             std::span<const TensorRef> inputs, const Bindings& given,
                                             const RunProgramOptions& options) {
  std::vector<std::vector<int64_t>> sizes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i < graph.inputs.size() && inputs[i].dtype != graph.type(graph.inputs[i].value).dtype) {
      return Status::invalid(cat("input ", i, ": dtype ", dtype_name(inputs[i].dtype), ", expected ",
                                 graph.type(graph.inputs[i].value).to_string()));
    }
    sizes.push_back(inputs[i].sizes);
  }
  TW_ASSIGN_OR_RETURN(Bindings bindings, bind_symbols(graph, sizes, given));
  return ProgramRun(program, std::move(bindings), options).run(inputs, graph.outputs.size());
}

}  // namespace tilewright
