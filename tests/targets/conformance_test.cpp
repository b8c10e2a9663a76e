// What every target owes: one suite over everything that the build can serve; SKIP where the machine cannot
// run it.
#include <gtest/gtest.h>

#include <cstring>

#include "targets/target.h"
#include "tests/targets/modules.h"

namespace tilewright {
namespace {

std::vector<std::string> all_spellings() {
  std::vector<std::string> spellings;
  for (const TargetListing& listing : list_targets()) spellings.push_back(listing.spelling);
  return spellings;
}

class Conformance : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    Result<std::shared_ptr<Target>> made = create_target(GetParam());
    ASSERT_TRUE(made.is_ok()) << made.status().to_string();
    target_ = *made;
  }
  // A body that the target's own calling convention takes; devices have no host function pointers.
  std::string kernel_text() const {
    return target_->info().limits.kind == TargetKind::Simt
               ? affine_block_kernel("affine", target_->info().limits.triple)
               : affine_kernel("affine");
  }

  // Compiles, loads and launches the kernel over 99 of 100 elements.
  void run_compiled(const CompileOptions& options) const {
    Result<std::string> bytes = target_->compile(module_of_text(kernel_text()), options);
    ASSERT_TRUE(bytes.is_ok()) << bytes.status().to_string();
    std::vector<std::string> symbols = {"affine"};
    Result<std::shared_ptr<const LoadedCode>> code = target_->load(*bytes, symbols);
    ASSERT_TRUE(code.is_ok()) << code.status().to_string();
    EXPECT_GT((*code)->code_bytes(), 0u);
    EXPECT_EQ((*code)->symbol("other"), nullptr);
    std::vector<float> in(100), out(100, -1.0f);
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
    const size_t bytes_each = in.size() * sizeof(float);
    void* buffers[] = {target_->allocate(bytes_each, 16).value(), target_->allocate(bytes_each, 16).value()};
    ASSERT_TRUE(target_->copy(buffers[0], in.data(), bytes_each, CopyKind::HostToDevice, nullptr).is_ok());
    ASSERT_TRUE(target_->copy(buffers[1], out.data(), bytes_each, CopyKind::HostToDevice, nullptr).is_ok());
    LaunchRequest request;
    request.entry = (*code)->symbol("affine");
    request.name = "affine";
    request.buffers = buffers;
    request.grid = 99;
    request.blocks = 7;
    request.threads_per_block = 1;
    const Status launched = target_->launch(request);
    ASSERT_TRUE(launched.is_ok()) << launched.to_string();
    ASSERT_TRUE(target_->synchronize(nullptr).is_ok());
    ASSERT_TRUE(target_->copy(out.data(), buffers[1], bytes_each, CopyKind::DeviceToHost, nullptr).is_ok());
    for (void* buffer : buffers) target_->free(buffer);
    for (size_t i = 0; i < 99; ++i) EXPECT_EQ(out[i], 2.0f * in[i] + 1.0f);
    EXPECT_EQ(out[99], -1.0f);
  }

  std::shared_ptr<Target> target_;
};

TEST_P(Conformance, InfoIsComplete) {
  const TargetInfo& info = target_->info();
  EXPECT_FALSE(info.family.empty());
  EXPECT_FALSE(info.name.empty());
  EXPECT_FALSE(info.description.empty());
  EXPECT_FALSE(info.isa.empty());
  EXPECT_FALSE(info.cache_identity.empty());
  EXPECT_NE(info.limits.to_text().find("vector_bytes="), std::string::npos);
  if (info.limits.kind != TargetKind::Null) {
    EXPECT_FALSE(info.limits.triple.empty());
    EXPECT_FALSE(info.limits.data_layout.empty());
  }
}

TEST_P(Conformance, NameSelectsTheSameTarget) {
  Result<std::shared_ptr<Target>> again = create_target(target_->info().name);
  ASSERT_TRUE(again.is_ok()) << again.status().to_string();
  EXPECT_EQ((*again)->info().cache_identity, target_->info().cache_identity);
  EXPECT_EQ((*again)->info().limits.to_text(), target_->info().limits.to_text());
}

TEST_P(Conformance, CompilesToTheSameBytesEachTime) {
  CompileOptions options;
  std::string assembly, llvm_text;
  Result<std::string> first = target_->compile(module_of_text(kernel_text()), options);
  ASSERT_TRUE(first.is_ok()) << first.status().to_string();
  options.asm_text = &assembly;
  options.llvm_text = &llvm_text;
  Result<std::string> second = target_->compile(module_of_text(kernel_text()), options);
  ASSERT_TRUE(second.is_ok()) << second.status().to_string();
  EXPECT_FALSE(first->empty());
  EXPECT_EQ(*first, *second);
  EXPECT_FALSE(assembly.empty());
}

TEST_P(Conformance, CompilesAtEveryEffort) {
  for (CodegenEffort effort :
       {CodegenEffort::None, CodegenEffort::Less, CodegenEffort::Default, CodegenEffort::Aggressive}) {
    for (IrPasses passes : {IrPasses::None, IrPasses::Lean}) {
      CompileOptions options;
      options.effort = effort;
      options.ir_passes = passes;
      Result<std::string> bytes = target_->compile(module_of_text(kernel_text()), options);
      EXPECT_TRUE(bytes.is_ok()) << options.key_text() << ": " << bytes.status().to_string();
    }
  }
}

TEST_P(Conformance, RefusesAnEmptyModule) {
  Result<std::string> bytes = target_->compile(EmittedModule{}, CompileOptions{});
  EXPECT_EQ(bytes.status().code(), Code::InvalidArgument);
}

TEST_P(Conformance, UnrunnableTargetSaysSo) {
  if (target_->info().is_runnable()) GTEST_SKIP() << "runs here";
  std::vector<std::string> symbols = {"affine"};
  Result<std::shared_ptr<const LoadedCode>> code = target_->load("bytes", symbols);
  ASSERT_FALSE(code.is_ok());
  EXPECT_EQ(code.status().code(), Code::Unimplemented);
  EXPECT_NE(code.status().message().find(target_->info().host_reason), std::string::npos);
}

TEST_P(Conformance, RunsWhatItCompiled) {
  if (!target_->info().is_runnable()) GTEST_SKIP() << target_->info().host_reason;
  for (CodegenEffort effort : {CodegenEffort::None, CodegenEffort::Less, CodegenEffort::Aggressive}) {
    for (IrPasses passes : {IrPasses::None, IrPasses::Lean}) {
      CompileOptions options;
      options.effort = effort;
      options.ir_passes = passes;
      run_compiled(options);
    }
  }
}

TEST_P(Conformance, MemoryIsAlignedAndCopied) {
  if (!target_->info().is_runnable()) GTEST_SKIP() << target_->info().host_reason;
  for (size_t alignment : {1, 64, 4096}) {
    Result<void*> memory = target_->allocate(1000, alignment);
    ASSERT_TRUE(memory.is_ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*memory) % alignment, 0u);
    std::string text = "through the device and back", back(text.size(), '?');
    ASSERT_TRUE(target_->copy(*memory, text.data(), text.size(), CopyKind::HostToDevice, nullptr).is_ok());
    ASSERT_TRUE(target_->copy(back.data(), *memory, text.size(), CopyKind::DeviceToHost, nullptr).is_ok());
    EXPECT_EQ(back, text);
    target_->free(*memory);
  }
  EXPECT_EQ(target_->allocate(16, 3).status().code(), Code::InvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Targets, Conformance, testing::ValuesIn(all_spellings()), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) {
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
});

}  // namespace
}  // namespace tilewright
