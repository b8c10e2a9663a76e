// Errors with their places, and the small pieces of the text form.
#include "ir/text_reader.h"

#include "base/text.h"
#include "ir/literal.h"

namespace tilewright {

namespace {
constexpr size_t kMaxErrors = 100;
constexpr size_t kMaxLine = 160;      // of a line quoted in a message
constexpr size_t kMaxDimText = 1000;  // a dim expression is short; a hostile one is not worth reading
}  // namespace

std::string Diagnostic::to_string() const {
  std::string text = cat("line ", line, ", column ", column, ": ", message);
  if (line_text.empty()) return text;
  std::string shown = line_text;
  for (char& c : shown) {
    if (c == '\t') c = ' ';
  }
  size_t caret = static_cast<size_t>(column) - 1, start = 0;
  if (shown.size() > kMaxLine) {
    start = caret > kMaxLine / 2 ? caret - kMaxLine / 2 : 0;
    shown = shown.substr(start, kMaxLine);
  }
  return cat(text, "\n  ", shown, "\n  ", std::string(caret - start, ' '), "^");
}

std::string to_string(const std::vector<Diagnostic>& diagnostics) {
  return join(diagnostics, "\n", [](const Diagnostic& diagnostic) { return diagnostic.to_string(); });
}

bool TextReader::too_many_errors() const { return diagnostics.size() >= kMaxErrors; }

bool TextReader::fail(size_t offset, std::string message) {
  if (too_many_errors()) return false;
  TextPlace place = lexer.place(offset);
  if (diagnostics.size() + 1 == kMaxErrors) message = "too many errors, the rest is not shown";
  std::string_view line = lexer.line_at(offset);
  diagnostics.push_back(
      Diagnostic{place.line, place.column, std::move(message), std::string(line.substr(0, 4096))});
  if (place.column > 4096) diagnostics.back().line_text.clear();
  return false;
}

bool TextReader::fail_expected(std::string_view expected) {
  bool at_end = lexer.at(TokenKind::End);
  if (!at_end && (!lexer.starts_line() || lexer.previous_end() == 0)) return fail_expected_here(expected);
  return fail(lexer.previous_end(),
              cat("found the end of the ", at_end ? "text" : "line", ", expected ", expected));
}

bool TextReader::fail_expected_here(std::string_view expected) {
  const Token& token = lexer.token();
  return fail(token.offset, cat("found `", token.text.substr(0, 60), "`, expected ", expected));
}

bool TextReader::take(std::string_view punct_or_word) {
  if (!lexer.at(punct_or_word)) return false;
  lexer.advance();
  return true;
}

bool TextReader::expect(std::string_view punct_or_word) {
  return take(punct_or_word) || fail_expected(cat("`", punct_or_word, "`"));
}

bool TextReader::read_word(std::string& word, std::string_view what) {
  if (!lexer.at(TokenKind::Word)) return fail_expected(what);
  word = lexer.token().text;
  lexer.advance();
  return true;
}

bool TextReader::read_integer(int64_t& value, std::string_view what) {
  if (!lexer.at(TokenKind::Number)) return fail_expected(what);
  Result<int64_t> parsed = parse_integer(lexer.token().text);
  if (!parsed.is_ok()) return fail(lexer.token().offset, parsed.status().message());
  value = *parsed;
  lexer.advance();
  return true;
}

bool TextReader::read_float(double& value) {
  bool word = lexer.at(TokenKind::Word) && (lexer.token().text == "inf" || lexer.token().text == "nan");
  if (!word && !lexer.at(TokenKind::Number)) return fail_expected("a number");
  Result<double> parsed = parse_float(lexer.token().text);
  if (!parsed.is_ok()) return fail(lexer.token().offset, parsed.status().message());
  value = *parsed;
  lexer.advance();
  return true;
}

bool TextReader::read_string(std::string& value) {
  if (!lexer.at(TokenKind::String)) return fail_expected("a string in quotes");
  std::optional<std::string> text = unquote(lexer.token().text);
  if (!text)
    return fail(lexer.token().offset, "string has a bad escape, expected \\\", \\\\, \\n, \\t or \\xNN");
  value = std::move(*text);
  lexer.advance();
  return true;
}

bool TextReader::read_dtype(DType& dtype) {
  if (!lexer.at(TokenKind::Word)) return fail_expected("a dtype");
  std::optional<DType> parsed = parse_dtype(lexer.token().text);
  if (!parsed) {
    std::vector<std::string_view> names;
    for (int id = 0; id < kDTypeCount; ++id) names.push_back(dtype_name(static_cast<DType>(id)));
    std::string near = nearest(lexer.token().text, names);
    return fail_expected(near.empty() ? "a dtype" : cat("a dtype (did you mean ", near, "?)"));
  }
  dtype = *parsed;
  lexer.advance();
  return true;
}

bool TextReader::read_dims(Shape& dims, std::string_view open, char close) {
  if (!lexer.at(open)) return fail_expected(cat("`", open, "`"));
  std::string_view text = lexer.text();
  size_t at = lexer.token().end;
  auto skip_blanks = [&] {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
  };
  skip_blanks();
  if (at < text.size() && text[at] == close) {
    lexer.move_to(at + 1);
    return true;
  }
  while (true) {
    skip_blanks();
    size_t start = at;
    int depth = 0;
    for (; at < text.size() && text[at] != '\n' && text[at] != '#' && at - start <= kMaxDimText; ++at) {
      if (depth == 0 && (text[at] == ',' || text[at] == close)) break;
      depth += text[at] == '(';
      depth -= text[at] == ')';
    }
    if (at - start > kMaxDimText)
      return fail(start, cat("dim expression is longer than ", kMaxDimText, " characters"));
    if (at >= text.size() || (text[at] != ',' && text[at] != close)) {
      return fail(start, cat("list of dims has no end, expected `", close, "`"));
    }
    Result<Dim> dim = parse_dim(text.substr(start, at - start));
    if (!dim.is_ok()) return fail(start, dim.status().message());
    dims.push_back(std::move(*dim));
    if (text[at++] == close) break;
  }
  lexer.move_to(at);
  return true;
}

bool TextReader::read_type(TensorType& type) {
  if (!read_dtype(type.dtype)) return false;
  if (lexer.token().offset != lexer.previous_end())
    return fail_expected("the dims in brackets right behind the dtype");
  return read_dims(type.shape, "[", ']');
}

}  // namespace tilewright
