// Preparation of ffi signatures, and how arguments are filled from tensors and attributes.
#include "runtime/custom_call.h"

#include <dlfcn.h>
#include <ffi.h>

#include <cstddef>
#include <cstring>
#include <mutex>

#include "base/text.h"
#include "runtime/tensor_view.h"

namespace tilewright {

class CustomCall {
 public:
  static Result<std::shared_ptr<const CustomCall>> create(CustomCallSpec spec);
  Status run(const AttributeMap& attributes, std::span<const TensorRef> inputs,
             std::span<TensorRef> outputs) const;

 private:
  // Room for one argument of any type; `tensor` is what a Tensor argument points to.
  struct Slot {
    union {
      int32_t i32;
      int64_t i64;
      float f32;
      double f64;
      const void* pointer;
    };
    alignas(8) unsigned char tensor[64];
  };
  Status fill(const CustomArgument& argument, const AttributeMap& attributes,
              std::span<const TensorRef> tensors, Slot* slot) const;
  Status call(std::vector<void*>& arguments) const;

  CustomCallSpec spec_;
  void (*function_)() = nullptr;
  std::vector<CType> types_;
  std::vector<ffi_type*> ffi_types_;
  mutable ffi_cif cif_ = {};  // ffi_call takes it without const, but only reads it
};

namespace {

CType default_type(ArgumentKind kind) {
  switch (kind) {
    case ArgumentKind::Data:
    case ArgumentKind::Tensor:
    case ArgumentKind::Context: return CType::Pointer;
    case ArgumentKind::Float:
    case ArgumentKind::FloatAttribute: return CType::F64;
    case ArgumentKind::Size:
    case ArgumentKind::Stride:
    case ArgumentKind::Rank:
    case ArgumentKind::Elements:
    case ArgumentKind::Int:
    case ArgumentKind::IntAttribute: return CType::I64;
  }
  return CType::Void;
}

ffi_type* ffi_type_of(CType type) {
  switch (type) {
    case CType::Default:
    case CType::Void: return &ffi_type_void;
    case CType::I32: return &ffi_type_sint32;
    case CType::I64: return &ffi_type_sint64;
    case CType::U32: return &ffi_type_uint32;
    case CType::U64: return &ffi_type_uint64;
    case CType::F32: return &ffi_type_float;
    case CType::F64: return &ffi_type_double;
    case CType::Pointer:
    case CType::Status: return &ffi_type_pointer;
  }
  return &ffi_type_void;
}

bool is_pointer_kind(ArgumentKind kind) {
  return kind == ArgumentKind::Data || kind == ArgumentKind::Tensor || kind == ArgumentKind::Context;
}

bool names_tensor(ArgumentKind kind) { return kind <= ArgumentKind::Tensor; }

Status check_argument(const CustomCallSpec& spec, size_t position) {
  const CustomArgument& argument = spec.arguments[position];
  const std::string where = cat("custom call ", spec.name, ": argument ", position);
  if (argument.kind < ArgumentKind::Data || argument.kind > ArgumentKind::Context)
    return Status::invalid(cat(where, " has unknown kind ", static_cast<int32_t>(argument.kind)));
  const CType type = argument.ctype == CType::Default ? default_type(argument.kind) : argument.ctype;
  if (type <= CType::Void || type > CType::Pointer)
    return Status::invalid(
        cat(where, " has C type ", static_cast<int32_t>(argument.ctype), ", expected 2 to 8"));
  if (is_pointer_kind(argument.kind) != (type == CType::Pointer))
    return Status::invalid(cat(where, is_pointer_kind(argument.kind)
                                          ? " is a pointer, expected a pointer type"
                                          : " is a number, expected a number type"));
  const int32_t tensors = spec.operand_count + spec.result_count;
  if (names_tensor(argument.kind) && (argument.tensor < 0 || argument.tensor >= tensors))
    return Status::invalid(cat(where, " names tensor ", argument.tensor, ", expected 0 to ", tensors - 1));
  if (argument.index < 0)
    return Status::invalid(cat(where, " has index ", argument.index, ", expected 0 or more"));
  return Status::ok();
}

Result<void (*)()> resolve_function(const CustomCallSpec& spec) {
  if (spec.function) return spec.function;
  if (spec.symbol.empty())
    return Status::invalid(cat("custom call ", spec.name, ": neither a function nor a symbol is given"));
  void* library = dlopen(spec.library.empty() ? nullptr : spec.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    return Status::not_found(
        cat("custom call ", spec.name, ": cannot open library: ", why ? why : spec.library));
  }
  // The handle is never closed: the function must stay callable.
  void* found = dlsym(library, spec.symbol.c_str());
  if (!found)
    return Status::not_found(cat("custom call ", spec.name, ": no symbol ", spec.symbol, " in ",
                                 spec.library.empty() ? std::string("the process") : spec.library));
  void (*function)();
  std::memcpy(&function, &found, sizeof function);
  return function;
}

}  // namespace

Result<std::shared_ptr<const CustomCall>> CustomCall::create(CustomCallSpec spec) {
  auto made = std::make_shared<CustomCall>();
  for (size_t position = 0; position < spec.arguments.size(); ++position) {
    TW_RETURN_IF_ERROR(check_argument(spec, position));
    const CustomArgument& argument = spec.arguments[position];
    const CType type = argument.ctype == CType::Default ? default_type(argument.kind) : argument.ctype;
    made->types_.push_back(type);
    made->ffi_types_.push_back(ffi_type_of(type));
  }
  if (spec.return_type < CType::Default || spec.return_type > CType::Status ||
      spec.return_type == CType::F32 || spec.return_type == CType::F64 || spec.return_type == CType::Pointer)
    return Status::invalid(cat("custom call ", spec.name, ": return type ",
                               static_cast<int32_t>(spec.return_type),
                               " is neither void, an integer nor a status"));
  TW_ASSIGN_OR_RETURN(made->function_, resolve_function(spec));
  const ffi_status status =
      ffi_prep_cif(&made->cif_, FFI_DEFAULT_ABI, static_cast<unsigned>(made->types_.size()),
                   ffi_type_of(spec.return_type), made->ffi_types_.data());
  if (status != FFI_OK)
    return Status::invalid(
        cat("custom call ", spec.name, ": libffi refuses the signature (", int{status}, ")"));
  made->spec_ = std::move(spec);
  return std::shared_ptr<const CustomCall>(std::move(made));
}

Status CustomCall::fill(const CustomArgument& argument, const AttributeMap& attributes,
                        std::span<const TensorRef> tensors, Slot* slot) const {
  const TensorRef* tensor =
      names_tensor(argument.kind) ? &tensors[static_cast<size_t>(argument.tensor)] : nullptr;
  const size_t index = static_cast<size_t>(argument.index);
  const AttributeReader reader(Op::CustomCall, attributes);
  int64_t integer = 0;
  double number = 0;
  switch (argument.kind) {
    case ArgumentKind::Data: slot->pointer = tensor->data; return Status::ok();
    case ArgumentKind::Context: slot->pointer = spec_.context; return Status::ok();
    case ArgumentKind::Tensor:
      if (!spec_.describe_tensor)
        return Status::unimplemented(cat("custom call ", spec_.name, ": no tensor structs"));
      spec_.describe_tensor(*tensor, slot->tensor);
      slot->pointer = slot->tensor;
      return Status::ok();
    case ArgumentKind::Size:
    case ArgumentKind::Stride:
      if (index >= tensor->sizes.size())
        return Status::invalid(cat("custom call ", spec_.name, ": dim ", index, " of tensor ",
                                   argument.tensor, " of rank ", tensor->rank()));
      integer = argument.kind == ArgumentKind::Size ? tensor->sizes[index] : tensor->strides[index];
      break;
    case ArgumentKind::Rank: integer = tensor->rank(); break;
    case ArgumentKind::Elements: integer = tensor->elements(); break;
    case ArgumentKind::Int: integer = argument.i; break;
    case ArgumentKind::Float: number = argument.f; break;
    case ArgumentKind::IntAttribute: {
      const Ints& values = reader.get_ints("ints");
      if (index >= values.size())
        return Status::invalid(cat("custom call ", spec_.name, ": ints has ", values.size(),
                                   " elements, expected more than ", index));
      integer = values[index];
      break;
    }
    case ArgumentKind::FloatAttribute: {
      const Attribute* found = find_attribute(Op::CustomCall, attributes, "floats");
      const Floats* values = found ? std::get_if<Floats>(found) : nullptr;
      if (!values || index >= values->size())
        return Status::invalid(cat("custom call ", spec_.name, ": floats has ", values ? values->size() : 0,
                                   " elements, expected more than ", index));
      number = (*values)[index];
      break;
    }
  }
  const bool is_float_kind =
      argument.kind == ArgumentKind::Float || argument.kind == ArgumentKind::FloatAttribute;
  const CType type = argument.ctype == CType::Default ? default_type(argument.kind) : argument.ctype;
  if (type == CType::F32 || type == CType::F64) {
    const double value = is_float_kind ? number : static_cast<double>(integer);
    if (type == CType::F32)
      slot->f32 = static_cast<float>(value);
    else
      slot->f64 = value;
    return Status::ok();
  }
  if (is_float_kind) integer = static_cast<int64_t>(number);
  if (type == CType::I32 || type == CType::U32) {
    const bool fits = type == CType::I32 ? integer == static_cast<int32_t>(integer)
                                         : integer == static_cast<int64_t>(static_cast<uint32_t>(integer));
    if (!fits)
      return Status::out_of_range(cat("custom call ", spec_.name, ": ", integer, " does not fit 32 bits"));
    slot->i32 = static_cast<int32_t>(integer);
  } else {
    slot->i64 = integer;
  }
  return Status::ok();
}

Status CustomCall::call(std::vector<void*>& arguments) const {
  // Small integers come back widened to a full register.
  union {
    ffi_arg word;
    int64_t i64;
    void* pointer;
  } returned;
  returned.i64 = 0;
  ffi_call(&cif_, function_, &returned, arguments.data());
  switch (spec_.return_type) {
    case CType::Status:
      return returned.pointer && spec_.take_status ? spec_.take_status(returned.pointer) : Status::ok();
    case CType::I32:
    case CType::U32: returned.i64 = static_cast<int32_t>(returned.i64); [[fallthrough]];
    case CType::I64:
    case CType::U64:
      if (returned.i64 == 0) return Status::ok();
      return Status(Code::Unknown,
                    cat("custom call ", spec_.name, " returned ", returned.i64, ", expected 0"));
    case CType::Default:
    case CType::Void:
    case CType::F32:
    case CType::F64:
    case CType::Pointer: break;
  }
  return Status::ok();
}

Status CustomCall::run(const AttributeMap& attributes, std::span<const TensorRef> inputs,
                       std::span<TensorRef> outputs) const {
  if (static_cast<int32_t>(inputs.size()) != spec_.operand_count ||
      static_cast<int32_t>(outputs.size()) != spec_.result_count)
    return Status::invalid(cat("custom call ", spec_.name, ": ", inputs.size(), " operands and ",
                               outputs.size(), " results, expected ", spec_.operand_count, " and ",
                               spec_.result_count));
  std::vector<TensorRef> tensors;
  std::vector<std::vector<std::byte>> copies;
  for (const TensorRef& input : inputs) {
    tensors.push_back(input);
    if (input.is_dense()) {
      tensors.back().strides = TensorRef::dense_strides(input.sizes);
      continue;
    }
    copies.emplace_back(static_cast<size_t>(input.bytes()));
    tensors.back().strides = TensorRef::dense_strides(input.sizes);
    tensors.back().data = copies.back().data();
    copy_strided(input, tensors.back());
  }
  for (const TensorRef& output : outputs) tensors.push_back(output);
  std::vector<Slot> slots(spec_.arguments.size());
  std::vector<void*> arguments;
  for (size_t position = 0; position < slots.size(); ++position) {
    TW_RETURN_IF_ERROR(fill(spec_.arguments[position], attributes, tensors, &slots[position]));
    arguments.push_back(&slots[position].i64);
  }
  return call(arguments);
}

Status CustomCalls::add(CustomCallSpec spec) {
  if (spec.name.empty()) return Status::invalid("custom call without a name");
  if (spec.operand_count < 0 || spec.result_count < 0)
    return Status::invalid(cat("custom call ", spec.name, ": negative number of operands or results"));
  const std::string name = spec.name;
  TW_ASSIGN_OR_RETURN(std::shared_ptr<const CustomCall> made, CustomCall::create(std::move(spec)));
  std::lock_guard lock(mutex_);
  if (!calls_.emplace(name, std::move(made)).second)
    return Status(Code::AlreadyExists, cat("custom call ", name, " is registered already"));
  return Status::ok();
}

std::shared_ptr<const CustomCall> CustomCalls::find(const std::string& target) const {
  std::lock_guard lock(mutex_);
  const auto found = calls_.find(target);
  return found == calls_.end() ? nullptr : found->second;
}

bool CustomCalls::has(const std::string& target) const { return find(target) != nullptr; }

Status CustomCalls::run(const std::string& target, const AttributeMap& attributes,
                        std::span<const TensorRef> inputs, std::span<TensorRef> outputs) const {
  const auto call = find(target);
  if (!call) return Status::not_found(cat("custom_call: no function is registered as ", target));
  return call->run(attributes, inputs, outputs);
}

}  // namespace tilewright
