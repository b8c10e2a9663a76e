// Renaming by whole identifiers; definitions are found at the outermost level of a text.
#include "targets/nvptx/ptx_text.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <vector>

#include "base/text.h"

namespace tilewright::cuda {
namespace {

bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$'; }

std::string_view trim(std::string_view line) {
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.front()))) line.remove_prefix(1);
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.remove_suffix(1);
  return line;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1);
    lines.push_back(text.substr(0, end + 1));
    text.remove_prefix(end + 1);
  }
  return lines;
}

// The identifier in front of the first of `stops`.
std::string_view name_before(std::string_view line, std::string_view stops) {
  size_t end = std::min(line.find_first_of(stops), line.size());
  while (end > 0 && !is_name_char(line[end - 1])) --end;
  size_t begin = end;
  while (begin > 0 && is_name_char(line[begin - 1])) --begin;
  return line.substr(begin, end - begin);
}

// What a line at the outermost level defines; empty: nothing that two texts could both define.
std::string_view defined_name(std::string_view line) {
  const bool is_variable = line.find(".global ") != line.npos || line.find(".const ") != line.npos ||
                           line.find(".shared ") != line.npos;
  if (line.starts_with(".extern")) return {};
  if (line.find(".func") != line.npos) {
    // `.func name(` or `.func (.param .b32 result) name(`
    std::string_view rest = trim(line.substr(line.find(".func") + 5));
    if (rest.starts_with("(")) rest = trim(rest.substr(std::min(rest.find(')') + 1, rest.size())));
    return name_before(rest, "(");
  }
  return is_variable ? name_before(line, "[=;") : std::string_view();
}

using Names = std::map<std::string, std::string, std::less<>>;

std::string rename(std::string_view text, const Names& names) {
  std::string renamed;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && is_name_char(text[end])) ++end;
    if (end == at) {
      renamed.push_back(text[at++]);
      continue;
    }
    const std::string_view token = text.substr(at, end - at);
    const auto found = names.find(token);
    renamed += found == names.end() ? token : std::string_view(found->second);
    at = end;
  }
  return renamed;
}

struct Parts {
  std::string header;  // version, target, address size
  std::vector<std::string> externals;
  std::string body;
  Names names;
};

Parts take_apart(std::string_view text, size_t index) {
  Parts parts;
  int depth = 0;
  for (const std::string_view line : split_lines(text)) {
    const std::string_view content = trim(line);
    if (depth == 0) {
      if (content.starts_with(".version") || content.starts_with(".target") ||
          content.starts_with(".address_size")) {
        parts.header += line;
        continue;
      }
      if (content.starts_with(".extern") && content.ends_with(";")) {
        parts.externals.emplace_back(content);
        continue;
      }
      if (const std::string_view name = defined_name(content); !name.empty())
        parts.names[std::string(name)] = cat(name, "_", index);
    }
    parts.body += line;
    depth += static_cast<int>(std::count(content.begin(), content.end(), '{')) -
             static_cast<int>(std::count(content.begin(), content.end(), '}'));
  }
  return parts;
}

}  // namespace

std::string join_ptx(std::span<const std::string_view> texts, std::string_view entry,
                     std::span<const std::string> names) {
  std::string header, body;
  std::set<std::string> externals;
  for (size_t index = 0; index < texts.size(); ++index) {
    Parts parts = take_apart(texts[index], index);
    if (header.empty()) header = parts.header;
    externals.insert(parts.externals.begin(), parts.externals.end());
    parts.names[std::string(entry)] = names[index];
    body += rename(parts.body, parts.names);
    body += "\n";
  }
  return cat(header, join(externals, "\n"), "\n", body);
}

}  // namespace tilewright::cuda
