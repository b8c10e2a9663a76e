// The header in both languages: this file includes it first and alone; plain_c_test.c is C11.
#include "tilewright/tilewright.h"
// Twice, and with the wrapper, changes nothing.
#include "tilewright/tilewright.h"
#include "tilewright/tilewright.hpp"

#include <gtest/gtest.h>

#include "tests/capi/plain_c.h"

namespace capi_test {
namespace {

TEST(Header, WorksInPlainC) {
  char message[1024];
  EXPECT_EQ(run_plain_c(message, sizeof message), 0) << message;
}

TEST(Header, LayoutOfStructsIsPinned) {
  // Append-only: what is here never moves.
  static_assert(sizeof(DLTensor) == 48 && sizeof(DLManagedTensorVersioned) == 80);
  static_assert(offsetof(DLManagedTensorVersioned, dl_tensor) == 32);
  static_assert(sizeof(tw_extension) == 24);
  static_assert(offsetof(tw_attribute, data) == 48 && sizeof(tw_attribute) == 64);
  static_assert(offsetof(tw_node, operands) == 24 && offsetof(tw_node, tag) == 72);
  static_assert(offsetof(tw_tensor_type, dims) == 24);
  static_assert(offsetof(tw_compile_options, option_count) == 40 &&
                offsetof(tw_compile_options, stages) == 48);
  static_assert(offsetof(tw_run_options, donated) == 40 && offsetof(tw_run_options, stream) == 56);
  static_assert(offsetof(tw_custom_argument, f) == 40 && offsetof(tw_custom_call, context) == 80);
  static_assert(offsetof(tw_host_services, should_abort) == 64);
  static_assert(TW_OP_ADD == 36 && TW_DTYPE_F32 == 11 && TW_ATTRIBUTE_CONSTANT == 10);
}

}  // namespace
}  // namespace capi_test
