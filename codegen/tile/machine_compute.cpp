// The tile interpreter's operations on tiles that are element by element or move elements.
#include <cstring>

#include "base/text.h"
#include "codegen/tile/machine.h"
#include "ir/reference/attributes.h"
#include "ir/reference/element.h"
#include "ir/reference/functions.h"
#include "ir/reference/philox.h"
#include "ir/reference/scalar.h"

namespace tilewright::tile {

using namespace reference;

namespace {

std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

template <class Function>
void apply_f32(const TileData& a, const TileData& b, const TileData& out) {
  for (int64_t i = 0; i < out.elements; ++i) {
    float x, y;
    std::memcpy(&x, a.at(i), 4);
    std::memcpy(&y, b.at(i), 4);
    float result = Function::apply(x, y);
    std::memcpy(out.at(i), &result, 4);
  }
}

// The commonest f32 ops without a dispatch an element; false for others.
bool run_f32(Op op, const TileData& a, const TileData& b, const TileData& out) {
  switch (op) {
    case Op::Add: apply_f32<Add>(a, b, out); return true;
    case Op::Subtract: apply_f32<Subtract>(a, b, out); return true;
    case Op::Multiply: apply_f32<Multiply>(a, b, out); return true;
    case Op::Divide: apply_f32<Divide>(a, b, out); return true;
    case Op::Maximum: apply_f32<Maximum>(a, b, out); return true;
    case Op::Minimum: apply_f32<Minimum>(a, b, out); return true;
    default: return false;
  }
}

Status run_compare(const AttributeReader& attributes, const TileData& a, const TileData& b,
                   const TileData& out) {
  CompareSpec spec = read_compare(attributes, a.dtype);
  return visit<kArith>(spec.dtype, [&]<class T>(Tag<T>) {
    for (int64_t i = 0; i < out.elements; ++i) {
      T left, right;
      std::memcpy(&left, a.at(i), sizeof left);
      std::memcpy(&right, b.at(i), sizeof right);
      auto x = Element<T>::load(left), y = Element<T>::load(right);
      bool answer = compare_values(spec.direction, x, y);
      if constexpr (kIsFloat<T>) {
        if (spec.total_order) {
          answer = compare_values(spec.direction, total_order_key(x), total_order_key(y));
        }
      }
      *out.at(i) = std::byte{answer};
    }
    return Status::ok();
  });
}

}  // namespace

Status Machine::run_elementwise(const Instruction& instruction) {
  constexpr size_t kMaxOperands = 4;
  AttributeReader attributes(instruction.op, instruction.attributes);
  const TileData& out = tile(instruction.results[0]);
  size_t count = instruction.operands.size();
  if (count == 0 || count > kMaxOperands) return fail(instruction, cat(count, " operands"));
  const TileData* in[kMaxOperands];
  for (size_t k = 0; k < count; ++k) {
    in[k] = &tile(instruction.operands[k]);
    if (in[k]->elements != out.elements) return fail(instruction, "operands of different shapes");
  }
  switch (instruction.op) {
    case Op::BitcastConvert:
      if (in[0]->width != out.width) return fail(instruction, "the widths differ");
      std::memcpy(out.data, in[0]->data, static_cast<size_t>(out.elements * out.width));
      return Status::ok();
    case Op::Select:
      for (int64_t i = 0; i < out.elements; ++i) {
        const TileData* chosen = *in[0]->at(i) != std::byte{0} ? in[1] : in[2];
        copy_element(out.at(i), chosen->at(i), out.width);
      }
      return Status::ok();
    case Op::Compare: return run_compare(attributes, *in[0], *in[1], out);
    case Op::Convert: {
      bool saturate = attributes.get_bool("saturate");
      for (int64_t i = 0; i < out.elements; ++i) {
        Scalar value = tilewright::load_scalar(in[0]->dtype, in[0]->at(i));
        store_scalar(convert_scalar(value, out.dtype, saturate), out.at(i));
      }
      return Status::ok();
    }
    default: break;
  }
  if (count == 2 && out.dtype == DType::F32 && in[0]->dtype == DType::F32 && in[1]->dtype == DType::F32 &&
      run_f32(instruction.op, *in[0], *in[1], out)) {
    return Status::ok();
  }
  for (int64_t i = 0; i < out.elements; ++i) {
    Scalar operands[kMaxOperands];
    for (size_t k = 0; k < count; ++k) operands[k] = tilewright::load_scalar(in[k]->dtype, in[k]->at(i));
    Scalar result = evaluate_elementwise(instruction.op, attributes, operands, static_cast<int>(count));
    if (result.dtype != out.dtype) {
      return fail(instruction, cat("gives ", dtype_name(result.dtype), ", expected ", dtype_name(out.dtype)));
    }
    store_scalar(result, out.at(i));
  }
  return Status::ok();
}

void Machine::run_const(const Instruction& instruction) {
  const TileData& out = tile(instruction.results[0]);
  Scalar value;
  value.dtype = out.dtype;
  value.f = instruction.literal.f;
  value.i = instruction.literal.i;
  for (int64_t i = 0; i < out.elements; ++i) store_scalar(value, out.at(i));
}

// Broadcast, transpose, reshape: element by element from strides of the operand along the result's axes.
void Machine::run_rearrange(const Instruction& instruction) {
  const TileData &in = tile(instruction.operands[0]), &out = tile(instruction.results[0]);
  if (instruction.opcode == Opcode::Reshape) {
    std::memcpy(out.data, in.data, static_cast<size_t>(out.elements * out.width));
    return;
  }
  std::vector<int64_t> from = dense_strides(*in.shape), strides(out.shape->size(), 0);
  for (size_t i = 0; i < instruction.axes.size(); ++i) {
    size_t axis = static_cast<size_t>(instruction.axes[i]);
    if (instruction.opcode == Opcode::Transpose) {
      strides[i] = from[axis];
    } else if ((*in.shape)[i] != 1) {
      strides[axis] = from[i];
    }
  }
  std::vector<int64_t> coordinate(out.shape->size(), 0);
  int64_t source = 0;
  for (int64_t element = 0; element < out.elements; ++element) {
    copy_element(out.at(element), in.at(source), out.width);
    for (size_t axis = coordinate.size(); axis-- > 0;) {
      source += strides[axis];
      if (++coordinate[axis] < (*out.shape)[axis]) break;
      source -= coordinate[axis] * strides[axis];
      coordinate[axis] = 0;
    }
  }
}

void Machine::run_rng_bits(const Instruction& instruction) {
  const TileData &state = tile(instruction.operands[0]), &index = tile(instruction.operands[1]);
  const TileData& out = tile(instruction.results[0]);
  uint64_t words[2];
  std::memcpy(words, state.data, sizeof words);
  std::array<uint32_t, 2> key{static_cast<uint32_t>(words[0]), static_cast<uint32_t>(words[0] >> 32)};
  for (int64_t i = 0; i < out.elements; ++i) {
    uint64_t position = static_cast<uint64_t>(tilewright::load_scalar(index.dtype, index.at(i)).i);
    // Floor division, so that masked-off negative positions are defined too.
    uint64_t counter = words[1] + static_cast<uint64_t>(static_cast<int64_t>(position) >> 2);
    std::array<uint32_t, 4> block =
        philox4x32_10({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}, key);
    std::memcpy(out.at(i), &block[position & 3], sizeof(uint32_t));
  }
}

}  // namespace tilewright::tile
