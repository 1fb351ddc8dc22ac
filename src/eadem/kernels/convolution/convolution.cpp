#include "eadem/kernels/convolution/convolution.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "eadem/base/buffer.h"
#include "eadem/base/memory.h"
#include "eadem/base/parallel.h"
#include "eadem/kernels/contraction/contraction.h"
#include "eadem/kernels/convolution/depthwise.h"
#include "eadem/kernels/convolution/matrix_tree.h"
#include "eadem/kernels/convolution/patches.h"
#include "eadem/kernels/convolution/residues.h"
#include "eadem/kernels/move/copy.h"
#include "eadem/kernels/target.h"
#include "eadem/numerics/contraction.h"
#include "eadem/numerics/rounding.h"

namespace eadem::kernels {
namespace {

constexpr std::int64_t kBlockBytes = std::int64_t{1} << 18;  // of patches gathered whole: they stay in L2
constexpr std::int64_t kChunkBytes = std::int64_t{1} << 20;  // the same for a kernel's gradient
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

// One group of a convolution: its patches, made as they are packed.
struct Group {
  const Patches& patches;
  std::int64_t index;

  static void make(const void* self, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
                   std::byte* to, std::int64_t row_bytes) {
    const Group& group = *static_cast<const Group*>(self);
    group.patches.gather(group.index, row, rows, column, columns, to, row_bytes);
  }
};

// The group's product where few columns, or the scalar target, want a matrix in memory: a block of rows at a time.
void convolve_blocks(const Group& group, const TensorView& w, const TensorView* bias, const TensorView& y) {
  const Patches& patches = group.patches;
  const auto size = static_cast<std::int64_t>(size_of(w.dtype)), out_size = static_cast<std::int64_t>(size_of(y.dtype));
  const std::int64_t row_bytes = std::max<std::int64_t>(1, patches.terms() * size), outputs = w.shape[1];
  const std::int64_t most = std::max<std::int64_t>(64, patches.rows() / (2 * threads()));
  const std::int64_t block = std::min(std::max<std::int64_t>(kBlockBytes / row_bytes, 64), most);
  parallel_for((patches.rows() + block - 1) / block, 1, [&](std::int64_t begin, std::int64_t end) {
    static thread_local Scratch gathered, product;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i * block, rows = std::min(block, patches.rows() - first);
      std::byte* const from = gathered.take(static_cast<std::size_t>(rows * row_bytes));
      patches.gather(group.index, first, rows, 0, patches.terms(), from, row_bytes);
      const TensorView sums =
          contiguous_view(product.take(static_cast<std::size_t>(rows * outputs * out_size)), y.dtype, {rows, outputs});
      matmul(contiguous_view(from, w.dtype, {rows, patches.terms()}), w, sums, bias, false);
      TensorView to = y;
      to.data += first * y.strides[0] * out_size;
      to.shape[0] = rows;
      copy(sums, to);
    }
  });
}

// Whether leaving out a hole times it changes nothing.
bool all_finite(const TensorView& w) {
  return visit_floating(w.dtype, [&]<class T>(std::type_identity<T>) {
    bool finite = true;
    for (std::int64_t i = 0; i < w.elements(); ++i) {
      const auto value = numerics::widen(w.as<const T>()[i]);
      finite &= value - value == 0;
    }
    return finite;
  });
}

// Whether most products would be with holes that can be left out: taps are whole steps, residues few.
bool has_holes_to_skip(const TensorView& x, const TensorView& w, const numerics::Convolution& c) {
  constexpr std::int64_t most = 64;
  std::int64_t residues = 1;
  for (const std::int64_t dilation : c.lhs_dilation)
    residues = std::min(residues, most + 1) * std::min(dilation, most + 1);
  const std::int64_t channels = x.shape.back() / c.groups;
  return residues > 1 && residues <= most && active_target() != Target::scalar && channels > 0 &&
         channels % numerics::kStepTerms == 0 && all_finite(w);
}

// The patches of a residue in one group, a step at a time where they are not all there.
struct ResidueGroup {
  const Patches& patches;
  const ResidueTerms& terms;
  std::int64_t index, size;

  static void make(const void* self, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
                   std::byte* to, std::int64_t row_bytes) {
    constexpr std::int64_t step = numerics::kStepTerms;
    const ResidueGroup& group = *static_cast<const ResidueGroup*>(self);
    const std::int64_t own = group.terms.own[static_cast<std::size_t>(column / step)];
    if (own >= 0) return group.patches.gather(group.index, row, rows, own, columns, to, row_bytes);
    for (std::int64_t i = 0; i < rows; ++i)
      std::memset(to + i * row_bytes, 0, static_cast<std::size_t>(columns * group.size));
  }
};

// Outputs that meet the same taps together, without the holes between.
void convolve_residues(const TensorView& x, const TensorView& kernel, const TensorView* bias,
                       const numerics::Convolution& c, const Shape& taps, const TensorView& y) {
  const std::int64_t outputs = kernel.shape[1], per_group = outputs / c.groups, channels = x.shape.back() / c.groups;
  const auto size = static_cast<std::int64_t>(size_of(x.dtype)), out_size = static_cast<std::int64_t>(size_of(y.dtype));
  for (const Residue& residue : residues_of(c, taps, spatial(y.shape, 1))) {
    const Patches patches(x, residue.taps, residue.outs, residue.convolution);
    const ResidueTerms terms = terms_of(residue, taps, channels);
    const auto steps = static_cast<std::int64_t>(terms.whole.size());
    const BufferRef rows = Buffer::allocate(static_cast<std::size_t>(steps * numerics::kStepTerms * outputs * size));
    const BufferRef sums = Buffer::allocate(static_cast<std::size_t>(patches.rows() * outputs * out_size));
    const std::int64_t step_bytes = numerics::kStepTerms * outputs * size;
    for (std::int64_t i = 0; i < steps; ++i)
      std::memcpy(rows->data() + i * step_bytes,
                  kernel.data + terms.whole[static_cast<std::size_t>(i)] * outputs * size,
                  static_cast<std::size_t>(step_bytes));
    const TensorView own = contiguous_view(rows->data(), x.dtype, {steps * numerics::kStepTerms, outputs});
    const TensorView result = contiguous_view(sums->data(), y.dtype, {patches.rows(), outputs});
    parallel_for(c.groups, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const ResidueGroup group{patches, terms, i, size};
        TensorView shift;
        if (bias) shift = columns(*bias, i * per_group * bias->strides[0], per_group);
        matmul_made({&group, ResidueGroup::make, false, &terms.borders}, columns(own, i * per_group, per_group),
                    columns(result, i * per_group, per_group), bias ? &shift : nullptr, false);
      }
    });
    TensorView from = result, to = y;
    from.shape = to.shape = Shape{y.shape[0]};
    to.strides = Shape{y.strides[0]};
    for (int axis = 0; axis < taps.rank(); ++axis) {
      from.shape.push_back(residue.outs[axis]), to.shape.push_back(residue.outs[axis]);
      to.data += residue.first_out[axis] * y.strides[axis + 1] * out_size;
      to.strides.push_back(residue.out_steps[axis] * y.strides[axis + 1]);
    }
    from.shape.push_back(outputs), to.shape.push_back(outputs), to.strides.push_back(1);
    from.strides = contiguous_strides(from.shape);
    copy(from, to);
  }
}

}  // namespace

void convolve(const TensorView& x, const TensorView& w, const TensorView* bias, const numerics::Convolution& c,
              const TensorView& y) {
  const Shape taps = spatial(w.shape, 0);
  const std::int64_t outputs = w.shape.back(), per_group = outputs / c.groups;
  if (y.elements() == 0) return;
  const TensorView kernel{w.data, w.dtype, {w.elements() / outputs, outputs}, {outputs, 1}, w.buffer};
  const TensorView result = contiguous_view(y.data, y.dtype, {y.elements() / outputs, outputs});
  if (is_matrix(x, taps, c))
    return matmul(contiguous_view(x.data, x.dtype, {result.shape[0], kernel.shape[0]}), kernel, result, bias,
                  outputs >= kKeptColumns);
  const Shape outs = spatial(y.shape, 1);
  if (depthwise_admits(x, taps, outs, c, outputs, y.dtype)) return depthwise(x, taps, outs, c, kernel, bias, y);
  if (has_holes_to_skip(x, w, c)) return convolve_residues(x, kernel, bias, c, taps, y);
  const Patches patches(x, taps, outs, c);
  parallel_for(c.groups, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Group group{patches, i};
      const TensorView part = columns(kernel, i * per_group, per_group), to = columns(result, i * per_group, per_group);
      TensorView shift;
      if (bias) shift = columns(*bias, i * per_group * bias->strides[0], per_group);
      const TensorView* own_bias = bias ? &shift : nullptr;
      if (patches.terms() > 0 && matmul_made_admits(x.dtype, per_group))
        matmul_made({&group, Group::make}, part, to, own_bias, per_group >= kKeptColumns);
      else
        convolve_blocks(group, part, own_bias, to);
    }
  });
}

namespace {

// Rows gathered a chunk at a time, whose sums meet in the tree.
template <class W>
void kernel_of_chunks(const Group& group, const TensorView& dy, const TensorView& dw) {
  const Patches& patches = group.patches;
  const std::int64_t outputs = dw.shape[1], terms = dw.shape[0];
  const auto size = static_cast<std::int64_t>(size_of(dy.dtype));
  // A power of two of blocks, so that a chunk is a node of the tree.
  std::int64_t chunk = numerics::kBlockTerms;
  while (2 * chunk * terms * size <= kChunkBytes && 2 * chunk * threads() <= patches.rows()) chunk *= 2;
  const std::int64_t chunks = (patches.rows() + chunk - 1) / chunk;
  MatrixTree<W> tree;
  std::vector<std::vector<W>> sums(static_cast<std::size_t>(std::min<std::int64_t>(chunks, 4 * threads())));
  for (std::int64_t wave = 0; wave < chunks; wave += static_cast<std::int64_t>(sums.size())) {
    const std::int64_t count = std::min(chunks - wave, static_cast<std::int64_t>(sums.size()));
    parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
      static thread_local Scratch memory;
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t first = (wave + i) * chunk, rows = std::min(chunk, patches.rows() - first);
        std::byte* const from = memory.take(static_cast<std::size_t>(rows * terms * size));
        patches.gather(group.index, first, rows, 0, terms, from, terms * size);
        TensorView cotangents = dy;
        cotangents.data += first * dy.strides[0] * size;
        cotangents.shape[0] = rows;
        std::vector<W>& sum = sums[static_cast<std::size_t>(i)];
        sum.resize(static_cast<std::size_t>(terms * outputs));
        const TensorView a{from, dy.dtype, {terms, rows}, {1, terms}};
        matmul(a, cotangents, contiguous_view(sum.data(), kDTypeOf<W>, {terms, outputs}), nullptr, false);
      }
    });
    for (std::int64_t i = 0; i < count; ++i) tree.add(sums[static_cast<std::size_t>(i)]);
  }
  const std::vector<W> total = tree.sum();
  visit_floating(dw.dtype, [&]<class Out>(std::type_identity<Out>) {
    for (std::int64_t term = 0; term < terms; ++term)
      for (std::int64_t o = 0; o < outputs; ++o)
        dw.as<Out>()[term * dw.strides[0] + o] =
            numerics::round_to<Out>(total.empty() ? W{0} : total[static_cast<std::size_t>(term * outputs + o)] + W{0});
  });
}

}  // namespace

void convolve_vjp_kernel(const TensorView& x, const TensorView& dy, const numerics::Convolution& c,
                         const TensorView& dw) {
  if (dw.elements() == 0) return;
  const Shape taps = spatial(dw.shape, 0);
  const std::int64_t outputs = dw.shape.back(), per_group = outputs / c.groups;
  const Shape outs = spatial(dy.shape, 1);
  const TensorView cotangents = contiguous_view(dy.data, dy.dtype, {dy.elements() / outputs, outputs});
  const TensorView kernel = contiguous_view(dw.data, dw.dtype, {dw.elements() / outputs, outputs});
  if (depthwise_admits(x, taps, outs, c, outputs, x.dtype))
    return depthwise_vjp_kernel(x, taps, outs, c, cotangents, kernel);
  const Patches patches(x, taps, outs, c);
  parallel_for(c.groups, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Group group{patches, i};
      const TensorView part = columns(cotangents, i * per_group, per_group);
      const TensorView to = columns(kernel, i * per_group, per_group);
      if (patches.rows() > 0 && matmul_made_admits(x.dtype, per_group))
        matmul_made({&group, Group::make, true}, part, to, nullptr, false);
      else
        visit_floating(x.dtype,
                       [&]<class T>(std::type_identity<T>) { kernel_of_chunks<numerics::Wide<T>>(group, part, to); });
    }
  });
}

}  // namespace eadem::kernels
