// Canonical text of a kernel: names replaced by numbers, so that kernels that do the same share a key.
#include "base/text.h"
#include "codegen/tile/tile.h"

namespace tilewright::tile {

namespace {

using Renaming = std::map<std::string, Dim, std::less<>>;

void rename(std::vector<Dim>& dims, const Renaming& names) {
  for (Dim& dim : dims) dim = dim.substitute(names);
}

// `names` holds what is in scope: sibling loops may share a name.
void rename(Block& block, Renaming names, int& next) {
  for (Instruction& instruction : block.body) {
    for (DimIndex& index : instruction.access.index) index.base = index.base.substitute(names);
    rename(instruction.limits, names);
    for (Dim* dim : {&instruction.from, &instruction.to, &instruction.step, &instruction.condition}) {
      *dim = dim->substitute(names);
    }
    Renaming inner_names = names;
    if (instruction.opcode == Opcode::For || instruction.opcode == Opcode::LoadScalar) {
      bool loop = instruction.opcode == Opcode::For;
      std::string fresh = cat(loop ? "j" : "s", next++);
      (loop ? inner_names : names).insert_or_assign(instruction.symbol, Dim::symbol(fresh));
      instruction.symbol = fresh;
    }
    for (Block& inner : instruction.blocks) rename(inner, inner_names, next);
  }
}

}  // namespace

std::string canonical_text(const Kernel& kernel) {
  Kernel copy = kernel;
  copy.name.clear();
  for (TileValue& value : copy.values) value.name.clear();
  for (size_t i = 0; i < copy.params.size(); ++i) copy.params[i].name = cat("b", i);
  Renaming names;
  for (size_t i = 0; i < copy.symbols.size(); ++i) {
    std::string fresh = cat("n", i);
    names.insert_or_assign(copy.symbols[i].name, Dim::symbol(fresh));
    copy.symbols[i].name = fresh;
  }
  for (Param& param : copy.params) {
    rename(param.dims, names);
    rename(param.strides, names);
  }
  rename(copy.grid, names);
  int next = 0;
  rename(copy.body, names, next);
  return print(copy);
}

}  // namespace tilewright::tile
