// Reference kernels of embedding tables and bags and their gradients.
#include <algorithm>

#include "ir/reference/composite.h"

namespace tilewright {

using namespace reference;
namespace {

Status out_of_range(const KernelCall& call, int64_t index, int64_t rows) {
  return Status::out_of_range(cat(op_name(call.op), ": index ", index, " out of range for ", rows, " rows"));
}

// Row `index` of a table under an out-of-range policy; -1 for a row of zeros.
int64_t resolve(const KernelCall& call, int64_t index, int64_t rows, const std::string& policy) {
  if (index >= 0 && index < rows) return index;
  if (policy == "clamp" && rows > 0) return index < 0 ? 0 : rows - 1;
  if (policy == "error") call.error.set(out_of_range(call, index, rows));
  return -1;
}

// Positions [begin, end) of each bag.
struct BagRanges {
  std::vector<int64_t> begin, end;
};
BagRanges bag_ranges(const KernelCall& call, const Numbers& indices, const Numbers& offsets) {
  bool has_last = call.attributes.get_bool("include_last_offset");
  // Offsets past the indices leave a bag empty.
  auto at = [&](int64_t bag) {
    if (bag >= offsets.count()) return indices.count();
    return std::clamp<int64_t>(offsets.integer(bag), 0, indices.count());
  };
  BagRanges r;
  for (int64_t bag = 0; bag < offsets.count() - has_last; ++bag) {
    r.begin.push_back(at(bag));
    r.end.push_back(at(bag + 1));
  }
  return r;
}

}  // namespace

Status reference_embedding(KernelCall& call) {
  Numbers table(call.in(0)), indices(call.in(1));
  int64_t rows = table.size(0), columns = table.size(1);
  size_t bytes = static_cast<size_t>(columns * dtype_bytes(table.dtype()));
  char* out = static_cast<char*>(call.out().data);
  for (int64_t i = 0; i < indices.count(); ++i, out += bytes) {
    int64_t row = resolve(call, indices.integer(i), rows, call.attributes.get_string("oob"));
    if (bytes == 0) continue;
    if (row < 0) {
      std::memset(out, 0, bytes);
    } else {
      std::memcpy(out, static_cast<const char*>(table.data()) + static_cast<size_t>(row) * bytes, bytes);
    }
  }
  return Status::ok();
}

Status reference_embedding_grad(KernelCall& call) {
  Numbers g(call.in(0)), indices(call.in(1));
  int64_t rows = call.out().sizes[0], columns = call.out().sizes[1],
          padding = call.attributes.get_int("padding_idx");
  std::vector<double> sum(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < indices.count(); ++i) {
    int64_t row = indices.integer(i);
    if (row < 0 || row >= rows || (padding >= 0 && row == padding)) continue;
    for (int64_t c = 0; c < columns; ++c) sum[row * columns + c] += g[i * columns + c];
  }
  put_all(call.out(), sum);
  return Status::ok();
}

namespace {

// One column of a bag: the largest element and the index it belongs to.
void bag_maximum(KernelCall& call, const Numbers& table, const std::vector<int64_t>& rows, int64_t begin,
                 int64_t end, int64_t cell, int64_t c) {
  int64_t columns = table.size(1), best = -1;
  double max = 0;
  for (int64_t i = begin; i < end; ++i) {
    double value = rows[i] < 0 ? 0 : table[rows[i] * columns + c];
    if (best >= 0 && !(value > max || (std::isnan(value) && !std::isnan(max)))) continue;
    max = value, best = rows[i];
  }
  put(call.out(0), cell, max);
  put_integer(call.out(1), cell, best);
}

}  // namespace

Status reference_embedding_bag(KernelCall& call) {
  Numbers table(call.in(0)), indices(call.in(1)), offsets(call.in(2));
  const std::string& mode = call.attributes.get_string("mode");
  int64_t columns = table.size(1);
  std::vector<int64_t> rows;
  std::optional<Numbers> weights = optional_input(call, 3);
  for (int64_t i = 0; i < indices.count(); ++i) {
    rows.push_back(resolve(call, indices.integer(i), table.size(0), "error"));
  }
  BagRanges ranges = bag_ranges(call, indices, offsets);
  for (size_t bag = 0; bag < ranges.begin.size(); ++bag) {
    int64_t begin = ranges.begin[bag], end = ranges.end[bag];
    for (int64_t c = 0; c < columns; ++c) {
      int64_t cell = static_cast<int64_t>(bag) * columns + c;
      if (mode == "max") {
        bag_maximum(call, table, rows, begin, end, cell, c);
        continue;
      }
      double sum = 0;
      for (int64_t i = begin; i < end; ++i) {
        if (rows[i] >= 0) sum += table[rows[i] * columns + c] * (weights ? (*weights)[i] : 1);
      }
      put(call.out(0), cell, mode == "mean" && end > begin ? sum / static_cast<double>(end - begin) : sum);
      put_integer(call.out(1), cell, -1);
    }
  }
  return Status::ok();
}

Status reference_embedding_bag_grad(KernelCall& call) {
  Numbers g(call.in(0)), indices(call.in(1)), offsets(call.in(2)), chosen(call.in(4));
  std::optional<Numbers> weights = optional_input(call, 3);
  const std::string& mode = call.attributes.get_string("mode");
  int64_t rows = call.out().sizes[0], columns = call.out().sizes[1];
  std::vector<double> sum(static_cast<size_t>(rows * columns));
  BagRanges ranges = bag_ranges(call, indices, offsets);
  for (size_t bag = 0; bag < ranges.begin.size(); ++bag) {
    int64_t begin = ranges.begin[bag], end = ranges.end[bag];
    for (int64_t c = 0; c < columns; ++c) {
      int64_t cell = static_cast<int64_t>(bag) * columns + c;
      if (mode == "max") {
        int64_t row = chosen.integer(cell);
        if (row >= 0 && row < rows) sum[row * columns + c] += g[cell];
        continue;
      }
      for (int64_t i = begin; i < end; ++i) {
        int64_t row = indices.integer(i);
        if (row < 0 || row >= rows) continue;
        double weight = weights ? (*weights)[i] : 1;
        sum[row * columns + c] +=
            mode == "mean" ? g[cell] / static_cast<double>(end - begin) : g[cell] * weight;
      }
    }
  }
  put_all(call.out(), sum);
  return Status::ok();
}

Status reference_embedding_bag_weights_grad(KernelCall& call) {
  Numbers g(call.in(0)), table(call.in(1)), indices(call.in(2)), offsets(call.in(3));
  int64_t columns = table.size(1);
  std::vector<double> sum(static_cast<size_t>(indices.count()));
  BagRanges ranges = bag_ranges(call, indices, offsets);
  for (size_t bag = 0; bag < ranges.begin.size(); ++bag) {
    for (int64_t i = ranges.begin[bag]; i < ranges.end[bag]; ++i) {
      int64_t row = resolve(call, indices.integer(i), table.size(0), "error");
      for (int64_t c = 0; c < columns && row >= 0; ++c) {
        sum[static_cast<size_t>(i)] += g[static_cast<int64_t>(bag) * columns + c] * table[row * columns + c];
      }
    }
  }
  put_all(call.out(), sum);
  return Status::ok();
}

}  // namespace tilewright
