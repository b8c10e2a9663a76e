// The process's ORC session: one JITDylib a loaded object, code packed into shared slabs, symbols only from
// the export table.
#include "targets/cpu/object_loader.h"

#include <llvm/ExecutionEngine/JITLink/JITLink.h>
#include <llvm/ExecutionEngine/Orc/AbsoluteSymbols.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/MapperJITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/MemoryMapper.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "base/text.h"
#include "targets/cpu/exports.h"
#include "targets/llvm/guard.h"

namespace tilewright {
namespace {

LLVM_ENABLE_BITMASK_ENUMS_IN_NAMESPACE();

// Address space is reserved in pieces of this size; code of many kernels shares one.
constexpr size_t kSlabBytes = 1 << 20;

Status to_status(llvm::Error error, std::string_view doing) {
  std::string text = llvm::toString(std::move(error));
  while (!text.empty() && (text.back() == '\n' || text.back() == '.')) text.pop_back();
  return Status::runtime(cat(doing, ": ", text));
}

// Makes read-only data executable too, so that neighbours in a slab have equal protection and cost one
// mapping, not two each.
class OneSegment final : public llvm::orc::LinkGraphLinkingLayer::Plugin {
 public:
  void modifyPassConfig(llvm::orc::MaterializationResponsibility&, llvm::jitlink::LinkGraph&,
                        llvm::jitlink::PassConfiguration& config) override {
    config.PostPrunePasses.push_back([](llvm::jitlink::LinkGraph& graph) {
      merge(graph);
      return llvm::Error::success();
    });
    config.PreFixupPasses.push_back([this](llvm::jitlink::LinkGraph& graph) {
      size_t bytes = 0;
      for (llvm::jitlink::Block* block : graph.blocks()) bytes += block->getSize();
      last_bytes_ = bytes;
      return llvm::Error::success();
    });
  }
  llvm::Error notifyFailed(llvm::orc::MaterializationResponsibility&) override {
    return llvm::Error::success();
  }
  llvm::Error notifyRemovingResources(llvm::orc::JITDylib&, llvm::orc::ResourceKey) override {
    return llvm::Error::success();
  }
  void notifyTransferringResources(llvm::orc::JITDylib&, llvm::orc::ResourceKey,
                                   llvm::orc::ResourceKey) override {}
  size_t last_bytes() const { return last_bytes_; }  // of the object linked last, under the session's mutex

 private:
  static void merge(llvm::jitlink::LinkGraph& graph) {
    using llvm::orc::MemProt;
    for (llvm::jitlink::Section& section : graph.sections()) {
      if ((section.getMemProt() & MemProt::Write) == MemProt::None) {
        section.setMemProt(MemProt::Read | MemProt::Exec);
      }
    }
  }
  std::atomic<size_t> last_bytes_{0};
};

}  // namespace

class ObjectLoader::Session {
 public:
  static Result<std::unique_ptr<Session>> create();

  Result<llvm::orc::JITDylib*> link(std::string_view object, std::span<const std::string> symbols,
                                    std::span<const HostExport> extra,
                                    std::map<std::string, void*, std::less<>>& addresses, size_t& code_bytes);
  void unload(llvm::orc::JITDylib& dylib);
  pid_t owner() const { return owner_; }

 private:
  explicit Session(std::unique_ptr<llvm::orc::ExecutorProcessControl> control)
      : session_(std::move(control)), layer_(session_) {}
  Status start();
  Status define(llvm::orc::JITDylib& dylib, std::span<const HostExport> exports);
  Status link_into(llvm::orc::JITDylib& dylib, std::string_view object, std::span<const std::string> symbols,
                   std::span<const HostExport> extra, std::map<std::string, void*, std::less<>>& addresses);

  std::mutex mutex_;
  llvm::orc::ExecutionSession session_;
  llvm::orc::ObjectLinkingLayer layer_;
  std::shared_ptr<OneSegment> one_segment_ = std::make_shared<OneSegment>();
  llvm::orc::JITDylib* exports_ = nullptr;
  std::string reported_;  // what ORC said beside the error that it returned
  uint64_t counter_ = 0;
  pid_t owner_ = getpid();
};

Result<std::unique_ptr<ObjectLoader::Session>> ObjectLoader::Session::create() {
  auto memory =
      llvm::orc::MapperJITLinkMemoryManager::CreateWithMapper<llvm::orc::InProcessMemoryMapper>(kSlabBytes);
  if (!memory) return to_status(memory.takeError(), "cannot make a code memory manager");
  auto control = llvm::orc::SelfExecutorProcessControl::Create(
      nullptr, std::make_unique<llvm::orc::InPlaceTaskDispatcher>(), std::move(*memory));
  if (!control) return to_status(control.takeError(), "cannot start ORC");
  std::unique_ptr<Session> session(new Session(std::move(*control)));
  TW_RETURN_IF_ERROR(session->start());
  return session;
}

Status ObjectLoader::Session::start() {
  session_.setErrorReporter([this](llvm::Error error) {
    reported_ += cat(reported_.empty() ? "" : "; ", llvm::toString(std::move(error)));
  });
  layer_.addPlugin(one_segment_);
  exports_ = &session_.createBareJITDylib("exports");
  return define(*exports_, host_exports());
}

Status ObjectLoader::Session::define(llvm::orc::JITDylib& dylib, std::span<const HostExport> exports) {
  llvm::orc::SymbolMap symbols;
  for (const HostExport& entry : exports) {
    symbols[session_.intern(llvm::StringRef(entry.symbol))] = {
        llvm::orc::ExecutorAddr::fromPtr(entry.address),
        llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  }
  if (auto error = dylib.define(llvm::orc::absoluteSymbols(std::move(symbols)))) {
    return to_status(std::move(error), "cannot define the exported functions");
  }
  return Status::ok();
}

Status ObjectLoader::Session::link_into(llvm::orc::JITDylib& dylib, std::string_view object,
                                        std::span<const std::string> symbols,
                                        std::span<const HostExport> extra,
                                        std::map<std::string, void*, std::less<>>& addresses) {
  dylib.addToLinkOrder(*exports_);
  if (!extra.empty()) TW_RETURN_IF_ERROR(define(dylib, extra));
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(object), dylib.getName());
  if (auto error = layer_.add(dylib, std::move(buffer)))
    return to_status(std::move(error), "cannot read object");
  llvm::orc::SymbolLookupSet wanted;
  for (const std::string& name : symbols) wanted.add(session_.intern(name));
  wanted.sortByAddress();
  wanted.removeDuplicates();
  auto found =
      session_.lookup({{&dylib, llvm::orc::JITDylibLookupFlags::MatchAllSymbols}}, std::move(wanted));
  if (!found) {
    Status status = to_status(found.takeError(), "cannot link object");
    return reported_.empty() ? status : Status::runtime(cat(status.message(), ": ", reported_));
  }
  for (auto& [name, definition] : *found) {
    addresses[(*name).str()] = definition.getAddress().toPtr<void*>();
  }
  return Status::ok();
}

Result<llvm::orc::JITDylib*> ObjectLoader::Session::link(std::string_view object,
                                                         std::span<const std::string> symbols,
                                                         std::span<const HostExport> extra,
                                                         std::map<std::string, void*, std::less<>>& addresses,
                                                         size_t& code_bytes) {
  std::lock_guard lock(mutex_);
  reported_.clear();
  llvm::orc::JITDylib& dylib = session_.createBareJITDylib(cat("object", counter_++));
  GuardOutcome outcome = run_guarded([&] { return link_into(dylib, object, symbols, extra, addresses); });
  if (outcome.was_fatal) return outcome.status;  // leaves the half-linked dylib where it is
  if (!outcome.status.is_ok()) {
    llvm::consumeError(session_.removeJITDylib(dylib));
    return outcome.status;
  }
  code_bytes = one_segment_->last_bytes();
  return &dylib;
}

void ObjectLoader::Session::unload(llvm::orc::JITDylib& dylib) {
  std::lock_guard lock(mutex_);
  llvm::consumeError(session_.removeJITDylib(dylib));
  if (counter_ % 64 == 0) session_.getSymbolStringPool()->clearDeadEntries();
}

class CpuCode final : public LoadedCode {
 public:
  CpuCode(ObjectLoader::Session* session, llvm::orc::JITDylib* dylib,
          std::map<std::string, void*, std::less<>> addresses, size_t code_bytes)
      : session_(session), dylib_(dylib), addresses_(std::move(addresses)), code_bytes_(code_bytes) {}
  ~CpuCode() override {
    // A forked child cannot know who held the parent's locks: it leaves the parent's code mapped.
    if (session_->owner() == getpid()) session_->unload(*dylib_);
  }
  void* symbol(std::string_view name) const override {
    auto found = addresses_.find(name);
    return found == addresses_.end() ? nullptr : found->second;
  }
  size_t code_bytes() const override { return code_bytes_; }

 private:
  ObjectLoader::Session* session_;
  llvm::orc::JITDylib* dylib_;
  std::map<std::string, void*, std::less<>> addresses_;
  size_t code_bytes_;
};

ObjectLoader::ObjectLoader(std::unique_ptr<Session> session) : session_(std::move(session)) {}

Result<ObjectLoader*> ObjectLoader::of_process() {
  static std::atomic<ObjectLoader*> current{nullptr};
  ObjectLoader* loader = current.load(std::memory_order_acquire);
  while (!loader || loader->session_->owner() != getpid()) {
    TW_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::create());
    auto* fresh = new ObjectLoader(std::move(session));
    // A loser's session is empty and stays: ending it would need locks that nobody else has use for.
    if (current.compare_exchange_strong(loader, fresh, std::memory_order_acq_rel)) return fresh;
  }
  return loader;
}

Result<std::shared_ptr<const LoadedCode>> ObjectLoader::load(std::string_view object,
                                                             std::span<const std::string> symbols,
                                                             std::span<const HostExport> extra) {
  std::map<std::string, void*, std::less<>> addresses;
  size_t code_bytes = 0;
  TW_ASSIGN_OR_RETURN(llvm::orc::JITDylib * dylib,
                      session_->link(object, symbols, extra, addresses, code_bytes));
  return std::shared_ptr<const LoadedCode>(
      std::make_shared<CpuCode>(session_.get(), dylib, std::move(addresses), code_bytes));
}

Status check_undefined_symbols(std::string_view object, std::span<const HostExport> extra) {
  llvm::MemoryBufferRef buffer(llvm::StringRef(object), "object");
  auto file = llvm::object::ObjectFile::createELFObjectFile(buffer);
  if (!file) return to_status(file.takeError(), "cannot read object");
  std::string missing;
  for (const llvm::object::SymbolRef& symbol : (*file)->symbols()) {
    auto flags = symbol.getFlags();
    if (!flags) return to_status(flags.takeError(), "cannot read object");
    if (!(*flags & llvm::object::SymbolRef::SF_Undefined)) continue;
    auto name = symbol.getName();
    if (!name) return to_status(name.takeError(), "cannot read object");
    if (name->empty() || is_host_export(std::string_view(*name))) continue;
    const auto is_this = [&](const HostExport& entry) { return entry.symbol == std::string_view(*name); };
    if (std::any_of(extra.begin(), extra.end(), is_this)) continue;
    missing += cat(missing.empty() ? "" : ", ", std::string_view(*name));
  }
  if (missing.empty()) return Status::ok();
  return Status::unimplemented(cat("code calls ", missing, ", which no target row of exports.def gives"));
}

}  // namespace tilewright
