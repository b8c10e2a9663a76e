// JSON string escaping.
#include "base/json.h"

namespace tilewright {
namespace {

// Bytes of the well-formed UTF-8 sequence at the front; 0 when there is none.
size_t utf8_length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  auto continues = [&](size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return continues(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    // Overlong forms and surrogates are excluded by the second byte.
    bool second = continues(1, first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf);
    return second && continues(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    bool second = continues(1, first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf);
    return second && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

void append_escaped(std::string& out, char c) {
  static constexpr char digits[] = "0123456789abcdef";
  switch (c) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\t': out += "\\t"; return;
    case '\r': out += "\\r"; return;
  }
  out += "\\u00";
  out += digits[(c >> 4) & 15];
  out += digits[c & 15];
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    size_t length = utf8_length(text);
    char c = text.front();
    if (length == 0) {
      out += "\xef\xbf\xbd";  // the replacement character
      length = 1;
    } else if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20) {
      append_escaped(out, c);
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  out += '"';
}

}  // namespace tilewright
