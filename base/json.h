// JsonWriter: builds one JSON text; the library writes reports and never reads JSON.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/text.h"

namespace tilewright {

// Appends the text in quotes, with control characters escaped and bytes that are no UTF-8 replaced.
void append_json_string(std::string& out, std::string_view text);

// Calls nest as the JSON does: begin_object, then key and value in turn. Commas are the writer's.
//   JsonWriter json; json.begin_object().field("hits",
//   3).key("kernels").begin_array().value("k0").end_array().end_object();
class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }

  JsonWriter& key(std::string_view name) {
    separate();
    append_json_string(text_, name);
    text_ += ':';
    needs_comma_ = false;
    return *this;
  }
  JsonWriter& value(std::string_view text) {
    separate();
    append_json_string(text_, text);
    return *this;
  }
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  template <class T>
    requires(std::is_arithmetic_v<T>)
  JsonWriter& value(T number) {
    separate();
    if constexpr (std::is_floating_point_v<T>) {
      // JSON has no infinities.
      if (!std::isfinite(number)) return raw_text("null");
    }
    append_text(text_, number);
    return *this;
  }
  JsonWriter& null() {
    separate();
    return raw_text("null");
  }
  // A value that is JSON text already.
  JsonWriter& raw(std::string_view json) {
    separate();
    return raw_text(json);
  }
  template <class T>
  JsonWriter& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }

  const std::string& text() const& { return text_; }
  std::string text() && { return std::move(text_); }

 private:
  void separate() {
    if (needs_comma_) text_ += ',';
    needs_comma_ = true;
  }
  JsonWriter& open(char bracket) {
    separate();
    text_ += bracket;
    needs_comma_ = false;
    return *this;
  }
  JsonWriter& close(char bracket) {
    text_ += bracket;
    needs_comma_ = true;
    return *this;
  }
  JsonWriter& raw_text(std::string_view json) {
    text_ += json;
    return *this;
  }

  std::string text_;
  bool needs_comma_ = false;
};

}  // namespace tilewright
