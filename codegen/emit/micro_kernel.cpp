// One function a block shape: sums as phis, so that no pass has to find the registers.
#include "codegen/emit/micro_kernel.h"

#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "base/text.h"
#include "codegen/emit/elementwise.h"
#include "codegen/emit/lane_math.h"
#include "codegen/emit/loops.h"

namespace tilewright {
namespace {

using llvm::Value;

std::string kernel_name(const MicroKernel& k) {
  return cat("tw.product.", dtype_name(k.dtype), ".", k.rows, "x", k.vectors, "x", static_cast<int>(k.lanes),
             ".", k.a_row, "_", k.a_depth, "_", k.b_depth, "_", k.c_row, k.is_fresh ? ".fresh" : "");
}

Value* multiply_add(EmitContext& context, DType dtype, Value* a, Value* b, Value* sum) {
  if (is_float(dtype)) return LaneMath(context, sum->getType()).fma(a, b, sum);
  return context.builder.CreateAdd(context.builder.CreateMul(a, b), sum);
}

// Arguments: a, b, c, depth, b_depth.
Value* kernel_body(EmitContext& context, const MicroKernel& k, std::span<Value* const> arguments) {
  auto& b = context.builder;
  llvm::Type* element = register_type(context, k.dtype, 0);
  llvm::Type* vector = llvm::FixedVectorType::get(element, k.lanes);
  auto align = llvm::Align(static_cast<uint64_t>(dtype_bytes(k.dtype)));
  auto at = [&](Value* base, int64_t offset) {
    return offset == 0 ? base : b.CreateConstInBoundsGEP1_64(element, base, static_cast<uint64_t>(offset));
  };
  auto c_address = [&](int64_t row, int64_t v) { return at(arguments[2], row * k.c_row + v * k.lanes); };
  LoopValues start;
  for (int64_t i = 0; i < k.rows * k.vectors; ++i) start.push_back(llvm::Constant::getNullValue(vector));
  start.push_back(arguments[0]);
  start.push_back(arguments[1]);
  Value* b_step = k.b_depth ? b.getInt64(static_cast<uint64_t>(k.b_depth)) : arguments[4];
  // The old sums come first: one order of additions whatever the block.
  for (int64_t row = 0; row < k.rows && !k.is_fresh; ++row) {
    for (int64_t v = 0; v < k.vectors; ++v) {
      start[static_cast<size_t>(row * k.vectors + v)] = b.CreateAlignedLoad(vector, c_address(row, v), align);
    }
  }
  LoopValues sums = emit_carried_loop(
      b, b.getInt64(0), arguments[3], b.getInt64(1), start, [&](Value*, const LoopValues& now) {
        LoopValues next = now;
        Value* a_now = now[now.size() - 2];
        Value* b_now = now[now.size() - 1];
        std::vector<Value*> columns;
        for (int64_t v = 0; v < k.vectors; ++v) {
          columns.push_back(b.CreateAlignedLoad(vector, at(b_now, v * k.lanes), align));
        }
        for (int64_t row = 0; row < k.rows; ++row) {
          Value* scalar = b.CreateAlignedLoad(element, at(a_now, row * k.a_row), align);
          Value* repeated = b.CreateVectorSplat(k.lanes, scalar);
          for (int64_t v = 0; v < k.vectors; ++v) {
            Value*& sum = next[static_cast<size_t>(row * k.vectors + v)];
            sum = multiply_add(context, k.dtype, repeated, columns[static_cast<size_t>(v)], sum);
          }
        }
        next[now.size() - 2] = at(a_now, k.a_depth);
        next[now.size() - 1] = b.CreateInBoundsGEP(element, b_now, {b_step});
        return next;
      });
  for (int64_t row = 0; row < k.rows; ++row) {
    for (int64_t v = 0; v < k.vectors; ++v) {
      b.CreateAlignedStore(sums[static_cast<size_t>(row * k.vectors + v)], c_address(row, v), align);
    }
  }
  return nullptr;
}

}  // namespace

void call_micro_kernel(EmitContext& context, const MicroKernel& kernel, llvm::Value* a, llvm::Value* b,
                       llvm::Value* c, llvm::Value* depth, llvm::Value* b_depth) {
  llvm::Value* arguments[] = {a, b, c, depth, b_depth};
  call_outlined(context, kernel_name(kernel), context.builder.getVoidTy(), arguments,
                [&](EmitContext& inner, std::span<llvm::Value* const> parameters) {
                  return kernel_body(inner, kernel, parameters);
                });
}

RegisterBlock choose_register_block(const TargetLimits& limits, DType dtype, int64_t rows, int64_t columns,
                                    const Ints& micro) {
  int64_t full_lanes = std::max<int64_t>(1, limits.vector_bytes / dtype_bytes(dtype));
  while (full_lanes > 1 && full_lanes / 2 >= columns) full_lanes /= 2;
  int64_t registers = limits.vector_registers;
  RegisterBlock block{1, 1, static_cast<unsigned>(full_lanes)};
  if (micro.size() == 2) {
    block.rows = std::clamp<int64_t>(micro[0], 1, rows);
    block.vectors = std::max<int64_t>(1, micro[1] / full_lanes);
    return block;
  }
  int64_t needed = (columns + full_lanes - 1) / full_lanes;
  // rows * vectors sums, the vectors of b and one value of a; without fma one product more.
  int64_t free = registers - 1 - (limits.has_fma ? 0 : 1);
  block.vectors = std::min<int64_t>(needed, 2);
  block.rows = (free - block.vectors) / block.vectors;
  if (rows < block.rows) {  // few rows: more columns, so that enough sums are in flight
    block.rows = rows;
    block.vectors = std::clamp<int64_t>(free / (rows + 1), 1, std::min<int64_t>(needed, 8));
  } else {  // blocks of equal height, without a rest if a block nearly as high divides the rows
    for (int64_t height = block.rows; 4 * height >= 3 * block.rows; --height) {
      if (rows % height != 0) continue;
      block.rows = height;
      return block;
    }
    int64_t blocks = (rows + block.rows - 1) / block.rows;
    block.rows = (rows + blocks - 1) / blocks;
  }
  return block;
}

}  // namespace tilewright
