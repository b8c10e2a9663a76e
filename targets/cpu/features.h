// FeatureSet: which ISA features an x86-64 target has; closed over what a feature needs.
#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/target_limits.h"

namespace tilewright {

enum class Feature : uint32_t {
#define FEATURE(id, ...) id,
#include "targets/cpu/features.def"
#undef FEATURE
  Count
};

class FeatureSet {
 public:
  static FeatureSet of_level(int level);  // x86-64-v1 to v4

  bool has(Feature feature) const { return bits_[static_cast<size_t>(feature)]; }
  void add(Feature feature);     // with all that it needs
  void remove(Feature feature);  // with all that need it
  bool contains(const FeatureSet& other) const { return (other.bits_ & ~bits_).none(); }
  FeatureSet without(const FeatureSet& other) const;
  bool empty() const { return bits_.none(); }
  int level() const;  // highest psABI level that is contained whole

  std::vector<std::string_view> names() const;  // in table order
  std::string llvm_text() const;                // every row of the table, + or -
  bool operator==(const FeatureSet&) const = default;

 private:
  std::bitset<static_cast<size_t>(Feature::Count)> bits_;
};

// The row of that LLVM name, or a status that lists the names.
Result<Feature> find_feature(std::string_view name);

// Where facts about the machine come from; tests put a made-up machine here.
struct CpuidSource {
  struct Registers {
    uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  };
  std::function<Registers(uint32_t leaf, uint32_t subleaf)> cpuid;  // zeros above the highest leaf
  std::function<uint64_t()> xcr0;                                   // only asked where OSXSAVE is set
};
CpuidSource machine_cpuid();

// Features that the chip has and whose registers the operating system saves.
FeatureSet detect_features(const CpuidSource& source);

struct CacheSizes {
  int64_t l1_bytes = 0, l2_bytes = 0, l3_bytes = 0;
};
CacheSizes detect_caches(const CpuidSource& source);  // zeros where unknown
std::string detect_brand(const CpuidSource& source);  // for people

// Vector fields of the limits that follow from the features.
void apply_features(const FeatureSet& features, TargetLimits& limits);

}  // namespace tilewright
