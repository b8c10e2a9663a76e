// BuiltinCall: the arguments of a builtin kernel (sort, top-k, ..) as plain data, between the plan and a
// target.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/function_ref.h"

namespace tilewright {

// Element types by their permanent ids.
enum class ElementCode : int32_t {
  Bool = 0,
  I8 = 1,
  I16 = 2,
  I32 = 3,
  I64 = 4,
  U8 = 5,
  U16 = 6,
  U32 = 7,
  U64 = 8,
  F16 = 9,
  BF16 = 10,
  F32 = 11,
  F64 = 12,
  F8E4M3FN = 13,
  F8E5M2 = 14,
};

// Dense row-major.
struct BuiltinTensor {
  ElementCode dtype = ElementCode::F32;
  std::vector<int64_t> sizes;
  void* data = nullptr;
};

struct BuiltinOptions {
  int64_t dim = 0;          // sort, top_k
  int64_t num_keys = 1;     // sort
  bool descending = false;  // sort; top_k: the largest
  bool right = false;       // searchsorted
};

struct BuiltinCall {
  std::string name;  // "sort@1"
  std::vector<BuiltinTensor> inputs, outputs;
  BuiltinOptions options;
};

// Runs body on ranges that cover [0, count) once each, at most max_chunk long (0: no bound), possibly at the
// same time; returns when all are done.
using ParallelFor =
    FunctionRef<void(int64_t count, int64_t max_chunk, FunctionRef<void(int64_t begin, int64_t end)> body)>;

}  // namespace tilewright
