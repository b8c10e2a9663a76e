// Points of a step dealt to the threads of a block, in lanes where accesses allow it.
#include <algorithm>

#include "codegen/emit/block_emitter.h"
#include "codegen/emit/loops.h"

namespace tilewright {

using tile::Instruction;
using tile::Opcode;

namespace {
constexpr int64_t kAccessBytes = 16;  // widest access of one thread
constexpr int64_t kProbe = 1000;      // number of a step's first axis in probes
}  // namespace

void BlockEmitter::for_own(int64_t count, const Body& body) {
  auto run = [&](Value* number) {
    memo_.clear();
    body(number);
    memo_.clear();
  };
  Value* end = b_.getInt32(static_cast<uint32_t>(count));
  if (count == threads_) {
    run(thread_);
  } else if (count < threads_) {
    if_then(b_.CreateICmpSLT(thread_, end), [&] { run(thread_); });
  } else if (count % threads_ == 0) {
    for_loop(b_.getInt32(0), end, b_.getInt32(static_cast<uint32_t>(threads_)),
             [&](Value* first) { run(b_.CreateAdd(first, thread_)); });
  } else {
    for_loop(thread_, end, b_.getInt32(static_cast<uint32_t>(threads_)), run);
  }
}

// Steps of `stride` below `count`, which it divides; some of them at a time.
void BlockEmitter::for_steps(Value* from, int64_t count, int64_t stride, int unroll,
                             const std::function<void(const std::vector<Value*>&)>& body) {
  int64_t steps = count / stride;
  while (unroll > 1 && steps % unroll != 0) unroll /= 2;
  auto run = [&](Value* first) {
    std::vector<Value*> numbers;
    for (int64_t u = 0; u < unroll; ++u) {
      numbers.push_back(u == 0 ? first : b_.CreateAdd(first, b_.getInt32(static_cast<uint32_t>(u * stride))));
    }
    memo_.clear();
    body(numbers);
    memo_.clear();
  };
  if (steps == unroll) {
    run(from);
  } else {
    for_loop(from, b_.getInt32(static_cast<uint32_t>(count)),
             b_.getInt32(static_cast<uint32_t>(stride * unroll)), run);
  }
}

std::vector<int> BlockEmitter::walk_order(const std::vector<int64_t>& shape, int fastest) {
  std::vector<int> axes;
  if (fastest >= 0 && shape[static_cast<size_t>(fastest)] > 1) axes.push_back(fastest);
  for (int axis = static_cast<int>(shape.size()) - 1; axis >= 0; --axis) {
    if (axis != fastest && shape[static_cast<size_t>(axis)] > 1) axes.push_back(axis);
  }
  return axes;
}

void BlockEmitter::place(Value* number, const std::vector<int64_t>& shape, const std::vector<int>& axes,
                         unsigned lanes, int vector_axis, Point& point) {
  Value* rest = number;
  for (size_t i = 0; i < axes.size(); ++i) {
    int axis = axes[i];
    bool in_lanes = lanes > 0 && axis == vector_axis;
    int64_t size = shape[static_cast<size_t>(axis)] / (in_lanes ? lanes : 1);
    Value* divisor = b_.getInt32(static_cast<uint32_t>(size));
    Value* index = i + 1 == axes.size() ? rest : b_.CreateURem(rest, divisor);
    if (i + 1 < axes.size()) rest = b_.CreateUDiv(rest, divisor);
    if (in_lanes) index = b_.CreateMul(index, b_.getInt32(lanes));
    // A value of its own a point: what is known of an index hangs on it.
    point.axis[static_cast<size_t>(axis)] =
        b_.Insert(llvm::CastInst::Create(llvm::Instruction::ZExt, index, b_.getInt64Ty()));
  }
  if (lanes > 0) {
    point.lanes = lanes;
    point.vector_axis = vector_axis;
    point.is_whole = true;
  }
}

llvm::Value* BlockEmitter::within(const Point& point, const Limits& limits) {
  Value* inside = nullptr;
  for (const auto& [axis, limit] : limits) {
    Value* index = point.axis[static_cast<size_t>(axis)];
    if (!llvm::isa<llvm::Constant>(index)) index_limits_[index] = limit.expression;
    Value* holds = b_.CreateICmpSLT(index, limit.end);
    inside = inside ? b_.CreateAnd(inside, holds) : holds;
  }
  return inside;
}

void BlockEmitter::by_version(const Vectors& vectors, const std::function<void(unsigned lanes)>& body) {
  if (vectors.lanes <= 1) {
    body(0);
  } else if (!vectors.condition) {
    body(vectors.lanes);
  } else {
    emit_branch(b_, vectors.condition, [&] { body(vectors.lanes); }, [&] { body(0); });
  }
}

void BlockEmitter::for_groups_at(const Point& origin, const std::vector<int64_t>& shape, int vector_axis,
                                 const Limits& limits, const Reads& reads, int unroll,
                                 const GroupBody& body) {
  if (serial_) {
    TileEmitter::for_groups_at(origin, shape, -1, limits, reads, unroll, body);
    return;
  }
  int64_t points = 1;
  for (int64_t size : shape) points *= size;
  by_version(choose_lanes(shape, vector_axis, limits, reads, points), [&](unsigned lanes) {
    const int64_t count = points / std::max(1u, lanes);
    auto point_of = [&](Value* number) {
      Point point = origin;
      place(number, shape, walk_order(shape, vector_axis), lanes, vector_axis, point);
      return point;
    };
    if (limits.empty() && count % threads_ == 0) {
      for_steps(b_.getInt32(0), count, threads_, unroll, [&](const std::vector<Value*>& firsts) {
        std::vector<Point> group;
        for (Value* first : firsts) group.push_back(point_of(b_.CreateAdd(first, thread_)));
        body(group);
      });
      return;
    }
    for_own(count, [&](Value* number) {
      Point point = point_of(number);
      Value* inside = within(point, limits);
      if (inside) {
        if_then(inside, [&] { body({point}); });
      } else {
        body({point});
      }
    });
  });
}

// ---- lanes
// ------------------------------------------------------------------------------------------------------------------

void BlockEmitter::require_multiple(const Dim& value, unsigned lanes, Value*& condition) {
  if (known_multiple(value) % lanes == 0) return;
  Value* rest = b_.CreateAnd(dim(value), i64(lanes - 1));
  Value* holds = b_.CreateICmpEQ(rest, i64(0));
  condition = condition ? b_.CreateAnd(condition, holds) : holds;
}

// Whether lanes along the vector axis are neighbours in memory that start at whole vectors and leave the
// buffer together, as far as the condition, which grows, holds.  `moves`: the access depends on the vector
// axis.
bool BlockEmitter::is_whole_access(const tile::Access& access, const Point& at, const Point& probe,
                                   int vector_axis, unsigned lanes, bool& moves, Value*& condition) {
  const tile::Param& own = kernel_.params[static_cast<size_t>(access.param)];
  const ParamInfo& param = params_[static_cast<size_t>(access.param)];
  Value* moving = probe.axis[static_cast<size_t>(vector_axis)];
  int contiguous = -1;
  bool is_whole = true;
  moves = false;
  for (size_t d = 0; d < access.index.size(); ++d) {
    const tile::DimIndex& index = access.index[d];
    if (index.tile.is_valid()) {
      // Index tiles that do not depend on the axis are of size 1 along it.
      const std::vector<int64_t>& shape = type(index.tile).shape;
      for (size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] > 1 && i < at.axis.size() && at.axis[i] == moving) {
          moves = true;
          is_whole = false;
        }
      }
    }
    for (const tile::AxisTerm& term : index.terms) {
      if (at.axis[static_cast<size_t>(term.axis)] != moving || term.coefficient == 0) continue;
      moves = true;
      auto* stride = llvm::dyn_cast<llvm::ConstantInt>(param.strides[d]);
      if (contiguous >= 0 || !stride || stride->getSExtValue() * term.coefficient != 1) is_whole = false;
      contiguous = static_cast<int>(d);
    }
  }
  if (!is_whole || contiguous < 0) return false;
  std::vector<Dim> strides = own.strides;
  if (strides.empty()) {
    strides.assign(own.dims.size(), Dim(1));
    for (size_t d = own.dims.size(); d-- > 1;) strides[d - 1] = strides[d] * own.dims[d];
  }
  Value* needs = condition ? b_.CreateAnd(condition, all_aligned_) : all_aligned_;
  for (size_t d = 0; d < access.index.size(); ++d) {
    const tile::DimIndex& index = access.index[d];
    if (static_cast<int>(d) != contiguous) {
      bool is_fixed = index.terms.empty() && !index.tile.is_valid() && index.base.is_constant(0);
      if (!is_fixed) require_multiple(strides[d], lanes, needs);
      continue;
    }
    if (index.tile.is_valid()) return false;
    for (const tile::AxisTerm& term : index.terms) {
      bool is_own = at.axis[static_cast<size_t>(term.axis)] == moving;
      if (!is_own && term.coefficient % lanes != 0) return false;
    }
    require_multiple(index.base, lanes, needs);
    require_multiple(own.dims[d], lanes, needs);
  }
  condition = needs;
  return true;
}

BlockEmitter::Vectors BlockEmitter::choose_lanes(const std::vector<int64_t>& shape, int vector_axis,
                                                 const Limits& limits, const Reads& reads, int64_t points) {
  Vectors out;
  if (vector_axis < 0) return out;
  Point probe;
  for (size_t i = 0; i < shape.size(); ++i) probe.axis.push_back(i64(kProbe + static_cast<int64_t>(i)));
  std::vector<std::pair<const tile::Access*, Point>> accesses;
  int64_t bytes = 0;  // of the widest element in a buffer, else of the widest value
  std::set<std::vector<const void*>> seen;
  auto found = [&](const Instruction& load, const Point& at) {
    accesses.emplace_back(&load.access, at);
    bytes = std::max(bytes, dtype_bytes(kernel_.params[static_cast<size_t>(load.access.param)].dtype));
  };
  for (ValueId value : reads.values) visit_loads(value, probe, found, seen);
  for (const Instruction* store : reads.stores) {
    bytes = std::max(bytes, dtype_bytes(kernel_.params[static_cast<size_t>(store->access.param)].dtype));
    accesses.emplace_back(&store->access, probe);
    for (const tile::DimIndex& index : store->access.index) {
      if (index.tile.is_valid()) visit_loads(index.tile, probe, found, seen);
    }
  }
  if (bytes == 0) {
    for (ValueId value : reads.values) bytes = std::max(bytes, dtype_bytes(type(value).dtype));
  }
  bytes = std::max<int64_t>(bytes, 2);  // at most 8 lanes
  const int64_t size = shape[static_cast<size_t>(vector_axis)];
  unsigned lanes = static_cast<unsigned>(kAccessBytes / bytes);
  while (lanes > 1 && (size % lanes != 0 || points / lanes < threads_)) lanes /= 2;
  if (lanes <= 1) return out;
  int whole = 0, others = 0;
  for (const auto& [access, at] : accesses) {
    bool moves = false;
    whole_accesses_.erase(access);
    if (is_whole_access(*access, at, probe, vector_axis, lanes, moves, out.condition)) {
      whole_accesses_.insert(access);
      ++whole;
    } else if (moves) {
      ++others;
    }
  }
  if (others > whole) return {};
  auto limit = limits.find(vector_axis);
  if (limit != limits.end()) {
    Value* is_even = b_.CreateICmpEQ(b_.CreateAnd(limit->second.end, i64(lanes - 1)), i64(0));
    out.condition = out.condition ? b_.CreateAnd(out.condition, is_even) : is_even;
  }
  out.lanes = lanes;
  return out;
}

}  // namespace tilewright
