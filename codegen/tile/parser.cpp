// Reads the text form of tile programs; the grammar is in docs/tile.md.
#include <map>

#include "base/text.h"
#include "codegen/tile/names.h"
#include "codegen/tile/tile.h"
#include "ir/literal.h"
#include "ir/parser_attributes.h"
#include "ir/text_reader.h"

namespace tilewright::tile {

namespace {

constexpr int kMaxDepth = 64;  // of nested blocks

// An instruction's word, split into what it says.
struct Word {
  Opcode opcode = Opcode::Elementwise;
  Op op = Op::Add;
  Combine combine = Combine::Sum;
};

std::optional<Word> read_word(std::string_view text) {
  static const std::map<std::string_view, Opcode> plain{{"const", Opcode::Const},
                                                        {"index", Opcode::Index},
                                                        {"load", Opcode::Load},
                                                        {"store", Opcode::Store},
                                                        {"load_scalar", Opcode::LoadScalar},
                                                        {"broadcast", Opcode::Broadcast},
                                                        {"transpose", Opcode::Transpose},
                                                        {"reshape", Opcode::Reshape},
                                                        {"dot", Opcode::Dot},
                                                        {"rng_bits", Opcode::RngBits},
                                                        {"for", Opcode::For},
                                                        {"if", Opcode::If},
                                                        {"yield", Opcode::Yield},
                                                        {"report", Opcode::Report}};
  Word word;
  if (auto found = plain.find(text); found != plain.end()) {
    word.opcode = found->second;
    return word;
  }
  for (auto [prefix, opcode] : {std::pair{"reduce_", Opcode::Reduce}, std::pair{"scan_", Opcode::Scan}}) {
    if (!text.starts_with(prefix)) continue;
    for (size_t i = 0; i < kCombineNames.size(); ++i) {
      if (text.substr(std::string_view(prefix).size()) != kCombineNames[i]) continue;
      word.opcode = opcode;
      word.combine = static_cast<Combine>(i);
      return word;
    }
  }
  std::optional<Op> op = parse_op(text);
  if (!op) return std::nullopt;
  word.op = *op;
  return word;
}

class KernelParser {
 public:
  explicit KernelParser(std::string_view text) : r_(text), lexer_(r_.lexer) {}

  Result<Kernel> parse() {
    bool good = parse_kernel();
    if (good && !lexer_.at(TokenKind::End)) r_.fail_expected("the end of the text");
    if (!r_.diagnostics.empty()) return Status::invalid(to_string(r_.diagnostics));
    return std::move(kernel_);
  }

 private:
  // ---- header
  bool parse_kernel() {
    if (!r_.expect("kernel")) return false;
    if (lexer_.at(TokenKind::Symbol) && !read_name(kernel_.name)) return false;
    if (lexer_.at("[") && !r_.read_list("[", "]", [&] { return parse_symbol(); })) return false;
    if (!r_.read_list("(", ")", [&] { return parse_param(); })) return false;
    if (r_.take("grid") && !r_.read_dims(kernel_.grid, "(", ')')) return false;
    kernel_.reports = r_.take("reports");
    return parse_body(kernel_.body, 0);
  }

  bool parse_symbol() {
    Symbol symbol;
    if (!r_.read_word(symbol.name, "the name of a symbol")) return false;
    if (r_.take("in")) {
      if (!r_.read_integer(symbol.min) || !r_.expect("..")) return false;
      if (lexer_.at(TokenKind::Number) && !r_.read_integer(symbol.max)) return false;
    }
    if (r_.take("hint")) {
      int64_t hint = 0;
      if (!r_.read_integer(hint)) return false;
      symbol.hint = hint;
    }
    kernel_.symbols.push_back(std::move(symbol));
    return true;
  }

  bool parse_param() {
    Param param;
    size_t place = lexer_.token().offset;
    if (!lexer_.at(TokenKind::Value)) return r_.fail_expected("a param (`%name`)");
    if (!read_name(param.name) || !r_.expect(":")) return false;
    if (r_.take("out")) param.mode = AccessMode::Write;
    if (r_.take("inout")) param.mode = AccessMode::ReadWrite;
    TensorType type;
    if (!r_.read_type(type)) return false;
    param.dtype = type.dtype;
    param.dims = std::move(type.shape);
    if (r_.take("strides") && !r_.read_dims(param.strides, "(", ')')) return false;
    if (!params_.emplace(param.name, static_cast<int>(kernel_.params.size())).second) {
      return r_.fail(place, cat("param %", param.name, " is declared twice"));
    }
    kernel_.params.push_back(std::move(param));
    return true;
  }

  // ---- names
  bool read_name(std::string& name) {
    std::optional<std::string> text = token_name(lexer_.token());
    if (!text) return r_.fail(lexer_.token().offset, "name has a bad escape");
    name = std::move(*text);
    lexer_.advance();
    return true;
  }

  bool define(const std::string& name, size_t place, ValueId& id) {
    id = ValueId{static_cast<uint32_t>(kernel_.values.size())};
    bool numbered = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    kernel_.values.push_back(TileValue{{}, numbered ? std::string() : name});
    if (values_.emplace(name, id).second) return true;
    return r_.fail(place, cat("value %", name, " is defined twice"));
  }

  bool read_definition(ValueId& id) {
    if (!lexer_.at(TokenKind::Value)) return r_.fail_expected("a new value (`%name`)");
    size_t place = lexer_.token().offset;
    std::string name;
    return read_name(name) && define(name, place, id);
  }

  bool read_value(ValueId& id) {
    if (!lexer_.at(TokenKind::Value)) return r_.fail_expected("a value (`%name`)");
    size_t place = lexer_.token().offset;
    std::string name;
    if (!read_name(name)) return false;
    auto found = values_.find(name);
    if (found == values_.end()) return r_.fail(place, cat("value %", name, " is not defined before"));
    id = found->second;
    return true;
  }

  bool read_values(std::vector<ValueId>& ids) {
    if (!lexer_.at(TokenKind::Value)) return true;
    do {
      ids.emplace_back();
      if (!read_value(ids.back())) return false;
    } while (r_.take(","));
    return true;
  }

  // ---- blocks
  bool parse_body(Block& block, int depth) {
    if (depth > kMaxDepth) return r_.fail(lexer_.token().offset, "blocks are nested too deeply");
    if (!r_.expect("{")) return false;
    while (!r_.take("}")) {
      if (lexer_.at(TokenKind::End)) return r_.fail_expected("`}`");
      Instruction instruction;
      if (!parse_instruction(instruction, depth)) return false;
      block.body.push_back(std::move(instruction));
    }
    return true;
  }

  bool parse_instruction(Instruction& instruction, int depth) {
    std::vector<std::pair<std::string, size_t>> results;
    if (lexer_.at(TokenKind::Value)) {
      do {
        if (!lexer_.at(TokenKind::Value)) return r_.fail_expected("a result (`%name`)");
        results.emplace_back("", lexer_.token().offset);
        if (!read_name(results.back().first)) return false;
      } while (r_.take(","));
      if (!r_.expect("=")) return false;
    }
    size_t place = lexer_.token().offset;
    std::string text;
    if (!r_.read_word(text, "an instruction")) return false;
    if (results.empty() && r_.take("=")) {
      instruction.symbol = text;  // s0 = load_scalar ..
      place = lexer_.token().offset;
      if (!r_.read_word(text, "load_scalar")) return false;
      if (text != "load_scalar") return r_.fail(place, cat("found `", text, "`, expected load_scalar"));
    }
    std::optional<Word> word = read_word(text);
    if (!word) return r_.fail(place, cat("no instruction or op is called `", text, "`"));
    instruction.opcode = word->opcode;
    instruction.op = word->op;
    instruction.combine = word->combine;
    // Numbered by their place in the text: results before the params of blocks.
    std::vector<ValueId> ids;
    for (const auto& [name, offset] : results) {
      ids.push_back(ValueId{static_cast<uint32_t>(kernel_.values.size())});
      bool numbered = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
      kernel_.values.push_back(TileValue{{}, numbered ? std::string() : name});
    }
    instruction.results = ids;
    if (!parse_details(instruction, depth)) return false;
    if (!read_result_types(instruction)) return false;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (!values_.emplace(results[i].first, ids[i]).second) {
        return r_.fail(results[i].second, cat("value %", results[i].first, " is defined twice"));
      }
    }
    return true;
  }

  // ": f32 tile[8], ..", or for loops and branches the types of what they carry.
  bool read_result_types(Instruction& instruction) {
    if (instruction.opcode == Opcode::For || instruction.opcode == Opcode::If) {
      if (instruction.results.size() != instruction.operands.size() && !instruction.results.empty()) {
        return r_.fail_expected(cat(instruction.operands.size(), " results"));
      }
      for (size_t i = 0; i < instruction.results.size(); ++i) {
        kernel_.values[instruction.results[i].index].type = kernel_.type(instruction.operands[i]);
      }
      return true;
    }
    for (size_t i = 0; i < instruction.results.size(); ++i) {
      if (!r_.expect(i == 0 ? ":" : ",")) return false;
      TileType& type = kernel_.values[instruction.results[i].index].type;
      if (!read_tile_type(type)) return false;
    }
    if (instruction.results.size() == 1 && has_literal_ && !finish_literal(instruction)) return false;
    return true;
  }

  bool read_tile_type(TileType& type) {
    if (!r_.read_dtype(type.dtype) || !r_.expect("tile")) return false;
    return r_.read_list("[", "]", [&] {
      type.shape.push_back(0);
      return r_.read_integer(type.shape.back());
    });
  }

  // ---- literals: read when the dtype is known
  bool read_literal() {
    literal_place_ = lexer_.token().offset;
    literal_text_ = std::string(lexer_.token().text);
    bool word = lexer_.at(TokenKind::Word) || lexer_.at(TokenKind::Number) || lexer_.at(TokenKind::Hex);
    if (!word && !lexer_.at("-")) return r_.fail_expected("a literal");
    bool sign = lexer_.at("-");
    lexer_.advance();
    if (sign) {
      literal_text_ += std::string(lexer_.token().text);
      lexer_.advance();
    }
    has_literal_ = true;
    return true;
  }

  bool finish_literal(Instruction& instruction) {
    has_literal_ = false;
    Result<Scalar> scalar = parse_scalar(literal_text_, kernel_.type(instruction.results[0]).dtype);
    if (!scalar.is_ok()) return r_.fail(literal_place_, scalar.status().message());
    instruction.literal = Literal{scalar->f, scalar->i};
    return true;
  }

  // ---- accesses
  bool read_access(Access& access) {
    if (!lexer_.at(TokenKind::Value)) return r_.fail_expected("a param (`%name[..]`)");
    size_t place = lexer_.token().offset;
    std::string name;
    if (!read_name(name)) return false;
    auto found = params_.find(name);
    if (found == params_.end()) return r_.fail(place, cat("no param is called %", name));
    access.param = found->second;
    if (!lexer_.at("[")) return r_.fail_expected("`[`");
    size_t close = 0;
    if (!find_close(lexer_.token().end, ']', close)) return false;
    std::vector<std::pair<size_t, size_t>> parts = split(lexer_.token().end, close);
    for (auto [from, to] : parts) {
      access.index.emplace_back();
      if (!read_index(from, to, access.index.back())) return false;
    }
    lexer_.move_to(close + 1);
    return true;
  }

  // The bracket that closes a list that starts at `from`.
  bool find_close(size_t from, char close, size_t& at) {
    std::string_view text = lexer_.text();
    int depth = 0;
    for (at = from; at < text.size() && text[at] != '\n' && text[at] != '#'; ++at) {
      if (depth == 0 && text[at] == close) return true;
      depth += text[at] == '(';
      depth -= text[at] == ')';
    }
    return r_.fail(from, cat("list has no end, expected `", close, "`"));
  }

  std::vector<std::pair<size_t, size_t>> split(size_t from, size_t to) const {
    std::string_view text = lexer_.text();
    std::vector<std::pair<size_t, size_t>> parts;
    if (text.substr(from, to - from).find_first_not_of(" \t") == std::string_view::npos) return parts;
    int depth = 0;
    size_t start = from;
    for (size_t at = from; at < to; ++at) {
      depth += text[at] == '(';
      depth -= text[at] == ')';
      if (depth != 0 || text[at] != ',') continue;
      parts.emplace_back(start, at);
      start = at + 1;
    }
    parts.emplace_back(start, to);
    return parts;
  }

  // "p0 + 2*ax1 + %3": a dim expression in which axes are symbols, then an index tile.
  bool read_index(size_t from, size_t to, DimIndex& index) {
    std::string_view text = lexer_.text().substr(from, to - from);
    size_t mark = text.find('%');
    if (mark != std::string_view::npos) {
      lexer_.move_to(from + mark);
      if (!read_value(index.tile)) return false;
      if (lexer_.token().offset < to) return r_.fail_expected("`,` or `]`");
      text = text.substr(0, mark);
      size_t end = text.find_last_not_of(" \t");
      if (end == std::string_view::npos) return true;
      if (text[end] != '+') return r_.fail(from + end, "expected `+` before an index tile");
      text = text.substr(0, end);
    }
    Result<Dim> dim = parse_dim(text);
    if (!dim.is_ok()) return r_.fail(from, dim.status().message());
    split_axes(*dim, index);
    return true;
  }

  static void split_axes(const Dim& dim, DimIndex& index) {
    index.base = dim;
    for (const Dim::Term& term : dim.terms()) {
      if (term.atoms.size() != 1 || term.atoms[0]->kind != Dim::AtomKind::Symbol) continue;
      const std::string& name = term.atoms[0]->name;
      if (name.size() < 3 || name.size() > 6 || !name.starts_with("ax")) continue;
      if (name.find_first_not_of("0123456789", 2) != std::string::npos) continue;
      index.terms.push_back({std::stoi(name.substr(2)), term.coefficient});
      index.base = index.base - Dim::symbol(name) * Dim(term.coefficient);
    }
  }

  // A dim expression up to one of the words or `{`.
  bool read_dim_until(Dim& dim, std::initializer_list<std::string_view> words) {
    size_t from = lexer_.token().offset, to = from;
    auto at_end = [&] {
      if (lexer_.at(TokenKind::End) || lexer_.at("{")) return true;
      for (std::string_view word : words) {
        if (lexer_.at(word)) return true;
      }
      return false;
    };
    while (!at_end()) {
      to = lexer_.token().end;
      lexer_.advance();
    }
    Result<Dim> parsed = parse_dim(lexer_.text().substr(from, to - from));
    if (!parsed.is_ok()) return r_.fail(from, parsed.status().message());
    dim = std::move(*parsed);
    return true;
  }

  // ---- what follows the word
  bool parse_details(Instruction& instruction, int depth) {
    switch (instruction.opcode) {
      case Opcode::Elementwise: return read_values(instruction.operands) && parse_attributes(instruction);
      case Opcode::Const: return read_literal();
      case Opcode::Index: return parse_index(instruction);
      case Opcode::Load:
        if (!read_access(instruction.access)) return false;
        if (r_.take("else") && !read_literal()) return false;
        return parse_marks(instruction);
      case Opcode::Store:
        instruction.operands.emplace_back();
        return read_value(instruction.operands[0]) && r_.expect(",") && read_access(instruction.access) &&
               parse_marks(instruction);
      case Opcode::LoadScalar: return read_access(instruction.access) && parse_marks(instruction);
      case Opcode::Broadcast:
      case Opcode::Transpose:
      case Opcode::Reshape:
      case Opcode::Dot:
      case Opcode::RngBits:
      case Opcode::Report: return read_values(instruction.operands) && parse_marks(instruction);
      case Opcode::Reduce:
      case Opcode::Scan:
        return read_values(instruction.operands) && parse_marks(instruction) &&
               parse_combine(instruction, depth);
      case Opcode::For: return parse_for(instruction, depth);
      case Opcode::If:
        return read_dim_until(instruction.condition, {"carry"}) && parse_carried(instruction, depth);
      case Opcode::Yield: return read_values(instruction.operands);
    }
    return false;
  }

  bool parse_index(Instruction& instruction) {
    size_t from = lexer_.token().offset, to = from;
    while (!lexer_.at(":") && !lexer_.at(TokenKind::End)) {
      to = lexer_.token().end;
      lexer_.advance();
    }
    size_t after = lexer_.token().offset;
    instruction.access.index.emplace_back();
    if (!read_index(from, to, instruction.access.index[0])) return false;
    lexer_.move_to(after);
    return true;
  }

  bool parse_attributes(Instruction& instruction) {
    if (!lexer_.at("{")) return true;
    ParsedAttributes parsed;
    if (!read_attributes(r_, op_info(instruction.op), parsed)) return false;
    if (!parsed.constants.empty())
      return r_.fail(parsed.constants[0].offset, "constants are not allowed here");
    instruction.attributes = std::move(parsed.values);
    return true;
  }

  bool parse_for(Instruction& instruction, int depth) {
    if (!r_.read_word(instruction.symbol, "the name of the loop variable") || !r_.expect("=")) return false;
    if (!read_dim_until(instruction.from, {"to"}) || !r_.expect("to")) return false;
    if (!read_dim_until(instruction.to, {"step"}) || !r_.expect("step")) return false;
    return read_dim_until(instruction.step, {"carry"}) && parse_carried(instruction, depth);
  }

  // carry (%3 = %1, ..) { .. }
  bool parse_carried(Instruction& instruction, int depth) {
    instruction.blocks.emplace_back();
    Block& block = instruction.blocks[0];
    if (r_.take("carry")) {
      bool good = r_.read_list("(", ")", [&] {
        block.params.emplace_back();
        instruction.operands.emplace_back();
        if (!read_definition(block.params.back()) || !r_.expect("=")) return false;
        if (!read_value(instruction.operands.back())) return false;
        kernel_.values[block.params.back().index].type = kernel_.type(instruction.operands.back());
        return true;
      });
      if (!good) return false;
    }
    return parse_body(block, depth + 1);
  }

  bool parse_combine(Instruction& instruction, int depth) {
    if (instruction.combine != Combine::Custom) return true;
    instruction.blocks.emplace_back();
    Block& block = instruction.blocks[0];
    size_t count = instruction.operands.size();
    if (instruction.opcode == Opcode::Scan) count /= 2;
    bool good = r_.read_list("(", ")", [&] {
      block.params.emplace_back();
      if (!read_definition(block.params.back())) return false;
      DType dtype = count == 0 ? DType::F32
                               : kernel_.type(instruction.operands[(block.params.size() - 1) % count]).dtype;
      kernel_.values[block.params.back().index].type = TileType{dtype, {}};
      return true;
    });
    return good && parse_body(block, depth + 1);
  }

  // ---- marks: {in_bounds, dims=[1]}
  bool parse_marks(Instruction& instruction) {
    if (!lexer_.at("{")) return true;
    return r_.read_list("{", "}", [&] {
      size_t place = lexer_.token().offset;
      std::string name;
      if (!r_.read_word(name, "a mark")) return false;
      if (r_.take("=")) return parse_setting(instruction, name, place);
      bool* flag = find_flag(instruction, name);
      if (flag == nullptr) return r_.fail(place, cat("no mark `", name, "` at ", opcode_text(instruction)));
      *flag = true;
      return true;
    });
  }

  static bool* find_flag(Instruction& instruction, std::string_view name) {
    Opcode opcode = instruction.opcode;
    bool access = opcode == Opcode::Load || opcode == Opcode::Store || opcode == Opcode::LoadScalar;
    if (name == "in_bounds" && access) return &instruction.access.in_bounds;
    if (name == "streaming" && opcode == Opcode::Store) return &instruction.streaming;
    if (name == "reverse" && opcode == Opcode::Scan) return &instruction.reverse;
    if (name == "exclusive" && opcode == Opcode::Scan) return &instruction.exclusive;
    return nullptr;
  }

  bool parse_setting(Instruction& instruction, const std::string& name, size_t place) {
    Opcode opcode = instruction.opcode;
    bool axes = opcode == Opcode::Transpose
                    ? name == "perm"
                    : name == "dims" &&
                          (opcode == Opcode::Broadcast || opcode == Opcode::Reduce || opcode == Opcode::Scan);
    if (axes) return read_ints(instruction.axes);
    if (name == "limit" && (opcode == Opcode::Reduce || opcode == Opcode::Scan)) {
      return r_.read_dims(instruction.limits, "[", ']');
    }
    if (opcode == Opcode::Dot) {
      if (name == "lhs_contract") return read_ints(instruction.dot.lhs_contract);
      if (name == "rhs_contract") return read_ints(instruction.dot.rhs_contract);
      if (name == "lhs_batch") return read_ints(instruction.dot.lhs_batch);
      if (name == "rhs_batch") return read_ints(instruction.dot.rhs_batch);
      if (name == "micro") return read_ints(instruction.micro);
      if (name == "epilogue") {
        instruction.epilogue_micro = true;
        return r_.expect("micro");
      }
    }
    if (opcode == Opcode::Load && name == "stage") return read_choice(kStageNames, instruction.stage);
    if (opcode == Opcode::Store && name == "kind") return read_choice(kStoreKindNames, instruction.store);
    int64_t number = 0;
    if (opcode == Opcode::Load && name == "depth") {
      if (!r_.read_integer(number)) return false;
      instruction.depth = static_cast<int>(number);
      return true;
    }
    if (opcode == Opcode::Report && name == "site") {
      if (!r_.read_integer(number)) return false;
      instruction.site = static_cast<int>(number);
      return true;
    }
    return r_.fail(place, cat("no mark `", name, "=` at ", opcode_text(instruction)));
  }

  bool read_ints(Ints& values) {
    return r_.read_list("[", "]", [&] {
      values.push_back(0);
      return r_.read_integer(values.back());
    });
  }

  template <class Choices, class Enum>
  bool read_choice(const Choices& choices, Enum& value) {
    size_t place = lexer_.token().offset;
    std::string word;
    if (!r_.read_word(word, "a word")) return false;
    for (size_t i = 0; i < choices.size(); ++i) {
      if (word != choices[i]) continue;
      value = static_cast<Enum>(i);
      return true;
    }
    return r_.fail(place, cat("found `", word, "`, expected one of ", join(choices, ", ")));
  }

  TextReader r_;
  Lexer& lexer_;
  Kernel kernel_;
  std::map<std::string, int, std::less<>> params_;
  std::map<std::string, ValueId, std::less<>> values_;
  bool has_literal_ = false;
  size_t literal_place_ = 0;
  std::string literal_text_;
};

}  // namespace

Result<Kernel> parse_kernel(std::string_view text) {
  TW_ASSIGN_OR_RETURN(Kernel kernel, KernelParser(text).parse());
  TW_RETURN_IF_ERROR(verify(kernel));
  return kernel;
}

}  // namespace tilewright::tile
