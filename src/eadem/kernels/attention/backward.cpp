#include "eadem/kernels/attention/backward.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "eadem/base/memory.h"
#include "eadem/base/parallel.h"
#include "eadem/kernels/attention/attention.h"
#include "eadem/kernels/contraction/contraction.h"
#include "eadem/kernels/elementwise/widen.h"
#include "eadem/kernels/move/copy.h"
#include "eadem/numerics/contraction.h"

// The derivative of attention, one key head at a time. Rows are its queries in the order (query, head of the group), in
// chunks that are subtrees of the sums over queries; p and ds of a chunk lie in memory, and every sum is a product of
// kernels/contraction, whose order of blocks and tree is the definition's. In bf16 the factors of a split contraction
// are laid out as 128 high parts, then 128 low parts, against the other operand's 128 rows twice.

namespace eadem::kernels {
namespace {

using namespace attention_detail;
using numerics::kKeyBlock;
using numerics::Wide;

constexpr std::int64_t round_up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

template <class T>
T* take(Scratch& memory, std::int64_t elements) {
  return reinterpret_cast<T*>(memory.take(static_cast<std::size_t>(elements) * sizeof(T)));
}

template <class T>
TensorView matrix(const T* data, std::int64_t rows, std::int64_t columns) {
  return contiguous_view(const_cast<T*>(data), kDTypeOf<T>, {rows, columns});
}
TensorView transposed(TensorView m) {
  std::swap(m.shape[0], m.shape[1]);
  std::swap(m.strides[0], m.strides[1]);
  return m;
}
void multiply(const TensorView& a, const TensorView& b, const TensorView& c) {
  matmul(a, b, c, nullptr, false);
}

// By the exponents, as integers: a loop that runs in vectors.
template <class T>
bool all_finite(const T* x, std::int64_t n) {
  using Bits =
      std::conditional_t<sizeof(T) == 2, std::int16_t, std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>>;
  constexpr Bits kMagnitude = std::numeric_limits<Bits>::max();
  const auto infinity = std::bit_cast<Bits>(numerics::round_to<T>(std::numeric_limits<double>::infinity()));
  Bits most = 0;
  for (std::int64_t i = 0; i < n; ++i) most = std::max(most, static_cast<Bits>(std::bit_cast<Bits>(x[i]) & kMagnitude));
  return most < infinity;
}

// x[first, last) along an axis.
TensorView part_of(TensorView view, int axis, std::int64_t first, std::int64_t last) {
  view.data += first * view.strides[axis] * static_cast<std::int64_t>(size_of(view.dtype));
  view.shape[axis] = last - first;
  return view;
}

template <class T>
class KeyHead {
 public:
  using W = Wide<T>;
  // What the sums over keys and queries read in place of T, and how many of their terms are a block of the tree.
  static constexpr bool kSplit = std::same_as<T, bfloat16>;
  using Factor = std::conditional_t<kSplit, bfloat16, W>;
  static constexpr int kMemories = 13;
  static constexpr std::int64_t kTerms = kSplit ? kKeyBlock : numerics::kBlockTerms;

  KeyHead(const numerics::AttentionOperands& x, const numerics::AttentionOptions& options, const TensorView& dy,
          const numerics::AttentionResiduals& saved, const numerics::AttentionCotangents& out, const BackwardBody& body,
          Scratch* memory)
      : x_(x), options_(options), dy_(dy), saved_(saved), out_(out), body_(body), memory_(memory) {
    heads_ = x.q.shape[1], queries_ = x.q.shape[2], head_size_ = x.q.shape[3];
    kv_heads_ = x.k.shape[1], keys_ = x.k.shape[2];
    group_ = heads_ / kv_heads_;
  }

  void run(std::int64_t b, std::int64_t kv) {
    b_ = b, kv_ = kv;
    start_ = std::clamp<std::int64_t>(numerics::integer_at(x_.start, b, 0), 0, keys_);
    first_ = numerics::queries_before_start(x_, options_, b);
    const std::int64_t length = std::clamp<std::int64_t>(numerics::integer_at(x_.length, b, keys_), 0, keys_);
    columns_ = std::max<std::int64_t>(length - start_, 0);
    rows_ = (queries_ - first_) * group_;
    clear();
    if (rows_ == 0 || columns_ == 0) return;
    if (!pack()) return run_definition();
    const std::int64_t fitting = (std::int64_t{1} << 22) / round_up(columns_, kKeyBlock);
    const std::int64_t chunk = fitting >= 1024 ? 1024 : fitting >= 512 ? 512 : 256;
    if (rows_ <= chunk) return store(run_chunk(0, rows_));
    // A last chunk that is not full counts as one with trailing zero blocks.
    const int level = std::countr_zero(static_cast<std::uint64_t>(chunk / kTerms));
    numerics::BlockTree<Sums> tree;
    for (std::int64_t row = 0; row < rows_; row += chunk)
      tree.add_subtree(run_chunk(row, std::min(rows_, row + chunk)), level);
    store(tree.sum());
  }

 private:
  // What a range of rows gives to dk and dv: [columns][head_size], empty if not asked for.
  struct Sums {
    std::vector<W> k, v;
    friend Sums operator+(const Sums& a, const Sums& b) {
      Sums sum = a;
      for (std::size_t i = 0; i < sum.k.size(); ++i) sum.k[i] = a.k[i] + b.k[i];
      for (std::size_t i = 0; i < sum.v.size(); ++i) sum.v[i] = a.v[i] + b.v[i];
      return sum;
    }
  };

  // Which query a row is, and where it lies among all: [B, H, Lq].
  std::int64_t query(std::int64_t row) const { return first_ + row / group_; }
  std::int64_t head(std::int64_t row) const { return kv_ * group_ + row % group_; }
  std::int64_t flat(std::int64_t row) const { return (b_ * heads_ + head(row)) * queries_ + query(row); }

  // Zeros for all that has no term.
  void clear() {
    const auto zero = [&](const TensorView& view, std::int64_t first, std::int64_t n) {
      const auto size = static_cast<std::int64_t>(size_of(view.dtype));
      if (view.data) std::memset(view.data + first * size, 0, static_cast<std::size_t>(n * size));
    };
    const std::int64_t first_query = (b_ * heads_ + kv_ * group_) * queries_, count = group_ * queries_;
    const std::int64_t first_key = (b_ * kv_heads_ + kv_) * keys_;
    zero(out_.q, first_query * head_size_, count * head_size_);
    zero(out_.scores, first_query * keys_, count * keys_);
    zero(out_.k, first_key * head_size_, keys_ * head_size_);
    zero(out_.v, first_key * head_size_, keys_ * head_size_);
  }

  // Copies the head's operands; false if a term that is absent could show because the other operand is not finite.
  bool pack() {
    const auto rows_of = [&](const TensorView& from, Scratch& memory) {
      TensorView view = part_of(part_of(from, 0, b_, b_ + 1), 1, kv_ * group_, (kv_ + 1) * group_);
      view = part_of(view, 2, first_, queries_);
      std::swap(view.shape[1], view.shape[2]);
      std::swap(view.strides[1], view.strides[2]);
      T* to = take<T>(memory, rows_ * head_size_);
      copy(view, contiguous_view(to, view.dtype, view.shape));
      return to;
    };
    const auto keys_of = [&](const TensorView& from, Scratch& memory) {
      const TensorView view =
          part_of(part_of(part_of(from, 0, b_, b_ + 1), 1, kv_, kv_ + 1), 2, start_, start_ + columns_);
      T* to = take<T>(memory, columns_ * head_size_);
      copy(view, contiguous_view(to, view.dtype, view.shape));
      return to;
    };
    q_ = rows_of(x_.q, memory_[0]), cotangent_ = rows_of(dy_, memory_[1]);
    k_ = keys_of(x_.k, memory_[2]), v_ = keys_of(x_.v, memory_[3]);
    for (const T* each : {q_, cotangent_})
      if (!all_finite(each, rows_ * head_size_)) return false;
    for (const T* each : {k_, v_})
      if (!all_finite(each, columns_ * head_size_)) return false;
    k_factor_ = factor(k_, columns_, memory_[4]);
    q_factor_ = factor(q_, rows_, memory_[5]);
    cotangent_factor_ = factor(cotangent_, rows_, memory_[6]);
    return true;
  }

  // The rows of an operand as the sums read them: widened, or each block of 128 twice.
  const Factor* factor(const T* from, std::int64_t rows, Scratch& memory) const {
    if constexpr (std::same_as<Factor, T> && !kSplit) {
      return from;
    } else if constexpr (!kSplit) {
      Factor* to = take<Factor>(memory, rows * head_size_);
      widen_fns().widen_f16(from, to, static_cast<std::size_t>(rows * head_size_));
      return to;
    } else {
      const std::int64_t block = kKeyBlock * head_size_;
      Factor* to = take<Factor>(memory, 2 * round_up(rows, kKeyBlock) * head_size_);
      for (std::int64_t first = 0; first < rows; first += kKeyBlock) {
        const std::int64_t n = std::min(kKeyBlock, rows - first) * head_size_;
        for (Factor* part : {to + 2 * first * head_size_, to + 2 * first * head_size_ + block}) {
          std::copy_n(from + first * head_size_, n, part);
          std::fill(part + n, part + block, Factor{});
        }
      }
      return to;
    }
  }

  Sums run_chunk(std::int64_t begin, std::int64_t end) {
    // Keys that some row of the chunk may see.
    std::int64_t columns = 0;
    for (std::int64_t row = begin; row < end; row += group_ - row % group_) {
      const numerics::KeyRange range = numerics::visible_keys(x_, options_, b_, query(row));
      if (range.first < range.end) columns = std::max(columns, range.end - start_);
    }
    Sums sums;
    if (out_.k.data) sums.k.assign(static_cast<std::size_t>(columns_ * head_size_), W{0});
    if (out_.v.data) sums.v.assign(static_cast<std::size_t>(columns_ * head_size_), W{0});
    if (columns <= 0) return sums;
    const std::int64_t rows = end - begin;
    // Of p and dt, more columns and rows than there are stay zero: whole blocks of a split contraction.
    const std::int64_t width = kSplit ? round_up(columns, kKeyBlock) : columns;
    W* p = take<W>(memory_[7], rows * width);
    W* dt = take<W>(memory_[8], rows * width);
    TensorView s = contiguous_view(p, kDTypeOf<W>, {rows, columns});
    TensorView dp = contiguous_view(dt, kDTypeOf<W>, {rows, columns});
    W* dense = nullptr;
    if (width != columns) {  // products are written dense, rows then move apart, last first
      dense = p;
    }
    multiply(matrix(q_ + begin * head_size_, rows, head_size_), transposed(matrix(k_, columns, head_size_)), s);
    multiply(matrix(cotangent_ + begin * head_size_, rows, head_size_), transposed(matrix(v_, columns, head_size_)),
             dp);
    if (dense) {
      for (W* m : {p, dt})
        for (std::int64_t r = rows; r-- > 0;)
          std::memmove(m + r * width, m + r * columns, static_cast<std::size_t>(columns) * sizeof(W));
    }
    const Parts parts = place_for_parts(rows, width);
    // Rows that do not exist are zeros of a split contraction, too.
    const std::int64_t tall = kSplit ? round_up(rows, kKeyBlock) : rows;
    parallel_for(tall, std::max<std::int64_t>(1, 16384 / width), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t r = first; r < last; ++r) {
        if (r < rows) soften(begin + r, columns, width, p + r * width, dt + r * width);
        if constexpr (kSplit) split(parts, r, rows, width, p, dt);
      }
    });
    add_products(begin, rows, columns, width, p, dt, parts, sums);
    return sums;
  }

  // p and dt of a chunk as factors of split contractions: along the keys, each block of 128 twice, and along the rows.
  // A null one is not asked for.
  struct Parts {
    Factor *t_along_keys = nullptr, *t_rows = nullptr, *p_rows = nullptr;
  };
  Parts place_for_parts(std::int64_t rows, std::int64_t width) {
    Parts parts;
    if constexpr (kSplit) {
      const std::int64_t tall = round_up(rows, kKeyBlock);
      if (out_.q.data) parts.t_along_keys = take<Factor>(memory_[9], rows * 2 * width);
      if (out_.q.data || out_.k.data) parts.t_rows = take<Factor>(memory_[10], 2 * tall * width);
      if (out_.v.data) parts.p_rows = take<Factor>(memory_[11], 2 * tall * width);
    }
    return parts;
  }
  void split(const Parts& parts, std::int64_t r, std::int64_t rows, std::int64_t width, const W* p, const W* dt) const {
    const std::int64_t high = (r / kKeyBlock * 2 * kKeyBlock + r % kKeyBlock) * width, low = high + kKeyBlock * width;
    for (const auto& [from, to] : {std::pair(dt, parts.t_rows), std::pair(p, parts.p_rows)}) {
      if (!to) continue;
      if (r < rows) {
        body_.split(from + r * width, width, to + high, to + low);
      } else {
        std::fill_n(to + high, width, Factor{});
        std::fill_n(to + low, width, Factor{});
      }
    }
    if (!parts.t_along_keys || r >= rows) return;
    Factor* block = parts.t_along_keys + r * 2 * width;
    for (std::int64_t c = 0; c < width; c += kKeyBlock, block += 2 * kKeyBlock) {
      std::copy_n(parts.t_rows + high + c, kKeyBlock, block);
      std::copy_n(parts.t_rows + low + c, kKeyBlock, block + kKeyBlock);
    }
  }

  void soften(std::int64_t row, std::int64_t columns, std::int64_t width, W* p, W* dt) const {
    const std::int64_t at = flat(row);
    const numerics::KeyRange range = numerics::visible_keys(x_, options_, b_, query(row));
    BackwardRow r;
    r.x = &x_, r.options = &options_;
    r.b = b_, r.h = head(row), r.i = query(row), r.first_key = start_;
    r.columns = width;
    r.lo = std::clamp<std::int64_t>(range.first - start_, 0, columns);
    r.hi = std::clamp<std::int64_t>(range.end - start_, r.lo, columns);
    r.s = p, r.dp = dt;
    std::vector<W> ds;
    if (out_.scores.data) {
      ds.resize(static_cast<std::size_t>(width));
      r.ds = ds.data();
    }
    r.maximum = std::nearbyint(saved_.maximum.template as<double>()[at]);
    r.sum = static_cast<double>(saved_.sum.template as<W>()[at]);
    r.cotangent = cotangent_ + row * head_size_;
    r.output = saved_.output.template as<W>() + at * head_size_;
    r.head_size = head_size_;
    body_.row(r);
    if (out_.scores.data) std::copy_n(ds.data(), columns, out_.scores.template as<W>() + at * keys_ + start_);
  }

  // dq of the chunk's rows, and what they give to dk and dv.
  void add_products(std::int64_t begin, std::int64_t rows, std::int64_t columns, std::int64_t width, const W* p,
                    const W* dt, const Parts& parts, Sums& sums) {
    if constexpr (kSplit) {
      const std::int64_t tall = round_up(rows, kKeyBlock);
      if (parts.t_along_keys) {
        W* dq = take<W>(memory_[12], rows * head_size_);
        multiply(matrix(parts.t_along_keys, rows, 2 * width), matrix(k_factor_, 2 * width, head_size_),
                 matrix(dq, rows, head_size_));
        store_queries(begin, rows, dq);
      }
      // Blocks of 256: the chunk's first row is a multiple of 128.
      const std::int64_t at = 2 * begin * head_size_;
      const auto add = [&](const Factor* from, const Factor* with, std::vector<W>& to) {
        TensorView a = matrix(from, 2 * tall, width);
        a.shape[1] = columns;
        multiply(transposed(a), matrix(with + at, 2 * tall, head_size_), matrix(to.data(), columns, head_size_));
      };
      if (out_.k.data) add(parts.t_rows, q_factor_, sums.k);
      if (out_.v.data) add(parts.p_rows, cotangent_factor_, sums.v);
    } else {
      if (out_.q.data) {
        W* dq = take<W>(memory_[12], rows * head_size_);
        multiply(matrix(dt, rows, columns), matrix(k_factor_, columns, head_size_), matrix(dq, rows, head_size_));
        store_queries(begin, rows, dq);
      }
      const auto add = [&](const W* from, const Factor* with, std::vector<W>& to) {
        multiply(transposed(matrix(from, rows, columns)), matrix(with + begin * head_size_, rows, head_size_),
                 matrix(to.data(), columns, head_size_));
      };
      if (out_.k.data) add(dt, q_factor_, sums.k);
      if (out_.v.data) add(p, cotangent_factor_, sums.v);
    }
  }

  double scale() const { return static_cast<double>(static_cast<W>(options_.scale)); }

  void store_queries(std::int64_t begin, std::int64_t rows, const W* dq) const {
    for (std::int64_t r = 0; r < rows; ++r)
      body_.finish(dq + r * head_size_, head_size_, scale(), out_.q.template as<T>() + flat(begin + r) * head_size_);
  }
  void store(const Sums& sums) const {
    const std::int64_t at = ((b_ * kv_heads_ + kv_) * keys_ + start_) * head_size_, n = columns_ * head_size_;
    if (out_.k.data) body_.finish(sums.k.data(), n, scale(), out_.k.template as<T>() + at);
    if (out_.v.data) body_.finish(sums.v.data(), n, 1, out_.v.template as<T>() + at);
  }

  // The definition for this head alone.
  void run_definition() const {
    const auto batch_of = [&](TensorView view) {
      if (view.data && view.shape[0] != 1) view = part_of(view, 0, b_, b_ + 1);
      return view;
    };
    const auto heads_of = [&](TensorView view, std::int64_t first, std::int64_t count) {
      view = batch_of(view);
      if (view.data && view.shape[1] != 1) view = part_of(view, 1, first, first + count);
      return view;
    };
    const std::int64_t first = kv_ * group_;
    numerics::AttentionOperands x = x_;
    x.q = heads_of(x_.q, first, group_), x.k = heads_of(x_.k, kv_, 1), x.v = heads_of(x_.v, kv_, 1);
    x.mask = heads_of(x_.mask, first, group_), x.bias = heads_of(x_.bias, first, group_);
    x.start = batch_of(x_.start), x.length = batch_of(x_.length), x.position = batch_of(x_.position);
    numerics::attention_vjp(x, options_, heads_of(dy_, first, group_),
                            {heads_of(saved_.maximum, first, group_), heads_of(saved_.sum, first, group_),
                             heads_of(saved_.output, first, group_)},
                            {heads_of(out_.q, first, group_), heads_of(out_.k, kv_, 1), heads_of(out_.v, kv_, 1),
                             heads_of(out_.scores, first, group_)});
  }

  const numerics::AttentionOperands& x_;
  const numerics::AttentionOptions& options_;
  const TensorView& dy_;
  const numerics::AttentionResiduals& saved_;
  const numerics::AttentionCotangents& out_;
  const BackwardBody& body_;
  std::int64_t heads_, kv_heads_, group_, queries_, keys_, head_size_;
  std::int64_t b_ = 0, kv_ = 0, start_ = 0, first_ = 0, columns_ = 0, rows_ = 0;
  const T *q_ = nullptr, *k_ = nullptr, *v_ = nullptr, *cotangent_ = nullptr;
  const Factor *k_factor_ = nullptr, *q_factor_ = nullptr, *cotangent_factor_ = nullptr;
  Scratch* memory_;
};

}  // namespace

void attention_vjp(const numerics::AttentionOperands& x, const numerics::AttentionOptions& options,
                   const TensorView& dy, const numerics::AttentionResiduals& saved,
                   const numerics::AttentionCotangents& out) {
  const BackwardBody* body = pick_backward_body(x.q.dtype, active_target());
  if (!body) return numerics::attention_vjp(x, options, dy, saved, out);
  const std::int64_t heads = x.q.shape[0] * x.k.shape[1];
  visit_floating(x.q.dtype, [&]<class T>(std::type_identity<T>) {
    const auto run = [&](std::int64_t begin, std::int64_t end) {
      static thread_local Scratch memory[KeyHead<T>::kMemories];
      KeyHead<T> head(x, options, dy, saved, out, *body, memory);
      for (std::int64_t n = begin; n < end; ++n) head.run(n / x.k.shape[1], n % x.k.shape[1]);
    };
    // With few heads the threads share the products of each instead.
    heads >= threads() ? parallel_for(heads, 1, run) : run(0, heads);
  });
}

}  // namespace eadem::kernels
