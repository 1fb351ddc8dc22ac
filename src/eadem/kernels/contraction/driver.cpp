#include "eadem/kernels/contraction/driver.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <utility>

#include "eadem/base/parallel.h"
#include "eadem/numerics/contraction.h"

namespace eadem::kernels::contraction {
namespace {

using numerics::kBlockTerms;
using numerics::kStepTerms;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

Operand shifted(const Operand& x, DType dtype, std::int64_t row, std::int64_t term) {
  return {x.data + (row * x.row + term * x.term) * static_cast<std::int64_t>(size_of(dtype)), x.row, x.term};
}

Destination shifted(const Destination& c, DType wide, std::int64_t row, std::int64_t column) {
  Destination at = c;
  at.data += (row * c.row + column * c.column) * static_cast<std::int64_t>(size_of(c.dtype));
  if (c.bias) at.bias += (row * c.bias_row + column * c.bias_column) * static_cast<std::int64_t>(size_of(wide));
  return at;
}

DType wide_of(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

// Rows [0, total) in equal panels of at most `most`, so that no panel is a thin rest.
struct Panels {
  std::int64_t total, count, each, longer;  // the first `longer` panels have each + 1 rows
  Panels(std::int64_t rows, std::int64_t most)
      : total(rows), count(ceil_div(rows, most)), each(rows / count), longer(rows % count) {}
  std::int64_t begin(std::int64_t i) const { return i * each + std::min(i, longer); }
  std::int64_t size(std::int64_t i) const { return each + (i < longer ? 1 : 0); }
};

struct Task {
  std::int64_t m0, m1, n0, n1, block0, block1;
};

// The product of one task: for each block of k, packs b's panels once, then a's, panel by panel, and lets every tile's
// block sum join the binary counter of its tile (numerics.md 4.3): pending sums of level i lie in slots[i].
class TaskRun {
 public:
  TaskRun(const Engine& engine, const Problem& problem, const Task& task, const Destination& out)
      : e_(engine),
        p_(problem),
        t_(task),
        out_(out),
        rows_(task.m1 - task.m0, engine.rows),
        column_panels_(ceil_div(task.n1 - task.n0, engine.columns)),
        tile_bytes_(aligned(static_cast<std::size_t>(engine.rows * engine.columns) * size_of(wide_of(engine.dtype)))),
        blocks_(task.block1 - task.block0),
        levels_(blocks_ <= 1 ? 0 : static_cast<int>(std::bit_width(static_cast<std::uint64_t>(blocks_ - 1)))) {
    const std::size_t b_bytes = p_.packed_b ? 0 : aligned(e_.b_bytes) * static_cast<std::size_t>(column_panels_);
    const std::size_t small_bytes = aligned(sizeof(Smallest) * static_cast<std::size_t>(column_panels_));
    const std::size_t tiles = static_cast<std::size_t>(rows_.count * column_panels_);
    std::byte* memory = task_memory(aligned(e_.a_bytes) + b_bytes + small_bytes +
                                    tile_bytes_ * (1 + tiles * static_cast<std::size_t>(levels_)));
    a_ = memory;
    b_ = a_ + aligned(e_.a_bytes);
    smallest_ = reinterpret_cast<Smallest*>(b_ + b_bytes);
    tile_ = b_ + b_bytes + small_bytes;
    slots_ = tile_ + tile_bytes_;
  }

  void run() {
    for (std::int64_t block = t_.block0; block < t_.block1; ++block) {
      const std::int64_t k = block * kBlockTerms, terms = std::min(kBlockTerms, p_.k - k);
      pack_columns(block, k, terms);
      for (std::int64_t i = 0; i < rows_.count; ++i) {
        const auto rows = static_cast<int>(rows_.size(i));
        const Smallest small_a = e_.pack_a(shifted(p_.a, p_.dtype, t_.m0 + rows_.begin(i), k), rows, terms, a_);
        for (std::int64_t j = 0; j < column_panels_; ++j) {
          prefetch_rows(i, j, k, terms);
          compute(block, i, j, rows, terms, small_a);
        }
      }
    }
  }

 private:
  int columns_of(std::int64_t j) const {
    return static_cast<int>(std::min<std::int64_t>(e_.columns, t_.n1 - t_.n0 - j * e_.columns));
  }
  const std::byte* panel(std::int64_t block, std::int64_t j) const {
    if (!p_.packed_b) return b_ + static_cast<std::size_t>(j) * aligned(e_.b_bytes);
    const auto at = static_cast<std::size_t>(t_.n0 / e_.columns + j);
    return p_.packed_b->memory->data() + at * p_.packed_b->panel_bytes + static_cast<std::size_t>(block) * e_.b_bytes;
  }

  void pack_columns(std::int64_t block, std::int64_t k, std::int64_t terms) {
    if (!p_.packed_b)
      return e_.pack_b(shifted(p_.b, p_.dtype, t_.n0, k), t_.n1 - t_.n0, terms, b_, aligned(e_.b_bytes), smallest_);
    for (std::int64_t j = 0; e_.tile_any && j < column_panels_; ++j)
      smallest_[j] =
          p_.packed_b->smallest[static_cast<std::size_t>((t_.n0 / e_.columns + j) * p_.packed_b->blocks + block)];
  }

  void prefetch(const std::byte* tile) const {
    for (std::size_t at = 0; tile && at < tile_bytes_; at += 64) __builtin_prefetch(tile + at);
  }

  // While a panel of a is multiplied by the panels of b, brings in its successor's rows, a share at each tile.
  void prefetch_rows(std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t terms) const {
    if (p_.a.term != 1 || i + 1 >= rows_.count) return;
    const std::int64_t rows = rows_.size(i + 1), share = ceil_div(rows, column_panels_);
    const std::int64_t bytes = terms * static_cast<std::int64_t>(size_of(p_.dtype));
    const std::byte* row = shifted(p_.a, p_.dtype, t_.m0 + rows_.begin(i + 1) + j * share, k).data;
    const std::int64_t stride = p_.a.row * static_cast<std::int64_t>(size_of(p_.dtype));
    for (std::int64_t r = j * share; r < std::min(rows, (j + 1) * share); ++r, row += stride) {
      for (std::int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at);
    }
  }

  std::byte* slot(int level, std::int64_t i, std::int64_t j) {
    return slots_ + static_cast<std::size_t>((level * rows_.count + i) * column_panels_ + j) * tile_bytes_;
  }

  void compute(std::int64_t block, std::int64_t i, std::int64_t j, int rows, std::int64_t terms, Smallest small_a) {
    const auto before = static_cast<std::uint64_t>(block - t_.block0);  // blocks summed so far: the counter
    const bool last = block + 1 == t_.block1;
    const int level = std::countr_one(before);  // where a carry comes to rest
    std::uint64_t pending = last ? before : before & ((std::uint64_t{1} << level) - 1);
    const auto tile = e_.tile_any && !normal_products(small_a, smallest_[j]) ? e_.tile_any : e_.tile;
    const std::byte* left = pending ? slot(std::countr_zero(pending), i, j) : nullptr;
    pending &= pending - 1;
    std::byte* const rest_place = last ? tile_ : slot(level, i, j);
    prefetch(left);
    for (std::uint64_t rest = pending; rest != 0; rest &= rest - 1) prefetch(slot(std::countr_zero(rest), i, j));
    tile(a_, panel(block, j), rows, columns_of(j), terms, left, pending ? tile_ : rest_place);
    for (; pending != 0; pending &= pending - 1)
      e_.add(slot(std::countr_zero(pending), i, j), tile_, (pending & (pending - 1)) ? tile_ : rest_place,
             rows * e_.columns);
    if (last)
      e_.finish(tile_, e_.columns, rows, columns_of(j),
                shifted(out_, wide_of(e_.dtype), t_.m0 + rows_.begin(i), t_.n0 + j * e_.columns));
  }

  const Engine& e_;
  const Problem& p_;
  const Task t_;
  const Destination& out_;
  const Panels rows_;
  const std::int64_t column_panels_;
  const std::size_t tile_bytes_;
  const std::int64_t blocks_;
  const int levels_;
  std::byte *a_, *b_, *tile_, *slots_;
  Smallest* smallest_;
};

// Products with few elements and a long k: threads take aligned subtrees of 2^i blocks, whose sums then meet in the
// same tree: at distance 1, 2, 4, ... the left one takes the right one in.
void multiply_subtrees(const Engine& e, const Problem& p, std::int64_t subtree) {
  const std::int64_t blocks = ceil_div(p.k, kBlockTerms), parts = ceil_div(blocks, subtree);
  const DType wide = wide_of(e.dtype);
  const std::int64_t stride = ceil_div(p.n, e.columns) * e.columns;
  const std::size_t part_bytes = aligned(static_cast<std::size_t>(p.m * stride) * size_of(wide));
  const BufferRef sums = Buffer::allocate(part_bytes * static_cast<std::size_t>(parts));
  const auto part = [&](std::int64_t i) { return sums->data() + static_cast<std::size_t>(i) * part_bytes; };
  parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Destination out{part(i), stride, 1, wide, nullptr, 0, 0};
      TaskRun(e, p, {0, p.m, 0, p.n, i * subtree, std::min(blocks, (i + 1) * subtree)}, out).run();
    }
  });
  parallel_for(p.m, ceil_div(4096, stride), [&](std::int64_t begin, std::int64_t end) {
    const std::size_t offset = static_cast<std::size_t>(begin * stride) * size_of(wide);
    for (std::int64_t distance = 1; distance < parts; distance *= 2)
      for (std::int64_t i = 0; i + distance < parts; i += 2 * distance)
        e.add(part(i) + offset, part(i + distance) + offset, part(i) + offset, (end - begin) * stride);
    e.finish(part(0) + offset, stride, static_cast<int>(end - begin), static_cast<int>(p.n),
             shifted(p.c, wide, begin, 0));
  });
}

}  // namespace

std::byte* task_memory(std::size_t bytes) {
  struct Memory {
    std::byte* data = nullptr;
    std::size_t size = 0;
    ~Memory() { std::free(data); }
  };
  thread_local Memory memory;
  if (memory.size < bytes) {
    std::free(memory.data);
    memory.size = (bytes + 4095) / 4096 * 4096;
    memory.data = static_cast<std::byte*>(std::aligned_alloc(4096, memory.size));
    if (!memory.data) throw std::bad_alloc();
  }
  return memory.data;
}

Problem product_of(const Problem& problem, std::int64_t i) {
  Problem one = problem;
  one.batch = {};
  const auto size = static_cast<std::int64_t>(size_of(problem.dtype));
  one.c.data += i * problem.m * problem.n * static_cast<std::int64_t>(size_of(problem.c.dtype));
  for (int axis = problem.batch.rank(); axis-- > 0; i /= problem.batch[axis]) {
    const std::int64_t index = i % problem.batch[axis];
    one.a.data += index * problem.a_batch[axis] * size;
    one.b.data += index * problem.b_batch[axis] * size;
  }
  return one;
}

Problem columns_from(const Problem& problem, std::int64_t first) {
  Problem rest = problem;
  rest.n -= first;
  rest.b = shifted(rest.b, rest.dtype, first, 0);
  rest.c = shifted(rest.c, wide_of(rest.dtype), 0, first);
  return rest;
}

Problem swapped(const Problem& problem) {
  Problem other = problem;
  std::swap(other.m, other.n);
  std::swap(other.a, other.b);
  std::swap(other.a_batch, other.b_batch);
  std::swap(other.c.row, other.c.column);
  std::swap(other.c.bias_row, other.c.bias_column);
  other.packed_b = nullptr;
  return other;
}

Blocking default_blocking(const Engine& e, const Problem& p, int threads) {
  // b's packed block of a task stays in the second-level cache, the pending sums in the third.
  constexpr std::int64_t cached_b = 512 << 10, most_row_panels = 40;
  const std::int64_t most_panels = std::max<std::int64_t>(1, cached_b / static_cast<std::int64_t>(e.b_bytes));
  const std::int64_t panels = ceil_div(p.n, e.columns), blocks = ceil_div(p.k, kBlockTerms);
  const std::int64_t batches = p.batch.elements();
  std::int64_t parts_n = ceil_div(panels, most_panels), parts_m = ceil_div(p.m, most_row_panels * e.rows);
  // Below about 100 us in all, threads cost more than they give.
  const bool small = static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) < 1 << 20;
  if (threads > 1 && !small && batches * parts_m * parts_n < 4 * threads) {
    if (batches == 1 && blocks >= 4 * threads && p.k >= 8 * std::max(p.m, p.n)) {
      const auto each = static_cast<std::uint64_t>(ceil_div(blocks, 2 * threads));
      return {p.m, p.n, static_cast<std::int64_t>(std::bit_ceil(each))};
    }
    const std::int64_t want = ceil_div(threads, batches);
    if (panels >= want)
      parts_n = std::min(panels, ceil_div(parts_n, want) * want);
    else
      parts_m = std::min(ceil_div(p.m, e.rows), ceil_div(parts_m, want) * want);
  }
  return {ceil_div(p.m, parts_m), ceil_div(panels, parts_n) * e.columns, 0};
}

std::shared_ptr<const PackedOperand> pack_whole(const Engine& e, const Operand& b, std::int64_t n, std::int64_t k) {
  auto packed = std::make_shared<PackedOperand>();
  const std::int64_t panels = ceil_div(n, e.columns), steps = ceil_div(k, kStepTerms);
  packed->blocks = ceil_div(k, kBlockTerms);
  packed->panel_bytes = e.b_bytes / (kBlockTerms / kStepTerms) * static_cast<std::size_t>(steps);
  packed->memory = Buffer::allocate(packed->panel_bytes * static_cast<std::size_t>(panels));
  packed->smallest.resize(static_cast<std::size_t>(panels * packed->blocks));
  // smallest is [panel][block]; a panel's blocks are packed one at a time into it.
  parallel_for(panels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j)
      for (std::int64_t block = 0; block < packed->blocks; ++block)
        e.pack_b(shifted(b, e.dtype, j * e.columns, block * kBlockTerms),
                 std::min<std::int64_t>(e.columns, n - j * e.columns), std::min(kBlockTerms, k - block * kBlockTerms),
                 packed->memory->data() + static_cast<std::size_t>(j) * packed->panel_bytes +
                     static_cast<std::size_t>(block) * e.b_bytes,
                 packed->panel_bytes, &packed->smallest[static_cast<std::size_t>(j * packed->blocks + block)]);
  });
  return packed;
}

void multiply(const Engine& e, const Problem& p, const Blocking& blocking) noexcept {
  const std::int64_t blocks = ceil_div(p.k, kBlockTerms), batches = p.batch.elements();
  if (blocking.blocks > 0 && blocking.blocks < blocks) {
    for (std::int64_t i = 0; i < batches; ++i) multiply_subtrees(e, product_of(p, i), blocking.blocks);
    return;
  }
  const Panels rows(p.m, blocking.rows);
  const std::int64_t parts_n = ceil_div(p.n, blocking.columns), tasks = batches * rows.count * parts_n;
  // A task of a tiny product is not worth a hand-over to another thread.
  const double work = static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
                      static_cast<double>(batches) / static_cast<double>(tasks);
  const auto grain = static_cast<std::int64_t>(std::max(1.0, 262144 / std::max(work, 1.0)));
  parallel_for(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Problem one = product_of(p, i / (rows.count * parts_n));
      const std::int64_t at = i % (rows.count * parts_n), part_m = at / parts_n, part_n = at % parts_n;
      const Task task{rows.begin(part_m),
                      rows.begin(part_m + 1),
                      part_n * blocking.columns,
                      std::min(p.n, (part_n + 1) * blocking.columns),
                      0,
                      blocks};
      TaskRun(e, one, task, one.c).run();
    }
  });
}

}  // namespace eadem::kernels::contraction
