// DLPack tensors: types, borrowed views, tensors that own a block of the session's memory.
#include "capi/handles.h"

using namespace tilewright;

namespace tilewright::capi {

Result<DType> from_dlpack_type(DLDataType type) {
  const auto unknown = [&] {
    return Status::invalid(cat("DLPack type with code ", int{type.code}, ", ", int{type.bits}, " bits and ",
                               int{type.lanes}, " lanes has no counterpart"));
  };
  if (type.lanes != 1) return unknown();
  const auto pick = [&](DType b8, DType b16, DType b32, DType b64) -> Result<DType> {
    switch (type.bits) {
      case 8: return b8;
      case 16: return b16;
      case 32: return b32;
      case 64: return b64;
      default: return unknown();
    }
  };
  switch (type.code) {
    case 0: return pick(DType::I8, DType::I16, DType::I32, DType::I64);
    case 1: return pick(DType::U8, DType::U16, DType::U32, DType::U64);
    case 2:
      return type.bits == 8 ? Result<DType>(unknown()) : pick(DType::F16, DType::F16, DType::F32, DType::F64);
    case 4: return type.bits == 16 ? Result<DType>(DType::BF16) : Result<DType>(unknown());
    case 6: return type.bits == 8 ? Result<DType>(DType::Bool) : Result<DType>(unknown());
    case 10: return type.bits == 8 ? Result<DType>(DType::F8E4M3FN) : Result<DType>(unknown());
    case 12: return type.bits == 8 ? Result<DType>(DType::F8E5M2) : Result<DType>(unknown());
    default: return unknown();
  }
}

DLDataType to_dlpack_type(DType dtype) {
  DLDataType type;
  type.lanes = 1;
  type.bits = static_cast<uint8_t>(8 * dtype_bytes(dtype));
  type.code = 0;
  switch (dtype) {
    case DType::Bool: type.code = 6; break;
    case DType::I8:
    case DType::I16:
    case DType::I32:
    case DType::I64: type.code = 0; break;
    case DType::U8:
    case DType::U16:
    case DType::U32:
    case DType::U64: type.code = 1; break;
    case DType::F16:
    case DType::F32:
    case DType::F64: type.code = 2; break;
    case DType::BF16: type.code = 4; break;
    case DType::F8E4M3FN: type.code = 10; break;
    case DType::F8E5M2: type.code = 12; break;
  }
  return type;
}

Result<TensorView> read_view(const DLTensor& tensor, const TargetInfo* target) {
  const int device = static_cast<int>(tensor.device.device_type);
  // Host memory under its other names is host memory; what a driver pages between both is the device's.
  constexpr int kHost = 1, kCuda = 2, kPinned = 3, kRocmPinned = 11, kManaged = 13;
  const bool on_host = device == kHost || device == kPinned || device == kRocmPinned;
  const int wanted = target && target->is_runnable() ? target->dlpack_device : kHost;
  const bool on_device = wanted != kHost && (device == wanted || (wanted == kCuda && device == kManaged)) &&
                         tensor.device.device_id == target->device_index;
  if (!on_host && !on_device)
    return Status::invalid(cat("tensor is on device type ", device, " number ", tensor.device.device_id,
                               ", expected 1 (CPU)",
                               wanted == kHost ? "" : cat(" or ", wanted, " number ", target->device_index)));
  if (tensor.ndim < 0 || (tensor.ndim > 0 && !tensor.shape))
    return Status::invalid(cat("tensor has ", tensor.ndim, " dims", tensor.ndim > 0 ? " and no shape" : ""));
  Result<DType> dtype = from_dlpack_type(tensor.dtype);
  if (!dtype.is_ok()) return Status::invalid(dtype.status().message());
  int64_t bytes = dtype_bytes(*dtype);
  for (int32_t dim = 0; dim < tensor.ndim; ++dim) {
    if (tensor.shape[dim] < 0)
      return Status::invalid(cat("tensor has size ", tensor.shape[dim], " in dim ", dim));
    if (__builtin_mul_overflow(bytes, tensor.shape[dim], &bytes))
      return Status::invalid("tensor is too large");
  }
  void* data = tensor.data ? static_cast<char*>(tensor.data) + tensor.byte_offset : nullptr;
  return TensorView{*dtype, tensor.ndim, tensor.shape, tensor.strides, data, on_device};
}

Result<TensorView> to_view(const std::string& what, const DLTensor& tensor, const TargetInfo* target) {
  Result<TensorView> view = read_view(tensor, target);
  if (!view.is_ok()) return Status::invalid(cat(what, ": ", view.status().message()));
  return view;
}

namespace {

// A managed tensor with its sizes and its block, in one allocation.
struct OwnedManaged {
  DLManagedTensorVersioned managed;
  Block block;
  std::vector<int64_t> sizes, strides;
};

void delete_owned(DLManagedTensorVersioned* self) {
  if (self) delete static_cast<OwnedManaged*>(self->manager_ctx);
}

}  // namespace

DLManagedTensorVersioned* to_managed(AskedTensor tensor, const TargetInfo& target) {
  auto* owned = new OwnedManaged{};
  owned->block = std::move(tensor.block);
  owned->sizes = std::move(tensor.sizes);
  owned->strides = TensorRef::dense_strides(owned->sizes);
  DLManagedTensorVersioned& managed = owned->managed;
  managed.version.major = 1;
  managed.version.minor = 1;
  managed.manager_ctx = owned;
  managed.deleter = delete_owned;
  managed.dl_tensor.data = owned->block.data();
  managed.dl_tensor.device.device_type = kDLCPU;
  if (tensor.on_device) {
    managed.dl_tensor.device.device_type = static_cast<DLDeviceType>(target.dlpack_device);
    managed.dl_tensor.device.device_id = target.device_index;
  }
  managed.dl_tensor.ndim = static_cast<int32_t>(owned->sizes.size());
  managed.dl_tensor.dtype = to_dlpack_type(tensor.dtype);
  managed.dl_tensor.shape = owned->sizes.data();
  managed.dl_tensor.strides = owned->strides.data();
  return &managed;
}

Status check_managed(const char* function, const DLManagedTensorVersioned* tensor) {
  if (tensor->version.major != 1)
    return Status::invalid(cat(function, ": tensor of DLPack ", tensor->version.major, ".",
                               tensor->version.minor, ", expected 1.x"));
  return Status::ok();
}

std::shared_ptr<const void> take_managed(DLManagedTensorVersioned* tensor) {
  return std::shared_ptr<const void>(tensor->dl_tensor.data,
                                     [tensor](const void*) { tw_tensor_release(tensor); });
}

}  // namespace tilewright::capi

extern "C" {

void tw_tensor_release(DLManagedTensorVersioned* tensor) {
  if (tensor && tensor->deleter) tensor->deleter(tensor);
}

tw_status* tw_dtype_from_dlpack(DLDataType type, int32_t* dtype) {
  return capi::guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(dtype);
    TW_ASSIGN_OR_RETURN(DType found, capi::from_dlpack_type(type));
    *dtype = static_cast<int32_t>(found);
    return Status::ok();
  });
}

tw_status* tw_dtype_to_dlpack(int32_t dtype, DLDataType* type) {
  return capi::guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(type);
    TW_ASSIGN_OR_RETURN(DType known, capi::to_dtype(call, dtype));
    *type = capi::to_dlpack_type(known);
    return Status::ok();
  });
}

}  // extern "C"
