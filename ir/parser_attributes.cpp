// Attribute values, one reader a kind.
#include "ir/parser_attributes.h"

#include <algorithm>

#include "base/text.h"

namespace tilewright {

namespace {

class AttributeParser {
 public:
  AttributeParser(TextReader& reader, const OpInfo& info, ParsedAttributes& attributes)
      : r_(reader), info_(info), attributes_(attributes) {}

  bool parse() {
    if (!r_.expect("{")) return false;
    if (r_.take("}")) return true;
    bool good = true;
    do {
      if (!entry()) {
        good = false;
        skip_value();
      }
    } while (r_.take(","));
    if (!good && !r_.lexer.at("}")) return false;
    return r_.expect("}") && good;
  }

 private:
  bool entry() {
    size_t offset = r_.lexer.token().offset;
    std::string name;
    if (!r_.read_word(name, "the name of an attribute")) return false;
    const AttributeInfo* schema = info_.attribute(name);
    if (!schema) return r_.fail(offset, unknown(name));
    if (attributes_.values.count(name) != 0)
      return r_.fail(offset, cat("attribute `", name, "` is given twice"));
    return r_.expect("=") && value(*schema);
  }

  std::string unknown(const std::string& name) const {
    std::vector<std::string_view> names;
    for (const AttributeInfo& info : info_.attributes) names.push_back(info.name);
    std::string near = nearest(name, names);
    std::string text = cat(info_.name, " has no attribute `", name, "`");
    if (!near.empty()) return cat(text, ", did you mean `", near, "`?");
    return cat(text, names.empty() ? ", expected none" : cat(", expected one of: ", join(names, ", ")));
  }

  bool value(const AttributeInfo& schema) {
    switch (schema.kind) {
      case AttributeKind::Bool: return bool_value(schema);
      case AttributeKind::Int: return read<int64_t>(schema, [&](int64_t& v) { return r_.read_integer(v); });
      case AttributeKind::Float: return read<double>(schema, [&](double& v) { return r_.read_float(v); });
      case AttributeKind::String:
        return read<std::string>(schema, [&](std::string& v) { return r_.read_string(v); });
      case AttributeKind::Enum: return enum_value(schema);
      case AttributeKind::DType: return read<DType>(schema, [&](DType& v) { return r_.read_dtype(v); });
      case AttributeKind::Ints: return list<int64_t>(schema, [&](int64_t& v) { return r_.read_integer(v); });
      case AttributeKind::Floats: return list<double>(schema, [&](double& v) { return r_.read_float(v); });
      case AttributeKind::Dims:
        return read<Shape>(schema, [&](Shape& v) { return r_.read_dims(v, "[", ']'); });
      case AttributeKind::Types:
        return list<TensorType>(schema, [&](TensorType& v) { return r_.read_type(v); });
      case AttributeKind::Constant: return constant_value(schema);
    }
    return false;
  }

  template <class T, class Read>
  bool read(const AttributeInfo& schema, Read read_value) {
    T value{};
    if (!read_value(value)) return false;
    attributes_.values.emplace(schema.name, std::move(value));
    return true;
  }

  template <class T, class Read>
  bool list(const AttributeInfo& schema, Read read_value) {
    std::vector<T> values;
    bool good = r_.read_list("[", "]", [&] {
      values.emplace_back();
      return read_value(values.back());
    });
    if (good) attributes_.values.emplace(schema.name, std::move(values));
    return good;
  }

  bool bool_value(const AttributeInfo& schema) {
    if (!r_.lexer.at("true") && !r_.lexer.at("false")) return r_.fail_expected("true or false");
    attributes_.values.emplace(schema.name, r_.lexer.at("true"));
    r_.lexer.advance();
    return true;
  }

  bool enum_value(const AttributeInfo& schema) {
    std::string_view word = r_.lexer.token().text;
    if (std::find(schema.choices.begin(), schema.choices.end(), word) == schema.choices.end()) {
      return r_.fail_expected(cat("one of: ", join(schema.choices, ", ")));
    }
    attributes_.values.emplace(schema.name, std::string(word));
    r_.lexer.advance();
    return true;
  }

  // Keeps the literal's text: a scalar, `splat 0x..`, `0x..` or a bracketed list.
  bool constant_value(const AttributeInfo& schema) {
    Lexer& lexer = r_.lexer;
    size_t start = lexer.token().offset, end = start;
    if (lexer.at("[")) {
      int depth = 0;
      do {
        if (lexer.at(TokenKind::End) || lexer.at("}"))
          return r_.fail(start, "list constant has no end, expected `]`");
        depth += lexer.at("[");
        depth -= lexer.at("]");
        end = lexer.token().end;
        lexer.advance();
      } while (depth > 0);
    } else {
      if (lexer.at("splat")) lexer.advance();
      if (!lexer.at(TokenKind::Number) && !lexer.at(TokenKind::Hex) && !lexer.at(TokenKind::Word)) {
        return r_.fail_expected("a constant");
      }
      end = lexer.token().end;
      lexer.advance();
    }
    attributes_.constants.push_back({schema.name, start, lexer.text().substr(start, end - start)});
    return true;
  }

  // To the next comma or closing brace of this list.
  void skip_value() {
    int depth = 0;
    for (Lexer& lexer = r_.lexer; !lexer.at(TokenKind::End); lexer.advance()) {
      if (depth == 0 && (lexer.at(",") || lexer.at("}") || lexer.starts_line())) return;
      depth += lexer.at("[") || lexer.at("(") || lexer.at("{");
      if (lexer.at("]") || lexer.at(")") || lexer.at("}")) depth = std::max(depth - 1, 0);
    }
  }

  TextReader& r_;
  const OpInfo& info_;
  ParsedAttributes& attributes_;
};

}  // namespace

bool read_attributes(TextReader& reader, const OpInfo& info, ParsedAttributes& attributes) {
  return AttributeParser(reader, info, attributes).parse();
}

}  // namespace tilewright
