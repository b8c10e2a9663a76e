// The CPU target under stress: instruction choice, faults of LLVM, loading and unloading, threads, forks.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/text.h"
#include "targets/target.h"
#include "tests/targets/modules.h"

namespace tilewright {
namespace {

std::shared_ptr<Target> target(std::string_view spelling) { return create_target(spelling).value(); }

Result<std::string> compile(std::string_view spelling, std::string_view text,
                            std::string* assembly = nullptr) {
  CompileOptions options;
  options.asm_text = assembly;
  std::string error;
  EmittedModule module = module_of_text(text, &error);
  EXPECT_TRUE(module.module) << error;
  return target(spelling)->compile(std::move(module), options);
}

Result<std::shared_ptr<const LoadedCode>> load(std::string_view bytes, std::string name) {
  std::vector<std::string> symbols = {std::move(name)};
  return target("native")->load(bytes, symbols);
}

KernelFunction entry(const LoadedCode& code, std::string_view name) {
  return reinterpret_cast<KernelFunction>(code.symbol(name));
}

float run_affine(const LoadedCode& code, std::string_view name, float x) {
  float out = -1;
  void* buffers[] = {&x, &out};
  entry(code, name)(buffers, nullptr, 0, 1, nullptr);
  return out;
}

int64_t resident_kilobytes() {
  std::ifstream stream("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  stream >> pages >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

int64_t mapping_count() {
  std::ifstream stream("/proc/self/maps");
  std::string line;
  int64_t count = 0;
  while (std::getline(stream, line)) ++count;
  return count;
}

// Sanitizers keep freed memory for a while, and map shadows of their own.
constexpr bool kMeasuresMemory =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    false;
#else
    true;
#endif

constexpr std::string_view kVectorFma = R"(
define void @k(ptr %p, ptr %q, i64 %first, i64 %last, ptr %s) {
  %a = load <16 x float>, ptr %p, align 4
  %b = load <16 x float>, ptr %q, align 4
  %c = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %a, <16 x float> %b, <16 x float> %a)
  store <16 x float> %c, ptr %s, align 4
  ret void
}
declare <16 x float> @llvm.fmuladd.v16f32(<16 x float>, <16 x float>, <16 x float>)
)";

TEST(Cpu, WidthAndFmaFollowTheLevel) {
  std::string v2, v3, v4;
  ASSERT_TRUE(compile("x86-64-v2", kVectorFma, &v2).is_ok());
  ASSERT_TRUE(compile("x86-64-v3", kVectorFma, &v3).is_ok());
  ASSERT_TRUE(compile("x86-64-v4", kVectorFma, &v4).is_ok());
  auto has = [](const std::string& text, const char* what) { return text.find(what) != std::string::npos; };
  EXPECT_TRUE(has(v2, "mulps") && !has(v2, "fmadd") && !has(v2, "ymm"));
  EXPECT_TRUE(has(v3, "vfmadd") && has(v3, "ymm") && !has(v3, "zmm"));
  EXPECT_TRUE(has(v4, "vfmadd") && has(v4, "zmm"));
}

TEST(Cpu, ObjectsHaveNoPathsNamesOrUnwindTables) {
  EmittedModule module = module_of_text(cat("source_filename = \"/some/path/x.ll\"\n", affine_kernel("k")));
  Result<std::string> bytes = target("native")->compile(std::move(module), {});
  ASSERT_TRUE(bytes.is_ok());
  EXPECT_EQ(bytes->find("/some/path"), std::string::npos);
  EXPECT_EQ(bytes->find("eh_frame"), std::string::npos);
}

// Each of these stops code generation in another way; none may stop the process or the next compile.
struct BadModule {
  const char* name;
  const char* text;
  const char* message;
};
class Contained : public testing::TestWithParam<BadModule> {};

TEST_P(Contained, BecomesAStatusAndCompilingGoesOn) {
  for (int round = 0; round < 30; ++round) {
    Result<std::string> bytes = compile("x86-64-v2", GetParam().text);
    ASSERT_FALSE(bytes.is_ok());
    ASSERT_NE(bytes.status().message().find(GetParam().message), std::string::npos)
        << bytes.status().to_string();
    Result<std::string> good = compile("native", affine_kernel("k"));
    ASSERT_TRUE(good.is_ok()) << good.status().to_string();
    Result<std::shared_ptr<const LoadedCode>> code = load(*good, "k");
    ASSERT_TRUE(code.is_ok());
    ASSERT_EQ(run_affine(**code, "k", 3.0f), 7.0f);
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, Contained,
                         testing::Values(BadModule{"cannot_select", R"(
define <16 x float> @k(<16 x float> %x) {
  %y = call <16 x float> @llvm.x86.avx512.sqrt.ps.512(<16 x float> %x, i32 4)
  ret <16 x float> %y
}
declare <16 x float> @llvm.x86.avx512.sqrt.ps.512(<16 x float>, i32)
)",
                                                   "fatal error in LLVM: "},
                                         BadModule{"bad_inline_assembly", R"(
define void @k() {
  call void asm sideeffect "frobnicate %eax", ""()
  ret void
}
)",
                                                   "invalid instruction mnemonic"},
                                         BadModule{"impossible_constraint", R"(
define i32 @k() {
  %x = call i32 asm "", "={nosuchregister}"()
  ret i32 %x
}
)",
                                                   "LLVM reports"},
                                         BadModule{"undefined_function", R"(
declare void @no_such_function()
define void @k() {
  call void @no_such_function()
  ret void
}
)",
                                                   "no_such_function"},
                                         BadModule{"undefined_variable", R"(
@elsewhere = external global i32
define i32 @k() {
  %x = load i32, ptr @elsewhere
  ret i32 %x
}
)",
                                                   "elsewhere"}),
                         [](const auto& info) { return info.param.name; });

TEST(Cpu, LoadRefusesWhatIsNoObject) {
  std::string good = compile("native", affine_kernel("k")).value();
  EXPECT_FALSE(load("", "k").is_ok());
  EXPECT_FALSE(load("not an object", "k").is_ok());
  EXPECT_FALSE(load(good.substr(0, 40), "k").is_ok());
  EXPECT_FALSE(load(good.substr(0, good.size() / 2), "k").is_ok());
  Result<std::shared_ptr<const LoadedCode>> missing = load(good, "other");
  ASSERT_FALSE(missing.is_ok());
  EXPECT_NE(missing.status().message().find("other"), std::string::npos) << missing.status().to_string();
  EXPECT_TRUE(load(good, "k").is_ok());
}

TEST(Cpu, UnrunnableLevelSaysWhatIsMissing) {
  for (const TargetListing& listing : list_targets()) {
    if (listing.family != "cpu" || listing.host_reason.empty()) continue;
    EXPECT_NE(listing.host_reason.find("this machine lacks"), std::string::npos);
    return;
  }
  Result<std::shared_ptr<Target>> future = create_target("diamondrapids");
  if (!future.is_ok() || (*future)->info().is_runnable()) GTEST_SKIP() << "this machine has every feature";
  EXPECT_NE((*future)->info().host_reason.find("this machine lacks"), std::string::npos);
  EXPECT_FALSE((*future)->load("bytes", {}).is_ok());
}

TEST(Cpu, EqualNamesDoNotClash) {
  std::string first = compile("native", affine_kernel("k")).value();
  std::string text = affine_kernel("k");
  text.replace(text.find("float 2.0"), 9, "float 5.0");
  std::string second = compile("native", text).value();
  auto a = load(first, "k").value(), b = load(second, "k").value();
  EXPECT_EQ(run_affine(*a, "k", 1.0f), 3.0f);
  EXPECT_EQ(run_affine(*b, "k", 1.0f), 6.0f);
}

TEST(Cpu, ConstantsAndState) {
  std::string object = compile("native", R"(
@table = private constant [4 x double] [double 1.0, double 2.0, double 3.0, double 0x400921FB54442D18]
@counter = internal global i64 40
define void @k(ptr %buffers, ptr %scalars, i64 %first, i64 %last, ptr %scratch) {
  %out = load ptr, ptr %buffers
  %from = getelementptr double, ptr @table, i64 %first
  %x = load double, ptr %from
  %old = load i64, ptr @counter
  %new = add i64 %old, 1
  store i64 %new, ptr @counter
  %n = sitofp i64 %new to double
  %sum = fadd double %x, %n
  store double %sum, ptr %out
  ret void
}
)")
                           .value();
  auto code = load(object, "k").value();
  double out = 0;
  void* buffers[] = {&out};
  entry(*code, "k")(buffers, nullptr, 1, 2, nullptr);
  EXPECT_EQ(out, 43.0);
  entry(*code, "k")(buffers, nullptr, 2, 3, nullptr);
  EXPECT_EQ(out, 45.0);
}

// The export table reaches functions of ours and of libm, which lie farther from the code than 2 GB.
TEST(Cpu, CallsFarFunctions) {
  std::string object = compile("x86-64-v2", R"(
define void @k(ptr %buffers, ptr %scalars, i64 %first, i64 %last, ptr %scratch) {
  %in = load ptr, ptr %buffers
  %slot = getelementptr ptr, ptr %buffers, i64 1
  %out = load ptr, ptr %slot
  %x = load float, ptr %in
  %half = fptrunc float %x to half
  %bits = bitcast half %half to i16
  store i16 %bits, ptr %out
  %brain = fptrunc float %x to bfloat
  %bbits = bitcast bfloat %brain to i16
  %to = getelementptr i16, ptr %out, i64 1
  store i16 %bbits, ptr %to
  %wide = fpext half %half to float
  %e = call float @llvm.exp.f32(float %wide)
  %to2 = getelementptr i16, ptr %out, i64 2
  store float %e, ptr %to2
  %n = load i64, ptr %scalars
  %big = getelementptr i16, ptr %out, i64 8
  call void @llvm.memset.p0.i64(ptr %big, i8 7, i64 %n, i1 false)
  ret void
}
declare float @llvm.exp.f32(float)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
)")
                           .value();
  auto code = load(object, "k").value();
  float x = 1.00390625f;  // half way between two bf16
  uint16_t out[600] = {};
  int64_t scalars[] = {1000};
  void* buffers[] = {&x, out};
  entry(*code, "k")(buffers, scalars, 0, 1, nullptr);
  EXPECT_EQ(out[0], 0x3c04);
  EXPECT_EQ(out[1], 0x3f80);
  float e;
  std::memcpy(&e, out + 2, sizeof e);
  EXPECT_EQ(e, std::exp(1.00390625f));
  EXPECT_EQ(out[8], 0x0707);
  EXPECT_EQ(out[8 + 499], 0x0707);
  EXPECT_EQ(out[8 + 500], 0);
}

TEST(Cpu, LoadCallUnloadKeepsMemoryFlat) {
  std::string object = compile("native", affine_kernel("k")).value();
  auto cycle = [&](int rounds) {
    for (int round = 0; round < rounds; ++round) {
      auto code = load(object, "k").value();
      ASSERT_EQ(run_affine(*code, "k", 2.0f), 5.0f);
    }
  };
  cycle(500);
  if (!kMeasuresMemory) GTEST_SKIP() << "a sanitizer holds freed memory";
  int64_t before = resident_kilobytes(), mappings = mapping_count();
  cycle(3000);
  EXPECT_LT(resident_kilobytes() - before, 512) << "KB grown over 3000 cycles";
  EXPECT_LE(mapping_count(), mappings + 2);
}

TEST(Cpu, CompileKeepsMemoryFlat) {
  auto cycle = [&](int rounds) {
    for (int round = 0; round < rounds; ++round) {
      Result<std::string> bytes = compile("native", affine_kernel("k"));
      ASSERT_TRUE(bytes.is_ok());
      ASSERT_TRUE(load(*bytes, "k").is_ok());
    }
  };
  cycle(50);
  if (!kMeasuresMemory) GTEST_SKIP() << "a sanitizer holds freed memory";
  int64_t before = resident_kilobytes();
  cycle(300);
  EXPECT_LT(resident_kilobytes() - before, 2048) << "KB grown over 300 compiles";
}

TEST(Cpu, ManyLiveKernelsShareMappings) {
  std::string object = compile("native", affine_kernel("k")).value();
  int64_t before = mapping_count();
  std::vector<std::shared_ptr<const LoadedCode>> live;
  for (int i = 0; i < 2000; ++i) live.push_back(load(object, "k").value());
  if (kMeasuresMemory) {
    EXPECT_LT(mapping_count() - before, 100) << "mappings for 2000 kernels";
  }
  EXPECT_EQ(run_affine(*live.front(), "k", 1.0f), 3.0f);
  EXPECT_EQ(run_affine(*live.back(), "k", 1.0f), 3.0f);
  // Holes are filled again.
  for (size_t i = 0; i < live.size(); i += 2) live[i] = nullptr;
  for (size_t i = 0; i < live.size(); i += 2) live[i] = load(object, "k").value();
  for (const auto& code : live) ASSERT_EQ(run_affine(*code, "k", 1.0f), 3.0f);
}

TEST(Cpu, CompilesAndLoadsInParallel) {
  std::shared_ptr<Target> native = target("native");
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int worker = 0; worker < 6; ++worker) {
    threads.emplace_back([&, worker] {
      for (int round = 0; round < 15; ++round) {
        std::string name = cat("kernel_", worker, "_", round);
        Result<std::string> bytes = native->compile(module_of_text(affine_kernel(name)), {});
        if (!bytes.is_ok()) {
          ++wrong;
          continue;
        }
        std::vector<std::string> symbols = {name};
        auto code = native->load(*bytes, symbols);
        if (!code.is_ok() || run_affine(**code, name, 4.0f) != 9.0f) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Cpu, ForkedChildCallsOldCodeAndMakesNew) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer allows no threads after a fork";
#endif
  std::string object = compile("native", affine_kernel("k")).value();
  auto code = load(object, "k").value();
  std::atomic<bool> stop{false};
  std::thread loading([&] {
    while (!stop) (void)load(object, "k");
  });
  for (int round = 0; round < 10; ++round) {
    pid_t child = fork();
    if (child == 0) {
      alarm(20);
      if (run_affine(*code, "k", 1.0f) != 3.0f) _exit(1);
      code.reset();
      Result<std::string> bytes = compile("native", affine_kernel("again"));
      if (!bytes.is_ok()) _exit(2);
      auto fresh = load(*bytes, "again");
      _exit(fresh.is_ok() && run_affine(**fresh, "again", 1.0f) == 3.0f ? 0 : 3);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  stop = true;
  loading.join();
}

TEST(Cpu, HostStateIsUntouched) {
  unsigned control = _mm_getcsr();
  std::string object = compile("native", affine_kernel("k")).value();
  auto code = load(object, "k").value();
  run_affine(*code, "k", 1.0f);
  EXPECT_EQ(_mm_getcsr() & 0xffc0u, control & 0xffc0u);
}

TEST(Cpu, OptionsThatChangeCodeChangeTheKey) {
  CompileOptions options;
  std::string base = options.key_text();
  options.effort = CodegenEffort::None;
  EXPECT_NE(options.key_text(), base);
  options = {};
  options.ir_passes = IrPasses::Lean;
  EXPECT_NE(options.key_text(), base);
  options = {};
  std::string text;
  options.asm_text = &text;
  EXPECT_EQ(options.key_text(), base);
}

}  // namespace
}  // namespace tilewright
