// The frame of an emitted kernel: grid, blocks, loops, scalar expressions, and the entry point emit_kernel.
#include "codegen/emit/tile_emitter.h"

#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>

#include "base/text.h"
#include "codegen/emit/block_emitter.h"
#include "codegen/emit/loops.h"

namespace tilewright {

using tile::Instruction;
using tile::Opcode;

TileEmitter::TileEmitter(const tile::Kernel& kernel, EmitContext context, llvm::Function* function)
    : kernel_(kernel),
      context_(context),
      b_(context.builder),
      function_(function),
      plan_(kernel, context.is_cpu()) {
  llvm::MDBuilder metadata(b_.getContext());
  scope_domain_ = metadata.createAnonymousAliasScopeDomain("kernel");
  // One scope a param and one for scratch: buffers that a launch gives to different params do not overlap.
  std::vector<llvm::Metadata*> all;
  for (size_t i = 0; i <= kernel.params.size(); ++i) {
    scopes_.push_back(metadata.createAnonymousAliasScope(scope_domain_, "buffer"));
    all.push_back(scopes_.back());
  }
  auto may_share = [&](size_t a, size_t b) {
    if (a >= kernel.params.size() || b >= kernel.params.size()) return false;
    const tile::Param &x = kernel.params[a], &y = kernel.params[b];
    return x.mode != y.mode && x.dtype == y.dtype && x.dims == y.dims;
  };
  for (size_t i = 0; i <= kernel.params.size(); ++i) {
    // An output may be written over an input of its type: such a pair is not told apart.
    std::vector<llvm::Metadata*> others;
    for (size_t k = 0; k <= kernel.params.size(); ++k) {
      if (k != i && !may_share(i, k)) others.push_back(all[k]);
    }
    other_scopes_.push_back(llvm::MDNode::get(b_.getContext(), others));
  }
}

llvm::AllocaInst* TileEmitter::entry_alloca(llvm::Type* type) {
  llvm::BasicBlock& entry = function_->getEntryBlock();
  llvm::IRBuilder<> at(&entry, entry.begin());
  return at.CreateAlloca(type);
}

void TileEmitter::for_loop(Value* from, Value* to, Value* step, const Body& body) {
  emit_loop(b_, from, to, step, body);
}

void TileEmitter::if_then(Value* condition, const std::function<void()>& body) {
  auto* then = llvm::BasicBlock::Create(b_.getContext(), "then", function_);
  auto* after = llvm::BasicBlock::Create(b_.getContext(), "after", function_);
  b_.CreateCondBr(condition, then, after);
  b_.SetInsertPoint(then);
  body();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

llvm::Value* TileEmitter::atom(const Dim::Atom& atom) {
  if (atom.kind == Dim::AtomKind::Symbol) {
    auto found = symbols_.find(atom.name);
    if (found != symbols_.end()) return found->second;
    fail(Status::invalid(cat("kernel @", kernel_.name, ": symbol ", atom.name, " has no value here")));
    return i64(0);
  }
  Value *lhs = dim(atom.lhs), *rhs = dim(atom.rhs);
  switch (atom.kind) {
    case Dim::AtomKind::Symbol: break;
    case Dim::AtomKind::Min: return b_.CreateSelect(b_.CreateICmpSLT(lhs, rhs), lhs, rhs);
    case Dim::AtomKind::Max: return b_.CreateSelect(b_.CreateICmpSGT(lhs, rhs), lhs, rhs);
    case Dim::AtomKind::FloorDiv:
    case Dim::AtomKind::Mod: {
      Value* rest = b_.CreateSRem(lhs, rhs);
      Value* wrong =
          b_.CreateAnd(b_.CreateICmpNE(rest, i64(0)), b_.CreateICmpSLT(b_.CreateXor(rest, rhs), i64(0)));
      if (atom.kind == Dim::AtomKind::Mod) return b_.CreateAdd(rest, b_.CreateSelect(wrong, rhs, i64(0)));
      return b_.CreateSub(b_.CreateSDiv(lhs, rhs), b_.CreateZExt(wrong, b_.getInt64Ty()));
    }
  }
  return i64(0);
}

llvm::Value* TileEmitter::dim(const Dim& value) {
  Value* sum = nullptr;
  for (const Dim::Term& term : value.terms()) {
    Value* product = nullptr;
    for (const Dim::AtomRef& factor : term.atoms) {
      Value* next = atom(*factor);
      product = product ? b_.CreateMul(product, next) : next;
    }
    if (term.coefficient != 1) product = b_.CreateMul(product, i64(term.coefficient));
    sum = sum ? b_.CreateAdd(sum, product) : product;
  }
  if (!sum) return i64(value.constant_term());
  return value.constant_term() == 0 ? sum : b_.CreateAdd(sum, i64(value.constant_term()));
}

void TileEmitter::bind_arguments(Value* buffers, Value* scalars) {
  for (size_t i = 0; i < kernel_.symbols.size(); ++i) {
    Value* address = b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), scalars, i);
    symbols_[kernel_.symbols[i].name] = b_.CreateLoad(b_.getInt64Ty(), address);
  }
  for (size_t i = 0; i < kernel_.params.size(); ++i) {
    const tile::Param& param = kernel_.params[i];
    ParamInfo info;
    info.data = buffer_pointer(
        b_.CreateLoad(b_.getPtrTy(), b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), buffers, i)));
    std::vector<Dim> strides = param.strides;
    if (strides.empty()) {
      strides.assign(param.dims.size(), Dim(1));
      for (size_t d = param.dims.size(); d-- > 1;) strides[d - 1] = strides[d] * param.dims[d];
    }
    for (const Dim& size : param.dims) info.dims.push_back(dim(size));
    for (const Dim& stride : strides) info.strides.push_back(dim(stride));
    params_.push_back(std::move(info));
  }
  if (kernel_.reports) {
    Value* address = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), buffers, kernel_.params.size());
    error_word_ = buffer_pointer(b_.CreateLoad(b_.getPtrTy(), address));
  }
}

Status TileEmitter::emit() {
  scratch_ = function_->getArg(4);
  bind_arguments(function_->getArg(0), function_->getArg(1));
  for_loop(function_->getArg(2), function_->getArg(3), i64(1),
           [&](Value* instance) { emit_instance(instance); });
  b_.CreateRetVoid();
  return status_;
}

void TileEmitter::emit_instance(Value* instance) {
  Value* rest = instance;
  for (size_t i = kernel_.grid.size(); i-- > 0;) {
    Value* size = i == 0 ? nullptr : dim(kernel_.grid[i]);
    symbols_[tile::grid_symbol(static_cast<int>(i))] = i == 0 ? rest : b_.CreateURem(rest, size);
    if (i > 0) rest = b_.CreateUDiv(rest, size);
  }
  if (!kernel_.grid.empty()) {
    moves_.emplace_back(tile::grid_symbol(static_cast<int>(kernel_.grid.size()) - 1), i64(1));
  }
  Status done = emit_block(kernel_.body);
  moves_.clear();
  if (!done.is_ok()) fail(done);
}

Status TileEmitter::emit_block(const tile::Block& block) {
  for (const TileStep& step : plan_.steps(block)) {
    if (step.instruction) {
      TW_RETURN_IF_ERROR(emit_instruction(*step.instruction));
    } else {
      emit_step(step);
    }
    if (!status_.is_ok()) return status_;
  }
  return Status::ok();
}

Status TileEmitter::emit_instruction(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::Store: emit_ordered_store(instruction); break;
    case Opcode::Reshape: {
      ScratchTile tile = new_scratch(
          tile::TileType{type(instruction.results[0]).dtype, {type(instruction.results[0]).elements()}});
      // Row-major regrouping: the operand is written densely and read with the strides of the result.
      ScratchTile dense = tile, view = tile;
      dense.strides = dense_strides(type(instruction.operands[0]).shape);
      view.strides = dense_strides(type(instruction.results[0]).shape);
      fill_tiles({instruction.operands[0]}, {dense});
      scratch_tiles_[instruction.results[0].index] = view;
      break;
    }
    case Opcode::LoadScalar: emit_load_scalar(instruction); break;
    case Opcode::Reduce: emit_reduce(instruction); break;
    case Opcode::Scan: emit_scan(instruction); break;
    case Opcode::Dot: emit_dot(instruction); break;
    case Opcode::For: return emit_for(instruction);
    case Opcode::If: return emit_if(instruction);
    case Opcode::Report: emit_report(instruction); break;
    default: return Status::internal("a tile instruction without an emitter");
  }
  return status_;
}

std::vector<int64_t> TileEmitter::dense_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

Status TileEmitter::emit_for(const Instruction& loop) {
  std::vector<ScratchTile> tiles;
  for (ValueId result : loop.results) tiles.push_back(new_scratch(type(result)));
  fill_tiles(loop.operands, tiles);
  for (size_t i = 0; i < loop.results.size(); ++i) {
    scratch_tiles_[loop.results[i].index] = tiles[i];
    scratch_tiles_[loop.blocks[0].params[i].index] = tiles[i];
  }
  Value *from = dim(loop.from), *to = dim(loop.to), *step = dim(loop.step);
  std::set<uint32_t> outer_carries = std::move(carries_);
  carries_.clear();
  for (ValueId carry : loop.blocks[0].params) carries_.insert(carry.index);
  Status done;
  for_loop(from, to, step, [&](Value* index) {
    symbols_[loop.symbol] = index;
    moves_.emplace_back(loop.symbol, step);
    done = emit_block(loop.blocks[0]);
    if (done.is_ok() && !loop.blocks[0].body.empty())
      emit_yield(loop.blocks[0].body.back(), loop.blocks[0].params);
    moves_.pop_back();
  });
  carries_ = std::move(outer_carries);
  return done.is_ok() ? status_ : done;
}

Status TileEmitter::emit_if(const Instruction& branch) {
  std::vector<ScratchTile> tiles;
  for (ValueId result : branch.results) tiles.push_back(new_scratch(type(result)));
  fill_tiles(branch.operands, tiles);
  for (size_t i = 0; i < branch.results.size(); ++i) {
    scratch_tiles_[branch.results[i].index] = tiles[i];
    scratch_tiles_[branch.blocks[0].params[i].index] = tiles[i];
  }
  std::set<uint32_t> outer_carries = std::move(carries_);
  carries_.clear();
  Status done;
  if_then(b_.CreateICmpSGT(dim(branch.condition), i64(0)), [&] {
    done = emit_block(branch.blocks[0]);
    if (done.is_ok() && !branch.blocks[0].body.empty())
      emit_yield(branch.blocks[0].body.back(), branch.blocks[0].params);
  });
  carries_ = std::move(outer_carries);
  return done.is_ok() ? status_ : done;
}

static bool moves_points(Opcode opcode) {
  return opcode == Opcode::Broadcast || opcode == Opcode::Transpose || opcode == Opcode::Reshape ||
         opcode == Opcode::Load;
}

bool TileEmitter::reads_moved(ValueId value, const std::set<uint32_t>& params, bool moved) const {
  if (params.count(value.index)) return moved;
  const Instruction* source = plan_.definition(value);
  if (!source || !plan_.is_lazy(*source) || scratch_tiles_.count(value.index)) return false;
  for (ValueId operand : TilePlan::read_values(*source)) {
    if (reads_moved(operand, params, moved || moves_points(source->opcode))) return true;
  }
  return false;
}

bool TileEmitter::reads_places(ValueId value, const std::set<Value*>& places, bool moved) const {
  auto tile = scratch_tiles_.find(value.index);
  if (tile != scratch_tiles_.end()) return moved && places.count(tile->second.data);
  const Instruction* source = plan_.definition(value);
  if (!source || !plan_.is_lazy(*source)) return false;
  for (ValueId operand : TilePlan::read_values(*source)) {
    if (reads_places(operand, places, moved || moves_points(source->opcode))) return true;
  }
  return false;
}

void TileEmitter::emit_yield(const Instruction& yield, const std::vector<ValueId>& params) {
  if (yield.opcode != Opcode::Yield) return;
  std::vector<ValueId> values;
  std::vector<ScratchTile> targets;
  std::set<Value*> overwritten;
  for (size_t i = 0; i < yield.operands.size(); ++i) {
    const ScratchTile& target = scratch_tiles_.at(params[i].index);
    auto source = scratch_tiles_.find(yield.operands[i].index);
    if (source != scratch_tiles_.end() && source->second.data == target.data) continue;
    values.push_back(yield.operands[i]);
    targets.push_back(target);
    overwritten.insert(target.data);
  }
  // A carry that is read at other elements than its own, or after it was written, must not change under way.
  bool hazard = false;
  for (ValueId value : values) hazard |= reads_places(value, overwritten, false);
  // Values of one shape are written together, point by point, one shape after the other.
  std::set<Value*> written;
  std::vector<bool> done(values.size(), false);
  for (size_t i = 0; i < values.size(); ++i) {
    if (done[i]) continue;
    std::vector<size_t> together;
    for (size_t k = i; k < values.size(); ++k) {
      if (!done[k] && type(values[k]).shape == type(values[i]).shape) together.push_back(k);
    }
    for (size_t k : together) {
      done[k] = true;
      hazard |= reads_places(values[k], written, true);
    }
    for (size_t k : together) written.insert(targets[k].data);
  }
  if (!hazard) {
    fill_tiles(values, targets);
    return;
  }
  std::vector<ScratchTile> copies;
  for (ValueId value : values) copies.push_back(new_scratch(type(value)));
  fill_tiles(values, copies);
  for (size_t i = 0; i < values.size(); ++i) {
    const tile::TileType& tile_type = type(values[i]);
    for_points(tile_type.shape, last_axis(tile_type.shape), {}, {}, [&](const Point& point) {
      write_scratch(targets[i], values[i], point, read_scratch(copies[i], values[i], point));
    });
  }
}

void TileEmitter::emit_load_scalar(const Instruction& instruction) {
  Point point;
  memo_.clear();
  const tile::Param& param = kernel_.params[instruction.access.param];
  Address at = address(instruction.access, point, instruction.access.in_bounds);
  Value* loaded = load_elements(instruction.access.param, at, point, instruction.literal);
  if (param.dtype != DType::I64) loaded = emit_convert(context_, loaded, param.dtype, DType::I64);
  symbols_[instruction.symbol] = loaded;
}

void TileEmitter::emit_report(const Instruction& instruction) {
  const std::vector<int64_t>& shape = type(instruction.operands[0]).shape;
  for_points(shape, -1, {}, {}, [&](const Point& point) {
    if_then(eval(instruction.operands[0], point), [&] {
      Value* free = b_.CreateICmpEQ(b_.CreateLoad(b_.getInt64Ty(), error_word_), i64(0));
      if_then(free, [&] {
        memo_.clear();
        Value* value = eval(instruction.operands[1], point);
        b_.CreateStore(value, b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), error_word_, 1));
        b_.CreateStore(i64(instruction.site + 1), error_word_);
      });
      memo_.clear();
    });
  });
}

static void emit_signature(llvm::Function* function) {
  function->addFnAttr(llvm::Attribute::NoUnwind);
  for (unsigned i : {0u, 1u, 4u}) function->addParamAttr(i, llvm::Attribute::NoAlias);
}

Result<EmittedKernel> emit_kernel(const tile::Kernel& kernel, const TargetLimits& limits,
                                  const EmitOptions& options) {
  EmittedKernel out;
  out.module.context = std::make_shared<llvm::LLVMContext>();
  out.module.module = std::make_shared<llvm::Module>("kernel", *out.module.context);
  out.entry = "kernel";
  llvm::Module& module = *out.module.module;
  if (!limits.triple.empty()) module.setTargetTriple(llvm::Triple(limits.triple));
  if (!limits.data_layout.empty()) module.setDataLayout(limits.data_layout);
  llvm::LLVMContext& llvm = *out.module.context;
  llvm::IRBuilder<> builder(llvm);
  EmitPrecision precision = options.fast_precision    ? EmitPrecision::Fast
                            : options.fused_precision ? EmitPrecision::Fused
                                                      : EmitPrecision::Strict;
  EmitContext context{module, builder, limits, precision};
  if (limits.kind == TargetKind::Simt) {
    TW_RETURN_IF_ERROR(emit_block_kernel(kernel, context, &out));
  } else {
    llvm::Type *pointer = builder.getPtrTy(), *integer = builder.getInt64Ty();
    auto* signature =
        llvm::FunctionType::get(builder.getVoidTy(), {pointer, pointer, integer, integer, pointer}, false);
    auto* function = llvm::Function::Create(signature, llvm::Function::ExternalLinkage, out.entry, module);
    emit_signature(function);
    builder.SetInsertPoint(llvm::BasicBlock::Create(llvm, "entry", function));
    TileEmitter emitter(kernel, context, function);
    TW_RETURN_IF_ERROR(emitter.emit());
    out.scratch_bytes = emitter.scratch_bytes();
  }
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(module, &stream))
    return Status::internal(cat("kernel @", kernel.name, ": emitted IR is invalid: ", problem));
  return out;
}

}  // namespace tilewright
