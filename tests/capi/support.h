// What the tests of the C API share: checks of statuses, small tensors, graphs from text.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tilewright/tilewright.hpp"

namespace capi_test {

// The text of a status, which is released; "" for success.
inline std::string text_of(tw_status* status) {
  std::string text = tw_status_text(status);
  tw_status_release(status);
  return text;
}

inline void expect_code(tw_status* status, int32_t code, const std::string& part) {
  EXPECT_EQ(tw_status_code(status), code) << tw_status_text(status);
  EXPECT_NE(std::string(tw_status_text(status)).find(part), std::string::npos)
      << "found: " << tw_status_text(status) << "\nexpected a part: " << part;
  tw_status_release(status);
}

#define EXPECT_OK(expr) EXPECT_EQ(::capi_test::text_of(expr), "")
#define ASSERT_OK(expr) ASSERT_EQ(::capi_test::text_of(expr), "")

inline tw::Tensor floats(const std::vector<float>& values, tw::Sizes sizes) {
  return tw::Tensor(values, std::move(sizes));
}

inline std::vector<float> values(const tw::Tensor& tensor) { return tensor.to_vector<float>(); }

// A session that keeps nothing on disk.
inline tw::Session session_for(const char* mode) { return tw::Session({{"mode", mode}, {"cache", "off"}}); }

// Reference kernels and compiled code answer alike.
class BothModes : public testing::TestWithParam<const char*> {
 protected:
  tw::Session session = session_for(GetParam());

  tw::Executable compile(const std::string& text) { return session.compile(tw::Graph::parse(text)); }
};
#define BOTH_MODES(Suite)                             \
  INSTANTIATE_TEST_SUITE_P(                           \
      Modes, Suite, testing::Values("eager", "sync"), \
      [](const testing::TestParamInfo<const char*>& info) { return std::string(info.param); })

}  // namespace capi_test
