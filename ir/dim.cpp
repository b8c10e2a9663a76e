// Dim arithmetic: canonical sums of products over symbols and opaque quotient, mod, min and max atoms.
#include "ir/dim.h"

#include <algorithm>

#include "base/text.h"

namespace tilewright {

namespace {

// Expressions beyond these are refused as overflows: their cost must not outgrow the text that asks for them.
constexpr size_t kMaxTerms = 1024, kMaxProducts = 8192, kMaxAtoms = 64, kMaxText = 65536;

bool add_overflows(int64_t a, int64_t b, int64_t* out) { return __builtin_add_overflow(a, b, out); }
bool multiply_overflows(int64_t a, int64_t b, int64_t* out) { return __builtin_mul_overflow(a, b, out); }

int64_t floor_div_value(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
int64_t mod_value(int64_t a, int64_t b) { return a - floor_div_value(a, b) * b; }

std::string product_text(const std::vector<Dim::AtomRef>& atoms) {
  return join(atoms, "*", [](const Dim::AtomRef& atom) { return atom->text; });
}

// Sum of text forms with signs folded into the separators.
std::string sum_text(const std::vector<Dim::Term>& terms, int64_t constant) {
  std::string text;
  for (const Dim::Term& term : terms) {
    bool negative = term.coefficient < 0;
    if (text.empty()) {
      if (negative) text += "-";
    } else {
      text += negative ? " - " : " + ";
    }
    uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(term.coefficient) : term.coefficient;
    if (magnitude != 1) text += cat(magnitude, "*");
    text += product_text(term.atoms);
  }
  if (constant != 0) {
    uint64_t magnitude = constant < 0 ? 0 - static_cast<uint64_t>(constant) : constant;
    text += constant < 0 ? " - " : " + ";
    text += cat(magnitude);
  }
  return text;
}

bool term_order(const Dim::Term& a, const Dim::Term& b) {
  if (a.atoms.size() != b.atoms.size()) return a.atoms.size() > b.atoms.size();
  return product_text(a.atoms) < product_text(b.atoms);
}

}  // namespace

Dim Dim::invalid() {
  Dim dim;
  dim.valid_ = false;
  return dim;
}

const std::vector<Dim::Term>& Dim::terms() const {
  static const auto* none = new std::vector<Term>;
  return expr_ ? expr_->terms : *none;
}

Dim Dim::from_terms(std::vector<Term> terms, int64_t constant) {
  std::sort(terms.begin(), terms.end(), term_order);
  std::vector<Term> merged;
  for (Term& term : terms) {
    if (!merged.empty() && product_text(merged.back().atoms) == product_text(term.atoms)) {
      if (add_overflows(merged.back().coefficient, term.coefficient, &merged.back().coefficient))
        return invalid();
    } else {
      merged.push_back(std::move(term));
    }
  }
  std::erase_if(merged, [](const Term& term) { return term.coefficient == 0; });
  if (merged.size() > kMaxTerms) return invalid();
  Dim dim(constant);
  if (!merged.empty()) {
    auto expr = std::make_shared<Expr>();
    expr->text = sum_text(merged, constant);
    if (expr->text.size() > kMaxText) return invalid();
    expr->terms = std::move(merged);
    dim.expr_ = std::move(expr);
  }
  return dim;
}

Dim Dim::from_atom(Atom atom) {
  Term term{1, {std::make_shared<const Atom>(std::move(atom))}};
  return from_terms({std::move(term)}, 0);
}

Dim Dim::symbol(std::string name) {
  std::string text = name;
  return from_atom(Atom{AtomKind::Symbol, std::move(name), Dim(), Dim(), std::move(text)});
}

std::string Dim::as_symbol() const {
  if (!valid_ || !expr_ || constant_ != 0 || expr_->terms.size() != 1) return {};
  const Term& term = expr_->terms[0];
  if (term.coefficient != 1 || term.atoms.size() != 1 || term.atoms[0]->kind != AtomKind::Symbol) return {};
  return term.atoms[0]->name;
}

std::string Dim::to_string() const {
  if (!valid_) return "overflow";
  return expr_ ? expr_->text : cat(constant_);
}

bool operator==(const Dim& a, const Dim& b) {
  if (a.valid_ != b.valid_ || a.constant_ != b.constant_) return false;
  if (a.expr_ == b.expr_) return true;
  return a.expr_ && b.expr_ && a.expr_->text == b.expr_->text;
}

Dim operator+(const Dim& a, const Dim& b) {
  if (!a.valid_ || !b.valid_) return Dim::invalid();
  int64_t constant;
  if (add_overflows(a.constant_, b.constant_, &constant)) return Dim::invalid();
  if (!a.expr_ && !b.expr_) return Dim(constant);
  std::vector<Dim::Term> terms = a.terms();
  terms.insert(terms.end(), b.terms().begin(), b.terms().end());
  return Dim::from_terms(std::move(terms), constant);
}

Dim operator-(const Dim& a, const Dim& b) { return a + b * Dim(-1); }

Dim operator*(const Dim& a, const Dim& b) {
  if (!a.valid_ || !b.valid_) return Dim::invalid();
  int64_t constant;
  if (multiply_overflows(a.constant_, b.constant_, &constant)) return Dim::invalid();
  if (!a.expr_ && !b.expr_) return Dim(constant);
  if ((a.terms().size() + 1) * (b.terms().size() + 1) > kMaxProducts) return Dim::invalid();
  std::vector<Dim::Term> terms;
  auto add_product = [&](int64_t ca, const std::vector<Dim::AtomRef>& aa, int64_t cb,
                         const std::vector<Dim::AtomRef>& ab) {
    Dim::Term term{0, aa};
    if (aa.size() + ab.size() > kMaxAtoms) return false;
    if (multiply_overflows(ca, cb, &term.coefficient)) return false;
    term.atoms.insert(term.atoms.end(), ab.begin(), ab.end());
    std::sort(term.atoms.begin(), term.atoms.end(),
              [](const Dim::AtomRef& x, const Dim::AtomRef& y) { return x->text < y->text; });
    if (term.coefficient != 0) terms.push_back(std::move(term));
    return true;
  };
  for (const Dim::Term& ta : a.terms()) {
    for (const Dim::Term& tb : b.terms()) {
      if (!add_product(ta.coefficient, ta.atoms, tb.coefficient, tb.atoms)) return Dim::invalid();
    }
    if (!add_product(ta.coefficient, ta.atoms, b.constant_, {})) return Dim::invalid();
  }
  for (const Dim::Term& tb : b.terms()) {
    if (!add_product(a.constant_, {}, tb.coefficient, tb.atoms)) return Dim::invalid();
  }
  return Dim::from_terms(std::move(terms), constant);
}

Dim Dim::floor_div(const Dim& a, const Dim& b) {
  if (!a.valid_ || !b.valid_ || b.is_constant(0)) return invalid();
  if (b.is_constant(1)) return a;
  if (a.is_constant() && b.is_constant()) {
    if (b.constant_ == -1 && a.constant_ == INT64_MIN) return invalid();
    return Dim(floor_div_value(a.constant_, b.constant_));
  }
  if (a == b) return Dim(1);
  Dim quotient, rest = a;
  if (b.is_constant() && b.constant_ > 0) {
    // Terms that divide evenly leave the quotient exactly, whatever the rest is.
    std::vector<Term> divided, kept;
    for (const Term& term : a.terms()) {
      if (term.coefficient % b.constant_ == 0) {
        divided.push_back(Term{term.coefficient / b.constant_, term.atoms});
      } else {
        kept.push_back(term);
      }
    }
    int64_t remainder = mod_value(a.constant_, b.constant_);
    quotient = from_terms(std::move(divided), floor_div_value(a.constant_, b.constant_));
    rest = from_terms(std::move(kept), remainder);
    if (rest.is_constant()) return quotient;
  } else if (!b.is_constant() && b.terms().size() == 1 && b.constant_ == 0) {
    // (M*N)/N: cancel a common product of symbols when it divides every term.
    const Term& divisor = b.terms()[0];
    std::vector<Term> divided;
    bool all = a.constant_ == 0 && !a.terms().empty();
    for (const Term& term : a.terms()) {
      Term left{term.coefficient, term.atoms};
      for (const AtomRef& atom : divisor.atoms) {
        auto found = std::find_if(left.atoms.begin(), left.atoms.end(),
                                  [&](const AtomRef& other) { return other->text == atom->text; });
        if (found == left.atoms.end()) {
          all = false;
          break;
        }
        left.atoms.erase(found);
      }
      if (!all || left.coefficient % divisor.coefficient != 0) {
        all = false;
        break;
      }
      left.coefficient /= divisor.coefficient;
      divided.push_back(std::move(left));
    }
    if (all) {
      Dim sum(0);
      for (Term& term : divided) {
        sum = sum + (term.atoms.empty() ? Dim(term.coefficient) : from_terms({std::move(term)}, 0));
      }
      return sum;
    }
  }
  std::string text = cat("floordiv(", rest.to_string(), ", ", b.to_string(), ")");
  return quotient + from_atom(Atom{AtomKind::FloorDiv, {}, rest, b, std::move(text)});
}

Dim Dim::ceil_div(const Dim& a, const Dim& b) {
  // Between numbers the sum could overflow where the quotient does not.
  if (a.is_constant() && b.is_constant() && b.constant_ > 0) return floor_div(a - Dim(1), b) + Dim(1);
  return floor_div(a + b - Dim(1), b);
}

Dim Dim::mod(const Dim& a, const Dim& b) {
  if (!a.valid_ || !b.valid_ || b.is_constant(0)) return invalid();
  if (b.is_constant(1) || a == b) return Dim(0);
  if (a.is_constant() && b.is_constant()) {
    return b.constant_ == -1 ? Dim(0) : Dim(mod_value(a.constant_, b.constant_));
  }
  Dim rest = a;
  if (b.is_constant() && b.constant_ > 0) {
    std::vector<Term> kept;
    for (const Term& term : a.terms()) {
      if (term.coefficient % b.constant_ != 0) kept.push_back(term);
    }
    rest = from_terms(std::move(kept), mod_value(a.constant_, b.constant_));
    if (rest.is_constant()) return rest;
  }
  std::string text = cat("mod(", rest.to_string(), ", ", b.to_string(), ")");
  return from_atom(Atom{AtomKind::Mod, {}, rest, b, std::move(text)});
}

static Dim ordered_extreme(Dim::AtomKind kind, const Dim& a, const Dim& b) {
  if (!a.is_valid() || !b.is_valid()) return Dim::invalid();
  if (a == b) return a;
  bool want_min = kind == Dim::AtomKind::Min;
  Dim difference = a - b;
  if (difference.is_constant()) return (difference.constant() < 0) == want_min ? a : b;
  return Dim::invalid();
}

Dim Dim::min(const Dim& a, const Dim& b) {
  Dim known = ordered_extreme(AtomKind::Min, a, b);
  if (known.valid_ || !a.valid_ || !b.valid_) return known;
  bool swap = b.to_string() < a.to_string();
  const Dim &first = swap ? b : a, &second = swap ? a : b;
  std::string text = cat("min(", first.to_string(), ", ", second.to_string(), ")");
  return from_atom(Atom{AtomKind::Min, {}, first, second, std::move(text)});
}

Dim Dim::max(const Dim& a, const Dim& b) {
  Dim known = ordered_extreme(AtomKind::Max, a, b);
  if (known.valid_ || !a.valid_ || !b.valid_) return known;
  bool swap = b.to_string() < a.to_string();
  const Dim &first = swap ? b : a, &second = swap ? a : b;
  std::string text = cat("max(", first.to_string(), ", ", second.to_string(), ")");
  return from_atom(Atom{AtomKind::Max, {}, first, second, std::move(text)});
}

static Result<int64_t> evaluate_atom(const Dim::Atom& atom, const Bindings& bindings) {
  if (atom.kind == Dim::AtomKind::Symbol) {
    auto found = bindings.find(atom.name);
    if (found == bindings.end()) return Status::invalid(cat("symbol ", atom.name, " has no value"));
    return found->second;
  }
  TW_ASSIGN_OR_RETURN(int64_t lhs, atom.lhs.evaluate(bindings));
  TW_ASSIGN_OR_RETURN(int64_t rhs, atom.rhs.evaluate(bindings));
  switch (atom.kind) {
    case Dim::AtomKind::Symbol: break;
    case Dim::AtomKind::Min: return std::min(lhs, rhs);
    case Dim::AtomKind::Max: return std::max(lhs, rhs);
    case Dim::AtomKind::FloorDiv:
    case Dim::AtomKind::Mod:
      if (rhs == 0) return Status::invalid(cat("division by zero in ", atom.text));
      if (rhs == -1 && lhs == INT64_MIN) return Status::invalid(cat("overflow in ", atom.text));
      return atom.kind == Dim::AtomKind::Mod ? mod_value(lhs, rhs) : floor_div_value(lhs, rhs);
  }
  return Status::internal("unknown dim atom");
}

Result<int64_t> Dim::evaluate(const Bindings& bindings) const {
  if (!valid_) return Status::invalid("dim expression overflows 64 bits");
  int64_t sum = constant_;
  for (const Term& term : terms()) {
    int64_t product = term.coefficient;
    for (const AtomRef& atom : term.atoms) {
      TW_ASSIGN_OR_RETURN(int64_t value, evaluate_atom(*atom, bindings));
      if (multiply_overflows(product, value, &product))
        return Status::invalid(cat(to_string(), " overflows 64 bits"));
    }
    if (add_overflows(sum, product, &sum)) return Status::invalid(cat(to_string(), " overflows 64 bits"));
  }
  return sum;
}

Dim Dim::substitute(const std::map<std::string, Dim, std::less<>>& replacements) const {
  if (!valid_ || !expr_) return *this;
  Dim sum(constant_);
  for (const Term& term : terms()) {
    Dim product(term.coefficient);
    for (const AtomRef& atom : term.atoms) {
      switch (atom->kind) {
        case AtomKind::Symbol: {
          auto found = replacements.find(atom->name);
          product = product * (found == replacements.end() ? symbol(atom->name) : found->second);
          break;
        }
        case AtomKind::FloorDiv:
          product =
              product * floor_div(atom->lhs.substitute(replacements), atom->rhs.substitute(replacements));
          break;
        case AtomKind::Mod:
          product = product * mod(atom->lhs.substitute(replacements), atom->rhs.substitute(replacements));
          break;
        case AtomKind::Min:
          product = product * min(atom->lhs.substitute(replacements), atom->rhs.substitute(replacements));
          break;
        case AtomKind::Max:
          product = product * max(atom->lhs.substitute(replacements), atom->rhs.substitute(replacements));
          break;
      }
    }
    sum = sum + product;
  }
  return sum;
}

void Dim::collect_symbols(std::vector<std::string>& names) const {
  for (const Term& term : terms()) {
    for (const AtomRef& atom : term.atoms) {
      if (atom->kind == AtomKind::Symbol) {
        if (std::find(names.begin(), names.end(), atom->name) == names.end()) names.push_back(atom->name);
      } else {
        atom->lhs.collect_symbols(names);
        atom->rhs.collect_symbols(names);
      }
    }
  }
}

namespace {

int64_t saturate(__int128 value) {
  if (value > INT64_MAX) return INT64_MAX;
  if (value < INT64_MIN) return INT64_MIN;
  return static_cast<int64_t>(value);
}

Interval multiply(Interval a, Interval b) {
  auto product = [](int64_t x, int64_t y) { return saturate(static_cast<__int128>(x) * y); };
  int64_t corners[4] = {product(a.min, b.min), product(a.min, b.max), product(a.max, b.min),
                        product(a.max, b.max)};
  return {*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4)};
}

Interval atom_range(const Dim::Atom& atom, const std::vector<Symbol>& symbols) {
  if (atom.kind == Dim::AtomKind::Symbol) {
    for (const Symbol& symbol : symbols) {
      if (symbol.name == atom.name) return {symbol.min, symbol.max};
    }
    return {};
  }
  Interval lhs = atom.lhs.range(symbols), rhs = atom.rhs.range(symbols);
  switch (atom.kind) {
    case Dim::AtomKind::Symbol: break;
    case Dim::AtomKind::Min: return {std::min(lhs.min, rhs.min), std::min(lhs.max, rhs.max)};
    case Dim::AtomKind::Max: return {std::max(lhs.min, rhs.min), std::max(lhs.max, rhs.max)};
    case Dim::AtomKind::Mod:
      if (rhs.min <= 0) return {};
      if (lhs.min >= 0 && lhs.max < rhs.min) return lhs;
      return {0, rhs.max - 1};
    case Dim::AtomKind::FloorDiv: {
      if (rhs.min <= 0) return {};
      int64_t corners[4] = {floor_div_value(lhs.min, rhs.min), floor_div_value(lhs.min, rhs.max),
                            floor_div_value(lhs.max, rhs.min), floor_div_value(lhs.max, rhs.max)};
      return {*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4)};
    }
  }
  return {};
}

}  // namespace

Interval Dim::range(const std::vector<Symbol>& symbols) const {
  if (!valid_) return {};
  __int128 low = constant_, high = constant_;
  for (const Term& term : terms()) {
    Interval product{term.coefficient, term.coefficient};
    for (const AtomRef& atom : term.atoms) product = multiply(product, atom_range(*atom, symbols));
    low += product.min;
    high += product.max;
  }
  return {saturate(low), saturate(high)};
}

bool Dim::is_multiple_of(int64_t divisor) const {
  if (!valid_ || divisor == 0 || constant_ % divisor != 0) return false;
  return std::all_of(terms().begin(), terms().end(),
                     [&](const Term& term) { return term.coefficient % divisor == 0; });
}

int64_t Dim::hint(const std::vector<Symbol>& symbols) const {
  Bindings bindings;
  std::vector<std::string> names;
  collect_symbols(names);
  for (const std::string& name : names) {
    int64_t value = 1;
    for (const Symbol& symbol : symbols) {
      if (symbol.name == name) value = symbol.hint ? *symbol.hint : std::max<int64_t>(symbol.min, 1);
    }
    bindings[name] = value;
  }
  Result<int64_t> value = evaluate(bindings);
  return value.is_ok() ? *value : 1;
}

}  // namespace tilewright
