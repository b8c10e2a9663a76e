// Reads CPU spellings: a base that stands for a set of features, then features to add and to take away.
#include "targets/cpu/spelling.h"

#include <llvm/TargetParser/X86TargetParser.h>

#include "base/text.h"

namespace tilewright {
namespace {

Result<FeatureSet> features_of_base(std::string_view base, const FeatureSet& host) {
  if (base == "native") return host;
  for (int level = 1; level <= 4; ++level) {
    if (base == cat("x86-64-v", level)) return FeatureSet::of_level(level);
  }
  if (!is_x86_cpu_name(base)) {
    return Status::invalid(cat("unknown processor '", base,
                               "', expected native, x86-64-v2, x86-64-v3, x86-64-v4 or a "
                               "processor name that LLVM knows, such as haswell or znver4"));
  }
  llvm::SmallVector<llvm::StringRef, 64> names;
  llvm::X86::getFeaturesForCPU(llvm::StringRef(base), names);
  FeatureSet features;
  for (llvm::StringRef name : names) {
    Result<Feature> feature = find_feature(std::string_view(name));
    if (feature.is_ok()) features.add(*feature);  // others are not used by kernels
  }
  return features;
}

}  // namespace

std::string_view spelling_base(std::string_view spelling) {
  return spelling.substr(0, spelling.find_first_of("+,"));
}

bool is_x86_cpu_name(std::string_view name) {
  return llvm::X86::parseArchX86(llvm::StringRef(name), /*Only64Bit=*/true) != llvm::X86::CK_None;
}

Result<CpuSpelling> parse_cpu_spelling(std::string_view spelling, const FeatureSet& host) {
  CpuSpelling out;
  out.base = spelling_base(spelling);
  if (out.base.empty()) return Status::invalid(cat("target '", spelling, "' names no processor"));
  out.is_native = out.base == "native";
  TW_ASSIGN_OR_RETURN(out.features, features_of_base(out.base, host));
  size_t at = out.base.size();
  while (at < spelling.size()) {
    if (spelling[at] == ',') ++at;
    char sign = at < spelling.size() ? spelling[at] : '\0';
    if (sign != '+' && sign != '-') {
      return Status::invalid(
          cat("target '", spelling, "': expected +feature or -feature after '", spelling.substr(0, at), "'"));
    }
    size_t end = std::min(spelling.find_first_of("+,", at + 1), spelling.size());
    std::string_view name = spelling.substr(at + 1, end - at - 1);
    Result<Feature> feature = find_feature(name);
    if (!feature.is_ok()) return feature.status().because(cat("cannot read target '", spelling, "'"));
    sign == '+' ? out.features.add(*feature) : out.features.remove(*feature);
    out.changes += cat(',', sign, name);
    at = end;
  }
  return out;
}

}  // namespace tilewright
