// cat(): joins values into one string, for messages and printers.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <type_traits>

namespace tilewright {

inline void append_text(std::string& out, std::string_view text) { out.append(text); }
inline void append_text(std::string& out, const std::string& text) { out.append(text); }
inline void append_text(std::string& out, const char* text) { out.append(text); }
inline void append_text(std::string& out, char c) { out.push_back(c); }
inline void append_text(std::string& out, bool value) { out.append(value ? "true" : "false"); }

// Shortest text that reads back to the same number.
template <class T>
  requires(std::is_arithmetic_v<T>)
void append_text(std::string& out, T value) {
  char buffer[40];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, end.ptr);
}

template <class... Parts>
std::string cat(const Parts&... parts) {
  std::string out;
  (append_text(out, parts), ...);
  return out;
}

// Joins the elements of a range with a separator; `text_of` turns one into something cat() takes.
template <class Range, class TextOf>
std::string join(const Range& range, std::string_view separator, TextOf text_of) {
  std::string out;
  bool first = true;
  for (const auto& element : range) {
    if (!first) out.append(separator);
    first = false;
    append_text(out, text_of(element));
  }
  return out;
}
template <class Range>
std::string join(const Range& range, std::string_view separator) {
  return join(range, separator, [](const auto& element) { return cat(element); });
}

}  // namespace tilewright
