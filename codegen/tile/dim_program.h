// CompiledDim: a Dim with its symbols resolved to numbered slots, for evaluation without look-ups.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/dim.h"

namespace tilewright::tile {

// Names of symbols to their slots.
using SlotTable = std::map<std::string, int, std::less<>>;

class CompiledDim {
 public:
  CompiledDim() = default;
  // A symbol without a slot is an error.
  static Result<CompiledDim> compile(const Dim& dim, const SlotTable& slots);

  // False on overflow or division by zero.
  bool evaluate(const int64_t* slots, int64_t& value) const;
  std::string to_string() const { return source_.to_string(); }

 private:
  struct Atom {
    Dim::AtomKind kind;
    int slot = -1;
    std::vector<CompiledDim> operands;  // lhs, rhs
  };
  struct Term {
    int64_t coefficient;
    std::vector<Atom> atoms;
  };
  static bool evaluate_atom(const Atom& atom, const int64_t* slots, int64_t& value);

  int64_t constant_ = 0;
  std::vector<Term> terms_;
  Dim source_;
};

}  // namespace tilewright::tile
