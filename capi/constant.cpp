// tw_constant: immutable tensor data shared by graphs and executables.
#include "capi/handles.h"

using namespace tilewright;
using capi::guarded;

namespace {

TensorType type_of(const TensorView& view) {
  TensorType type;
  type.dtype = view.dtype;
  type.shape = to_shape(std::vector<int64_t>(view.sizes, view.sizes + view.rank));
  return type;
}

Result<ConstantRef> copy_constant(const TensorView& view) {
  TensorRef dense;
  dense.dtype = view.dtype;
  dense.sizes.assign(view.sizes, view.sizes + view.rank);
  dense.strides = TensorRef::dense_strides(dense.sizes);
  auto bytes = std::make_shared<std::vector<char>>(static_cast<size_t>(std::max<int64_t>(dense.bytes(), 1)));
  dense.data = bytes->data();
  copy_strided(view.ref(), dense);
  return borrow_constant(type_of(view), bytes->data(), dense.bytes(), bytes);
}

Status check_data(const char* call, const TensorView& view) {
  if (!view.data && view.elements() > 0) return Status::invalid(cat(call, ": tensor has no data"));
  return Status::ok();
}

tw_constant* to_handle(ConstantRef constant) {
  auto handle = std::make_unique<tw_constant>();
  handle->constant = std::move(constant);
  return handle.release();
}

}  // namespace

extern "C" {

tw_status* tw_constant_create(const DLTensor* tensor, tw_constant** constant) {
  if (constant) *constant = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(tensor);
    TW_REQUIRE(constant);
    TW_ASSIGN_OR_RETURN(TensorView view, capi::to_view(call, *tensor));
    TW_RETURN_IF_ERROR(check_data(call, view));
    TW_ASSIGN_OR_RETURN(ConstantRef made, copy_constant(view));
    *constant = to_handle(std::move(made));
    return Status::ok();
  });
}

tw_status* tw_constant_take(DLManagedTensorVersioned* tensor, tw_constant** constant) {
  if (constant) *constant = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(tensor);
    TW_REQUIRE(constant);
    TW_RETURN_IF_ERROR(capi::check_managed(call, tensor));
    TW_ASSIGN_OR_RETURN(TensorView view, capi::to_view(call, tensor->dl_tensor));
    TW_RETURN_IF_ERROR(check_data(call, view));
    const bool aligned =
        reinterpret_cast<uintptr_t>(view.data) % static_cast<uintptr_t>(dtype_bytes(view.dtype)) == 0;
    if (!view.is_row_major() || !aligned || !view.data) {
      TW_ASSIGN_OR_RETURN(ConstantRef made, copy_constant(view));
      *constant = to_handle(std::move(made));
      tw_tensor_release(tensor);
      return Status::ok();
    }
    const int64_t bytes = view.elements() * dtype_bytes(view.dtype);
    // Owned only once nothing can fail any more.
    auto handle = std::make_unique<tw_constant>();
    auto made = std::make_shared<Constant>();
    made->type = type_of(view);
    made->data = view.data;
    made->bytes = bytes;
    made->owner = capi::take_managed(tensor);
    handle->constant = std::move(made);
    *constant = handle.release();
    return Status::ok();
  });
}

tw_constant* tw_constant_retain(tw_constant* constant) { return capi::retain(constant); }
void tw_constant_release(tw_constant* constant) { capi::release(constant); }

}  // extern "C"
