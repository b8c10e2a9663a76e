// Reference kernel of convolution: patches of the padded input times the filters, as one matrix product a
// group.
#include "ir/reference/accumulate.h"
#include "ir/reference/contraction.h"
#include "ir/reference/window.h"

namespace tilewright {

using namespace reference;

namespace {

Ints dims_or_identity(const Ints& dims, int rank) {
  if (!dims.empty()) return dims;
  Ints identity(rank);
  for (int i = 0; i < rank; ++i) identity[i] = i;
  return identity;
}

// The tensor with its dims in the order batch or output, feature or input, spatial..
TensorRef in_order(const TensorRef& tensor, const Ints& dims) {
  TensorRef view = tensor;
  for (size_t i = 0; i < dims.size(); ++i) {
    view.sizes[i] = tensor.sizes[dims[i]];
    view.strides[i] = tensor.strides[dims[i]];
  }
  return view;
}

struct Problem {
  TensorRef x, w, y;  // in order
  std::vector<WindowSpec> windows;
  int64_t feature_groups, batch_groups;
  DType accumulate;
};

Problem read_problem(const KernelCall& call) {
  int rank = call.in(0).rank();
  Problem problem;
  problem.x = in_order(call.in(0), dims_or_identity(call.attributes.get_ints("x_dims"), rank));
  problem.w = in_order(call.in(1), dims_or_identity(call.attributes.get_ints("w_dims"), rank));
  problem.y = in_order(call.out(), dims_or_identity(call.attributes.get_ints("y_dims"), rank));
  for (int i = 0; i < rank - 2; ++i) {
    problem.windows.push_back({problem.w.sizes[i + 2], entry_or(call.attributes.get_ints("strides"), i, 1),
                               entry_or(call.attributes.get_ints("pad_lo"), i, 0),
                               entry_or(call.attributes.get_ints("lhs_dilation"), i, 1),
                               entry_or(call.attributes.get_ints("rhs_dilation"), i, 1)});
  }
  problem.feature_groups = call.attributes.get_int("feature_groups");
  problem.batch_groups = call.attributes.get_int("batch_groups");
  problem.accumulate = accumulation_type(call.in(0).dtype);
  return problem;
}

// Spatial dims only, without batch and features.
std::vector<int64_t> spatial(const std::vector<int64_t>& entries) {
  return {entries.begin() + 2, entries.end()};
}

constexpr int64_t kZero = INT64_MIN;

// For each output position and filter tap, the offset of the input element, or kZero in padding.
std::vector<int64_t> tap_offsets(const Problem& problem) {
  std::vector<int64_t> offsets;
  std::vector<int64_t> outputs = spatial(problem.y.sizes), taps = spatial(problem.w.sizes);
  for_each_index(outputs, [&](const std::vector<int64_t>& output) {
    for_each_index(taps, [&](const std::vector<int64_t>& tap) {
      int64_t offset = 0;
      for (size_t i = 0; i < output.size() && offset != kZero; ++i) {
        int64_t position = window_position(problem.windows[i], problem.x.sizes[i + 2], output[i], tap[i]);
        offset = position < 0 ? kZero : offset + position * problem.x.strides[i + 2];
      }
      offsets.push_back(offset);
    });
  });
  return offsets;
}

// Outputs from `first` on: patches[position][tap][feature].
template <class T>
void fill_patches(const Problem& problem, const T* image, const std::vector<int64_t>& offsets, int64_t first,
                  int64_t count, int64_t taps, int64_t features, std::vector<T>& patches) {
  T zero = Element<T>::store(ComputeType<T>(0));
  for (int64_t i = 0; i < count * taps; ++i) {
    int64_t offset = offsets[first * taps + i];
    T* patch = patches.data() + i * features;
    for (int64_t f = 0; f < features; ++f)
      patch[f] = offset == kZero ? zero : image[offset + f * problem.x.strides[1]];
  }
}

std::vector<int64_t> steps_of(int64_t count, int64_t step) {
  std::vector<int64_t> steps(count);
  for (int64_t i = 0; i < count; ++i) steps[i] = i * step;
  return steps;
}

// One image and one group: features [first_feature, +features) of x, outputs [first_output, +outputs) of w
// and y.
struct Part {
  int64_t image, y_image, first_feature, features, first_output, outputs;
};

template <class T>
void convolve(const Problem& problem, const Part& part, const std::vector<int64_t>& offsets) {
  constexpr int64_t kPositions = 256;
  const TensorRef &x = problem.x, &w = problem.w, &y = problem.y;
  int64_t positions = product(spatial(y.sizes)), taps = product(spatial(w.sizes)),
          depth = taps * part.features;
  const T* image = elements_of<const T>(x) + part.image * x.strides[0] + part.first_feature * x.strides[1];
  Ints spatial_dims;
  for (int dim = 2; dim < w.rank(); ++dim) spatial_dims.push_back(dim);
  // Rows of the filter matrix: taps, then features, as in a patch.
  Ints depth_dims = spatial_dims;
  depth_dims.push_back(1);
  std::vector<int64_t> w_rows = offsets_of(w, depth_dims), w_columns = steps_of(part.outputs, w.strides[0]);
  std::vector<int64_t> y_positions = offsets_of(y, spatial_dims),
                       y_columns = steps_of(part.outputs, y.strides[1]);
  std::vector<int64_t> patch_columns = steps_of(depth, 1);
  std::vector<T> patches(std::min(positions, kPositions) * depth);
  for (int64_t first = 0; first < positions; first += kPositions) {
    int64_t count = std::min(kPositions, positions - first);
    fill_patches(problem, image, offsets, first, count, taps, part.features, patches);
    std::vector<int64_t> patch_rows = steps_of(count, depth);
    std::vector<int64_t> y_rows(y_positions.begin() + first, y_positions.begin() + first + count);
    multiply<T>(
        {patches.data(), patch_rows, patch_columns},
        {elements_of<const T>(w) + part.first_output * w.strides[0], w_rows, w_columns},
        store_rows(y, problem.accumulate, part.y_image * y.strides[0] + part.first_output * y.strides[1],
                   y_rows, y_columns));
  }
}

}  // namespace

Status reference_convolution(KernelCall& call) {
  Problem problem = read_problem(call);
  if (problem.y.elements() == 0) return Status::ok();
  std::vector<int64_t> offsets = tap_offsets(problem);
  int64_t groups = problem.feature_groups * problem.batch_groups;  // at most one of them exceeds 1
  int64_t outputs = problem.y.sizes[1] / groups, images = problem.y.sizes[0];
  return visit<kFloat>(call.out().dtype, [&]<class T>(Tag<T>) {
    for (int64_t group = 0; group < groups; ++group) {
      for (int64_t image = 0; image < images; ++image) {
        Part part{image, image, 0, problem.w.sizes[1], group * outputs, outputs};
        if (problem.feature_groups > 1) part.first_feature = group * problem.w.sizes[1];
        if (problem.batch_groups > 1) part.image = group * images + image;
        convolve<T>(problem, part, offsets);
      }
    }
    return Status::ok();
  });
}

}  // namespace tilewright
