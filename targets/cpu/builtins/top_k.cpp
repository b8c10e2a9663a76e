// top_k@1: the k first elements of each line in the asked order, with their positions.
#include <algorithm>

#include "base/text.h"
#include "targets/cpu/builtins/builtins.h"
#include "targets/cpu/builtins/keyed.h"

namespace tilewright::builtins {

namespace {

constexpr int64_t kChunkElements = 1 << 14;  // least work handed to a thread

// Keeps the k smallest of a stream: candidates below a falling threshold, cut back when there are many.
template <class Order>
class Selection {
 public:
  using Keyed = KeyedFor<Order>;
  explicit Selection(int64_t k) : k_(static_cast<size_t>(k)), room_(std::max<size_t>(4 * k_, 1024)) {}

  const std::vector<Keyed>& select(const typename Order::Bits* line, int64_t step, int64_t length,
                                   bool descending) {
    kept_.clear();
    // Keys equal to the threshold come later than those kept, and so lose.
    uint64_t threshold = UINT64_MAX;
    bool bounded = false;
    for (int64_t i = 0; i < length; ++i) {
      uint64_t key = directed_key<Order>(line[i * step], descending);
      if (bounded && key >= threshold) continue;
      kept_.push_back(Keyed::of(key, static_cast<uint32_t>(i)));
      if (kept_.size() < room_) continue;
      cut();
      threshold = kept_[k_ - 1].key();
      bounded = true;
    }
    if (kept_.size() > k_) cut();
    std::sort(kept_.begin(), kept_.end());
    return kept_;
  }

 private:
  // Afterwards entry k - 1 is the largest kept.
  void cut() {
    std::nth_element(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(k_) - 1, kept_.end());
    kept_.resize(k_, Keyed::of(0, 0));
  }

  size_t k_, room_;
  std::vector<Keyed> kept_;
};

template <class Order>
void select_lines(const BuiltinCall& call, const Lines& lines, int64_t k, int64_t begin, int64_t end) {
  using Bits = typename Order::Bits;
  const Bits* x = data_of<const Bits>(call.inputs[0]);
  Bits* values = data_of<Bits>(call.outputs[0]);
  Selection<Order> selection(k);
  for (int64_t l = begin; l < end; ++l) {
    int64_t outer = l / lines.inner, at = l % lines.inner;
    const Bits* line = x + outer * lines.size * lines.inner + at;
    int64_t to = outer * k * lines.inner + at;
    for (const auto& keyed : selection.select(line, lines.inner, lines.size, call.options.descending)) {
      values[to] = line[keyed.position() * lines.inner];
      put_index(call.outputs[1], to, keyed.position());
      to += lines.inner;
    }
  }
}

}  // namespace

Status run_top_k(const BuiltinCall& call, ParallelFor parallel_for) {
  int64_t dim = call.options.dim, k = call.outputs[0].sizes[static_cast<size_t>(dim)];
  Lines lines(call.inputs[0].sizes, dim);
  if (k > lines.size) {
    return Status::invalid(cat("top_k: k ", k, " exceeds dim ", dim, " of size ", lines.size));
  }
  if (lines.size > int64_t{UINT32_MAX}) {
    return Status::unimplemented(cat("top_k: a line of ", lines.size, " elements, expected fewer than 2^32"));
  }
  if (k == 0 || lines.count() == 0) return Status::ok();
  return visit_order(call.inputs[0].dtype, [&]<class Order>(Order) {
    return parallel(parallel_for, lines.count(), std::max<int64_t>(1, kChunkElements / lines.size),
                    [&](int64_t begin, int64_t end) { select_lines<Order>(call, lines, k, begin, end); });
  });
}

}  // namespace tilewright::builtins
