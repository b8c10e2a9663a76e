// Reads the text form of a dim expression.
#include <cctype>

#include "base/text.h"
#include "ir/dim.h"

namespace tilewright {

namespace {

constexpr int kMaxDepth = 200;  // nesting that a hostile file may not exceed

class DimParser {
 public:
  explicit DimParser(std::string_view text) : text_(text) {}

  Result<Dim> parse() {
    TW_ASSIGN_OR_RETURN(Dim dim, sum(0));
    skip_space();
    if (at_ < text_.size()) return error("end of expression");
    if (!dim.is_valid())
      return Status::invalid(cat("dim expression `", text_, "` overflows or divides by zero"));
    return dim;
  }

 private:
  Status error(std::string_view expected) const {
    return Status::invalid(cat("dim expression `", text_, "`: found `", text_.substr(at_, 10), "` at ", at_,
                               ", expected ", expected));
  }
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Result<Dim> sum(int depth) {
    if (depth > kMaxDepth) return Status::invalid("dim expression is nested too deeply");
    bool negative = take('-');
    TW_ASSIGN_OR_RETURN(Dim total, product(depth));
    if (negative) total = Dim(0) - total;
    while (true) {
      if (take('+')) {
        TW_ASSIGN_OR_RETURN(Dim next, product(depth));
        total = total + next;
      } else if (take('-')) {
        TW_ASSIGN_OR_RETURN(Dim next, product(depth));
        total = total - next;
      } else {
        return total;
      }
    }
  }

  Result<Dim> product(int depth) {
    TW_ASSIGN_OR_RETURN(Dim total, factor(depth));
    while (take('*')) {
      TW_ASSIGN_OR_RETURN(Dim next, factor(depth));
      total = total * next;
    }
    return total;
  }

  Result<Dim> factor(int depth) {
    skip_space();
    if (take('(')) {
      TW_ASSIGN_OR_RETURN(Dim inner, sum(depth + 1));
      if (!take(')')) return error("`)`");
      return inner;
    }
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) return number();
    size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      ++at_;
    if (at_ == start) return error("a number, a symbol or `(`");
    std::string name(text_.substr(start, at_ - start));
    if (name == "floordiv" || name == "mod" || name == "min" || name == "max") return call(name, depth);
    return Dim::symbol(std::move(name));
  }

  Result<Dim> number() {
    int64_t value = 0;
    auto [end, fault] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (fault != std::errc())
      return Status::invalid(cat("dim expression `", text_, "`: number does not fit 64 bits"));
    at_ = end - text_.data();
    return Dim(value);
  }

  Result<Dim> call(const std::string& name, int depth) {
    if (!take('(')) return error("`(`");
    TW_ASSIGN_OR_RETURN(Dim lhs, sum(depth + 1));
    if (!take(',')) return error("`,`");
    TW_ASSIGN_OR_RETURN(Dim rhs, sum(depth + 1));
    if (!take(')')) return error("`)`");
    if (name == "floordiv") return Dim::floor_div(lhs, rhs);
    if (name == "mod") return Dim::mod(lhs, rhs);
    return name == "min" ? Dim::min(lhs, rhs) : Dim::max(lhs, rhs);
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Result<Dim> parse_dim(std::string_view text) { return DimParser(text).parse(); }

}  // namespace tilewright
