// Verifier: the checks of one tile program.
#pragma once

#include <optional>
#include <set>

#include "codegen/tile/names.h"
#include "codegen/tile/tile.h"

namespace tilewright::tile {

class Verifier {
 public:
  explicit Verifier(const Kernel& kernel) : kernel_(kernel), names_(kernel) {}
  Status run();

 private:
  using TileTypes = std::optional<std::vector<TileType>>;

  void error(const std::string& message);
  void error(const Instruction& instruction, const std::string& message);

  void check_header();
  void check_type(ValueId id);
  std::string dim_fault(const Dim& dim) const;  // empty when all is well
  void check_dim(const Dim& dim, const std::string& what);
  void check_dim(const Instruction& instruction, const Dim& dim, const char* what);

  void define(const Instruction& instruction, ValueId id);
  bool check_use(const Instruction& instruction, ValueId id);
  void check_block(const Block& block, const Instruction* parent, int depth);
  void check_yield(const Instruction& yield, const Instruction& parent);
  bool check_values(const Instruction& instruction, const std::vector<ValueId>& values,
                    const std::vector<TileType>& expected, const char* what);
  void check_in_combine(const Instruction& instruction);

  void check_instruction(const Instruction& instruction, int depth);
  void check_symbol(const Instruction& instruction);
  void check_results(const Instruction& instruction, const std::vector<TileType>& expected);
  bool expect_operands(const Instruction& instruction, size_t count);
  TileTypes result_types(const Instruction& instruction);
  TileTypes elementwise_types(const Instruction& instruction);
  TileTypes source_types(const Instruction& instruction);
  TileTypes rearranged_types(const Instruction& instruction);
  TileTypes reduce_types(const Instruction& instruction);
  TileTypes scan_types(const Instruction& instruction);
  TileTypes dot_types(const Instruction& instruction);
  TileTypes rng_types(const Instruction& instruction);
  TileTypes carry_types(const Instruction& instruction);
  void check_literal(const Instruction& instruction, DType dtype);
  void check_index(const Instruction& instruction, const DimIndex& index, const std::vector<int64_t>& shape);
  bool check_access(const Instruction& instruction, const std::vector<int64_t>& shape);
  void check_store(const Instruction& instruction);
  void check_load_scalar(const Instruction& instruction);
  void check_report(const Instruction& instruction);
  bool check_axes(const Instruction& instruction, const Ints& axes, size_t rank, bool ascending);
  bool check_combine(const Instruction& instruction);

  static size_t combined_count(const Instruction& instruction);
  static bool is_custom(const Instruction& instruction);

  const Kernel& kernel_;
  Names names_;
  std::vector<std::string> errors_;
  std::set<std::string, std::less<>> scope_;  // symbols with a meaning here
  std::set<uint32_t> visible_;                // values defined before, in this block or around it
  std::set<uint32_t> ever_defined_;
};

}  // namespace tilewright::tile
