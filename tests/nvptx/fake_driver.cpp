// A driver library that has no device behind it: it keeps "device" memory on the heap, runs nothing, and
// fails where TILEWRIGHT_FAKE_CUDA says so, as
// `devices=1;driver=13000;major=9;minor=0;memory=BYTES;fail=FUNCTION@COUNT:ERROR`.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace {

using DevicePointer = unsigned long long;

struct State {
  std::mutex mutex;
  std::map<std::string, int> calls;
  std::map<DevicePointer, size_t> memory;
  size_t used = 0;
  int contexts = 0;  // pushed and not popped
  int broken = 0;    // the error that every call gives from now on
};
State& state() {
  static auto* made = new State;
  return *made;
}

// The value behind `key=` in the settings.
std::string setting(const std::string& key, const std::string& otherwise) {
  const char* text = std::getenv("TILEWRIGHT_FAKE_CUDA");
  const std::string all = std::string(";") + (text ? text : "") + ";";
  const size_t at = all.find(";" + key + "=");
  if (at == std::string::npos) return otherwise;
  const size_t begin = at + key.size() + 2;
  return all.substr(begin, all.find(';', begin) - begin);
}
long long number(const std::string& key, long long otherwise) {
  const std::string text = setting(key, "");
  return text.empty() ? otherwise : std::atoll(text.c_str());
}

// Counts the call and says whether it is the one to fail; sticky errors break the rest.
int enter(const char* function) {
  State& s = state();
  const int count = ++s.calls[function];
  if (s.broken) return s.broken;
  const std::string fail = setting("fail", "");
  const size_t at = fail.find('@'), colon = fail.find(':');
  if (at == std::string::npos || fail.substr(0, at) != function) return 0;
  if (std::atoi(fail.c_str() + at + 1) != count) return 0;
  const int error = std::atoi(fail.c_str() + colon + 1);
  if (error >= 700) s.broken = error;
  return error;
}

}  // namespace

#define ENTER                                      \
  std::lock_guard<std::mutex> lock(state().mutex); \
  if (const int error = enter(__func__)) return error

extern "C" {

int cuInit(unsigned) {
  ENTER;
  return 0;
}
int cuDriverGetVersion(int* version) {
  ENTER;
  *version = static_cast<int>(number("driver", 13000));
  return 0;
}
int cuDeviceGetCount(int* count) {
  ENTER;
  *count = static_cast<int>(number("devices", 1));
  return 0;
}
int cuDeviceGet(int* device, int index) {
  ENTER;
  *device = index;
  return 0;
}
int cuDeviceGetName(char* name, int bytes, int) {
  ENTER;
  std::snprintf(name, static_cast<size_t>(bytes), "Fake H200");
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  ENTER;
  *value = attribute == 75   ? static_cast<int>(number("major", 9))
           : attribute == 76 ? static_cast<int>(number("minor", 0))
           : attribute == 97 ? static_cast<int>(number("shared", 227 << 10))
                             : 132;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  ENTER;
  *context = &state();
  return 0;
}
int cuCtxPushCurrent_v2(void*) {
  ENTER;
  ++state().contexts;
  return 0;
}
int cuCtxPopCurrent_v2(void**) {
  std::lock_guard<std::mutex> lock(state().mutex);
  --state().contexts;
  return 0;
}
int cuMemAlloc_v2(DevicePointer* pointer, size_t bytes) {
  ENTER;
  State& s = state();
  if (s.used + bytes > static_cast<size_t>(number("memory", 1LL << 40))) return 2;
  void* memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!memory) return 2;
  *pointer = reinterpret_cast<DevicePointer>(memory);
  s.memory[*pointer] = bytes;
  s.used += bytes;
  return 0;
}
int cuMemFree_v2(DevicePointer pointer) {
  ENTER;
  State& s = state();
  const auto found = s.memory.find(pointer);
  if (found == s.memory.end()) return 1;
  s.used -= found->second;
  s.memory.erase(found);
  std::free(reinterpret_cast<void*>(pointer));
  return 0;
}
int cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  ENTER;
  *memory = std::malloc(bytes);
  return *memory ? 0 : 2;
}
int cuMemFreeHost(void* memory) {
  ENTER;
  std::free(memory);
  return 0;
}
int cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, size_t bytes, void*) {
  ENTER;
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
int cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, size_t bytes, void*) {
  ENTER;
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return 0;
}
int cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes, void*) {
  ENTER;
  std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  return 0;
}

// A module is its text; its log is what a refused one says.
int cuModuleLoadDataEx(void** module, const void* image, unsigned count, int* options, void** values) {
  std::lock_guard<std::mutex> lock(state().mutex);
  if (const int error = enter(__func__)) {
    for (unsigned i = 0; i < count; ++i)
      if (options[i] == 5) std::strcpy(static_cast<char*>(values[i]), "ptxas fatal: line 7; made up");
    return error;
  }
  *module = new std::string(static_cast<const char*>(image));
  return 0;
}
int cuModuleUnload(void* module) {
  ENTER;
  delete static_cast<std::string*>(module);
  return 0;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  ENTER;
  const auto* text = static_cast<std::string*>(module);
  if (text->find(std::string(".entry ") + name + "(") == std::string::npos) return 500;
  *function = module;
  return 0;
}
int cuFuncSetAttribute(void*, int, int) {
  ENTER;
  return 0;
}
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                   void**) {
  ENTER;
  return 0;
}
int cuStreamSynchronize(void*) {
  ENTER;
  return 0;
}
int cuEventCreate(void** event, unsigned) {
  ENTER;
  *event = &state();
  return 0;
}
int cuEventRecord(void*, void*) {
  ENTER;
  return 0;
}
int cuEventSynchronize(void*) {
  ENTER;
  return 0;
}
int cuGetErrorName(int error, const char** name) {
  static thread_local char text[32];
  std::snprintf(text, sizeof text, "FAKE_ERROR_%d", error);
  *name = text;
  return 0;
}
int cuGetErrorString(int, const char** text) {
  *text = "an error of the fake driver";
  return 0;
}

// A link is its text, which the cubin is too.
int cuLinkCreate_v2(unsigned, int*, void**, void** link) {
  ENTER;
  *link = new std::string;
  return 0;
}
int cuLinkAddData_v2(void* link, int, void* data, size_t, const char*, unsigned, int*, void**) {
  ENTER;
  *static_cast<std::string*>(link) += static_cast<const char*>(data);
  return 0;
}
int cuLinkComplete(void* link, void** image, size_t* bytes) {
  ENTER;
  auto* text = static_cast<std::string*>(link);
  *image = text->data();
  *bytes = text->size();
  return 0;
}
int cuLinkDestroy(void* link) {
  ENTER;
  delete static_cast<std::string*>(link);
  return 0;
}

// For tests.
int fake_cuda_contexts() { return state().contexts; }
int fake_cuda_calls(const char* function) {
  std::lock_guard<std::mutex> lock(state().mutex);
  return state().calls[function];
}
void fake_cuda_mend() { state().broken = 0; }
long long fake_cuda_used() { return static_cast<long long>(state().used); }
}
