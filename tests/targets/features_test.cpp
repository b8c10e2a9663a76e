// Feature sets, detection on made-up machines, and target spellings.
#include "targets/cpu/features.h"

#include <gtest/gtest.h>

#include <map>

#include "targets/cpu/spelling.h"
#include "targets/target.h"

namespace tilewright {
namespace {

// A machine whose CPUID has every bit set, with the given saved state.
CpuidSource full_machine(uint64_t xcr0) {
  CpuidSource source;
  source.cpuid = [](uint32_t, uint32_t) { return CpuidSource::Registers{~0u, ~0u, ~0u, ~0u}; };
  source.xcr0 = [xcr0] { return xcr0; };
  return source;
}

TEST(Detect, SavedStateDecides) {
  EXPECT_EQ(detect_features(full_machine(0xe7)).level(), 4);
  FeatureSet avx_only = detect_features(full_machine(0x7));  // a hypervisor that masks AVX-512 in XCR0 alone
  EXPECT_EQ(avx_only.level(), 3);
  EXPECT_FALSE(avx_only.has(Feature::Avx512f));
  EXPECT_TRUE(avx_only.has(Feature::AvxVnni));
  EXPECT_EQ(detect_features(full_machine(0x67)).level(), 3);  // upper 16 registers not saved
  FeatureSet sse = detect_features(full_machine(0x3));
  EXPECT_EQ(sse.level(), 2);
  EXPECT_FALSE(sse.has(Feature::F16c));
}

TEST(Detect, WithoutOsxsaveXgetbvIsNotRun) {
  CpuidSource source = full_machine(0);
  source.cpuid = [](uint32_t leaf, uint32_t) {
    CpuidSource::Registers registers{~0u, ~0u, ~0u, ~0u};
    if (leaf == 1) registers.ecx &= ~(1u << 27);
    return registers;
  };
  source.xcr0 = []() -> uint64_t {
    ADD_FAILURE() << "would be an illegal instruction";
    return ~uint64_t{0};
  };
  EXPECT_EQ(detect_features(source).level(), 2);
}

TEST(Detect, MaskedFeatureTakesWhatNeedsItAlong) {
  CpuidSource source = full_machine(0xe7);
  source.cpuid = [](uint32_t leaf, uint32_t subleaf) {
    CpuidSource::Registers registers{~0u, ~0u, ~0u, ~0u};
    if (leaf == 7 && subleaf == 0) registers.ebx &= ~(1u << 5);  // no AVX2
    return registers;
  };
  FeatureSet found = detect_features(source);
  EXPECT_FALSE(found.has(Feature::Avx2));
  EXPECT_FALSE(found.has(Feature::Avx512f));
  EXPECT_FALSE(found.has(Feature::Avx512bf16));
  EXPECT_TRUE(found.has(Feature::Fma));
}

TEST(Detect, NothingKnownIsTheBaseline) {
  CpuidSource source;
  source.cpuid = [](uint32_t, uint32_t) { return CpuidSource::Registers{}; };
  source.xcr0 = [] { return uint64_t{0}; };
  EXPECT_TRUE(detect_features(source).empty());
  EXPECT_EQ(detect_features(source).level(), 1);
  EXPECT_EQ(detect_caches(source).l1_bytes, 0);
  EXPECT_EQ(detect_brand(source), "unknown");
}

TEST(Detect, CachesFromEitherLeaf) {
  // 8 ways, 64-byte lines, 64 sets: 32 KB; the AMD leaf has the layout of the Intel one.
  for (uint32_t answering : {0x4u, 0x8000001du}) {
    CpuidSource source;
    source.cpuid = [answering](uint32_t leaf, uint32_t index) {
      CpuidSource::Registers r;
      if (leaf != answering || index > 3) return r;
      uint32_t types[] = {1, 2, 3, 3}, levels[] = {1, 1, 2, 3}, sets[] = {63, 63, 1023, 16383};
      r.eax = types[index] | (levels[index] << 5);
      r.ebx = (7u << 22) | 63u;
      r.ecx = sets[index];
      return r;
    };
    CacheSizes sizes = detect_caches(source);
    EXPECT_EQ(sizes.l1_bytes, 32 << 10);
    EXPECT_EQ(sizes.l2_bytes, 512 << 10);
    EXPECT_EQ(sizes.l3_bytes, 8 << 20);
  }
}

TEST(FeatureSet, IsClosedOverNeeds) {
  FeatureSet set;
  set.add(Feature::Avx512bf16);
  EXPECT_TRUE(set.has(Feature::Avx512bw));
  EXPECT_TRUE(set.has(Feature::Fma));
  EXPECT_TRUE(set.has(Feature::Sse3));
  set.remove(Feature::Avx);
  EXPECT_TRUE(set.has(Feature::Sse42));
  EXPECT_FALSE(set.has(Feature::F16c));
  EXPECT_FALSE(set.has(Feature::Avx512bf16));
}

TEST(FeatureSet, TextNamesEveryRow) {
  std::string text = FeatureSet::of_level(3).llvm_text();
  EXPECT_NE(text.find("+avx2"), std::string::npos);
  EXPECT_NE(text.find("-avx512f"), std::string::npos);
  EXPECT_LT(text.find("-avx512f"), text.find("+avx2"));
}

TEST(Limits, FollowFromFeatures) {
  struct Expected {
    int level, bytes, registers;
    bool fma, masks, half;
  };
  for (Expected e : {Expected{2, 16, 16, false, false, false}, Expected{3, 32, 16, true, false, true},
                     Expected{4, 64, 32, true, true, true}}) {
    TargetLimits limits;
    apply_features(FeatureSet::of_level(e.level), limits);
    EXPECT_EQ(limits.vector_bytes, e.bytes);
    EXPECT_EQ(limits.vector_registers, e.registers);
    EXPECT_EQ(limits.has_fma, e.fma);
    EXPECT_EQ(limits.has_masks, e.masks);
    EXPECT_EQ(limits.has_f16_convert, e.half);
    EXPECT_FALSE(limits.has_bf16_dot);
  }
}

Result<CpuSpelling> parse(std::string_view spelling) {
  return parse_cpu_spelling(spelling, FeatureSet::of_level(2));
}

TEST(Spelling, BasesAndChanges) {
  EXPECT_EQ(parse("native")->features.level(), 2);
  EXPECT_EQ(parse("x86-64-v3")->features, FeatureSet::of_level(3));
  EXPECT_EQ(parse("x86-64")->features.level(), 1);
  EXPECT_FALSE(parse("x86-64-v4,-avx512vl")->features.has(Feature::Avx512vl));
  EXPECT_EQ(parse("x86-64-v4,-avx2")->features.level(), 2);
  EXPECT_TRUE(parse("x86-64-v2+avx2,+fma")->features.has(Feature::Fma));
  EXPECT_TRUE(parse("znver4")->features.has(Feature::Avx512bf16));
  EXPECT_EQ(parse("haswell")->features.level(), 3);
  EXPECT_EQ(parse("skylake-avx512")->features.level(), 4);
  EXPECT_FALSE(parse("native,-sse4.2")->features.has(Feature::Sse42));
}

TEST(Spelling, ErrorsSayWhatWasExpected) {
  EXPECT_NE(parse("x86-64-v5").status().message().find("unknown processor 'x86-64-v5'"), std::string::npos);
  EXPECT_NE(parse("znver4,avx2").status().message().find("expected +feature or -feature"), std::string::npos);
  EXPECT_NE(parse("znver4,").status().message().find("expected +feature or -feature"), std::string::npos);
  EXPECT_NE(parse("native+avx9").status().to_string().find("unknown feature 'avx9'"), std::string::npos);
  EXPECT_NE(parse("native+").status().to_string().find("unknown feature ''"), std::string::npos);
}

TEST(Registry, UnknownTargetsListWhatThereIs) {
  for (const char* spelling : {"z80", "x86-64-v9", "nvptx:sm_1", "aarch64+sve", "riscv64", "loongarch64+lsx",
                               "native+mmx9", ",", "+avx2", "NULL", " native"}) {
    Result<std::shared_ptr<Target>> target = create_target(spelling);
    ASSERT_FALSE(target.is_ok()) << spelling;
    std::string text = target.status().to_string();
    EXPECT_NE(text.find("x86-64-v3"), std::string::npos) << text;
    EXPECT_NE(text.find("nvptx:sm_90a"), std::string::npos) << text;
  }
  EXPECT_EQ(create_target("aarch64").status().code(), Code::Unimplemented);
  EXPECT_EQ(create_target("z80").status().code(), Code::InvalidArgument);
}

TEST(Registry, EmptyMeansNative) {
  Result<std::shared_ptr<Target>> target = create_target("");
  ASSERT_TRUE(target.is_ok()) << target.status().to_string();
  EXPECT_EQ((*target)->info().name, "native");
  EXPECT_TRUE((*target)->info().is_runnable());
}

TEST(Registry, IdentityTellsFeaturesApart) {
  std::map<std::string, std::string> seen;
  for (const char* spelling : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4,-avx512vl", "x86-64-v3,-fma",
                               "nvptx:sm_90", "nvptx:sm_90a", "null"}) {
    auto [at, is_new] = seen.emplace((*create_target(spelling))->info().cache_identity, spelling);
    EXPECT_TRUE(is_new) << spelling << " and " << at->second;
  }
}

}  // namespace
}  // namespace tilewright
