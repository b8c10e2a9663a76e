// What the reference kernels of composites share: dense reads and rounded writes of numbers, and loops over
// one axis.
#include "ir/reference/composite.h"

namespace tilewright::reference {

Numbers::Numbers(const TensorRef& tensor) : tensor_(tensor), count_(tensor.elements()) {
  if (tensor.is_dense()) return;
  copy_.resize(static_cast<size_t>((tensor.bytes() + 7) / 8));
  tensor_.data = copy_.data();
  tensor_.strides = TensorRef::dense_strides(tensor_.sizes);
  copy_elements(tensor_, tensor);
}

namespace {
template <class T>
const T& element(const TensorRef& tensor, int64_t i) {
  return static_cast<const T*>(tensor.data)[i];
}
}  // namespace

double Numbers::operator[](int64_t i) const {
  switch (tensor_.dtype) {
    case DType::F16: return static_cast<double>(Element<F16>::load(element<F16>(tensor_, i)));
    case DType::BF16: return static_cast<double>(Element<BF16>::load(element<BF16>(tensor_, i)));
    case DType::F32: return static_cast<double>(element<float>(tensor_, i));
    case DType::F64: return element<double>(tensor_, i);
    case DType::F8E4M3FN: return static_cast<double>(Element<F8E4M3FN>::load(element<F8E4M3FN>(tensor_, i)));
    case DType::F8E5M2: return static_cast<double>(Element<F8E5M2>::load(element<F8E5M2>(tensor_, i)));
    case DType::U64: return static_cast<double>(element<uint64_t>(tensor_, i));
    default: return static_cast<double>(integer(i));
  }
}

int64_t Numbers::integer(int64_t i) const {
  switch (tensor_.dtype) {
    case DType::Bool: return element<uint8_t>(tensor_, i) != 0;
    case DType::I8: return element<int8_t>(tensor_, i);
    case DType::I16: return element<int16_t>(tensor_, i);
    case DType::I32: return element<int32_t>(tensor_, i);
    case DType::U8: return element<uint8_t>(tensor_, i);
    case DType::U16: return element<uint16_t>(tensor_, i);
    case DType::U32: return element<uint32_t>(tensor_, i);
    default: return element<int64_t>(tensor_, i);
  }
}

std::vector<double> doubles_of(const TensorRef& tensor) {
  Numbers x(tensor);
  std::vector<double> values(static_cast<size_t>(x.count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = x[static_cast<int64_t>(i)];
  return values;
}

std::optional<Numbers> optional_input(const KernelCall& call, int index) {
  if (!call.has(index)) return std::nullopt;
  return Numbers(call.in(index));
}

double round_to_work(DType dtype, double value) {
  return dtype == DType::F64 ? value : static_cast<double>(static_cast<float>(value));
}

void put(const TensorRef& out, int64_t i, double value) {
  float narrow = static_cast<float>(value);
  switch (out.dtype) {
    case DType::F64: elements_of<double>(out)[i] = value; return;
    case DType::F32: elements_of<float>(out)[i] = narrow; return;
    case DType::F16: elements_of<F16>(out)[i] = Element<F16>::store(narrow); return;
    case DType::BF16: elements_of<BF16>(out)[i] = Element<BF16>::store(narrow); return;
    default: put_integer(out, i, static_cast<int64_t>(value)); return;
  }
}

void put_all(const TensorRef& out, const std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) put(out, static_cast<int64_t>(i), values[i]);
}

double round_to_stored(DType dtype, double value) {
  float narrow = static_cast<float>(value);
  switch (dtype) {
    case DType::F64: return value;
    case DType::F16: return static_cast<double>(Element<F16>::load(Element<F16>::store(narrow)));
    case DType::BF16: return static_cast<double>(Element<BF16>::load(Element<BF16>::store(narrow)));
    default: return static_cast<double>(narrow);
  }
}

void put_integer(const TensorRef& out, int64_t i, int64_t value) {
  switch (dtype_bytes(out.dtype)) {
    case 1: elements_of<int8_t>(out)[i] = static_cast<int8_t>(value); return;
    case 2: elements_of<int16_t>(out)[i] = static_cast<int16_t>(value); return;
    case 4: elements_of<int32_t>(out)[i] = static_cast<int32_t>(value); return;
    default: elements_of<int64_t>(out)[i] = value; return;
  }
}

PhiloxWords::PhiloxWords(const TensorRef& state)
    : key_(elements_of<const uint64_t>(state)[0]),
      counter_(elements_of<const uint64_t>(state)[state.strides[0]]) {}

uint32_t PhiloxWords::word(int64_t i) {
  if (i / 4 != block_) {
    block_ = i / 4;
    uint64_t position = counter_ + static_cast<uint64_t>(block_);
    words_ = philox4x32_10({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), 0, 0},
                           {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
  }
  return words_[static_cast<size_t>(i % 4)];
}

uint64_t PhiloxWords::wide_word(int64_t i) {
  uint64_t low = word(2 * i);
  return low | (static_cast<uint64_t>(word(2 * i + 1)) << 32);
}

void PhiloxWords::write_state(const TensorRef& out, int64_t words) const {
  elements_of<uint64_t>(out)[0] = key_;
  elements_of<uint64_t>(out)[1] = counter_ + static_cast<uint64_t>((words + 3) / 4);
}

double PhiloxWords::uniform(int64_t i, DType dtype) {
  if (dtype == DType::F64) return static_cast<double>(wide_word(i) >> 11) * 0x1p-53;
  return static_cast<double>(word(i) >> 8) * 0x1p-24;
}

}  // namespace tilewright::reference
