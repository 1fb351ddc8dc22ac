#include "eadem/kernels/convolution/convolution.h"

#include <algorithm>
#include <vector>

#include "eadem/base/memory.h"
#include "eadem/base/parallel.h"
#include "eadem/kernels/contraction/contraction.h"
#include "eadem/kernels/convolution/depthwise.h"
#include "eadem/kernels/convolution/matrix_tree.h"
#include "eadem/kernels/convolution/patches.h"
#include "eadem/kernels/move/copy.h"
#include "eadem/numerics/contraction.h"
#include "eadem/numerics/rounding.h"

namespace eadem::kernels {
namespace {

constexpr std::int64_t kBlockBytes = std::int64_t{1} << 20;  // of gathered patches: they stay in L2
constexpr std::int64_t kChunkBytes = std::int64_t{1} << 22;  // the same for a kernel's gradient, of all threads
constexpr std::int64_t kKeptColumns = 32;                    // fewer would waste the lanes of a kept packed form

Shape spatial(const Shape& shape, int first) {
  Shape extents;
  for (int axis = first; axis < shape.rank() + first - 2; ++axis) extents.push_back(shape[axis]);
  return extents;
}

// Columns [first, first + count) of contiguous rows.
TensorView columns(const TensorView& matrix, std::int64_t first, std::int64_t count) {
  TensorView part = matrix;
  part.data += first * static_cast<std::int64_t>(size_of(matrix.dtype));
  part.shape.back() = count;
  return part;
}

// Whether the patches are the input itself: one tap, met by every element in order.
bool is_matrix(const TensorView& x, const Shape& taps, const numerics::Convolution& c) {
  const auto all = [](const Shape& shape, std::int64_t value) {
    return std::all_of(shape.begin(), shape.end(), [&](std::int64_t each) { return each == value; });
  };
  return c.groups == 1 && is_contiguous(x) && all(taps, 1) && all(c.strides, 1) && all(c.lhs_dilation, 1) &&
         all(c.low, 0) && all(c.high, 0);
}

}  // namespace

void convolve(const TensorView& x, const TensorView& w, const TensorView* bias, const numerics::Convolution& c,
              const TensorView& y) {
  const Shape taps = spatial(w.shape, 0);
  const std::int64_t outputs = w.shape.back(), per_group = outputs / c.groups;
  if (y.elements() == 0) return;
  const auto size = static_cast<std::int64_t>(size_of(x.dtype)), out_size = static_cast<std::int64_t>(size_of(y.dtype));
  TensorView kernel = w;  // [taps channels, outputs]
  kernel.shape = {w.elements() / outputs, outputs};
  kernel.strides = {outputs, 1};
  if (is_matrix(x, taps, c)) {
    const TensorView rows = contiguous_view(x.data, x.dtype, {y.elements() / outputs, kernel.shape[0]});
    return matmul(rows, kernel, contiguous_view(y.data, y.dtype, {rows.shape[0], outputs}), bias,
                  outputs >= kKeptColumns);
  }
  const Patches patches(x, taps, spatial(y.shape, 1), c);
  if (depthwise_admits(x, taps.elements(), outputs, c.groups, y.dtype)) return depthwise(patches, x, kernel, bias, y);
  const std::int64_t row_bytes = std::max<std::int64_t>(1, patches.terms() * c.groups * size);
  const std::int64_t most = std::max<std::int64_t>(1, patches.rows() / (2 * threads()));
  const std::int64_t block =
      std::min(std::max<std::int64_t>(kBlockBytes / row_bytes, 64), std::max<std::int64_t>(most, 64));
  const std::int64_t blocks = (patches.rows() + block - 1) / block;
  parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    static thread_local Scratch gathered, product;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i * block, rows = std::min(block, patches.rows() - first);
      std::byte* const from = gathered.take(static_cast<std::size_t>(rows * row_bytes));
      patches.gather(first, rows, from);
      std::byte* const to = y.data + first * outputs * out_size;
      if (c.groups == 1) {
        matmul(contiguous_view(from, x.dtype, {rows, patches.terms()}), kernel,
               contiguous_view(to, y.dtype, {rows, outputs}), bias, outputs >= kKeptColumns);
        continue;
      }
      std::byte* const part = product.take(static_cast<std::size_t>(rows * per_group * out_size));
      for (std::int64_t group = 0; group < c.groups; ++group) {
        const TensorView a =
            contiguous_view(from + group * rows * patches.terms() * size, x.dtype, {rows, patches.terms()});
        const TensorView result = contiguous_view(part, y.dtype, {rows, per_group});
        TensorView shift;
        if (bias) {
          shift = *bias;
          shift.data += group * per_group * bias->strides[0] * static_cast<std::int64_t>(size_of(bias->dtype));
          shift.shape = {per_group};
        }
        matmul(a, columns(kernel, group * per_group, per_group), result, bias ? &shift : nullptr, false);
        copy(result, columns(contiguous_view(to, y.dtype, {rows, outputs}), group * per_group, per_group));
      }
    }
  });
}

namespace {

template <class W>
void vjp_kernel(const Patches& patches, const TensorView& x, const TensorView& dy, std::int64_t groups,
                const TensorView& dw) {
  const std::int64_t outputs = dw.shape.back(), per_group = outputs / groups, terms = patches.terms();
  const auto size = static_cast<std::int64_t>(size_of(x.dtype));
  const std::int64_t row_bytes = terms * groups * size;
  // A power of two of blocks, so that a chunk is a node of the tree.
  std::int64_t chunk = numerics::kBlockTerms;
  while (2 * chunk * row_bytes <= kChunkBytes && chunk < patches.rows()) chunk *= 2;
  Scratch memory;
  MatrixTree<W> tree;
  std::vector<W> sum;
  for (std::int64_t first = 0; first < patches.rows(); first += chunk) {
    const std::int64_t rows = std::min(chunk, patches.rows() - first);
    std::byte* const from = memory.take(static_cast<std::size_t>(rows * row_bytes));
    sum.resize(static_cast<std::size_t>(groups * terms * per_group));
    const std::int64_t piece = std::max<std::int64_t>(8, 65536 / std::max<std::int64_t>(1, row_bytes));
    const std::int64_t pieces = (rows + piece - 1) / piece;
    if (groups == 1)
      parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t at = begin * piece, count = std::min(end * piece, rows) - at;
        patches.gather(first + at, count, from + at * row_bytes);
      });
    else
      patches.gather(first, rows, from);
    const TensorView cotangents = contiguous_view(dy.data + first * outputs * size, dy.dtype, {rows, outputs});
    for (std::int64_t group = 0; group < groups; ++group) {
      TensorView a = contiguous_view(from + group * rows * terms * size, x.dtype, {terms, rows});
      a.strides = {1, terms};
      matmul(a, columns(cotangents, group * per_group, per_group),
             contiguous_view(sum.data() + group * terms * per_group, kDTypeOf<W>, {terms, per_group}), nullptr, false);
    }
    tree.add(sum);
  }
  const std::vector<W> total = tree.sum();
  visit_floating(dw.dtype, [&]<class Out>(std::type_identity<Out>) {
    for (std::int64_t i = 0; i < dw.elements(); ++i) {
      const std::int64_t o = i % outputs, at = (o / per_group * terms + i / outputs) * per_group + o % per_group;
      dw.as<Out>()[i] = numerics::round_to<Out>(total.empty() ? W{0} : total[static_cast<std::size_t>(at)] + W{0});
    }
  });
}

}  // namespace

void convolve_vjp_kernel(const TensorView& x, const TensorView& dy, const numerics::Convolution& c,
                         const TensorView& dw) {
  if (dw.elements() == 0) return;
  const Shape taps = spatial(dw.shape, 0);
  const Patches patches(x, taps, spatial(dy.shape, 1), c);
  if (depthwise_admits(x, taps.elements(), dw.shape.back(), c.groups, x.dtype))
    return depthwise_vjp_kernel(patches, x, dy, dw);
  visit_floating(x.dtype,
                 [&]<class T>(std::type_identity<T>) { vjp_kernel<numerics::Wide<T>>(patches, x, dy, c.groups, dw); });
}

}  // namespace eadem::kernels
