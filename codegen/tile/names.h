// Words of the text form of tile programs, shared by printer and parser.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "codegen/tile/tile.h"

namespace tilewright::tile {

inline constexpr std::array<const char*, 8> kCombineNames = {"sum", "product", "max", "min",
                                                             "and", "or",      "xor", "custom"};
inline constexpr std::array<const char*, 5> kStoreKindNames = {"set", "add", "multiply", "min", "max"};
inline constexpr std::array<const char*, 3> kStageNames = {"registers", "direct", "packed"};

inline const char* combine_name(Combine combine) { return kCombineNames[static_cast<size_t>(combine)]; }
inline const char* store_kind_name(StoreKind kind) { return kStoreKindNames[static_cast<size_t>(kind)]; }
inline const char* stage_name(Stage stage) { return kStageNames[static_cast<size_t>(stage)]; }

// Stands for a tile axis in the index of an access: "ax0", "ax1", ...
inline std::string axis_symbol(int axis) { return "ax" + std::to_string(axis); }

// Text names, with their mark and made unique: "%b0", "%7".
struct Names {
  std::vector<std::string> params;
  std::vector<std::string> values;  // empty: defined nowhere

  explicit Names(const Kernel& kernel);
  std::string of(ValueId id) const;
  std::string of_param(int param) const;
};

// The word that starts an instruction in text: of an elementwise instruction its op's name.
std::string opcode_text(const Instruction& instruction);

}  // namespace tilewright::tile
