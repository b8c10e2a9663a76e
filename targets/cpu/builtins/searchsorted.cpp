// searchsorted@1: where values belong in a sorted sequence, or in the sequence of their row.
#include "targets/cpu/builtins/builtins.h"
#include "targets/cpu/builtins/lines.h"

namespace tilewright::builtins {

namespace {

// Number of elements that come before the value: those less than it, or on the right side not greater.
template <class Order>
int64_t find(const typename Order::Bits* sequence, int64_t length, typename Order::Bits value, bool right) {
  auto key = Order::key(value);
  int64_t first = 0;
  while (length > 0) {
    int64_t half = length / 2;
    auto middle = Order::key(sequence[first + half]);
    bool before = middle < key || (right && middle == key);
    first += before ? half + 1 : 0;
    length = before ? length - half - 1 : half;
  }
  return first;
}

}  // namespace

Status run_searchsorted(const BuiltinCall& call, ParallelFor parallel_for) {
  const BuiltinTensor &sequence = call.inputs[0], &values = call.inputs[1], &out = call.outputs[0];
  int64_t length = sequence.sizes.back(), count = elements_of(values);
  bool shared = sequence.sizes.size() == 1;
  int64_t row_values = shared || values.sizes.empty() ? 1 : values.sizes.back();
  return visit_order(sequence.dtype, [&]<class Order>(Order) {
    using Bits = typename Order::Bits;
    return parallel(parallel_for, count, 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Bits* row = data_of<const Bits>(sequence) + (shared ? 0 : i / row_values * length);
        put_index(out, i, find<Order>(row, length, data_of<const Bits>(values)[i], call.options.right));
      }
    });
  });
}

}  // namespace tilewright::builtins
