// Text of a program: the `kernels` dump.
#include "base/text.h"
#include "codegen/program.h"
#include "ir/text.h"

namespace tilewright {

static std::string buffer_text(const Program& program, const BufferUse& use) {
  const Buffer& buffer = program.buffers[use.buffer.index];
  std::string text = cat("b", use.buffer.index);
  switch (buffer.kind) {
    case BufferKind::Input: text += cat("(input ", buffer.index, ")"); break;
    case BufferKind::Output: text += cat("(output ", buffer.index, ")"); break;
    case BufferKind::Constant: text += "(constant)"; break;
    case BufferKind::Temporary: break;
  }
  if (!use.offset.is_constant(0)) text += cat("+", use.offset.to_string());
  return text;
}

static std::string launch_text(const Program& program, const Launch& launch, const std::string& indent) {
  std::string buffers =
      join(launch.buffers, ", ", [&](const BufferUse& use) { return buffer_text(program, use); });
  switch (launch.kind) {
    case LaunchKind::Kernel: {
      const KernelEntry& entry = program.kernels[launch.kernel];
      return cat(indent, "kernel @", entry.kernel.name, "(", buffers, ")  # ", entry.description, "\n");
    }
    case LaunchKind::Builtin: return cat(indent, "builtin ", launch.builtin, "(", buffers, ")\n");
    case LaunchKind::Reference: {
      std::string reason = launch.reason >= 0 ? program.fallbacks[launch.reason].sentence : "";
      return cat(indent, "reference ", launch.node->name, "(", buffers, ")  # ", reason, "\n");
    }
    case LaunchKind::Copy: return cat(indent, "copy (", buffers, ")\n");
    case LaunchKind::Loop: {
      std::string text = cat(indent, "loop ", launch.count.to_string(), " {\n");
      for (const Launch& inner : launch.body) text += launch_text(program, inner, indent + "  ");
      return text + indent + "}\n";
    }
  }
  return {};
}

std::string print(const Program& program) {
  std::string text = cat("program @", program.name, " {\n");
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    text += cat("  ", buffer_text(program, {BufferId{static_cast<uint32_t>(i)}, Dim(0)}), " : ",
                buffer.type.to_string(), "  # ", buffer.name, "\n");
  }
  for (const Launch& launch : program.launches) text += launch_text(program, launch, "  ");
  text += "}\n";
  for (const KernelEntry& entry : program.kernels) text += tile::print(entry.kernel);
  return text;
}

}  // namespace tilewright
