// Inference of gather and scatter.
#include <algorithm>

#include "ir/infer/checks.h"

namespace tilewright {

using namespace infer;

namespace {

// Dims of `indices` without the index vector dim, in order.
Ints batch_dims_of(int indices_rank, int64_t index_vector_dim) {
  Ints dims;
  for (int64_t i = 0; i < indices_rank; ++i) {
    if (i != index_vector_dim) dims.push_back(i);
  }
  return dims;
}

// What gather and scatter have in common, under gather's names.
struct IndexingDims {
  const Ints& window;  // offset_dims or update_window_dims, in the result or the updates
  const Ints &collapsed, &operand_batching, &indices_batching, &index_map;
  const char *window_name, *collapsed_name, *operand_batching_name, *index_map_name;
  int64_t index_vector_dim;
};

Status check_indices(const NodeView& view, const IndexingDims& dims) {
  const TensorType &x = view.operand(0), &indices = view.operand(1);
  TW_RETURN_IF_ERROR(check_axis("index_vector_dim", dims.index_vector_dim, indices.rank() + 1));
  bool scalar_index = dims.index_vector_dim == indices.rank();
  Dim components = scalar_index ? Dim(1) : indices.shape[dims.index_vector_dim];
  if (components != Dim(static_cast<int64_t>(dims.index_map.size()))) {
    return Status::invalid(cat(dims.index_map_name, " has ", dims.index_map.size(), " entries for ",
                               components.to_string(), " index components"));
  }
  TW_RETURN_IF_ERROR(check_axes(dims.index_map_name, dims.index_map, x.rank()));
  TW_RETURN_IF_ERROR(check_axes("indices_batching", dims.indices_batching, indices.rank()));
  if (contains(dims.indices_batching, dims.index_vector_dim)) {
    return Status::invalid("indices_batching contains index_vector_dim");
  }
  TW_RETURN_IF_ERROR(check_count("indices_batching", dims.indices_batching.size(),
                                 dims.operand_batching.size(), dims.operand_batching_name));
  for (size_t i = 0; i < dims.operand_batching.size(); ++i) {
    if (x.shape[dims.operand_batching[i]] == indices.shape[dims.indices_batching[i]]) continue;
    return Status::invalid(cat("batching dim ", dims.operand_batching[i], " of ", operand_text(view, 0),
                               " and dim ", dims.indices_batching[i], " of ", operand_text(view, 1),
                               " differ"));
  }
  return Status::ok();
}

Status check_window_dims(const NodeView& view, const IndexingDims& dims, int result_rank) {
  int rank = view.operand(0).rank();
  Ints gone = dims.collapsed;
  gone.insert(gone.end(), dims.operand_batching.begin(), dims.operand_batching.end());
  TW_RETURN_IF_ERROR(
      check_axes(cat(dims.collapsed_name, " and ", dims.operand_batching_name).c_str(), gone, rank));
  TW_RETURN_IF_ERROR(check_increasing(dims.collapsed_name, dims.collapsed));
  TW_RETURN_IF_ERROR(check_increasing(dims.operand_batching_name, dims.operand_batching));
  for (int64_t dim : dims.index_map) {
    if (!contains(dims.operand_batching, dim)) continue;
    return Status::invalid(cat(dims.index_map_name, " and ", dims.operand_batching_name, " share dim ", dim));
  }
  TW_RETURN_IF_ERROR(check_increasing(dims.window_name, dims.window));
  TW_RETURN_IF_ERROR(check_count(dims.window_name, dims.window.size(), rank - gone.size(), "window dims"));
  return check_axes(dims.window_name, dims.window, result_rank);
}

// The result of a gather or the updates of a scatter: window dims in their places, batch dims elsewhere.
Shape place_dims(const Shape& batch, const Shape& window, const Ints& window_dims) {
  Shape shape;
  size_t next_batch = 0, next_window = 0;
  for (size_t i = 0; i < batch.size() + window.size(); ++i) {
    shape.push_back(contains(window_dims, static_cast<int64_t>(i)) ? window[next_window++]
                                                                   : batch[next_batch++]);
  }
  return shape;
}

}  // namespace

Result<Types> infer_gather(const NodeView& view) {
  AttributeReader attributes(view.op, view.attributes);
  const TensorType &x = view.operand(0), &indices = view.operand(1);
  IndexingDims dims{attributes.get_ints("offset_dims"),
                    attributes.get_ints("collapsed"),
                    attributes.get_ints("operand_batching"),
                    attributes.get_ints("indices_batching"),
                    attributes.get_ints("start_index_map"),
                    "offset_dims",
                    "collapsed",
                    "operand_batching",
                    "start_index_map",
                    attributes.get_int("index_vector_dim")};
  const Shape& sizes = attributes.get_dims("slice_sizes");
  Ints batch_dims = batch_dims_of(indices.rank(), dims.index_vector_dim);
  int result_rank = static_cast<int>(batch_dims.size() + dims.window.size());
  TW_RETURN_IF_ERROR(check_window_dims(view, dims, result_rank));
  TW_RETURN_IF_ERROR(check_indices(view, dims));
  TW_RETURN_IF_ERROR(check_count("slice_sizes", sizes.size(), x.shape.size()));
  TW_RETURN_IF_ERROR(check_shape("slice_sizes", sizes, view.symbols));
  Shape window, batch;
  for (int i = 0; i < x.rank(); ++i) {
    bool gone = contains(dims.collapsed, i) || contains(dims.operand_batching, i);
    if (gone && !sizes[i].is_constant(1)) {
      return Status::invalid(
          cat("slice size ", sizes[i].to_string(), " of collapsed or batching dim ", i, " must be 1"));
    }
    if (surely_greater(sizes[i], x.shape[i], view.symbols) && !contains(dims.collapsed, i)) {
      return Status::invalid(
          cat("slice size ", sizes[i].to_string(), " of dim ", i, " exceeds ", operand_text(view, 0)));
    }
    if (!contains(dims.collapsed, i))
      require_at_most(sizes[i], x.shape[i], view.symbols, "slice size of dim", i);
    if (!gone) window.push_back(sizes[i]);
  }
  for (int64_t dim : batch_dims) batch.push_back(indices.shape[dim]);
  return Types{{x.dtype, place_dims(batch, window, dims.window)}};
}

Result<Types> infer_scatter(const NodeView& view) {
  AttributeReader attributes(view.op, view.attributes);
  const TensorType &x = view.operand(0), &indices = view.operand(1), &updates = view.operand(2);
  IndexingDims dims{attributes.get_ints("update_window_dims"),
                    attributes.get_ints("inserted"),
                    attributes.get_ints("input_batching"),
                    attributes.get_ints("indices_batching"),
                    attributes.get_ints("scatter_map"),
                    "update_window_dims",
                    "inserted",
                    "input_batching",
                    "scatter_map",
                    attributes.get_int("index_vector_dim")};
  TW_RETURN_IF_ERROR(check_window_dims(view, dims, updates.rank()));
  TW_RETURN_IF_ERROR(check_indices(view, dims));
  Ints batch_dims = batch_dims_of(indices.rank(), dims.index_vector_dim);
  if (updates.shape.size() != batch_dims.size() + dims.window.size()) {
    return Status::invalid(cat(operand_text(view, 2), " must have rank ",
                               batch_dims.size() + dims.window.size(), ": ", batch_dims.size(), " batch and ",
                               dims.window.size(), " window dims"));
  }
  Shape batch;
  for (int64_t dim : batch_dims) batch.push_back(indices.shape[dim]);
  if (without(updates.shape, dims.window) != batch) {
    return Status::invalid(
        cat("batch dims of ", operand_text(view, 2), " differ from those of ", operand_text(view, 1)));
  }
  size_t next = 0;
  for (int i = 0; i < x.rank(); ++i) {
    if (contains(dims.collapsed, i) || contains(dims.operand_batching, i)) continue;
    int64_t window_dim = dims.window[next++];
    if (surely_greater(updates.shape[window_dim], x.shape[i], view.symbols)) {
      return Status::invalid(cat("window dim ", window_dim, " of ", operand_text(view, 2), " exceeds dim ", i,
                                 " of ", operand_text(view, 0)));
    }
    require_at_most(updates.shape[window_dim], x.shape[i], view.symbols, "size of updates in dim",
                    window_dim);
  }
  return Types{x};
}

// Ranks agree, and indices fit into x outside `dim`.
static Status check_elements(const NodeView& view) {
  const TensorType &x = view.operand(0), &indices = view.operand(1);
  int64_t dim = AttributeReader(view.op, view.attributes).get_int("dim");
  TW_RETURN_IF_ERROR(check_axis("dim", dim, x.rank()));
  TW_RETURN_IF_ERROR(check_rank(view, 1, x.rank()));
  for (int i = 0; i < x.rank(); ++i) {
    if (i != dim && surely_greater(indices.shape[i], x.shape[i], view.symbols)) {
      return Status::invalid(
          cat("dim ", i, " of ", operand_text(view, 1), " exceeds ", operand_text(view, 0)));
    }
    if (i != dim) require_at_most(indices.shape[i], x.shape[i], view.symbols, "size of indices in dim", i);
  }
  return Status::ok();
}

Result<Types> infer_gather_elements(const NodeView& view) {
  TW_RETURN_IF_ERROR(check_elements(view));
  return Types{{view.operand(0).dtype, view.operand(1).shape}};
}

Result<Types> infer_scatter_elements(const NodeView& view) {
  TW_RETURN_IF_ERROR(check_elements(view));
  if (view.operand(2).shape != view.operand(1).shape) {
    return Status::invalid(cat("shapes differ: ", operand_text(view, 1), " and ", operand_text(view, 2)));
  }
  return Types{view.operand(0)};
}

Result<Types> infer_histogram(const NodeView& view) {
  int64_t bins = AttributeReader(view.op, view.attributes).get_int("bins");
  if (bins < 0) return Status::invalid(cat("bins ", bins, " is negative"));
  TW_RETURN_IF_ERROR(check_same_shapes(view));
  return Types{{view.has_operand(1) ? view.operand(1).dtype : DType::I64, {Dim(bins)}}};
}

}  // namespace tilewright
