// Prints tile programs; the parser reads the result back to the same text.
#include <cmath>
#include <map>

#include "base/text.h"
#include "codegen/tile/names.h"
#include "codegen/tile/tile.h"
#include "ir/lexer.h"
#include "ir/literal.h"
#include "ir/text.h"

namespace tilewright::tile {

namespace {

std::string dim_text(const Dim& dim) { return dim.to_string(); }

// `{a=1, b}` or nothing.
class Marks {
 public:
  void add(std::string text) { marks_.push_back(std::move(text)); }
  void add_ints(const char* name, const Ints& values) { add(cat(name, "=[", join(values, ","), "]")); }
  void add_dims(const char* name, const std::vector<Dim>& dims) {
    add(cat(name, "=[", join(dims, ", ", dim_text), "]"));
  }
  std::string text() const { return marks_.empty() ? "" : cat(" {", join(marks_, ", "), "}"); }

 private:
  std::vector<std::string> marks_;
};

class KernelPrinter {
 public:
  explicit KernelPrinter(const Kernel& kernel) : kernel_(kernel), names_(kernel) {}

  std::string print() {
    print_header();
    out_ += " {\n";
    print_body(kernel_.body, 1);
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  std::string name(ValueId id) const { return names_.of(id); }
  template <class Ids>
  std::string name_list(const Ids& ids) const {
    return join(ids, ", ", [&](ValueId id) { return name(id); });
  }

  // ---- header
  void print_header() {
    out_ += "kernel";
    if (!kernel_.name.empty())
      out_ += cat(" @", is_plain_name(kernel_.name) ? kernel_.name : quote(kernel_.name));
    if (!kernel_.symbols.empty()) out_ += cat("[", join(kernel_.symbols, ", ", symbol_text), "]");
    size_t index = 0;
    out_ += cat(
        "(", join(kernel_.params, ", ", [&](const Param& param) { return param_text(param, index++); }), ")");
    if (!kernel_.grid.empty()) out_ += cat(" grid (", join(kernel_.grid, ", ", dim_text), ")");
    if (kernel_.reports) out_ += " reports";
  }

  static std::string symbol_text(const Symbol& symbol) {
    std::string text = symbol.name;
    Symbol plain;
    if (symbol.min != plain.min || symbol.max != plain.max) {
      text += cat(" in ", symbol.min, "..");
      if (symbol.max != plain.max) text += cat(symbol.max);
    }
    if (symbol.hint) text += cat(" hint ", *symbol.hint);
    return text;
  }

  std::string param_text(const Param& param, size_t index) const {
    std::string text = cat(names_.params[index], ": ");
    if (param.mode == AccessMode::Write) text += "out ";
    if (param.mode == AccessMode::ReadWrite) text += "inout ";
    text += cat(dtype_name(param.dtype), shape_to_string(param.dims));
    if (!param.strides.empty()) text += cat(" strides(", join(param.strides, ", ", dim_text), ")");
    return text;
  }

  // ---- instructions
  void start_line(int level) { out_.append(2 * static_cast<size_t>(level), ' '); }

  void print_body(const Block& block, int level) {
    for (const Instruction& instruction : block.body) print_instruction(instruction, level);
  }

  void print_block(const Block& block, int level) {
    out_ += " {\n";
    print_body(block, level + 1);
    start_line(level);
    out_ += "}";
  }

  void print_instruction(const Instruction& instruction, int level) {
    start_line(level);
    if (instruction.opcode == Opcode::LoadScalar) {
      out_ += instruction.symbol + " = ";
    } else if (!instruction.results.empty()) {
      out_ += name_list(instruction.results) + " = ";
    }
    bool custom = instruction.combine == Combine::Custom &&
                  (instruction.opcode == Opcode::Reduce || instruction.opcode == Opcode::Scan);
    out_ += opcode_text(instruction) + details(instruction);
    if (custom && !instruction.blocks.empty()) {
      out_ += cat(" (", name_list(instruction.blocks[0].params), ")");
    }
    bool carries = instruction.opcode == Opcode::For || instruction.opcode == Opcode::If;
    for (const Block& block : instruction.blocks) print_block(block, level);
    if (!carries && !instruction.results.empty()) {
      out_ += cat(" : ", join(instruction.results, ", ", [&](ValueId id) { return type_text(id); }));
    }
    out_ += "\n";
  }

  std::string type_text(ValueId id) const {
    return id.index < kernel_.values.size() ? kernel_.type(id).to_string() : "f32 tile[]";
  }

  // What follows the word of the instruction.
  std::string details(const Instruction& instruction) const {
    Marks marks;
    std::string operands = instruction.operands.empty() ? "" : " " + name_list(instruction.operands);
    switch (instruction.opcode) {
      case Opcode::Elementwise: return operands + attribute_text(instruction);
      case Opcode::Const: return " " + literal_text(instruction.literal, dtype_of(instruction));
      case Opcode::Index:
        return " " +
               join(instruction.access.index, ", ", [&](const DimIndex& index) { return index_text(index); });
      case Opcode::Load: return load_text(instruction);
      case Opcode::Store: {
        if (instruction.store != StoreKind::Set) marks.add(cat("kind=", store_kind_name(instruction.store)));
        if (instruction.streaming) marks.add("streaming");
        if (instruction.access.in_bounds) marks.add("in_bounds");
        return cat(operands, ", ", access_text(instruction.access), marks.text());
      }
      case Opcode::LoadScalar:
        if (instruction.access.in_bounds) marks.add("in_bounds");
        return cat(" ", access_text(instruction.access), marks.text());
      case Opcode::Broadcast: marks.add_ints("dims", instruction.axes); break;
      case Opcode::Transpose: marks.add_ints("perm", instruction.axes); break;
      case Opcode::Reduce:
        marks.add_ints("dims", instruction.axes);
        if (!instruction.limits.empty()) marks.add_dims("limit", instruction.limits);
        break;
      case Opcode::Scan:
        marks.add_ints("dims", instruction.axes);
        if (instruction.reverse) marks.add("reverse");
        if (instruction.exclusive) marks.add("exclusive");
        if (!instruction.limits.empty()) marks.add_dims("limit", instruction.limits);
        break;
      case Opcode::Dot: {
        const DotDims& dot = instruction.dot;
        marks.add_ints("lhs_contract", dot.lhs_contract);
        marks.add_ints("rhs_contract", dot.rhs_contract);
        if (!dot.lhs_batch.empty()) marks.add_ints("lhs_batch", dot.lhs_batch);
        if (!dot.rhs_batch.empty()) marks.add_ints("rhs_batch", dot.rhs_batch);
        if (!instruction.micro.empty()) marks.add_ints("micro", instruction.micro);
        if (instruction.epilogue_micro) marks.add("epilogue=micro");
        break;
      }
      case Opcode::For:
        return cat(" ", instruction.symbol, " = ", instruction.from.to_string(), " to ",
                   instruction.to.to_string(), " step ", instruction.step.to_string(),
                   carry_text(instruction));
      case Opcode::If: return cat(" ", instruction.condition.to_string(), carry_text(instruction));
      case Opcode::Report: marks.add(cat("site=", instruction.site)); break;
      case Opcode::Reshape:
      case Opcode::RngBits:
      case Opcode::Yield: break;
    }
    return operands + marks.text();
  }

  DType dtype_of(const Instruction& instruction) const {
    bool known = !instruction.results.empty() && instruction.results[0].index < kernel_.values.size();
    return known ? kernel_.type(instruction.results[0]).dtype : DType::F32;
  }

  static std::string literal_text(const Literal& literal, DType dtype) {
    Scalar scalar;
    scalar.dtype = dtype;
    scalar.f = literal.f;
    scalar.i = literal.i;
    return print_scalar(scalar);
  }

  static bool is_zero(const Literal& literal) {
    return literal.i == 0 && literal.f == 0 && !std::signbit(literal.f);
  }

  std::string load_text(const Instruction& instruction) const {
    Marks marks;
    if (instruction.access.in_bounds) marks.add("in_bounds");
    if (instruction.stage != Stage::Registers) marks.add(cat("stage=", stage_name(instruction.stage)));
    if (instruction.depth != 1) marks.add(cat("depth=", instruction.depth));
    std::string outside = is_zero(instruction.literal)
                              ? ""
                              : " else " + literal_text(instruction.literal, dtype_of(instruction));
    return cat(" ", access_text(instruction.access), outside, marks.text());
  }

  std::string access_text(const Access& access) const {
    return cat(names_.of_param(access.param), "[",
               join(access.index, ", ", [&](const DimIndex& index) { return index_text(index); }), "]");
  }

  // "p0 + 2*ax1 + %3"
  std::string index_text(const DimIndex& index) const {
    std::map<int, int64_t> coefficients;
    for (const AxisTerm& term : index.terms) coefficients[term.axis] += term.coefficient;
    std::string text = index.base.is_constant(0) ? "" : index.base.to_string();
    for (const auto& [axis, coefficient] : coefficients) {
      if (coefficient == 0) continue;
      bool negative = coefficient < 0;
      if (text.empty()) {
        text += negative ? "-" : "";
      } else {
        text += negative ? " - " : " + ";
      }
      std::string amount = cat(coefficient);
      if (negative) amount.erase(0, 1);
      if (amount != "1") text += amount + "*";
      text += axis_symbol(axis);
    }
    if (index.tile.is_valid()) text += cat(text.empty() ? "" : " + ", name(index.tile));
    return text.empty() ? "0" : text;
  }

  std::string carry_text(const Instruction& instruction) const {
    if (instruction.operands.empty() || instruction.blocks.empty()) return "";
    size_t at = 0;
    const std::vector<ValueId>& params = instruction.blocks[0].params;
    return cat(" carry (",
               join(instruction.operands, ", ",
                    [&](ValueId operand) {
                      ValueId param = at < params.size() ? params[at] : ValueId{};
                      ++at;
                      return cat(name(param), " = ", name(operand));
                    }),
               ")");
  }

  // As in graphs: in the order of the table, without defaults.
  static std::string attribute_text(const Instruction& instruction) {
    Marks marks;
    const OpInfo& info = op_info(instruction.op);
    auto add = [&](const std::string& name, const Attribute& value, bool word) {
      const auto* text = std::get_if<std::string>(&value);
      marks.add(cat(name, "=", text && word ? *text : tilewright::print(value)));
    };
    for (const AttributeInfo& schema : info.attributes) {
      auto found = instruction.attributes.find(schema.name);
      if (found == instruction.attributes.end()) continue;
      if (schema.default_value && equal(*schema.default_value, found->second)) continue;
      add(schema.name, found->second, schema.kind == AttributeKind::Enum);
    }
    for (const auto& [name, value] : instruction.attributes) {
      if (!info.attribute(name)) add(name, value, false);
    }
    return marks.text();
  }

  const Kernel& kernel_;
  Names names_;
  std::string out_;
};

}  // namespace

std::string print(const Kernel& kernel) { return KernelPrinter(kernel).print(); }

}  // namespace tilewright::tile
