// sort@1: a stable sort of lines by one key or several.
#include "base/text.h"
#include "targets/cpu/builtins/builtins.h"
#include "targets/cpu/builtins/keyed.h"

namespace tilewright::builtins {

namespace {

constexpr int64_t kLongLine = 1 << 16;       // from here on the threads share a line
constexpr int64_t kChunkElements = 1 << 14;  // least work handed to a thread

// Finds the order of one line at a time.
class LineSorter {
 public:
  LineSorter(const BuiltinCall& call, int64_t length, ParallelFor parallel_for)
      : call_(call), length_(length), parallel_for_(parallel_for) {}

  // `lines`: for each key operand the elements of the line, contiguous.  Answers the positions in order.
  const std::vector<uint32_t>& order(const std::vector<const void*>& lines) {
    for (size_t key = static_cast<size_t>(call_.options.num_keys); key-- > 0;) {
      bool first = key + 1 == static_cast<size_t>(call_.options.num_keys);
      visit_order(call_.inputs[key].dtype, [&]<class Order>(Order) { refine<Order>(lines[key], first); });
    }
    return order_;
  }

 private:
  // Sorts the positions by one more key, less significant keys first, as every sort is stable.
  template <class Order>
  void refine(const void* line, bool first) {
    using Bits = typename Order::Bits;
    auto& scratch = scratch_of<KeyedFor<Order>>();
    const Bits* elements = static_cast<const Bits*>(line);
    scratch.keyed.resize(static_cast<size_t>(length_));
    for (int64_t i = 0; i < length_; ++i) {
      Bits bits = elements[first ? static_cast<uint32_t>(i) : order_[i]];
      scratch.keyed[i] =
          KeyedFor<Order>::of(directed_key<Order>(bits, call_.options.descending), static_cast<uint32_t>(i));
    }
    sort_keyed(parallel_for_, scratch, 8 * static_cast<int>(sizeof(Bits)));
    next_.resize(static_cast<size_t>(length_));
    for (int64_t i = 0; i < length_; ++i) {
      uint32_t position = scratch.keyed[i].position();
      next_[i] = first ? position : order_[position];
    }
    order_.swap(next_);
  }

  template <class Keyed>
  KeyedScratch<Keyed>& scratch_of() {
    if constexpr (std::is_same_v<Keyed, WideKeyed>)
      return wide_;
    else
      return narrow_;
  }

  const BuiltinCall& call_;
  int64_t length_;
  ParallelFor parallel_for_;
  KeyedScratch<NarrowKeyed> narrow_;
  KeyedScratch<WideKeyed> wide_;
  std::vector<uint32_t> order_, next_;
};

// All operands of a bundle of lines: rows in, sorted rows out.
class BundleSorter {
 public:
  BundleSorter(const BuiltinCall& call, const Lines& lines, ParallelFor parallel_for)
      : call_(call), lines_(lines), sorter_(call, lines.size, parallel_for) {}

  void sort(const Bundle& bundle) {
    size_t operands = call_.outputs.size();
    std::vector<const char*> rows(operands);
    if (lines_.inner > 1) copied_.resize(operands);
    for (size_t i = 0; i < operands; ++i) rows[i] = rows_of(i, bundle);
    std::vector<const void*> line(operands);
    for (int64_t l = 0; l < bundle.count; ++l) {
      for (size_t i = 0; i < operands; ++i) line[i] = rows[i] + l * line_bytes(i);
      const std::vector<uint32_t>& order = sorter_.order(line);
      for (size_t i = 0; i < operands; ++i) permute(i, bundle, l, line[i], order);
    }
    if (lines_.inner == 1) return;
    for (size_t i = 0; i < operands; ++i) {
      visit_bits(call_.outputs[i].dtype, [&]<class Bits>(Bits) {
        write_rows(reinterpret_cast<const Bits*>(sorted_[i].data()), lines_, bundle,
                   data_of<Bits>(call_.outputs[i]));
      });
    }
  }

 private:
  int64_t line_bytes(size_t operand) const {
    return lines_.size * element_bytes(call_.inputs[operand].dtype);
  }

  // The bundle's lines, contiguous one after the other: in place where the dim is the last.
  const char* rows_of(size_t operand, const Bundle& bundle) {
    const BuiltinTensor& tensor = call_.inputs[operand];
    if (lines_.inner == 1) return data_of<const char>(tensor) + bundle.outer * line_bytes(operand);
    copied_[operand].resize(static_cast<size_t>(bundle.count * line_bytes(operand)));
    visit_bits(tensor.dtype, [&]<class Bits>(Bits) {
      read_rows(data_of<const Bits>(tensor), lines_, bundle,
                reinterpret_cast<Bits*>(copied_[operand].data()));
    });
    return copied_[operand].data();
  }

  void permute(size_t operand, const Bundle& bundle, int64_t l, const void* line,
               const std::vector<uint32_t>& order) {
    char* to;
    if (lines_.inner == 1) {
      to = data_of<char>(call_.outputs[operand]) + bundle.outer * line_bytes(operand);
    } else {
      sorted_.resize(call_.outputs.size());
      sorted_[operand].resize(static_cast<size_t>(bundle.count * line_bytes(operand)));
      to = sorted_[operand].data() + l * line_bytes(operand);
    }
    visit_bits(call_.inputs[operand].dtype, [&]<class Bits>(Bits) {
      const Bits* from = static_cast<const Bits*>(line);
      Bits* out = reinterpret_cast<Bits*>(to);
      for (int64_t i = 0; i < lines_.size; ++i) out[i] = from[order[i]];
    });
  }

  const BuiltinCall& call_;
  Lines lines_;
  LineSorter sorter_;
  std::vector<std::vector<char>> copied_, sorted_;
};

}  // namespace

Status run_sort(const BuiltinCall& call, ParallelFor parallel_for) {
  Lines lines(call.inputs[0].sizes, call.options.dim);
  if (lines.count() == 0 || lines.size == 0) return Status::ok();
  if (lines.size > int64_t{UINT32_MAX}) {
    return Status::unimplemented(cat("sort: a line of ", lines.size, " elements, expected fewer than 2^32"));
  }
  int64_t bundles = bundles_of(lines);
  if (lines.size >= kLongLine && lines.count() < 64) {
    BundleSorter sorter(call, lines, parallel_for);
    for (int64_t i = 0; i < bundles; ++i) sorter.sort(bundle_at(lines, i));
    return Status::ok();
  }
  int64_t bundle_elements = lines.size * std::min(lines.inner, kLinesTogether);
  return parallel(parallel_for, bundles, std::max<int64_t>(1, kChunkElements / bundle_elements),
                  [&](int64_t begin, int64_t end) {
                    auto alone = [](int64_t count, int64_t chunk, FunctionRef<void(int64_t, int64_t)> body) {
                      run_alone(count, chunk, body);
                    };
                    BundleSorter sorter(call, lines, alone);
                    for (int64_t i = begin; i < end; ++i) sorter.sort(bundle_at(lines, i));
                  });
}

}  // namespace tilewright::builtins
