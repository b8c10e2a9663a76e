// Reads the lines of a case file: an op with operands, attributes and an expectation.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/composites/case_file.h"

namespace tilewright::composites_test {
namespace {

std::string trimmed(const std::string& text) {
  size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  std::string part;
  while (std::getline(stream, part, separator)) parts.push_back(trimmed(part));
  return parts;
}

// "a,b" of "[a,b]".
std::vector<std::string> entries(const std::string& list) {
  return split(list.substr(1, list.size() - 2), ',');
}

OperandSpec read_operand(const std::string& text) {
  OperandSpec spec;
  if (text == "-") {
    spec.absent = true;
    return spec;
  }
  size_t open = text.find('['), close = text.find(']');
  spec.dtype = text.substr(0, open);
  for (const std::string& dim : entries(text.substr(open, close - open + 1))) {
    auto parsed = parse_dim(dim);
    EXPECT_TRUE(parsed.is_ok()) << text;
    if (parsed.is_ok()) spec.shape.push_back(*parsed);
  }
  spec.fill = close + 1 < text.size() ? text.substr(close + 2) : "normal";
  return spec;
}

double number(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

Attribute read_attribute(const AttributeInfo& info, const std::string& text) {
  switch (info.kind) {
    case AttributeKind::Bool: return text == "true";
    case AttributeKind::Int: return static_cast<int64_t>(number(text));
    case AttributeKind::Float: return number(text);
    case AttributeKind::DType: return *parse_dtype(text);
    case AttributeKind::Ints: {
      Ints values;
      for (const std::string& entry : entries(text)) values.push_back(static_cast<int64_t>(number(entry)));
      return values;
    }
    case AttributeKind::Dims: {
      Shape values;
      for (const std::string& entry : entries(text)) values.push_back(*parse_dim(entry));
      return values;
    }
    default: return text;
  }
}

// Attributes are separated by spaces: "dim=1 safe=true".
void read_attributes(const std::string& text, Case& c) {
  std::stringstream stream(text);
  std::string item;
  while (stream >> item) {
    size_t equals = item.find('=');
    const AttributeInfo* info = op_info(c.op).attribute(item.substr(0, equals));
    ASSERT_NE(info, nullptr) << c.text;
    c.attributes[info->name] = read_attribute(*info, item.substr(equals + 1));
  }
}

}  // namespace

std::vector<Case> read_cases(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  std::vector<Case> cases;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (trimmed(line).empty() || line[0] == '#') continue;
    std::vector<std::string> columns = split(line, ';');
    auto op = parse_op(columns[0]);
    EXPECT_TRUE(op.has_value()) << line;
    if (!op) continue;
    Case c;
    c.text = line, c.line = number, c.op = *op;
    std::stringstream operands(columns.size() > 1 ? columns[1] : "");
    std::string operand;
    while (operands >> operand) c.operands.push_back(read_operand(operand));
    if (columns.size() > 2) read_attributes(columns[2], c);
    if (columns.size() > 3) c.last = columns[3];
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace tilewright::composites_test
