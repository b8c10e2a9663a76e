// Custom calls: C functions as ops, called through libffi by a declared signature.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/reference/kernel.h"
#include "runtime/fork_mutex.h"

namespace tilewright {

// What fills one argument of the function; the C API's numbers.
enum class ArgumentKind : int32_t {
  Data = 0,
  Size = 1,
  Stride = 2,
  Rank = 3,
  Elements = 4,
  Tensor = 5,
  Int = 6,
  Float = 7,
  IntAttribute = 8,
  FloatAttribute = 9,
  Context = 10,
};
enum class CType : int32_t {
  Default = 0,
  Void = 1,
  I32 = 2,
  I64 = 3,
  U32 = 4,
  U64 = 5,
  F32 = 6,
  F64 = 7,
  Pointer = 8,
  Status = 9,
};

struct CustomArgument {
  ArgumentKind kind = ArgumentKind::Data;
  CType ctype = CType::Default;
  int32_t tensor = 0;  // operand, or operands + result
  int32_t index = 0;
  int64_t i = 0;
  double f = 0;
};

struct CustomCallSpec {
  std::string name;
  void (*function)() = nullptr;  // null: `symbol` of `library`
  std::string library;           // empty: the process itself
  std::string symbol;
  std::vector<CustomArgument> arguments;
  CType return_type = CType::Void;
  int32_t operand_count = 0;
  int32_t result_count = 0;
  void* context = nullptr;
  // Turns a returned status handle into a status and releases it.
  Status (*take_status)(void* handle) = nullptr;
  // Writes the host's tensor struct for `tensor` into `storage` (64 bytes); the sizes and strides stay
  // borrowed.
  void (*describe_tensor)(const TensorRef& tensor, void* storage) = nullptr;
};

class CustomCall;

// The custom calls of a session.  Thread-safe.
class CustomCalls {
 public:
  Status add(CustomCallSpec spec);
  // Runs one; the tensors may be strided, the function sees dense ones.
  Status run(const std::string& target, const AttributeMap& attributes, std::span<const TensorRef> inputs,
             std::span<TensorRef> outputs) const;
  bool has(const std::string& target) const;

 private:
  std::shared_ptr<const CustomCall> find(const std::string& target) const;

  mutable ForkMutex mutex_;
  std::map<std::string, std::shared_ptr<const CustomCall>, std::less<>> calls_;
};

}  // namespace tilewright
