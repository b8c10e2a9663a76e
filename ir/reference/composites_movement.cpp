// Reference kernels of composites that move elements: each says which input element an output element is.
#include <functional>

#include "ir/reference/composite.h"

namespace tilewright {

using namespace reference;
namespace {

using Index = std::vector<int64_t>;

// Copies one element; `from` of -1 writes zero.
void move_element(const TensorRef& out, int64_t to, const TensorRef& in, int64_t from) {
  size_t bytes = static_cast<size_t>(dtype_bytes(out.dtype));
  char* target = static_cast<char*>(out.data) + static_cast<size_t>(to) * bytes;
  if (from < 0) {
    std::memset(target, 0, bytes);
  } else {
    std::memcpy(target, static_cast<const char*>(in.data) + from * static_cast<int64_t>(bytes), bytes);
  }
}

// out[index] = in[source(index)]; an empty source index gives zero for a tensor that has dims.
void fill_from(const TensorRef& out, const TensorRef& in, const std::function<Index(const Index&)>& source) {
  int64_t at = 0;
  for_each_index(out.sizes, [&](const Index& index) {
    Index from = source(index);
    bool zero = from.size() != in.sizes.size();
    move_element(out, at++, in, zero ? -1 : offset_of(from, in.strides));
  });
}

// The same elements in row-major order under another shape.
Status same_order(KernelCall& call) {
  const TensorRef& in = call.in(0);
  int64_t at = 0;
  for_each_index(in.sizes, [&](const Index& index) {
    move_element(call.out(), at++, in, offset_of(index, in.strides));
  });
  return Status::ok();
}

// Parts of one axis, one after the other.
Status parts(KernelCall& call) {
  size_t dim = static_cast<size_t>(call.attributes.get_int("dim"));
  int64_t start = 0;
  for (TensorRef& out : call.outputs) {
    fill_from(out, call.in(0), [&](Index index) {
      index[dim] += start;
      return index;
    });
    start += out.sizes[dim];
  }
  return Status::ok();
}

}  // namespace

Status reference_squeeze(KernelCall& call) { return same_order(call); }
Status reference_unsqueeze(KernelCall& call) { return same_order(call); }
Status reference_split(KernelCall& call) { return parts(call); }
Status reference_chunk(KernelCall& call) { return parts(call); }

Status reference_expand(KernelCall& call) {
  const TensorRef& in = call.in(0);
  fill_from(call.out(), in, [&](const Index& index) {
    Index from(index.end() - in.rank(), index.end());
    for (size_t dim = 0; dim < from.size(); ++dim) {
      if (in.sizes[dim] == 1) from[dim] = 0;
    }
    return from;
  });
  return Status::ok();
}

Status reference_stack(KernelCall& call) {
  size_t dim = static_cast<size_t>(call.attributes.get_int("dim"));
  int64_t at = 0;
  for_each_index(call.out().sizes, [&](Index index) {
    const TensorRef& in = call.in(static_cast<int>(index[dim]));
    index.erase(index.begin() + static_cast<int64_t>(dim));
    move_element(call.out(), at++, in, offset_of(index, in.strides));
  });
  return Status::ok();
}

Status reference_unbind(KernelCall& call) {
  int64_t dim = call.attributes.get_int("dim");
  for (size_t k = 0; k < call.outputs.size(); ++k) {
    fill_from(call.outputs[k], call.in(0), [&](Index index) {
      index.insert(index.begin() + dim, static_cast<int64_t>(k));
      return index;
    });
  }
  return Status::ok();
}

Status reference_tile(KernelCall& call) {
  const TensorRef& in = call.in(0);
  fill_from(call.out(), in, [&](Index index) {
    for (size_t dim = 0; dim < index.size(); ++dim) index[dim] %= in.sizes[dim];
    return index;
  });
  return Status::ok();
}

Status reference_repeat_interleave(KernelCall& call) {
  size_t dim = static_cast<size_t>(call.attributes.get_int("dim"));
  int64_t repeats = call.attributes.get_int("repeats");
  fill_from(call.out(), call.in(0), [&](Index index) {
    index[dim] /= repeats;
    return index;
  });
  return Status::ok();
}

Status reference_roll(KernelCall& call) {
  const Ints &dims = call.attributes.get_ints("dims"), &shifts = call.attributes.get_ints("shifts");
  const TensorRef& in = call.in(0);
  fill_from(call.out(), in, [&](Index index) {
    for (size_t k = 0; k < dims.size(); ++k) {
      size_t dim = static_cast<size_t>(dims[k]);
      int64_t n = in.sizes[dim], moved = (index[dim] - shifts[k]) % n;
      index[dim] = moved < 0 ? moved + n : moved;
    }
    return index;
  });
  return Status::ok();
}

Status reference_flip(KernelCall& call) {
  const TensorRef& in = call.in(0);
  fill_from(call.out(), in, [&](Index index) {
    for (int64_t dim : call.attributes.get_ints("dims")) {
      index[static_cast<size_t>(dim)] =
          in.sizes[static_cast<size_t>(dim)] - 1 - index[static_cast<size_t>(dim)];
    }
    return index;
  });
  return Status::ok();
}

Status reference_narrow(KernelCall& call) {
  size_t dim = static_cast<size_t>(call.attributes.get_int("dim"));
  TW_ASSIGN_OR_RETURN(std::vector<int64_t> start, call.sizes("start"));
  if (start[0] < 0 || start[0] + call.out().sizes[dim] > call.in(0).sizes[dim]) {
    return Status::invalid(cat("narrow: elements ", start[0], " to ", start[0] + call.out().sizes[dim],
                               " out of range for size ", call.in(0).sizes[dim]));
  }
  fill_from(call.out(), call.in(0), [&](Index index) {
    index[dim] += start[0];
    return index;
  });
  return Status::ok();
}

Status reference_select_index(KernelCall& call) {
  int64_t dim = call.attributes.get_int("dim"), at = call.attributes.get_int("index");
  int64_t size = call.in(0).sizes[static_cast<size_t>(dim)];
  if (at >= size || at < -size)
    return Status::invalid(cat("select_index: index ", at, " out of range for size ", size));
  if (at < 0) at += size;
  fill_from(call.out(), call.in(0), [&](Index index) {
    index.insert(index.begin() + dim, at);
    return index;
  });
  return Status::ok();
}

Status reference_diagonal(KernelCall& call) {
  int64_t offset = call.attributes.get_int("offset"), dim1 = call.attributes.get_int("dim1"),
          dim2 = call.attributes.get_int("dim2");
  fill_from(call.out(), call.in(0), [&](const Index& index) {
    Index from(index.size() + 1);
    size_t next = 0;
    for (size_t dim = 0; dim < from.size(); ++dim) {
      if (static_cast<int64_t>(dim) == dim1)
        from[dim] = index.back() + (offset < 0 ? -offset : 0);
      else if (static_cast<int64_t>(dim) == dim2)
        from[dim] = index.back() + (offset > 0 ? offset : 0);
      else
        from[dim] = index[next++];
    }
    return from;
  });
  return Status::ok();
}

Status reference_tril(KernelCall& call) {
  int64_t k = call.attributes.get_int("k");
  fill_from(call.out(), call.in(0), [&](const Index& index) {
    return index.back() - index[index.size() - 2] <= k ? index : Index{};
  });
  return Status::ok();
}

Status reference_triu(KernelCall& call) {
  int64_t k = call.attributes.get_int("k");
  fill_from(call.out(), call.in(0), [&](const Index& index) {
    return index.back() - index[index.size() - 2] >= k ? index : Index{};
  });
  return Status::ok();
}

Status reference_meshgrid(KernelCall& call) {
  bool swaps = call.attributes.get_string("indexing") == "xy" && call.outputs.size() > 1;
  for (size_t k = 0; k < call.outputs.size(); ++k) {
    size_t dim = swaps && k < 2 ? 1 - k : k;
    fill_from(call.outputs[k], call.in(static_cast<int>(k)),
              [&](const Index& index) { return Index{index[dim]}; });
  }
  return Status::ok();
}

Status reference_pixel_shuffle(KernelCall& call) {
  int64_t r = call.attributes.get_int("factor");
  fill_from(call.out(), call.in(0), [&](Index index) {
    size_t w = index.size() - 1, h = w - 1, c = w - 2;
    index[c] = index[c] * r * r + index[h] % r * r + index[w] % r;
    index[h] /= r, index[w] /= r;
    return index;
  });
  return Status::ok();
}

Status reference_pixel_unshuffle(KernelCall& call) {
  int64_t r = call.attributes.get_int("factor");
  fill_from(call.out(), call.in(0), [&](Index index) {
    size_t w = index.size() - 1, h = w - 1, c = w - 2;
    int64_t cell = index[c] % (r * r);
    index[h] = index[h] * r + cell / r, index[w] = index[w] * r + cell % r, index[c] /= r * r;
    return index;
  });
  return Status::ok();
}

Status reference_as_strided(KernelCall& call) {
  const Ints& strides = call.attributes.get_ints("strides");
  int64_t offset = call.attributes.get_int("offset"), at = 0;
  Numbers flat(call.in(0));
  TensorRef dense = call.in(0);
  dense.data = const_cast<void*>(flat.data());
  Status status;
  for_each_index(call.out().sizes, [&](const Index& index) {
    int64_t from = offset + offset_of(index, strides);
    if (from < 0 || from >= flat.count()) {
      call.error.set(Status::out_of_range(
          cat("as_strided: element ", from, " out of range for ", flat.count(), " elements")));
      from = -1;
    }
    move_element(call.out(), at++, dense, from);
  });
  return status;
}

}  // namespace tilewright
