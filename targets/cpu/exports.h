// host_exports: the functions of the host that compiled kernels may call.
#pragma once

#include <span>
#include <string_view>

namespace tilewright {

struct HostExport {
  std::string_view symbol;
  void* address;
};
std::span<const HostExport> host_exports();
bool is_host_export(std::string_view symbol);

}  // namespace tilewright
