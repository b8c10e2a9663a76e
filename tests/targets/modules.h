// Modules for target tests, from LLVM text.
#pragma once

#include <string>
#include <string_view>

#include "base/emitted_module.h"

namespace tilewright {

// A null module where the text does not parse; the reason goes to `error`.
EmittedModule module_of_text(std::string_view text, std::string* error = nullptr);

// Kernel @<name>: out[i] = in[i] * 2 + 1 for i in [first, last), f32.
std::string affine_kernel(std::string_view name);

// The same for blocks of one thread, which walk the grid: one argument, an array of slots.
std::string affine_block_kernel(std::string_view name, std::string_view triple);

}  // namespace tilewright
