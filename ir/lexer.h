// Lexer of the text form: splits a text into tokens with their places; shared by graphs and tile programs.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

enum class TokenKind : unsigned char {
  Word,    // letters, digits, _ . $ that do not start with a digit
  Value,   // %name, %0, %"any text"
  Symbol,  // @name, @"any text"
  Number,  // 12, -3.5e-7, -inf (inf and nan are words)
  Hex,     // 0x followed by hex digits
  String,  // "text"
  Punct,   // ( ) [ ] { } , : = + * - -> ..
  Bad,     // a character that starts no token, or a string without end
  End,
};

struct Token {
  TokenKind kind = TokenKind::End;
  std::string_view text;  // as written
  size_t offset = 0;
  size_t end = 0;
};

// Place of a byte of a text, both counted from 1.
struct TextPlace {
  int line = 1;
  int column = 1;
};

// Comments run from `#` to the end of the line; line ends count as space.
class Lexer {
 public:
  explicit Lexer(std::string_view text);

  std::string_view text() const { return text_; }
  const Token& token() const { return token_; }
  void advance();
  void move_to(size_t offset);  // the current token becomes the first one at or after offset
  bool at(std::string_view punct_or_word) const;
  bool at(TokenKind kind) const { return token_.kind == kind; }
  // Whether a line end lies between the previous token and the current one.
  bool starts_line() const;
  size_t previous_end() const { return previous_end_; }
  TextPlace place(size_t offset) const;
  std::string_view line_at(size_t offset) const;
  size_t line_end(size_t offset) const;

 private:
  void skip_space();
  size_t scan_number(size_t at) const;
  size_t scan_quoted(size_t at) const;  // past the closing quote, or npos
  void finish(TokenKind kind, size_t end);

  std::string_view text_;
  std::vector<size_t> line_starts_;
  Token token_;
  size_t position_ = 0;
  size_t previous_end_ = 0;
};

bool is_name_char(char c);                                  // letters, digits, _ . $
bool is_plain_name(std::string_view text);                  // can be written without quotes after % or @
std::string quote(std::string_view text);                   // "text" with escapes
std::optional<std::string> unquote(std::string_view text);  // nullopt for a bad escape
// The name of a Value or Symbol token, without its mark and quotes; nullopt for a bad escape.
std::optional<std::string> token_name(const Token& token);

// The candidate closest to `text` by edits, or empty when none is near.
std::string nearest(std::string_view text, const std::vector<std::string_view>& candidates);

}  // namespace tilewright
