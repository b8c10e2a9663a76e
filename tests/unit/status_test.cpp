// Status and Result carry code, message, op and causes.
#include "base/status.h"

#include <gtest/gtest.h>

namespace tilewright {
namespace {

TEST(Status, OkHasNoMessage) {
  Status status = Status::ok();
  EXPECT_TRUE(status.is_ok());
  EXPECT_EQ(status.code(), Code::Ok);
  EXPECT_EQ(status.to_string(), "OK");
  EXPECT_EQ(status.cause(), nullptr);
}

TEST(Status, ChainOfCausesOnOneLine) {
  Status inner = Status::invalid("axis 3 out of range for rank 2").with_op("reduce_sum");
  Status outer = inner.because("cannot compile @f");
  EXPECT_EQ(outer.code(), Code::InvalidArgument);
  EXPECT_EQ(outer.op(), "reduce_sum");
  EXPECT_EQ(outer.to_string(),
            "INVALID_ARGUMENT: cannot compile @f [reduce_sum]: caused by axis 3 out of range for rank 2");
}

Result<int> half(int value) {
  if (value % 2 != 0) return Status::invalid("odd");
  return value / 2;
}
Result<int> quarter(int value) {
  TW_ASSIGN_OR_RETURN(int once, half(value));
  TW_ASSIGN_OR_RETURN(int twice, half(once));
  return twice;
}

TEST(Result, MacrosPassValuesAndErrors) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).status().message(), "odd");
}

}  // namespace
}  // namespace tilewright
