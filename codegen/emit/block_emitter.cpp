// The frame of a kernel for blocks of threads: arguments, the walk over the grid, loops, barriers, scratch.
#include "codegen/emit/block_emitter.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/text.h"
#include "codegen/emit/block_product.h"
#include "codegen/emit/loops.h"

namespace tilewright {

using tile::Instruction;
using tile::Opcode;

namespace {
constexpr int32_t kMaxThreads = 256;
constexpr int64_t kBytesOfThread = 64;  // enough loads at once to hide their latency
constexpr int64_t kBytesOfThreadOfProduct = 16;
constexpr int64_t kThreadsOfProduct = 128;
constexpr int64_t kScratchAlign = 128;
}  // namespace

BlockEmitter::BlockEmitter(const tile::Kernel& kernel, EmitContext context, llvm::Function* function)
    : TileEmitter(kernel, context, function), ops_(context_) {
  threads_ = choose_threads();
}

// One thread for 64 bytes of the largest block of a buffer, or of the largest tile where only tiles are
// walked.
int32_t BlockEmitter::choose_threads() const {
  int64_t in_buffers = 0, in_tiles = 1, least = 1;
  bool has_products = false;
  std::function<void(const tile::Block&)> look = [&](const tile::Block& block) {
    for (const Instruction& instruction : block.body) {
      for (ValueId operand : instruction.operands) {
        in_tiles = std::max(in_tiles, type(operand).elements() * dtype_bytes(type(operand).dtype));
      }
      const bool is_load = instruction.opcode == Opcode::Load;
      if (is_load || instruction.opcode == Opcode::Store) {
        const tile::TileType& block_type = type(is_load ? instruction.results[0] : instruction.operands[0]);
        in_buffers = std::max(in_buffers, block_type.elements() * dtype_bytes(block_type.dtype));
      }
      has_products |= instruction.opcode == Opcode::Dot;
      if (instruction.opcode == Opcode::Dot || instruction.opcode == Opcode::Scan) least = kThreadsOfProduct;
      for (const tile::Block& inner : instruction.blocks) look(inner);
    }
  };
  look(kernel_.body);
  int64_t wanted = (in_buffers > 0 ? in_buffers : in_tiles) / kBytesOfThread;
  if (has_products) wanted = in_tiles / kBytesOfThreadOfProduct;
  wanted = std::max(wanted, least);
  const int64_t warp = std::max(1, context_.limits.warp_threads);
  const int64_t power =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(wanted, 1))));
  return static_cast<int32_t>(std::clamp<int64_t>(power, warp, kMaxThreads));
}

llvm::Value* BlockEmitter::buffer_pointer(Value* data) {
  if (!ops_.is_ptx()) return data;
  // Says that the memory is global, not shared or a thread's own.
  return b_.CreateAddrSpaceCast(b_.CreateAddrSpaceCast(data, b_.getPtrTy(1)), b_.getPtrTy());
}

Status BlockEmitter::emit() {
  Value* slots = function_->getArg(0);
  const size_t buffers = kernel_.params.size() + (kernel_.reports ? 1 : 0), scalars = kernel_.symbols.size();
  auto slot = [&](size_t index) { return b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), slots, index); };
  thread_ = ops_.thread_id();
  shared_ = ops_.shared_base();
  Value* grid = b_.CreateLoad(b_.getInt64Ty(), slot(buffers + scalars));
  Value* block = ops_.block_id();
  global_stride_ = b_.Insert(llvm::BinaryOperator::CreateAdd(i64(0), i64(0)));
  global_ = buffer_pointer(b_.CreateLoad(b_.getPtrTy(), slot(buffers + scalars + 1)));
  global_ = b_.CreateGEP(b_.getInt8Ty(), global_, b_.CreateMul(block, global_stride_));
  scratch_ = shared_;
  bind_arguments(slots, slot(buffers));
  Value* bits = i64(0);
  for (const ParamInfo& param : params_) {
    bits = b_.CreateOr(bits, b_.CreatePtrToInt(param.data, b_.getInt64Ty()));
  }
  all_aligned_ = b_.CreateICmpEQ(b_.CreateAnd(bits, i64(15)), i64(0));
  Value* blocks = ops_.block_count();
  for_loop(block, grid, blocks, [&](Value* instance) {
    emit_instance(instance);
    if (shared_bytes_ > 0 || global_bytes_ > 0 || !written_.empty()) barrier();
  });
  b_.CreateRetVoid();
  global_stride_->replaceAllUsesWith(i64(global_bytes_));
  global_stride_->eraseFromParent();
  return status_;
}

Status BlockEmitter::emit_instruction(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::LoadScalar: {
      Resources reads;
      add_definition_reads(instruction, reads);
      synchronize(reads, {});
      break;
    }
    default: break;
  }
  return TileEmitter::emit_instruction(instruction);
}

// ---- scratch
// ----------------------------------------------------------------------------------------------------------------

llvm::Value* BlockEmitter::new_scratch_bytes(int64_t bytes) {
  bytes = (bytes + kScratchAlign - 1) / kScratchAlign * kScratchAlign;
  bool fits = shared_bytes_ + bytes <= context_.limits.shared_bytes_per_block;
  int64_t& used = fits ? shared_bytes_ : global_bytes_;
  Value* base = fits ? shared_ : global_;
  // One instruction a piece of memory, never folded: it stands for the memory in the bookkeeping of barriers.
  auto* data = llvm::GetElementPtrInst::CreateInBounds(b_.getInt8Ty(), base, {i64(used)}, "scratch");
  data->insertAfter(llvm::cast<llvm::Instruction>(global_)->getIterator());
  used += bytes;
  return data;
}

// ---- barriers
// ---------------------------------------------------------------------------------------------------------------

void BlockEmitter::barrier() {
  ops_.barrier();
  read_.clear();
  written_.clear();
}

void BlockEmitter::synchronize(const Resources& reads, const Resources& writes) {
  auto meets = [](const Resources& a, const Resources& b) {
    return std::any_of(a.begin(), a.end(), [&](const void* each) { return b.count(each) > 0; });
  };
  if (meets(reads, written_) || meets(writes, written_) || meets(writes, read_)) barrier();
  read_.insert(reads.begin(), reads.end());
  written_.insert(writes.begin(), writes.end());
}

// Buffers that a launch may give the same memory count as one.
void BlockEmitter::add_param(int param, Resources& resources) const {
  const tile::Param& own = kernel_.params[static_cast<size_t>(param)];
  resources.insert(&own);
  for (const tile::Param& other : kernel_.params) {
    if (other.mode != own.mode && other.dtype == own.dtype && other.dims == own.dims)
      resources.insert(&other);
  }
}

void BlockEmitter::add_definition_reads(const Instruction& instruction, Resources& reads) const {
  if (instruction.opcode == Opcode::Load || instruction.opcode == Opcode::LoadScalar) {
    add_param(instruction.access.param, reads);
  }
  for (ValueId operand : TilePlan::read_values(instruction)) add_reads(operand, reads);
}

void BlockEmitter::add_reads(ValueId value, Resources& reads) const {
  auto tile = scratch_tiles_.find(value.index);
  if (tile != scratch_tiles_.end()) {
    reads.insert(tile->second.data);
    return;
  }
  const Instruction* source = plan_.definition(value);
  if (source) add_definition_reads(*source, reads);
}

// ---- loops
// ------------------------------------------------------------------------------------------------------------------

void BlockEmitter::fill_tiles(const std::vector<ValueId>& values, const std::vector<ScratchTile>& targets) {
  Resources reads, writes;
  for (ValueId value : values) add_reads(value, reads);
  for (const ScratchTile& target : targets) writes.insert(target.data);
  synchronize(reads, writes);
  TileEmitter::fill_tiles(values, targets);
}

// As in the base class, with barriers where values go to copies first.
void BlockEmitter::emit_yield(const Instruction& yield, const std::vector<ValueId>& params) {
  if (yield.opcode != Opcode::Yield) return;
  std::vector<ValueId> values;
  std::vector<ScratchTile> targets;
  Resources reads, writes;
  bool moves = false;
  std::set<uint32_t> overwritten;
  for (size_t i = 0; i < yield.operands.size(); ++i) {
    const ScratchTile& target = scratch_tiles_.at(params[i].index);
    auto source = scratch_tiles_.find(yield.operands[i].index);
    if (source != scratch_tiles_.end() && source->second.data == target.data) continue;
    values.push_back(yield.operands[i]);
    targets.push_back(target);
    overwritten.insert(params[i].index);
    add_reads(values.back(), reads);
    writes.insert(target.data);
    moves |= type(values[0]).shape != type(values.back()).shape;
  }
  for (ValueId value : values) {
    moves |= reads_moved(value, overwritten, false);
    moves |= scratch_tiles_.count(value.index) && overwritten.count(value.index) && values.size() > 1;
  }
  if (values.empty()) return;
  if (!moves) {
    fill_tiles(values, targets);
    return;
  }
  std::vector<ScratchTile> copies;
  for (ValueId value : values) copies.push_back(new_scratch(type(value)));
  fill_tiles(values, copies);
  for (size_t i = 0; i < values.size(); ++i) {
    synchronize({copies[i].data}, {targets[i].data});
    const tile::TileType& tile_type = type(values[i]);
    for_points(tile_type.shape, last_axis(tile_type.shape), {}, {}, [&](const Point& point) {
      write_scratch(targets[i], values[i], point, read_scratch(copies[i], values[i], point));
    });
  }
}

// The largest power of two up to 16 that surely divides the value.
int64_t BlockEmitter::known_multiple(const Dim& value) const {
  uint64_t all = static_cast<uint64_t>(value.constant_term());
  for (const Dim::Term& term : value.terms()) {
    uint64_t product = static_cast<uint64_t>(term.coefficient);
    for (const Dim::AtomRef& factor : term.atoms) {
      if (factor->kind != Dim::AtomKind::Symbol) continue;
      auto known = multiples_.find(factor->name);
      if (known != multiples_.end()) product *= static_cast<uint64_t>(known->second);
    }
    all |= product;
  }
  return static_cast<int64_t>(std::min<uint64_t>(16, all == 0 ? 16 : uint64_t{1} << std::countr_zero(all)));
}

Status BlockEmitter::emit_for(const Instruction& loop) {
  if (emit_tensor_loop(loop)) return status_;
  multiples_[loop.symbol] = std::min(known_multiple(loop.from), known_multiple(loop.step));
  const tile::Block& block = loop.blocks[0];
  std::vector<CarriedProduct> products = find_carried_products(loop);
  LoopValues start;
  Instruction yield;  // what goes through memory
  if (!block.body.empty()) yield = block.body.back();
  std::vector<ValueId> yielded, initial, params;
  std::vector<ScratchTile> tiles;
  auto in_registers = [&](size_t index) {
    return std::any_of(products.begin(), products.end(),
                       [&](const CarriedProduct& each) { return each.index == index; });
  };
  for (size_t i = 0; i < loop.results.size(); ++i) {
    if (in_registers(i)) continue;
    tiles.push_back(new_scratch(type(loop.results[i])));
    initial.push_back(loop.operands[i]);
    yielded.push_back(yield.operands[i]);
    params.push_back(block.params[i]);
  }
  yield.operands = yielded;
  for (CarriedProduct& each : products) {
    for (const CarriedProduct::Link& link : each.links) {
      link.product->prepare();
      carried_products_[link.dot] = &each;
    }
    std::vector<Value*> sums = each.links[0].product->start(loop.operands[each.index]);
    start.insert(start.end(), sums.begin(), sums.end());
  }
  fill_tiles(initial, tiles);
  for (size_t i = 0, next = 0; i < loop.results.size(); ++i) {
    if (in_registers(i)) continue;
    scratch_tiles_[loop.results[i].index] = tiles[next];
    scratch_tiles_[block.params[i].index] = tiles[next++];
  }
  Value *from = dim(loop.from), *to = dim(loop.to), *step = dim(loop.step);
  const Resources reads_before = read_, writes_before = written_;
  Status done;
  auto take = [&](const LoopValues& values) {
    auto at = values.begin();
    for (CarriedProduct& each : products) {
      const auto count = static_cast<std::ptrdiff_t>(each.links[0].product->register_count());
      each.sums.assign(at, at + count);
      at += count;
    }
  };
  take(emit_carried_loop(b_, from, to, step, start, [&](Value* index, const LoopValues& now) {
    barrier();  // what came before is one of two things: the code above or the end of this body
    take(now);
    symbols_[loop.symbol] = index;
    const bool loads_scalars = std::any_of(block.body.begin(), block.body.end(), [](const Instruction& each) {
      return each.opcode == Opcode::LoadScalar;
    });
    for (const CarriedProduct& each : products) {
      if (!loads_scalars) each.links[0].product->stage_ahead();
    }
    done = emit_block(block);
    if (done.is_ok() && !block.body.empty()) emit_yield(yield, params);
    LoopValues next;
    for (const CarriedProduct& each : products) next.insert(next.end(), each.sums.begin(), each.sums.end());
    return next;
  }));
  read_.insert(reads_before.begin(), reads_before.end());
  written_.insert(writes_before.begin(), writes_before.end());
  for (CarriedProduct& each : products) {
    for (const CarriedProduct::Link& link : each.links) carried_products_.erase(link.dot);
    scratch_tiles_[loop.results[each.index].index] = each.links[0].product->finish(each.sums);
  }
  return done.is_ok() ? status_ : done;
}

Status BlockEmitter::emit_if(const Instruction& branch) {
  std::vector<ScratchTile> tiles;
  for (ValueId result : branch.results) tiles.push_back(new_scratch(type(result)));
  fill_tiles(branch.operands, tiles);
  for (size_t i = 0; i < branch.results.size(); ++i) {
    scratch_tiles_[branch.results[i].index] = tiles[i];
    scratch_tiles_[branch.blocks[0].params[i].index] = tiles[i];
  }
  const Resources reads_before = read_, writes_before = written_;
  Status done;
  if_then(b_.CreateICmpSGT(dim(branch.condition), i64(0)), [&] {
    done = emit_block(branch.blocks[0]);
    if (done.is_ok() && !branch.blocks[0].body.empty())
      emit_yield(branch.blocks[0].body.back(), branch.blocks[0].params);
  });
  read_.insert(reads_before.begin(), reads_before.end());
  written_.insert(writes_before.begin(), writes_before.end());
  return done.is_ok() ? status_ : done;
}

int BlockEmitter::blocks_together() const {
  constexpr int64_t kMostRegisters = 64;   // that leave room for the rest in half of a thread's
  constexpr int64_t kSystemShared = 1024;  // what the chip keeps of a block's
  const bool fits = 2 * (shared_bytes_ + kSystemShared) <= context_.limits.shared_bytes_per_block;
  return product_registers_ > 0 && product_registers_ <= kMostRegisters && fits ? 2 : 1;
}

// ---- entry
// ------------------------------------------------------------------------------------------------------------------

Status emit_block_kernel(const tile::Kernel& kernel, EmitContext context, EmittedKernel* out) {
  llvm::IRBuilder<>& b = context.builder;
  const bool is_ptx = llvm::Triple(context.limits.triple).isNVPTX();
  auto* signature = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false);
  auto* function =
      llvm::Function::Create(signature, llvm::Function::ExternalLinkage, out->entry, context.module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  b.SetInsertPoint(llvm::BasicBlock::Create(context.llvm(), "entry", function));
  BlockEmitter emitter(kernel, context, function);
  if (is_ptx) {
    const size_t slots = kernel.params.size() + (kernel.reports ? 1 : 0) + kernel.symbols.size() + 2;
    function->setCallingConv(llvm::CallingConv::PTX_Kernel);
    function->addFnAttr("nvvm.maxntid", cat(emitter.threads()));
    function->addParamAttr(
        0, llvm::Attribute::getWithByValType(context.llvm(), llvm::ArrayType::get(b.getInt64Ty(), slots)));
    function->addParamAttr(0, llvm::Attribute::getWithAlignment(context.llvm(), llvm::Align(8)));
    function->addParamAttr(0, llvm::Attribute::get(context.llvm(), "nvvm.grid_constant"));
  }
  TW_RETURN_IF_ERROR(emitter.emit());
  if (is_ptx && emitter.blocks_together() > 1)
    function->addFnAttr("nvvm.minctasm", cat(emitter.blocks_together()));
  out->threads_per_block = emitter.threads();
  out->shared_bytes = emitter.shared_bytes();
  out->scratch_bytes = emitter.global_scratch_bytes();
  return Status::ok();
}

}  // namespace tilewright
