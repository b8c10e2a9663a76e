// Joining of PTX texts: many kernels become one module, which a driver translates in a fraction of the time.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tilewright::cuda {

// Text i keeps its entry `entry` under the name names[i]; whatever else it defines gets a name of its own.
// All texts are for one chip and one PTX version.
std::string join_ptx(std::span<const std::string_view> texts, std::string_view entry,
                     std::span<const std::string> names);

}  // namespace tilewright::cuda
