// Splits the text form into tokens.
#include "ir/lexer.h"

#include <algorithm>

namespace tilewright {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_hex_digit(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
int hex_value(char c) { return is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10; }

}  // namespace

bool is_name_char(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '.' || c == '$'; }

bool is_plain_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_name_char);
}

std::string quote(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    } else {
      out += c;
    }
  }
  return out += '"';
}

std::optional<std::string> unquote(std::string_view text) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    if (++i >= text.size()) return std::nullopt;
    switch (text[i]) {
      case '"':
      case '\\': out += text[i]; break;
      case 'n': out += '\n'; break;
      case 't': out += '\t'; break;
      case 'x':
        if (i + 2 >= text.size() || !is_hex_digit(text[i + 1]) || !is_hex_digit(text[i + 2]))
          return std::nullopt;
        out += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
        i += 2;
        break;
      default: return std::nullopt;
    }
  }
  return out;
}

std::optional<std::string> token_name(const Token& token) {
  std::string_view name = token.text.substr(1);
  if (!name.empty() && name.front() == '"') return unquote(name);
  return std::string(name);
}

Lexer::Lexer(std::string_view text) : text_(text) {
  line_starts_.push_back(0);
  for (size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) {
    line_starts_.push_back(at + 1);
  }
  advance();
}

TextPlace Lexer::place(size_t offset) const {
  auto next = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  size_t line = next - line_starts_.begin();
  return {static_cast<int>(line), static_cast<int>(offset - line_starts_[line - 1]) + 1};
}

size_t Lexer::line_end(size_t offset) const {
  size_t end = text_.find('\n', offset);
  return end == std::string_view::npos ? text_.size() : end;
}

std::string_view Lexer::line_at(size_t offset) const {
  size_t start = line_starts_[place(offset).line - 1];
  std::string_view line = text_.substr(start, line_end(start) - start);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

bool Lexer::starts_line() const {
  if (previous_end_ == 0) return true;
  return text_.substr(previous_end_, token_.offset - previous_end_).find('\n') != std::string_view::npos;
}

bool Lexer::at(std::string_view text) const {
  return (token_.kind == TokenKind::Punct || token_.kind == TokenKind::Word) && token_.text == text;
}

void Lexer::skip_space() {
  while (position_ < text_.size()) {
    char c = text_[position_];
    if (c == '#') {
      position_ = line_end(position_);
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
      ++position_;
    } else {
      return;
    }
  }
}

void Lexer::finish(TokenKind kind, size_t end) {
  token_ = Token{kind, text_.substr(position_, end - position_), position_, end};
  position_ = end;
}

size_t Lexer::scan_quoted(size_t at) const {
  for (++at; at < text_.size() && text_[at] != '\n'; ++at) {
    if (text_[at] == '\\') {
      ++at;
    } else if (text_[at] == '"') {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

size_t Lexer::scan_number(size_t at) const {
  auto peek = [&](size_t i) { return i < text_.size() ? text_[i] : '\0'; };
  while (is_digit(peek(at))) ++at;
  if (peek(at) == '.' && peek(at + 1) != '.') {
    ++at;
    while (is_digit(peek(at))) ++at;
  }
  if (peek(at) == 'e' || peek(at) == 'E') {
    size_t digits = at + 1 + (peek(at + 1) == '+' || peek(at + 1) == '-');
    if (is_digit(peek(digits))) {
      at = digits;
      while (is_digit(peek(at))) ++at;
    }
  }
  return at;
}

void Lexer::move_to(size_t offset) {
  position_ = offset;
  token_.end = offset;
  advance();
}

void Lexer::advance() {
  previous_end_ = token_.end;
  skip_space();
  if (position_ >= text_.size()) {
    token_ = Token{TokenKind::End, {}, text_.size(), text_.size()};
    return;
  }
  auto peek = [&](size_t i) { return position_ + i < text_.size() ? text_[position_ + i] : '\0'; };
  char c = peek(0);
  auto name_end = [&](size_t at) {
    while (at < text_.size() && is_name_char(text_[at])) ++at;
    return at;
  };
  if (c == '"' || ((c == '%' || c == '@') && peek(1) == '"')) {
    size_t end = scan_quoted(position_ + (c != '"'));
    TokenKind kind = c == '"' ? TokenKind::String : c == '%' ? TokenKind::Value : TokenKind::Symbol;
    if (end == std::string_view::npos) return finish(TokenKind::Bad, line_end(position_));
    return finish(kind, end);
  }
  if ((c == '%' || c == '@') && is_name_char(peek(1))) {
    return finish(c == '%' ? TokenKind::Value : TokenKind::Symbol, name_end(position_ + 1));
  }
  if (is_letter(c) || c == '_') return finish(TokenKind::Word, name_end(position_));
  if (c == '0' && peek(1) == 'x') {
    size_t end = position_ + 2;
    while (end < text_.size() && is_hex_digit(text_[end])) ++end;
    return finish(TokenKind::Hex, end);
  }
  if (is_digit(c) || (c == '-' && (is_digit(peek(1)) || peek(1) == '.'))) {
    return finish(TokenKind::Number, scan_number(position_ + (c == '-')));
  }
  if (c == '-' && text_.substr(position_ + 1, 3) == "inf" && !is_name_char(peek(4))) {
    return finish(TokenKind::Number, position_ + 4);
  }
  if (c == '-' && peek(1) == '>') return finish(TokenKind::Punct, position_ + 2);
  if (c == '.' && peek(1) == '.') return finish(TokenKind::Punct, position_ + 2);
  static constexpr std::string_view kPunct = "()[]{},:=+*-";
  finish(kPunct.find(c) != std::string_view::npos ? TokenKind::Punct : TokenKind::Bad, position_ + 1);
}

std::string nearest(std::string_view text, const std::vector<std::string_view>& candidates) {
  std::string_view best;
  size_t best_cost = 1 + std::max<size_t>(text.size() / 3, 1);
  if (text.size() > 64) return {};
  std::vector<size_t> row;
  for (std::string_view candidate : candidates) {
    row.resize(candidate.size() + 1);
    for (size_t j = 0; j <= candidate.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= text.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j <= candidate.size(); ++j) {
        size_t replaced = diagonal + (text[i - 1] != candidate[j - 1]);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
      }
    }
    if (row[candidate.size()] < best_cost) {
      best_cost = row[candidate.size()];
      best = candidate;
    }
  }
  return std::string(best);
}

}  // namespace tilewright
