// Dim: an integer expression over named symbols, kept in a canonical form, so that equal text means equal
// value.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tilewright {

// A declared symbol of a graph: `N in 1..65536 hint 32`.
struct Symbol {
  std::string name;
  int64_t min = 0;
  int64_t max = INT64_MAX;
  std::optional<int64_t> hint;
  friend bool operator==(const Symbol&, const Symbol&) = default;
};

// Values of symbols at one call.
using Bindings = std::map<std::string, int64_t, std::less<>>;

struct Interval {
  int64_t min = INT64_MIN;
  int64_t max = INT64_MAX;
};

// An i64, a symbol, or sums, products, floor divisions, mods, minima and maxima of those.
// Overflow while folding makes an invalid Dim, which verification reports; evaluation reports it as a status.
class Dim {
 public:
  enum class AtomKind : uint8_t { Symbol, FloorDiv, Mod, Min, Max };
  struct Atom;
  using AtomRef = std::shared_ptr<const Atom>;
  // coefficient * product of atoms (sorted by text)
  struct Term {
    int64_t coefficient;
    std::vector<AtomRef> atoms;
  };

  Dim(int64_t value = 0) : constant_(value) {}
  static Dim symbol(std::string name);
  static Dim invalid();

  bool is_valid() const { return valid_; }
  bool is_constant() const { return valid_ && !expr_; }
  // Only when is_constant().
  int64_t constant() const { return constant_; }
  bool is_constant(int64_t value) const { return is_constant() && constant_ == value; }
  // The bare symbol's name, or empty.
  std::string as_symbol() const;

  // constant part and the other terms, for affine analysis
  int64_t constant_term() const { return constant_; }
  const std::vector<Term>& terms() const;

  Result<int64_t> evaluate(const Bindings& bindings) const;
  Dim substitute(const std::map<std::string, Dim, std::less<>>& replacements) const;
  void collect_symbols(
      std::vector<std::string>& names) const;  // in order of first appearance, without repeats
  // Range over all values that the symbols may take (unknown symbols are unbounded).
  Interval range(const std::vector<Symbol>& symbols) const;
  // True when every value is known to be a multiple of `divisor`.
  bool is_multiple_of(int64_t divisor) const;
  // The value with each symbol at its hint (or its minimum, or 1): what tile sizes follow.
  int64_t hint(const std::vector<Symbol>& symbols) const;

  // Canonical text, e.g. "2*N*H + floordiv(N + 3, 4) + 1"; parse_dim reads it back.
  std::string to_string() const;

  friend bool operator==(const Dim& a, const Dim& b);
  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  static Dim floor_div(const Dim& a, const Dim& b);
  static Dim ceil_div(const Dim& a, const Dim& b);
  static Dim mod(const Dim& a, const Dim& b);
  static Dim min(const Dim& a, const Dim& b);
  static Dim max(const Dim& a, const Dim& b);

 private:
  struct Expr {
    std::vector<Term> terms;  // sorted, non-empty, coefficients non-zero
    std::string text;
  };
  static Dim from_terms(std::vector<Term> terms, int64_t constant);
  static Dim from_atom(Atom atom);

  int64_t constant_ = 0;
  bool valid_ = true;
  std::shared_ptr<const Expr> expr_;
};

struct Dim::Atom {
  AtomKind kind;
  std::string name;  // Symbol
  Dim lhs, rhs;      // the others
  std::string text;
};

// Reads "N", "3*N + 1", "floordiv(N, 2)", "mod(..)", "min(..)", "max(..)", parentheses, unary minus.
Result<Dim> parse_dim(std::string_view text);

}  // namespace tilewright
