// PTX text: version, target, entry point, and calls that must not get through.
#include <gtest/gtest.h>

#include "targets/target.h"
#include "tests/targets/modules.h"

namespace tilewright {
namespace {

constexpr std::string_view kKernel = R"(
define ptx_kernel void @scale(ptr addrspace(1) %x, float %factor) {
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %at = getelementptr float, ptr addrspace(1) %x, i32 %thread
  %old = load float, ptr addrspace(1) %at
  %new = fmul float %old, %factor
  store float %new, ptr addrspace(1) %at
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
)";

TEST(Nvptx, MakesPtxForTheChip) {
  Result<std::string> ptx =
      create_target("nvptx:sm_90a").value()->compile(module_of_text(kKernel), CompileOptions{});
  ASSERT_TRUE(ptx.is_ok()) << ptx.status().to_string();
  EXPECT_NE(ptx->find(".version 8.8"), std::string::npos) << *ptx;
  EXPECT_NE(ptx->find(".target sm_90a"), std::string::npos);
  EXPECT_NE(ptx->find(".visible .entry scale("), std::string::npos);
}

TEST(Nvptx, MisspeltIntrinsicIsRefused) {
  Result<std::string> ptx = create_target("nvptx:sm_90a")
                                .value()
                                ->compile(module_of_text(R"(
declare void @llvm.nvvm.no.such.thing()
define ptx_kernel void @k() {
  call void @llvm.nvvm.no.such.thing()
  ret void
}
)"),
                                          CompileOptions{});
  ASSERT_FALSE(ptx.is_ok());
  EXPECT_NE(ptx.status().message().find("llvm.nvvm.no.such.thing"), std::string::npos)
      << ptx.status().to_string();
}

TEST(Nvptx, LibraryCallIsRefusedNotFatal) {
  for (int round = 0; round < 5; ++round) {
    Result<std::string> ptx = create_target("nvptx:sm_90a")
                                  .value()
                                  ->compile(module_of_text(R"(
declare float @llvm.pow.f32(float, float)
define ptx_kernel void @k(ptr addrspace(1) %p) {
  %x = load float, ptr addrspace(1) %p
  %y = call float @llvm.pow.f32(float %x, float %x)
  store float %y, ptr addrspace(1) %p
  ret void
}
)"),
                                            CompileOptions{});
    ASSERT_FALSE(ptx.is_ok());
  }
  EXPECT_TRUE(
      create_target("nvptx:sm_90a").value()->compile(module_of_text(kKernel), CompileOptions{}).is_ok());
}

}  // namespace
}  // namespace tilewright
