// The calls that the lines of a case file stand for.
#pragma once

#include "ir/reference/interpreter.h"
#include "tests/composites/case_file.h"

namespace tilewright::composites_test {

// What the letters of a case stand for in one run.
struct Variant {
  DType t = DType::F32, index = DType::I64;
  int64_t n = 3;
};

// The dtypes that T runs over; f32 alone when the case has no T.
std::vector<DType> dtypes_of(const Case& c);
// The graph with one node, or the status that says why there is none.
Result<Graph> build(const Case& c, const Variant& variant);
Bindings bindings_of(const Case& c, const Variant& variant);
// One tensor an operand that is there.
std::vector<OwnedTensor> draw_inputs(const Case& c, const Variant& variant);

}  // namespace tilewright::composites_test
