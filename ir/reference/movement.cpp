// Reference kernels of ops that move elements: reshape, broadcast, transpose, slice, pad, concatenate,
// reverse, bitcast.
#include "ir/reference/strided.h"

namespace tilewright {

using namespace reference;

Status reference_reshape(KernelCall& call) {
  // The output is dense, so it can be filled as a dense tensor of the operand's sizes.
  const TensorRef& x = call.in(0);
  if (x.elements() != call.out().elements()) {
    return Status::invalid(cat("reshape: ", x.elements(), " elements do not fit ", call.out().elements()));
  }
  copy_elements({x.dtype, x.sizes, TensorRef::dense_strides(x.sizes), call.out().data}, x);
  return Status::ok();
}

Status reference_bitcast_convert(KernelCall& call) {
  const TensorRef& x = call.in(0);
  copy_elements({x.dtype, x.sizes, TensorRef::dense_strides(x.sizes), call.out().data}, x);
  return Status::ok();
}

Status reference_broadcast_in_dim(KernelCall& call) {
  const TensorRef& x = call.in(0);
  const Ints& dims = call.attributes.get_ints("dims");
  TensorRef view{x.dtype, call.out().sizes, std::vector<int64_t>(call.out().sizes.size(), 0), x.data};
  for (size_t i = 0; i < dims.size(); ++i) {
    if (x.sizes[i] == view.sizes[dims[i]]) {
      view.strides[dims[i]] = x.strides[i];
    } else if (x.sizes[i] != 1) {
      return Status::invalid(cat("broadcast_in_dim: operand dim ", i, " of size ", x.sizes[i],
                                 " does not fit result dim ", dims[i], " of size ", view.sizes[dims[i]]));
    }
  }
  copy_elements(call.out(), view);
  return Status::ok();
}

Status reference_transpose(KernelCall& call) {
  const TensorRef& x = call.in(0);
  TensorRef view = x;
  const Ints& perm = call.attributes.get_ints("perm");
  for (size_t i = 0; i < perm.size(); ++i) {
    view.sizes[i] = x.sizes[perm[i]];
    view.strides[i] = x.strides[perm[i]];
  }
  copy_elements(call.out(), view);
  return Status::ok();
}

Status reference_slice(KernelCall& call) {
  TW_ASSIGN_OR_RETURN(std::vector<int64_t> start, call.sizes("start"));
  TW_ASSIGN_OR_RETURN(std::vector<int64_t> limit, call.sizes("limit"));
  const Ints& stride = call.attributes.get_ints("stride");
  TensorRef view = call.in(0);
  for (size_t dim = 0; dim < start.size(); ++dim) {
    if (start[dim] < 0 || start[dim] > limit[dim] || limit[dim] > view.sizes[dim]) {
      return Status::invalid(cat("slice: [", start[dim], ", ", limit[dim], ") out of range for dim ", dim,
                                 " of size ", view.sizes[dim]));
    }
  }
  for (size_t dim = 0; dim < start.size(); ++dim) {
    view = moved(view, start[dim] * view.strides[dim]);
    if (!stride.empty() && call.out().sizes[dim] > 1) view.strides[dim] *= stride[dim];
  }
  view.sizes = call.out().sizes;
  copy_elements(call.out(), view);
  return Status::ok();
}

Status reference_pad(KernelCall& call) {
  TW_ASSIGN_OR_RETURN(std::vector<int64_t> lo, call.sizes("lo"));
  const Ints& interior = call.attributes.get_ints("interior");
  TensorRef source = call.in(0), target = call.out();
  fill_elements(target, call.in(1).data);
  for (int dim = 0; dim < target.rank(); ++dim) {
    int64_t step = interior.empty() ? 1 : interior[dim] + 1;
    // Operand element i lands at lo + i * step; keep those inside the result.
    int64_t first = lo[dim] < 0 ? (-lo[dim] - 1) / step + 1 : 0;
    int64_t space = target.sizes[dim] - lo[dim];
    int64_t end = std::min(source.sizes[dim], space <= 0 ? 0 : (space - 1) / step + 1);
    if (first >= end) return Status::ok();
    source = part_of(source, dim, first, end - first);
    target = moved(target, (lo[dim] + first * step) * target.strides[dim]);
    target.sizes[dim] = end - first;
    target.strides[dim] *= step;
  }
  copy_elements(target, source);
  return Status::ok();
}

Status reference_concatenate(KernelCall& call) {
  int64_t dim = call.attributes.get_int("dim"), start = 0;
  for (const TensorRef* operand : call.inputs) {
    int64_t size = operand->sizes[dim];
    copy_elements(part_of(call.out(), dim, start, size), *operand);
    start += size;
  }
  return Status::ok();
}

Status reference_reverse(KernelCall& call) {
  TensorRef view = call.in(0);
  if (view.elements() == 0) return Status::ok();
  for (int64_t dim : call.attributes.get_ints("dims")) {
    view = moved(view, (view.sizes[dim] - 1) * view.strides[dim]);
    view.strides[dim] = -view.strides[dim];
  }
  copy_elements(call.out(), view);
  return Status::ok();
}

namespace {

// The window of `sizes` in `x`, its starts (operands from `first_start`) clamped so that it fits.
Result<TensorRef> clamped_window(const KernelCall& call, const TensorRef& x,
                                 const std::vector<int64_t>& sizes, int first_start) {
  TensorRef view = x;
  for (int dim = 0; dim < x.rank(); ++dim) {
    if (sizes[dim] > x.sizes[dim])
      return Status::invalid(
          cat(op_name(call.op), ": size ", sizes[dim], " of dim ", dim, " exceeds ", x.sizes[dim]));
    int64_t start = index_at(call.in(first_start + dim), 0);
    start = std::max<int64_t>(0, std::min(start, x.sizes[dim] - sizes[dim]));
    view = part_of(view, dim, start, sizes[dim]);
  }
  return view;
}

}  // namespace

Status reference_dynamic_slice(KernelCall& call) {
  TW_ASSIGN_OR_RETURN(TensorRef window, clamped_window(call, call.in(0), call.out().sizes, 1));
  copy_elements(call.out(), window);
  return Status::ok();
}

Status reference_dynamic_update_slice(KernelCall& call) {
  copy_elements(call.out(), call.in(0));
  TW_ASSIGN_OR_RETURN(TensorRef window, clamped_window(call, call.out(), call.in(1).sizes, 2));
  copy_elements(window, call.in(1));
  return Status::ok();
}

}  // namespace tilewright
