// Feature sets and their detection: CPUID says what the chip has, XCR0 what the operating system saves; names
// say nothing.
#include "targets/cpu/features.h"

#include <array>

#include "base/text.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tilewright {
namespace {

enum class Register { Eax, Ebx, Ecx, Edx };
enum class SavedState { Legacy, Avx, Avx512 };
constexpr size_t kFeatureCount = static_cast<size_t>(Feature::Count);

struct FeatureRow {
  std::string_view name;
  int level;
  uint32_t leaf, subleaf;
  Register reg;
  int bit;
  SavedState state;
  std::array<Feature, 3> needs;  // padded with Count
};

template <class... Needed>
constexpr std::array<Feature, 3> needs_of(Needed... needed) {
  std::array<Feature, 3> out{Feature::Count, Feature::Count, Feature::Count};
  size_t index = 0;
  ((out[index++] = needed), ...);
  return out;
}

const std::array<FeatureRow, kFeatureCount>& rows() {
  using enum Feature;
  static const std::array<FeatureRow, kFeatureCount> table = {{
#define FEATURE(id, name, level, leaf, subleaf, reg, bit, state, needs) \
  {name, level, leaf, subleaf, Register::reg, bit, SavedState::state, needs_of needs},
#include "targets/cpu/features.def"
#undef FEATURE
  }};
  return table;
}

const FeatureRow& row_of(size_t index) { return rows()[index]; }

bool is_saved(SavedState state, bool has_osxsave, uint64_t xcr0) {
  constexpr uint64_t kAvx = 0x6, kAvx512 = 0xe6;  // XMM and YMM; opmask and both ZMM parts on top
  switch (state) {
    case SavedState::Legacy: return true;
    case SavedState::Avx: return has_osxsave && (xcr0 & kAvx) == kAvx;
    case SavedState::Avx512: return has_osxsave && (xcr0 & kAvx512) == kAvx512;
  }
  return false;
}

uint32_t register_of(const CpuidSource::Registers& registers, Register reg) {
  switch (reg) {
    case Register::Eax: return registers.eax;
    case Register::Ebx: return registers.ebx;
    case Register::Ecx: return registers.ecx;
    case Register::Edx: return registers.edx;
  }
  return 0;
}

}  // namespace

FeatureSet FeatureSet::of_level(int level) {
  FeatureSet set;
  for (size_t i = 0; i < kFeatureCount; ++i) {
    if (row_of(i).level != 0 && row_of(i).level <= level) set.bits_.set(i);
  }
  return set;
}

void FeatureSet::add(Feature feature) {
  bits_.set(static_cast<size_t>(feature));
  for (Feature need : row_of(static_cast<size_t>(feature)).needs) {
    if (need != Feature::Count) add(need);
  }
}

void FeatureSet::remove(Feature feature) {
  bits_.reset(static_cast<size_t>(feature));
  for (size_t i = 0; i < kFeatureCount; ++i) {
    for (Feature need : row_of(i).needs) {
      if (need == feature && bits_[i]) remove(static_cast<Feature>(i));
    }
  }
}

FeatureSet FeatureSet::without(const FeatureSet& other) const {
  FeatureSet set = *this;
  set.bits_ &= ~other.bits_;
  return set;
}

int FeatureSet::level() const {
  int level = 1;
  while (level < 4 && contains(of_level(level + 1))) ++level;
  return level;
}

std::vector<std::string_view> FeatureSet::names() const {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < kFeatureCount; ++i) {
    if (bits_[i]) names.push_back(row_of(i).name);
  }
  return names;
}

std::string FeatureSet::llvm_text() const {
  // A feature that is off comes first: LLVM takes away what needs it, and must not take away what is on.
  std::string text;
  for (bool on : {false, true}) {
    for (size_t i = 0; i < kFeatureCount; ++i) {
      if (bits_[i] != on) continue;
      text += cat(text.empty() ? "" : ",", on ? '+' : '-', row_of(i).name);
    }
  }
  return text;
}

Result<Feature> find_feature(std::string_view name) {
  for (size_t i = 0; i < kFeatureCount; ++i) {
    if (row_of(i).name == name) return static_cast<Feature>(i);
  }
  std::string known = join(rows(), " ", [](const FeatureRow& row) { return row.name; });
  return Status::invalid(cat("unknown feature '", name, "', expected one of ", known));
}

CpuidSource machine_cpuid() {
  CpuidSource source;
#if defined(__x86_64__)
  source.cpuid = [](uint32_t leaf, uint32_t subleaf) {
    CpuidSource::Registers out;
    __get_cpuid_count(leaf, subleaf, &out.eax, &out.ebx, &out.ecx, &out.edx);
    return out;
  };
  source.xcr0 = [] {
    uint32_t low = 0, high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (static_cast<uint64_t>(high) << 32) | low;
  };
#else
  source.cpuid = [](uint32_t, uint32_t) { return CpuidSource::Registers{}; };
  source.xcr0 = [] { return uint64_t{0}; };
#endif
  return source;
}

FeatureSet detect_features(const CpuidSource& source) {
  constexpr uint32_t kOsxsave = 1u << 27;
  bool has_osxsave = (source.cpuid(1, 0).ecx & kOsxsave) != 0;
  uint64_t xcr0 = has_osxsave ? source.xcr0() : 0;
  FeatureSet found;
  for (size_t i = 0; i < kFeatureCount; ++i) {
    const FeatureRow& row = row_of(i);
    bool has = (register_of(source.cpuid(row.leaf, row.subleaf), row.reg) >> row.bit) & 1;
    bool has_needs = true;
    for (Feature need : row.needs) has_needs &= need == Feature::Count || found.has(need);
    // A hypervisor may mask a feature and leave those that need it: such a set is cut down, never completed.
    if (has && has_needs && is_saved(row.state, has_osxsave, xcr0)) found.add(static_cast<Feature>(i));
  }
  return found;
}

CacheSizes detect_caches(const CpuidSource& source) {
  CacheSizes sizes;
  for (uint32_t leaf : {0x4u, 0x8000001du}) {  // Intel, AMD: the same layout
    for (uint32_t index = 0; index < 16; ++index) {
      CpuidSource::Registers r = source.cpuid(leaf, index);
      uint32_t type = r.eax & 31, level = (r.eax >> 5) & 7;
      if (type == 0) break;
      if (type == 2) continue;  // instructions
      int64_t ways = (r.ebx >> 22) + 1, partitions = ((r.ebx >> 12) & 1023) + 1, line = (r.ebx & 4095) + 1;
      int64_t bytes = ways * partitions * line * (static_cast<int64_t>(r.ecx) + 1);
      if (level == 1) sizes.l1_bytes = bytes;
      if (level == 2) sizes.l2_bytes = bytes;
      if (level == 3) sizes.l3_bytes = bytes;
    }
    if (sizes.l1_bytes != 0) break;
  }
  return sizes;
}

std::string detect_brand(const CpuidSource& source) {
  std::string brand;
  for (uint32_t leaf = 0x80000002; leaf <= 0x80000004; ++leaf) {
    CpuidSource::Registers r = source.cpuid(leaf, 0);
    for (uint32_t word : {r.eax, r.ebx, r.ecx, r.edx}) {
      for (int byte = 0; byte < 4; ++byte) brand += static_cast<char>(word >> (8 * byte));
    }
  }
  brand = brand.substr(0, brand.find('\0'));
  size_t first = brand.find_first_not_of(' '), last = brand.find_last_not_of(' ');
  return first == std::string::npos ? "unknown" : brand.substr(first, last - first + 1);
}

void apply_features(const FeatureSet& features, TargetLimits& limits) {
  bool has_512 =
      features.has(Feature::Avx512bw) && features.has(Feature::Avx512dq) && features.has(Feature::Avx512vl);
  limits.vector_bytes = has_512 ? 64 : features.has(Feature::Avx2) ? 32 : 16;
  limits.vector_registers = has_512 ? 32 : 16;
  limits.has_fma = features.has(Feature::Fma);
  limits.has_masks = has_512;
  limits.has_gather = features.has(Feature::Avx2);
  limits.has_f16_convert = features.has(Feature::F16c);
  limits.has_f16_arithmetic = features.has(Feature::Avx512fp16);
  limits.has_bf16_dot = has_512 && features.has(Feature::Avx512bf16);
  limits.has_int8_dot = features.has(Feature::AvxVnni) || (has_512 && features.has(Feature::Avx512vnni));
  limits.fma_per_cycle = 2;
}

}  // namespace tilewright
