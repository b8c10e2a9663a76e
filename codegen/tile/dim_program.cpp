// Compiles dim expressions to slots and evaluates them.
#include "codegen/tile/dim_program.h"

#include <algorithm>

#include "base/text.h"

namespace tilewright::tile {

Result<CompiledDim> CompiledDim::compile(const Dim& dim, const SlotTable& slots) {
  if (!dim.is_valid()) return Status::invalid("dim expression overflows 64 bits");
  CompiledDim out;
  out.source_ = dim;
  out.constant_ = dim.constant_term();
  for (const Dim::Term& term : dim.terms()) {
    Term compiled{term.coefficient, {}};
    for (const Dim::AtomRef& atom : term.atoms) {
      Atom part{atom->kind, -1, {}};
      if (atom->kind == Dim::AtomKind::Symbol) {
        auto found = slots.find(atom->name);
        if (found == slots.end()) return Status::invalid(cat("symbol ", atom->name, " has no value"));
        part.slot = found->second;
      } else {
        TW_ASSIGN_OR_RETURN(CompiledDim lhs, compile(atom->lhs, slots));
        TW_ASSIGN_OR_RETURN(CompiledDim rhs, compile(atom->rhs, slots));
        part.operands.push_back(std::move(lhs));
        part.operands.push_back(std::move(rhs));
      }
      compiled.atoms.push_back(std::move(part));
    }
    out.terms_.push_back(std::move(compiled));
  }
  return out;
}

bool CompiledDim::evaluate_atom(const Atom& atom, const int64_t* slots, int64_t& value) {
  if (atom.kind == Dim::AtomKind::Symbol) {
    value = slots[atom.slot];
    return true;
  }
  int64_t lhs, rhs;
  if (!atom.operands[0].evaluate(slots, lhs) || !atom.operands[1].evaluate(slots, rhs)) return false;
  if (atom.kind == Dim::AtomKind::Min) {
    value = std::min(lhs, rhs);
  } else if (atom.kind == Dim::AtomKind::Max) {
    value = std::max(lhs, rhs);
  } else {
    if (rhs == 0 || (rhs == -1 && lhs == INT64_MIN)) return false;
    int64_t quotient = lhs / rhs, rest = lhs % rhs;
    bool below = rest != 0 && ((rest < 0) != (rhs < 0));
    value = atom.kind == Dim::AtomKind::Mod ? (below ? rest + rhs : rest) : quotient - below;
  }
  return true;
}

bool CompiledDim::evaluate(const int64_t* slots, int64_t& value) const {
  value = constant_;
  for (const Term& term : terms_) {
    int64_t product = term.coefficient;
    for (const Atom& atom : term.atoms) {
      int64_t factor;
      if (!evaluate_atom(atom, slots, factor)) return false;
      if (__builtin_mul_overflow(product, factor, &product)) return false;
    }
    if (__builtin_add_overflow(value, product, &value)) return false;
  }
  return true;
}

}  // namespace tilewright::tile
