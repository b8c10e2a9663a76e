// The driver's code paths over a made-up driver: detection, every error that it can return, memory, links,
// the cache.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/text.h"
#include "ir/text.h"
#include "runtime/compile.h"
#include "targets/nvptx/ptx_text.h"
#include "targets/target.h"
#include "tests/targets/modules.h"

namespace tilewright {
namespace {

// Functions of the made-up driver for tests; null where it is not loaded.
template <class Function>
Function* fake(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
}
int calls(const char* function) { return fake<int(const char*)>("fake_cuda_calls")(function); }
int contexts() { return fake<int()>("fake_cuda_contexts")(); }
long long used() { return fake<long long()>("fake_cuda_used")(); }

// The next call of the function fails.
struct Failing {
  Failing(const std::string& function, int error) {
    setenv("TILEWRIGHT_FAKE_CUDA",
           cat("fail=", function, "@", calls(function.c_str()) + 1, ":", error).c_str(), 1);
  }
  ~Failing() {
    unsetenv("TILEWRIGHT_FAKE_CUDA");
    fake<void()>("fake_cuda_mend")();
  }
};

Result<std::shared_ptr<Target>> open_target() {
  TW_ASSIGN_OR_RETURN(std::shared_ptr<Target> target, create_target("nvptx"));
  if (!fake<int()>("fake_cuda_contexts")) return Status::unimplemented("the driver is a real one");
  return target;
}

// Everything that a run does, once: link, load, memory, copies both ways, a launch with much shared memory.
Status use_everything(const Target& target) {
  TW_ASSIGN_OR_RETURN(
      std::string ptx,
      target.compile(module_of_text(affine_block_kernel("kernel", target.info().limits.triple)), {}));
  const std::string_view objects[] = {ptx, ptx};
  const std::vector<std::string> names = {"first", "second"};
  TW_ASSIGN_OR_RETURN(std::string linked, target.link(objects, "kernel", names));
  TW_ASSIGN_OR_RETURN(std::shared_ptr<const LoadedCode> code, target.load(linked, names));
  const size_t bytes = size_t{10} << 20;
  std::vector<char> host(bytes, 'a');
  TW_ASSIGN_OR_RETURN(void* memory, target.allocate(bytes, 256));
  const std::shared_ptr<void> owner(memory, [&](void* at) { target.free(at); });
  TW_RETURN_IF_ERROR(target.copy(memory, host.data(), bytes, CopyKind::HostToDevice, nullptr));
  TW_RETURN_IF_ERROR(target.copy(memory, host.data(), 100, CopyKind::HostToDevice, nullptr));
  LaunchRequest request;
  request.entry = code->symbol("second");
  request.name = "second";
  void* buffers[] = {memory, memory};
  request.buffers = buffers;
  request.grid = 10;
  request.threads_per_block = 128;
  request.shared_bytes = 100 << 10;
  TW_RETURN_IF_ERROR(target.launch(request));
  TW_RETURN_IF_ERROR(
      target.copy(memory, static_cast<char*>(memory) + 4096, 4096, CopyKind::DeviceToDevice, nullptr));
  TW_RETURN_IF_ERROR(target.copy(host.data(), memory, bytes, CopyKind::DeviceToHost, nullptr));
  TW_RETURN_IF_ERROR(target.copy(host.data(), memory, 100, CopyKind::DeviceToHost, nullptr));
  return target.synchronize(nullptr);
}

#define OPEN(target)                                      \
  Result<std::shared_ptr<Target>> target = open_target(); \
  if (!target.is_ok()) GTEST_SKIP() << target.status().to_string()

TEST(Driver, DeviceIsFound) {
  OPEN(target);
  EXPECT_EQ((*target)->info().name, "nvptx:sm_90a");
  EXPECT_TRUE((*target)->info().is_runnable());
  EXPECT_NE((*target)->info().description.find("Fake H200"), std::string::npos);
  EXPECT_NE(create_target("nvptx:sm_80").value()->info().host_reason.find("nvptx:sm_90a"), std::string::npos);
}

TEST(Driver, EverythingIsUsedAndGivenBack) {
  OPEN(target);
  const long long before = used();
  const Status status = use_everything(**target);
  ASSERT_TRUE(status.is_ok()) << status.to_string();
  EXPECT_EQ(used(), before);
  EXPECT_EQ(contexts(), 0);
  EXPECT_EQ(calls("cuModuleLoadDataEx"), calls("cuModuleUnload"));
  EXPECT_EQ(calls("cuLinkCreate_v2"), calls("cuLinkDestroy"));
}

TEST(Driver, EveryErrorIsAStatus) {
  OPEN(target);
  const std::pair<const char*, int> faults[] = {
      {"cuMemAlloc_v2", 2},         {"cuMemcpyHtoDAsync_v2", 719}, {"cuMemcpyDtoHAsync_v2", 700},
      {"cuMemcpyDtoDAsync_v2", 1},  {"cuLaunchKernel", 1},         {"cuLaunchKernel", 719},
      {"cuStreamSynchronize", 700}, {"cuModuleLoadDataEx", 218},   {"cuModuleGetFunction", 500},
      {"cuLinkCreate_v2", 801},     {"cuLinkAddData_v2", 218},     {"cuLinkComplete", 209},
      {"cuCtxPushCurrent_v2", 201}, {"cuEventRecord", 400},        {"cuEventSynchronize", 700},
  };
  for (const auto& [function, error] : faults) {
    std::shared_ptr<Target> fresh = create_target("nvptx").value();
    Status status;
    {
      const Failing failing(function, error);
      status = use_everything(*fresh);
    }
    ASSERT_FALSE(status.is_ok()) << function;
    EXPECT_NE(status.message().find(cat("FAKE_ERROR_", error)), std::string::npos)
        << function << ": " << status.to_string();
    EXPECT_EQ(status.code() == Code::ResourceExhausted, error == 2) << function;
    EXPECT_EQ(contexts(), 0) << function;
  }
}

TEST(Driver, BrokenDeviceNamesItsKernelsAndStaysBroken) {
  OPEN(target);
  Status status;
  {
    const Failing failing("cuStreamSynchronize", 700);
    status = use_everything(**target);
  }
  EXPECT_NE(status.message().find("second"), std::string::npos) << status.to_string();
  EXPECT_EQ(status.code(), Code::Internal);
  EXPECT_EQ((*target)->synchronize(nullptr).message(), status.message());
}

TEST(Driver, LogOfARefusedModuleIsInTheStatus) {
  OPEN(target);
  const Failing failing("cuModuleLoadDataEx", 218);
  const Status status = use_everything(**target);
  EXPECT_NE(status.message().find("line 7; made up"), std::string::npos) << status.to_string();
}

Result<std::shared_ptr<Session>> open_session(const std::string& cache) {
  TW_ASSIGN_OR_RETURN(Flags flags, Flags::from_environment(nullptr));
  TW_RETURN_IF_ERROR(flags.set("target", "nvptx"));
  TW_RETURN_IF_ERROR(flags.set("cache", cache.empty() ? "off" : "rw"));
  if (!cache.empty()) TW_RETURN_IF_ERROR(flags.set("cache_dir", cache));
  return Session::create(std::move(flags));
}

// Two kernels that cannot be one.
constexpr const char* kGraph = R"(graph @g(%x: f32[64,64], %y: f32[64,64]) -> (f32[64,64]) {
  %0 = dot_general %x, %y {lhs_contract=[1], rhs_contract=[0]} : f32[64,64]
  %1 = dot_general %0, %y {lhs_contract=[1], rhs_contract=[0]} : f32[64,64]
  %2 = softmax %1 {dim=0} : f32[64,64]
  return %2
}
)";

Status run_graph(const std::shared_ptr<Session>& session, std::shared_ptr<Executable>* kept = nullptr) {
  TW_ASSIGN_OR_RETURN(Graph graph, parse_graph(kGraph));
  TW_ASSIGN_OR_RETURN(std::shared_ptr<Executable> executable, compile(session, std::move(graph), {}));
  if (kept) *kept = executable;
  std::vector<float> data(64 * 64, 1.0f);
  const std::vector<int64_t> sizes = {64, 64};
  const TensorView view{DType::F32, 2, sizes.data(), nullptr, data.data()};
  const TensorView* inputs[] = {&view, &view};
  const TensorView* given[] = {nullptr};
  std::vector<AskedTensor> asked(1);
  RunRequest request;
  request.inputs = inputs;
  request.given = given;
  request.asked = asked;
  return executable->run(request);
}

TEST(DriverSession, KernelsOfAGraphAreOneModule) {
  OPEN(target);
  std::shared_ptr<Session> session = open_session("").value();
  const int before = calls("cuModuleLoadDataEx");
  std::shared_ptr<Executable> executable;
  const Status status = run_graph(session, &executable);
  ASSERT_TRUE(status.is_ok()) << status.to_string();
  EXPECT_GT(executable->program().kernels.size(), 1u);
  EXPECT_TRUE(executable->program().fallbacks.empty());
  EXPECT_EQ(calls("cuModuleLoadDataEx"), before + 1);
}

TEST(DriverSession, ARefusedKernelIsInterpretedAndTheOthersAreNot) {
  OPEN(target);
  std::shared_ptr<Session> session = open_session("").value();
  const Failing failing("cuLinkComplete", 209);  // then kernels are loaded one by one
  std::shared_ptr<Executable> executable;
  const Status status = run_graph(session, &executable);
  ASSERT_TRUE(status.is_ok()) << status.to_string();
  EXPECT_TRUE(executable->program().fallbacks.empty());
}

TEST(DriverSession, LinkedKernelsComeFromTheCache) {
  OPEN(target);
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / cat("tw_linked_", getpid());
  std::filesystem::create_directories(folder);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  ASSERT_TRUE(run_graph(open_session(folder.string()).value()).is_ok());
  const int links = calls("cuLinkComplete");
  const Status again = run_graph(open_session(folder.string()).value());
  EXPECT_TRUE(again.is_ok()) << again.to_string();
  EXPECT_EQ(calls("cuLinkComplete"), links);
  std::filesystem::remove_all(folder);
}

TEST(DriverSession, OutOfMemoryIsAStatusAndTheSessionGoesOn) {
  OPEN(target);
  std::shared_ptr<Session> session = open_session("").value();
  setenv("TILEWRIGHT_FAKE_CUDA", "memory=20000", 1);
  const Status refused = run_graph(session);
  EXPECT_EQ(refused.code(), Code::ResourceExhausted) << refused.to_string();
  unsetenv("TILEWRIGHT_FAKE_CUDA");
  const Status status = run_graph(session);
  EXPECT_TRUE(status.is_ok()) << status.to_string();
}

TEST(DriverSession, MemoryIsGivenBackWithTheSession) {
  OPEN(target);
  const long long before = used();  // a broken device takes nothing back
  ASSERT_TRUE(run_graph(open_session("").value()).is_ok());
  EXPECT_EQ(used(), before);
}

// In processes whose made-up driver shows no device that fits, and where there is no driver at all.
TEST(Absent, DeviceIsAReasonNotACrash) {
  std::shared_ptr<Target> target = create_target("nvptx:sm_90a").value();
  ASSERT_FALSE(target->info().is_runnable());
  EXPECT_EQ(target->allocate(1, 1).status().code(), Code::Unimplemented);
  EXPECT_TRUE(target->compile(module_of_text(affine_block_kernel("kernel", target->info().limits.triple)), {})
                  .is_ok());
  for (const TargetListing& listing : list_targets())
    if (listing.spelling == "nvptx:sm_90a") {
      EXPECT_EQ(listing.host_reason, target->info().host_reason);
    }
  const Result<std::shared_ptr<Target>> any = create_target("nvptx");
  if (any.is_ok()) {
    EXPECT_TRUE((*any)->info().name != "nvptx:sm_90a" || !(*any)->info().is_runnable());
  }
}

TEST(JoinPtx, DefinitionsGetNamesOfTheirOwn) {
  const std::string_view text = R"(.version 8.8
.target sm_90a
.address_size 64

.extern .shared .align 16 .b8 shared[];
.global .align 4 .b8 table[8] = {1, 2, 3, 4};
.func (.param .b32 func_retval0) tw_helper(
	.param .b32 tw_helper_param_0
)
{
	ret;
}
.visible .entry kernel(
	.param .align 8 .b8 kernel_param_0[32]
)
{
	mov.u64 %rd1, table;
	mov.u64 %rd2, shared;
	call.uni (retval0), tw_helper, (param0);
	ret;
}
)";
  const std::string_view texts[] = {text, text};
  const std::vector<std::string> names = {"a", "b"};
  const std::string joined = cuda::join_ptx(texts, "kernel", names);
  const auto count = [&](std::string_view part) {
    size_t found = 0;
    for (size_t at = joined.find(part); at != joined.npos; at = joined.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count(".version"), 1u);
  EXPECT_EQ(count(".extern .shared"), 1u);
  EXPECT_EQ(count(".entry a("), 1u);
  EXPECT_EQ(count(".entry b("), 1u);
  EXPECT_EQ(count("mov.u64 %rd1, table_0;"), 1u);
  EXPECT_EQ(count("mov.u64 %rd1, table_1;"), 1u);
  EXPECT_EQ(count(" tw_helper_0(\n"), 1u);
  EXPECT_EQ(count("call.uni (retval0), tw_helper_1,"), 1u);
  EXPECT_EQ(count("mov.u64 %rd2, shared;"), 2u);
}

}  // namespace
}  // namespace tilewright
