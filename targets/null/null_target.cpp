// NullTarget: every function of a target in its smallest honest form.
#include "targets/null/null_target.h"

#include <cstdlib>

#include "base/text.h"

namespace tilewright {
namespace {

class NullTarget final : public Target {
 public:
  explicit NullTarget(TargetInfo info) : Target(std::move(info)) {}

  // The bytes say that nothing was made, and are never empty: an empty object means a fault elsewhere.
  Result<std::string> compile(EmittedModule module, const CompileOptions& options) const override {
    if (!module.context || !module.module) return Status::invalid("no module to compile");
    std::string text = "null object\n";
    if (options.asm_text) *options.asm_text = text;
    return text;
  }

  Result<std::shared_ptr<const LoadedCode>> load(std::string_view,
                                                 std::span<const std::string>) const override {
    return Status::unimplemented(cat("load: ", info_.host_reason));
  }

  Result<void*> allocate(size_t, size_t) const override { return unimplemented("allocate"); }
  void free(void*) const override {}
  Status copy(void*, const void*, size_t, CopyKind, void*) const override { return unimplemented("copy"); }
  Status launch(const LaunchRequest&) const override { return unimplemented("launch"); }
  Status synchronize(void*) const override { return Status::ok(); }

 private:
  Status unimplemented(std::string_view what) const {
    return Status::unimplemented(cat(what, ": ", info_.host_reason));
  }
};

constexpr std::string_view kReason = "the null target runs nothing";

}  // namespace

bool claims_null(std::string_view spelling) { return spelling == "null"; }

Result<std::shared_ptr<Target>> create_null(std::string_view) {
  TargetInfo info;
  info.family = "null";
  info.name = "null";
  info.description = "compiles and runs nothing";
  info.isa = "null";
  info.cache_identity = "null";
  info.host_reason = kReason;
  info.limits.kind = TargetKind::Null;
  return std::shared_ptr<Target>(std::make_shared<NullTarget>(std::move(info)));
}

void list_null(std::vector<TargetListing>& listings) {
  listings.push_back({"null", "null", "compiles and runs nothing", std::string(kReason)});
}

}  // namespace tilewright
