// JsonWriter: commas, numbers and escapes.
#include "base/json.h"

#include <gtest/gtest.h>

#include <limits>

namespace tilewright {
namespace {

TEST(Json, NestsWithCommas) {
  JsonWriter json;
  json.begin_object()
      .field("a", 1)
      .key("list")
      .begin_array()
      .value(true)
      .value(1.5)
      .begin_array()
      .end_array();
  json.value("x")
      .end_array()
      .key("none")
      .null()
      .key("raw")
      .raw("{}")
      .field("last", std::string("y"))
      .end_object();
  EXPECT_EQ(json.text(), R"({"a":1,"list":[true,1.5,[],"x"],"none":null,"raw":{},"last":"y"})");
}

TEST(Json, NoInfinities) {
  JsonWriter json;
  json.begin_array().value(std::numeric_limits<double>::infinity()).value(std::nan("")).end_array();
  EXPECT_EQ(json.text(), "[null,null]");
}

TEST(Json, EscapesAndRepairsUtf8) {
  auto quoted = [](std::string_view text) {
    std::string out;
    append_json_string(out, text);
    return out;
  };
  EXPECT_EQ(quoted("a\"b\\c\n\t\r\x01"), R"("a\"b\\c\n\t\r\u0001")");
  EXPECT_EQ(quoted("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"), "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
  EXPECT_EQ(quoted("\xff|\xc3|\xc0\x80|\xed\xa0\x80"),
            "\"\xef\xbf\xbd|\xef\xbf\xbd|\xef\xbf\xbd\xef\xbf\xbd|\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace tilewright
