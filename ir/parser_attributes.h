// Reads the attributes of a node by the kinds that the op table gives them.
#pragma once

#include "ir/op_table.h"
#include "ir/text_reader.h"

namespace tilewright {

// A constant can be read only when the result type is known: its literal and the attribute's name.
struct PendingConstant {
  std::string name;
  size_t offset = 0;
  std::string_view text;
};

struct ParsedAttributes {
  AttributeMap values;
  std::vector<PendingConstant> constants;
};

// At `{`.  False after an error that was reported; the reader then stands behind the closing brace where it
// was found.
bool read_attributes(TextReader& reader, const OpInfo& info, ParsedAttributes& attributes);

}  // namespace tilewright
