// The simulator: what its threads do together against plain loops, its memory, and faults that tests ask for.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "base/text.h"
#include "targets/simt/block.h"
#include "targets/simt/device_memory.h"
#include "targets/simt/kernel_functions.h"
#include "targets/target.h"
#include "tests/targets/modules.h"

namespace tilewright::simt {
namespace {

template <class Function>
Function* function_named(std::string_view name) {
  for (const HostExport& entry : kernel_functions())
    if (entry.symbol == name) return reinterpret_cast<Function*>(entry.address);
  return nullptr;
}

// Kernels here are C++ functions that call what emitted code calls.
struct Calls {
  int32_t (*thread)() = function_named<int32_t()>("tw_simt_thread");
  int64_t (*block)() = function_named<int64_t()>("tw_simt_block");
  int64_t (*block_count)() = function_named<int64_t()>("tw_simt_block_count");
  void* (*shared)() = function_named<void*()>("tw_simt_shared");
  void (*barrier)() = function_named<void()>("tw_simt_barrier");
  uint32_t (*shuffle)(uint32_t, int32_t) = function_named<uint32_t(uint32_t, int32_t)>("tw_simt_shuffle");
  void (*mma)(int32_t, const uint32_t*, const uint32_t*, float*) =
      function_named<void(int32_t, const uint32_t*, const uint32_t*, float*)>("tw_simt_mma");
  void (*load_matrix)(int32_t, const void*,
                      uint32_t*) = function_named<void(int32_t, const void*, uint32_t*)>("tw_simt_ldmatrix");
  void (*copy_async)(void*, const void*, int32_t, int32_t) =
      function_named<void(void*, const void*, int32_t, int32_t)>("tw_simt_copy_async");
  void (*commit)() = function_named<void()>("tw_simt_commit");
  void (*wait)(int32_t) = function_named<void(int32_t)>("tw_simt_wait");
};
const Calls& calls() {
  static const Calls table;
  return table;
}

Status run(Entry entry, const void* slots, int32_t threads, int64_t shared_bytes = 0, int64_t blocks = 1) {
  BlockRunner runner;
  for (int64_t block = 0; block < blocks; ++block)
    TW_RETURN_IF_ERROR(runner.run(entry, slots, {blocks, threads, shared_bytes}, block));
  return Status::ok();
}

template <class T>
T* slot(const void* slots, int index) {
  return static_cast<T* const*>(slots)[index];
}

TEST(SimtBlock, BarrierOrdersSharedMemory) {
  // Each thread writes its number and, behind the barrier, reads that of the thread on the other end.
  const Entry kernel = [](const void* slots) {
    auto* shared = static_cast<int32_t*>(calls().shared());
    const int32_t thread = calls().thread(), last = 255;
    for (int round = 0; round < 3; ++round) {
      shared[thread] = thread + 1000 * round;
      calls().barrier();
      slot<int32_t>(slots, 0)[calls().block() * 256 + thread] = shared[last - thread];
      calls().barrier();
    }
  };
  std::vector<int32_t> out(512, -7);
  const void* slots[] = {out.data()};
  const Status status = run(kernel, slots, 256, 1024, 2);
  ASSERT_TRUE(status.is_ok()) << status.to_string();
  for (int i = 0; i < 512; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], 2000 + 255 - i % 256);
}

TEST(SimtBlock, MissingBarrierShowsInOneOfTwoBlocks) {
  const Entry kernel = [](const void* slots) {
    auto* shared = static_cast<int32_t*>(calls().shared());
    const int32_t thread = calls().thread();
    shared[thread] = thread;
    slot<int32_t>(slots, 0)[calls().block() * 64 + thread] = shared[(thread + 32) % 64];
  };
  std::vector<int32_t> out(128, -7);
  const void* slots[] = {out.data()};
  ASSERT_TRUE(run(kernel, slots, 64, 256, 2).is_ok());
  EXPECT_EQ(out[0], -1);        // block 0 runs warp 0 first: poison
  EXPECT_EQ(out[64 + 32], -1);  // block 1 runs warp 1 first
}

TEST(SimtBlock, ThreadThatReturnsBeforeABarrierIsNamed) {
  const Entry kernel = [](const void*) {
    if (calls().thread() < 64) calls().barrier();
  };
  const Status status = run(kernel, nullptr, 128);
  EXPECT_EQ(status.code(), Code::Internal);
  EXPECT_NE(status.message().find("thread 0 waits for a barrier, thread 64 has returned"), std::string::npos)
      << status.to_string();
}

TEST(SimtBlock, DivergedWarpIsNamed) {
  const Entry kernel = [](const void*) {
    if (calls().thread() == 5) {
      calls().barrier();
    } else {
      calls().shuffle(0, 0);
    }
  };
  const Status status = run(kernel, nullptr, 32);
  EXPECT_EQ(status.code(), Code::Internal);
  EXPECT_NE(status.message().find("thread 5 waits for a barrier"), std::string::npos) << status.to_string();
}

TEST(SimtBlock, ShuffleAgainstALoop) {
  const Entry kernel = [](const void* slots) {
    const int32_t thread = calls().thread(), lane = thread % 32;
    uint32_t sum = static_cast<uint32_t>(thread * thread);
    for (int32_t step = 16; step > 0; step /= 2) sum += calls().shuffle(sum, lane ^ step);
    slot<uint32_t>(slots, 0)[thread] = sum;
  };
  std::vector<uint32_t> out(96, 0);
  const void* slots[] = {out.data()};
  ASSERT_TRUE(run(kernel, slots, 96).is_ok());
  for (uint32_t warp = 0; warp < 3; ++warp) {
    uint32_t expected = 0;
    for (uint32_t thread = warp * 32; thread < warp * 32 + 32; ++thread) expected += thread * thread;
    for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(out[warp * 32 + lane], expected);
  }
  const Entry wild = [](const void*) { calls().shuffle(1, 32); };
  EXPECT_NE(run(wild, nullptr, 32).message().find("lane 32"), std::string::npos);
}

uint16_t bf16_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>(bits >> 16);
}

// Row-major matrices in 16-bit elements that hold small integers, for which products are exact.
struct Product {
  float a[16][16], b[16][8], c[16][8];
  float expected(int row, int column, int depth) const {
    float sum = c[row][column];
    for (int k = 0; k < depth; ++k) sum += a[row][k] * b[k][column];
    return sum;
  }
};

Product make_product() {
  Product product;
  int value = 1;
  const auto next = [&] { return static_cast<float>((value = value * 37 % 101) % 17 - 8); };
  for (auto& row : product.a)
    for (float& x : row) x = next();
  for (auto& row : product.b)
    for (float& x : row) x = next();
  for (auto& row : product.c)
    for (float& x : row) x = next();
  return product;
}

// The fragment layouts of mma.m16n8k16 and m16n8k8 as the PTX manual prints them.
template <int Kind>
void mma_kernel(const void* slots) {
  const Product& product = *slot<const Product>(slots, 0);
  const int lane = calls().thread(), group = lane >> 2, in_group = lane & 3;
  uint32_t a[4], b[2];
  if constexpr (Kind == 2) {
    const auto word = [](float value) {
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      return bits;
    };
    a[0] = word(product.a[group][in_group]);
    a[1] = word(product.a[group + 8][in_group]);
    a[2] = word(product.a[group][in_group + 4]);
    a[3] = word(product.a[group + 8][in_group + 4]);
    b[0] = word(product.b[in_group][group]);
    b[1] = word(product.b[in_group + 4][group]);
  } else {
    const auto half = [](float value) -> uint32_t {
      if (Kind == 0) return bf16_of(value);
      const _Float16 f16 = static_cast<_Float16>(value);
      uint16_t bits;
      std::memcpy(&bits, &f16, 2);
      return bits;
    };
    const auto a_pair = [&](int row, int k) {
      return half(product.a[row][k]) | half(product.a[row][k + 1]) << 16;
    };
    const auto b_pair = [&](int k, int n) { return half(product.b[k][n]) | half(product.b[k + 1][n]) << 16; };
    a[0] = a_pair(group, in_group * 2);
    a[1] = a_pair(group + 8, in_group * 2);
    a[2] = a_pair(group, in_group * 2 + 8);
    a[3] = a_pair(group + 8, in_group * 2 + 8);
    b[0] = b_pair(in_group * 2, group);
    b[1] = b_pair(in_group * 2 + 8, group);
  }
  float c[4];
  for (int i = 0; i < 4; ++i) c[i] = product.c[group + i / 2 * 8][in_group * 2 + i % 2];
  calls().mma(Kind, a, b, c);
  for (int i = 0; i < 4; ++i) slot<float>(slots, 1)[(group + i / 2 * 8) * 8 + in_group * 2 + i % 2] = c[i];
}

TEST(SimtBlock, MatrixProductAgainstALoop) {
  const Product product = make_product();
  const Entry kernels[] = {mma_kernel<0>, mma_kernel<1>, mma_kernel<2>};
  for (int kind = 0; kind < 3; ++kind) {
    std::vector<float> out(16 * 8, -1);
    const void* slots[] = {&product, out.data()};
    ASSERT_TRUE(run(kernels[kind], slots, 32).is_ok());
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < 8; ++column)
        EXPECT_EQ(out[static_cast<size_t>(row * 8 + column)],
                  product.expected(row, column, kind == 2 ? 8 : 16))
            << "kind " << kind << " row " << row << " column " << column;
  }
}

template <int Transposed>
void load_matrix_kernel(const void* slots) {
  // Four 8x8 matrices, rows of 16 bytes one after the other; lane l names row l % 8 of matrix l / 8.
  auto* shared = static_cast<uint16_t*>(calls().shared());
  const int lane = calls().thread();
  for (int i = lane; i < 256; i += 32) shared[i] = static_cast<uint16_t>(i);
  calls().barrier();
  uint32_t out[4];
  calls().load_matrix(Transposed, shared + lane * 8, out);
  for (int i = 0; i < 4; ++i) slot<uint32_t>(slots, 0)[lane * 4 + i] = out[i];
}

TEST(SimtBlock, MatrixLoadAgainstALoop) {
  for (const bool transposed : {false, true}) {
    std::vector<uint32_t> out(128, 0);
    const void* slots[] = {out.data()};
    ASSERT_TRUE(run(transposed ? load_matrix_kernel<1> : load_matrix_kernel<0>, slots, 32, 512).is_ok());
    for (uint32_t lane = 0; lane < 32; ++lane) {
      for (uint32_t matrix = 0; matrix < 4; ++matrix) {
        const uint32_t row = lane / 4, column = lane % 4 * 2;
        const uint32_t low = transposed ? column * 8 + row : row * 8 + column;
        const uint32_t high = transposed ? (column + 1) * 8 + row : row * 8 + column + 1;
        EXPECT_EQ(out[lane * 4 + matrix], (matrix * 64 + low) | (matrix * 64 + high) << 16);
      }
    }
  }
  const Entry crooked = [](const void*) {
    uint32_t out[4];
    calls().load_matrix(0, static_cast<char*>(calls().shared()) + 8, out);
  };
  EXPECT_NE(run(crooked, nullptr, 32, 512).message().find("multiple of 16"), std::string::npos);
  const Entry outside = [](const void*) {
    uint32_t out[4];
    calls().load_matrix(0, static_cast<char*>(calls().shared()) + 512, out);
  };
  EXPECT_NE(run(outside, nullptr, 32, 512).message().find("outside shared memory"), std::string::npos);
}

TEST(SimtBlock, CopiesTakeEffectWhenWaitedFor) {
  const Entry kernel = [](const void* slots) {
    auto* shared = static_cast<int32_t*>(calls().shared());
    const int32_t* in = slot<const int32_t>(slots, 0);
    int32_t* out = slot<int32_t>(slots, 1);
    calls().copy_async(shared, in, 16, 16);
    calls().commit();
    calls().copy_async(shared + 4, in + 4, 16, 8);  // the rest becomes zero
    calls().commit();
    out[0] = shared[0];
    calls().wait(1);
    out[1] = shared[0];
    out[2] = shared[4];
    calls().wait(0);
    for (int i = 0; i < 4; ++i) out[3 + i] = shared[4 + i];
  };
  const std::vector<int32_t> in = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<int32_t> out(7, 99);
  const void* slots[] = {in.data(), out.data()};
  ASSERT_TRUE(run(kernel, slots, 1, 64).is_ok());
  EXPECT_EQ(out, (std::vector<int32_t>{-1, 1, -1, 5, 6, 0, 0}));
  const Entry crooked = [](const void* slots) {
    calls().copy_async(static_cast<char*>(calls().shared()) + 4, slot<char>(slots, 0), 16, 16);
  };
  EXPECT_NE(run(crooked, slots, 1, 64).message().find("not aligned"), std::string::npos);
  const Entry outside = [](const void* slots) {
    calls().copy_async(static_cast<char*>(calls().shared()) + 64, slot<char>(slots, 0), 16, 16);
  };
  EXPECT_NE(run(outside, slots, 1, 64).message().find("outside shared memory"), std::string::npos);
}

TEST(SimtMemory, EndsAtAGuardPageAndIsPoisoned) {
  DeviceMemory memory(1 << 20, false);
  Result<void*> block = memory.allocate(48, 16);
  ASSERT_TRUE(block.is_ok());
  auto* bytes = static_cast<unsigned char*>(*block);
  for (int i = 0; i < 48; ++i) EXPECT_EQ(bytes[i], 0xff);
  EXPECT_DEATH(bytes[48] = 1, "");
  EXPECT_TRUE(memory.check_inside(bytes + 47, 1).is_ok());
  EXPECT_FALSE(memory.check_inside(bytes + 47, 2).is_ok());
  EXPECT_FALSE(memory.check_inside(bytes + 48, 1).is_ok());
  memory.free(*block);
  EXPECT_FALSE(memory.contains(bytes));
  EXPECT_EQ(memory.bytes_used(), 0);
}

TEST(SimtMemory, StrictPagesFaultOutsideAccess) {
  DeviceMemory memory(1 << 20, true);
  auto* bytes = static_cast<char*>(memory.allocate(64, 16).value());
  {
    DeviceMemory::Access access(memory);
    bytes[0] = 1;
  }
  EXPECT_DEATH(bytes[0] = 2, "");
}

TEST(SimtMemory, LimitIsAStatusAndMemoryStaysUsable) {
  DeviceMemory memory(1000, false);
  void* first = memory.allocate(600, 16).value();
  EXPECT_EQ(memory.allocate(600, 16).status().code(), Code::ResourceExhausted);
  memory.free(first);
  EXPECT_TRUE(memory.allocate(600, 16).is_ok());
}

// out[i] = 2 * in[i] + 1, as the emitter would write it: one argument, an array of slots.
constexpr std::string_view kAffine = R"(
define void @kernel(ptr %slots) {
entry:
  %in = load ptr, ptr %slots
  %out_at = getelementptr ptr, ptr %slots, i64 1
  %out = load ptr, ptr %out_at
  %grid_at = getelementptr i64, ptr %slots, i64 2
  %grid = load i64, ptr %grid_at
  %thread32 = call i32 @tw_simt_thread()
  %thread = zext i32 %thread32 to i64
  %block = call i64 @tw_simt_block()
  %count = call i64 @tw_simt_block_count()
  %base = mul i64 %block, 32
  %first = add i64 %base, %thread
  %step = mul i64 %count, 32
  %end = mul i64 %grid, 32
  br label %head
head:
  %i = phi i64 [ %first, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %done
body:
  %from = getelementptr float, ptr %in, i64 %i
  %x = load float, ptr %from
  %double = fadd float %x, %x
  %y = fadd float %double, 1.0
  %to = getelementptr float, ptr %out, i64 %i
  store float %y, ptr %to
  %next = add i64 %i, %step
  br label %head
done:
  ret void
}
declare i32 @tw_simt_thread()
declare i64 @tw_simt_block()
declare i64 @tw_simt_block_count()
)";

class SimtTargetTest : public testing::Test {
 protected:
  void open(std::string_view spelling) {
    Result<std::shared_ptr<Target>> made = create_target(spelling);
    ASSERT_TRUE(made.is_ok()) << made.status().to_string();
    target_ = *made;
    if (!target_->info().is_runnable()) GTEST_SKIP() << target_->info().host_reason;
    Result<std::string> object = target_->compile(module_of_text(kAffine), {});
    ASSERT_TRUE(object.is_ok()) << object.status().to_string();
    const std::vector<std::string> symbols = {"kernel"};
    Result<std::shared_ptr<const LoadedCode>> code = target_->load(*object, symbols);
    ASSERT_TRUE(code.is_ok()) << code.status().to_string();
    code_ = *code;
    in_ = target_->allocate(kCount * 4, 16).value();
    out_ = target_->allocate(kCount * 4, 16).value();
  }
  LaunchRequest request() {
    buffers_ = {in_, out_};
    LaunchRequest request;
    request.entry = code_->symbol("kernel");
    request.name = "affine";
    request.buffers = buffers_;
    request.grid = 10;
    request.blocks = 3;
    request.threads_per_block = 32;
    return request;
  }
  static constexpr size_t kCount = 320;
  std::shared_ptr<Target> target_;
  std::shared_ptr<const LoadedCode> code_;
  std::vector<void*> buffers_;
  void *in_ = nullptr, *out_ = nullptr;
};

TEST_F(SimtTargetTest, RunsCompiledCode) {
  open("simt:strict");
  if (!code_) GTEST_SKIP();
  std::vector<float> in(kCount), out(kCount, 0);
  std::iota(in.begin(), in.end(), 0.0f);
  ASSERT_TRUE(target_->copy(in_, in.data(), kCount * 4, CopyKind::HostToDevice, nullptr).is_ok());
  ASSERT_TRUE(target_->launch(request()).is_ok());
  ASSERT_TRUE(target_->synchronize(nullptr).is_ok());
  ASSERT_TRUE(target_->copy(out.data(), out_, kCount * 4, CopyKind::DeviceToHost, nullptr).is_ok());
  for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(out[i], 2 * in[i] + 1);
}

TEST_F(SimtTargetTest, CopiesAreChecked) {
  open("simt");
  if (!code_) GTEST_SKIP();
  std::vector<char> host(kCount * 4 + 1);
  EXPECT_FALSE(target_->copy(in_, host.data(), host.size(), CopyKind::HostToDevice, nullptr).is_ok());
  EXPECT_FALSE(target_->copy(host.data(), in_, 4, CopyKind::HostToDevice, nullptr).is_ok());
  EXPECT_FALSE(target_->copy(in_, out_, 4, CopyKind::DeviceToHost, nullptr).is_ok());
}

TEST_F(SimtTargetTest, LaunchesAreChecked) {
  open("simt");
  if (!code_) GTEST_SKIP();
  LaunchRequest wrong = request();
  wrong.threads_per_block = 2048;
  EXPECT_EQ(target_->launch(wrong).code(), Code::InvalidArgument);
  wrong = request();
  wrong.shared_bytes = int64_t{1} << 20;
  EXPECT_EQ(target_->launch(wrong).code(), Code::InvalidArgument);
}

TEST_F(SimtTargetTest, RefusedLaunchIsAStatusOnce) {
  open("simt:fail_launch=2");
  if (!code_) GTEST_SKIP();
  EXPECT_TRUE(target_->launch(request()).is_ok());
  EXPECT_FALSE(target_->launch(request()).is_ok());
  EXPECT_TRUE(target_->launch(request()).is_ok());
  EXPECT_TRUE(target_->synchronize(nullptr).is_ok());
}

TEST_F(SimtTargetTest, BrokenDeviceStaysBroken) {
  open("simt:fail_async=1");
  if (!code_) GTEST_SKIP();
  EXPECT_TRUE(target_->launch(request()).is_ok());
  const Status status = target_->synchronize(nullptr);
  EXPECT_NE(status.message().find("affine"), std::string::npos) << status.to_string();
  EXPECT_FALSE(target_->launch(request()).is_ok());
  EXPECT_FALSE(target_->synchronize(nullptr).is_ok());
}

TEST(SimtSettings, WrongOnesAreRefused) {
  for (const char* spelling : {"simt:", "simt:memory", "simt:memory=x", "simt:colour=3", "simt:strict,"})
    EXPECT_EQ(create_target(spelling).status().code(), Code::InvalidArgument) << spelling;
}

TEST(SimtLimits, AreThoseOfTheChip) {
  TargetLimits simulated = create_target("simt").value()->info().limits;
  TargetLimits chip = create_target("nvptx:sm_90a").value()->info().limits;
  simulated.triple = chip.triple;
  simulated.data_layout = chip.data_layout;
  EXPECT_EQ(simulated.to_text(), chip.to_text());
}

}  // namespace
}  // namespace tilewright::simt
