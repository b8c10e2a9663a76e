// TextReader: what all parsers of the text form share: a lexer, collected errors, and the pieces of types.
#pragma once

#include "ir/lexer.h"
#include "ir/parser.h"

namespace tilewright {

// Methods that return bool have reported an error when they return false.
class TextReader {
 public:
  explicit TextReader(std::string_view text) : lexer(text) {}

  Lexer lexer;
  std::vector<Diagnostic> diagnostics;

  // Always returns false.
  bool fail(size_t offset, std::string message);
  // "found `x`, expected ..." at the current token; at the end of the line before it when that line ended too
  // early.
  bool fail_expected(std::string_view expected);
  // The same at the current token even where it starts a line.
  bool fail_expected_here(std::string_view expected);
  bool too_many_errors() const;

  bool take(std::string_view punct_or_word);
  bool expect(std::string_view punct_or_word);
  bool read_word(std::string& word, std::string_view what);
  bool read_integer(int64_t& value, std::string_view what = "an integer");
  bool read_float(double& value);
  bool read_string(std::string& value);
  bool read_dtype(DType& dtype);
  // From an open bracket to its closing one, which must be `close`; dims in the text between them are split
  // at commas.
  bool read_dims(Shape& dims, std::string_view open, char close);
  bool read_type(TensorType& type);
  // "[a,b]" with one call of `read_entry` an entry.
  template <class ReadEntry>
  bool read_list(std::string_view open, std::string_view close, ReadEntry read_entry) {
    if (!expect(open)) return false;
    if (take(close)) return true;
    do {
      if (!read_entry()) return false;
    } while (take(","));
    return expect(close);
  }
};

}  // namespace tilewright
