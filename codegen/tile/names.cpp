// Names of values, params and instructions in the text form.
#include "codegen/tile/names.h"

#include <algorithm>
#include <unordered_set>

#include "base/text.h"
#include "ir/lexer.h"

namespace tilewright::tile {

std::string opcode_text(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::Elementwise: return op_name(instruction.op);
    case Opcode::Const: return "const";
    case Opcode::Index: return "index";
    case Opcode::Load: return "load";
    case Opcode::Store: return "store";
    case Opcode::LoadScalar: return "load_scalar";
    case Opcode::Broadcast: return "broadcast";
    case Opcode::Transpose: return "transpose";
    case Opcode::Reshape: return "reshape";
    case Opcode::Reduce: return cat("reduce_", combine_name(instruction.combine));
    case Opcode::Scan: return cat("scan_", combine_name(instruction.combine));
    case Opcode::Dot: return "dot";
    case Opcode::RngBits: return "rng_bits";
    case Opcode::For: return "for";
    case Opcode::If: return "if";
    case Opcode::Yield: return "yield";
    case Opcode::Report: return "report";
  }
  return "?";
}

namespace {

bool is_number(std::string_view name) {
  return std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Names values in the order of the text: results, then the params of blocks, then what is inside.
class Namer {
 public:
  Namer(const Kernel& kernel, std::vector<std::string>& names) : kernel_(kernel), names_(names) {
    names_.resize(kernel.values.size());
  }

  std::string unique(const std::string& wanted) {
    std::string candidate = wanted;
    for (int suffix = 1; !taken_.insert(candidate).second; ++suffix) candidate = cat(wanted, ".", suffix);
    return cat("%", is_plain_name(candidate) ? candidate : quote(candidate));
  }

  void name_block(const Block& block) {
    for (const Instruction& instruction : block.body) {
      for (ValueId result : instruction.results) name_value(result);
      for (const Block& inner : instruction.blocks) {
        for (ValueId param : inner.params) name_value(param);
        name_block(inner);
      }
    }
  }

 private:
  void name_value(ValueId id) {
    if (id.index >= names_.size() || !names_[id.index].empty()) return;
    const std::string& own = kernel_.values[id.index].name;
    names_[id.index] = unique(is_number(own) ? cat(unnamed_++) : own);
  }

  const Kernel& kernel_;
  std::vector<std::string>& names_;
  std::unordered_set<std::string> taken_;
  size_t unnamed_ = 0;
};

}  // namespace

Names::Names(const Kernel& kernel) {
  Namer namer(kernel, values);
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const std::string& own = kernel.params[i].name;
    params.push_back(namer.unique(own.empty() ? cat("b", i) : own));
  }
  namer.name_block(kernel.body);
}

std::string Names::of(ValueId id) const {
  if (!id.is_valid()) return "_";
  bool known = id.index < values.size() && !values[id.index].empty();
  return known ? values[id.index] : cat("%\"undefined ", id.index, "\"");
}

std::string Names::of_param(int param) const {
  bool known = param >= 0 && param < static_cast<int>(params.size());
  return known ? params[static_cast<size_t>(param)] : cat("%\"unknown param ", param, "\"");
}

}  // namespace tilewright::tile
