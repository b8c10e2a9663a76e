// The tile interpreter's accesses to buffers: every dim is checked against its extent.
#include <cstring>

#include "base/text.h"
#include "codegen/tile/machine.h"
#include "ir/reference/scalar.h"

namespace tilewright::tile {

namespace {

constexpr size_t kMaxRank = 32;

int64_t read_index(const TileData& tile, int64_t element) {
  if (tile.width == 8) {
    int64_t value;
    std::memcpy(&value, tile.at(element), sizeof value);
    return value;
  }
  int32_t value;
  std::memcpy(&value, tile.at(element), sizeof value);
  return value;
}

// The next row-major coordinate of a shape; false past the last.
bool advance(int64_t* coordinate, const std::vector<int64_t>& shape) {
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (++coordinate[axis] < shape[axis]) return true;
    coordinate[axis] = 0;
  }
  return false;
}

}  // namespace

// Calls visit(element of the tile, address or null when outside) in row-major order.
template <class Visit>
Status Machine::walk(const Step& step, const std::vector<int64_t>& shape, Visit visit) {
  const Instruction& instruction = *step.instruction;
  const BoundParam& param = params_[instruction.access.param];
  size_t dims = step.bases.size(), rank = shape.size();
  if (dims > kMaxRank || rank > kMaxRank) return fail(instruction, "rank is too large");
  int64_t bases[kMaxRank], coordinate[kMaxRank] = {};
  for (size_t dim = 0; dim < dims; ++dim) {
    TW_ASSIGN_OR_RETURN(bases[dim], evaluate(step.bases[dim]));
  }
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  for (int64_t element = 0; element < count; ++element) {
    int64_t offset = 0;
    bool inside = true;
    for (size_t dim = 0; dim < dims; ++dim) {
      int64_t index = bases[dim];
      const std::vector<int64_t>& coefficients = step.coefficients[dim];
      for (size_t axis = 0; axis < rank; ++axis) index += coefficients[axis] * coordinate[axis];
      const std::vector<int64_t>& strides = step.tile_strides[dim];
      if (instruction.access.index[dim].tile.is_valid()) {
        int64_t at = 0;
        for (size_t axis = 0; axis < rank; ++axis) at += strides[axis] * coordinate[axis];
        int64_t read = read_index(tile(instruction.access.index[dim].tile), at);
        if (__builtin_add_overflow(index, read, &index)) index = -1;
      }
      if (index < 0 || index >= param.extents[dim]) {
        if (instruction.access.in_bounds) {
          return fail(instruction,
                      cat("index ", index, " of dim ", dim, " of param ", instruction.access.param,
                          " is outside of ", param.extents[dim], " although in_bounds"));
        }
        inside = false;
        break;
      }
      offset += index * param.strides[dim];
    }
    visit(element, inside ? param.data + offset * param.width : nullptr);
    advance(coordinate, shape);
  }
  return Status::ok();
}

Status Machine::run_load(const Step& step) {
  const Instruction& load = *step.instruction;
  const TileData& result = tile(load.results[0]);
  Scalar scalar;
  scalar.dtype = result.dtype;
  scalar.f = load.literal.f;
  scalar.i = load.literal.i;
  std::byte outside[8] = {};
  store_scalar(scalar, outside);
  return walk(step, *result.shape, [&](int64_t element, const std::byte* address) {
    copy_element(result.at(element), address ? address : outside, result.width);
  });
}

static Op store_op(StoreKind kind) {
  switch (kind) {
    case StoreKind::Multiply: return Op::Multiply;
    case StoreKind::Min: return Op::Minimum;
    case StoreKind::Max: return Op::Maximum;
    case StoreKind::Set:
    case StoreKind::Add: break;
  }
  return Op::Add;
}

Status Machine::run_store(const Step& step) {
  const Instruction& store = *step.instruction;
  const TileData& value = tile(store.operands[0]);
  if (store.store == StoreKind::Set) {
    return walk(step, *value.shape, [&](int64_t element, std::byte* address) {
      if (address) copy_element(address, value.at(element), value.width);
    });
  }
  Op op = store_op(store.store);
  return walk(step, *value.shape, [&](int64_t element, std::byte* address) {
    if (!address) return;
    Scalar old = tilewright::load_scalar(value.dtype, address);
    store_scalar(combine(op, old, tilewright::load_scalar(value.dtype, value.at(element))), address);
  });
}

Status Machine::run_load_scalar(const Step& step) {
  const Instruction& load = *step.instruction;
  DType dtype = kernel_.params[load.access.param].dtype;
  int64_t value = load.literal.i;
  TW_RETURN_IF_ERROR(walk(step, {}, [&](int64_t, const std::byte* address) {
    if (address) value = tilewright::load_scalar(dtype, address).i;
  }));
  slots_[step.slot] = value;
  return Status::ok();
}

Status Machine::run_index(const Step& step) {
  const TileData& result = tile(step.instruction->results[0]);
  TW_ASSIGN_OR_RETURN(int64_t base, evaluate(step.bases[0]));
  const std::vector<int64_t>& coefficients = step.coefficients[0];
  int64_t coordinate[kMaxRank] = {};
  for (int64_t element = 0; element < result.elements; ++element) {
    int64_t value = base;
    for (size_t axis = 0; axis < coefficients.size(); ++axis) value += coefficients[axis] * coordinate[axis];
    store_scalar(Scalar::of_integer(result.dtype, value), result.at(element));
    advance(coordinate, *result.shape);
  }
  return Status::ok();
}

Status Machine::run_report(const Step& step) {
  const Instruction& report = *step.instruction;
  const TileData &pred = tile(report.operands[0]), &value = tile(report.operands[1]);
  if (error_word_ == nullptr) return fail(report, "the kernel does not report");
  for (int64_t element = 0; element < pred.elements; ++element) {
    if (*pred.at(element) == std::byte{0} || error_word_[0] != 0) continue;
    error_word_[0] = report.site + 1;
    error_word_[1] = tilewright::load_scalar(value.dtype, value.at(element)).i;
  }
  return Status::ok();
}

}  // namespace tilewright::tile
