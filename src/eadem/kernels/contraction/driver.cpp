#include "eadem/kernels/contraction/driver.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "eadem/base/memory.h"
#include "eadem/base/parallel.h"
#include "eadem/kernels/amx_tiles.h"
#include "eadem/kernels/contraction/scaling.h"
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

// The product of one task. For each group of blocks of k: packs b's panels, then a's, panel by panel, and lets every
// tile's block sums join the binary counter of its tile (numerics.md 4.3), where the pending sum of level i lies in
// slot i. Sums that meet inside a group never leave the first-level cache.
class TaskRun {
 public:
  TaskRun(const Engine& engine, const Problem& problem, const Task& task, const Destination& out)
      : e_(engine),
        p_(problem),
        t_(task),
        out_(shifted(out, wide_of(engine.dtype), task.m0, task.n0)),
        rows_(task.m1 - task.m0, engine.rows),
        columns_(task.n1 - task.n0),
        column_panels_(ceil_div(columns_, engine.columns)),
        blocks_(task.block1 - task.block0),
        group_(std::min<std::int64_t>(engine.group, blocks_)),
        size_(static_cast<std::int64_t>(size_of(problem.dtype))),
        out_row_(out.row * static_cast<std::int64_t>(size_of(out.dtype))),
        out_column_(out.column * static_cast<std::int64_t>(size_of(out.dtype))),
        wide_(static_cast<std::int64_t>(size_of(wide_of(engine.dtype)))),
        a_bytes_(aligned(engine.a_bytes)),
        b_bytes_(aligned(engine.b_bytes)),
        tile_bytes_(aligned(static_cast<std::size_t>(engine.rows * engine.columns * wide_))),
        together_((engine.a_step_bytes != 0 && problem.a.row == 1 && problem.a.term != 1) ||
                          (problem.made_a && problem.made_a->transposed)
                      ? kTogether
                      : 1),
        known_a_(static_cast<std::size_t>(group_ * together_)) {
    const int levels = blocks_ <= 1 ? 0 : static_cast<int>(std::bit_width(static_cast<std::uint64_t>(blocks_ - 1)));
    group_levels_ = std::min(levels, std::countr_zero(static_cast<std::uint64_t>(engine.group)));
    const auto group = static_cast<std::size_t>(group_), panels = static_cast<std::size_t>(column_panels_);
    const std::size_t b_bytes = p_.packed_b ? 0 : b_bytes_ * panels * group;
    const std::size_t known_bytes = aligned(sizeof(Magnitudes) * panels * group);
    const std::size_t scaled_bytes = e_.scale ? std::max(a_bytes_, b_bytes_) * group : 0;
    const std::size_t tiles = static_cast<std::size_t>(rows_.count) * panels;
    const std::size_t slots =
        static_cast<std::size_t>(group_levels_) + static_cast<std::size_t>(levels - group_levels_) * tiles;
    const std::size_t a_bytes = a_bytes_ * known_a_.size();
    const std::size_t made_bytes =
        p_.made_a ? aligned(static_cast<std::size_t>(together_ * e_.rows * kBlockTerms * size_)) : 0;
    a_ = task_memory(a_bytes + made_bytes + b_bytes + known_bytes + scaled_bytes + tile_bytes_ * (1 + slots));
    made_ = a_ + a_bytes;
    b_ = made_ + made_bytes;
    known_b_ = reinterpret_cast<Magnitudes*>(b_ + b_bytes);
    scaled_ = b_ + b_bytes + known_bytes;
    tile_ = scaled_ + scaled_bytes;
    slots_ = tile_ + tile_bytes_;
  }

  void run() {
    for (std::int64_t first = t_.block0; first < t_.block1; first += group_) {
      const std::int64_t members = std::min(group_, t_.block1 - first);
      for (std::int64_t g = 0; g < members; ++g) pack_columns(first + g, g);
      for (std::int64_t i = 0; i < rows_.count; ++i) {
        const auto rows = static_cast<int>(rows_.size(i));
        if (i % together_ == 0)
          for (std::int64_t g = 0; g < members; ++g) pack_rows(first + g, g, i);
        for (std::int64_t j = 0; j < column_panels_; ++j) {
          prefetch_rows(i, j, first, first + members);
          for (std::int64_t g = 0; g < members; ++g) compute(first + g, g, i, j, rows);
        }
        if (p_.epilogue && first + members == t_.block1) hand_on(i);
      }
    }
  }

 private:
  std::int64_t terms_of(std::int64_t block) const { return p_.begin_of(block + 1) - p_.begin_of(block); }
  int columns_of(std::int64_t j) const {
    return static_cast<int>(std::min<std::int64_t>(e_.columns, columns_ - j * e_.columns));
  }
  Operand rows_of(std::int64_t i, std::int64_t k) const {
    return {p_.a.data + ((t_.m0 + rows_.begin(i)) * p_.a.row + k * p_.a.term) * size_, p_.a.row, p_.a.term};
  }
  // Member g of a group: its block of panel i of a, its panels of b and what is known of their values.
  std::size_t place_of(std::int64_t g, std::int64_t i) const {
    return static_cast<std::size_t>(i % together_ * group_ + g);
  }
  std::byte* packed_a(std::int64_t g, std::int64_t i) const { return a_ + place_of(g, i) * a_bytes_; }
  std::byte* packed_b(std::int64_t g) const { return b_ + static_cast<std::size_t>(g * column_panels_) * b_bytes_; }
  Magnitudes* known_b(std::int64_t g) const { return known_b_ + g * column_panels_; }

  const std::byte* panel(std::int64_t block, std::int64_t g, std::int64_t j) const {
    if (!p_.packed_b) return packed_b(g) + static_cast<std::size_t>(j) * b_bytes_;
    const auto at = static_cast<std::size_t>(t_.n0 / e_.columns + j);
    return p_.packed_b->memory->data() + at * p_.packed_b->panel_bytes + static_cast<std::size_t>(block) * e_.b_bytes;
  }

  void pack_columns(std::int64_t block, std::int64_t g) {
    if (!p_.packed_b) {
      const Operand b = shifted(p_.b, p_.dtype, t_.n0, p_.begin_of(block));
      return e_.pack_b(b, columns_, terms_of(block), packed_b(g), b_bytes_, known_b(g));
    }
    for (std::int64_t j = 0; e_.tile_any && j < column_panels_; ++j)
      known_b(g)[j] =
          p_.packed_b->magnitudes[static_cast<std::size_t>((t_.n0 / e_.columns + j) * p_.packed_b->blocks + block)];
  }

  // The panels of a from i on that are packed together. Where rows are adjacent in memory, a line of it holds a k of
  // several panels: they take turns from step to step, while it is near.
  void pack_rows(std::int64_t block, std::int64_t g, std::int64_t i) {
    if (p_.made_a) return make_rows(block, g, i);
    const std::int64_t k = p_.begin_of(block), terms = terms_of(block), end = std::min(i + together_, rows_.count);
    if (e_.pack_together && together_ == kTogether && rows_.begin(end) - rows_.begin(i) == kTogether * e_.rows) {
      const Magnitudes seen =
          e_.pack_together(rows_of(i, k), terms, packed_a(g, i), static_cast<std::size_t>(group_) * a_bytes_);
      for (std::int64_t panel = i; panel < end; ++panel) known_a_[place_of(g, panel)] = seen;
      return;
    }
    const std::int64_t step = together_ == 1 ? terms : kStepTerms;
    for (std::int64_t at = 0; at < terms; at += step)
      for (std::int64_t panel = i; panel < end; ++panel) {
        const Magnitudes seen =
            e_.pack_a(rows_of(panel, k + at), static_cast<int>(rows_.size(panel)), std::min(step, terms - at),
                      packed_a(g, panel) + static_cast<std::size_t>(at / kStepTerms) * e_.a_step_bytes);
        Magnitudes& known = known_a_[place_of(g, panel)];
        if (at == 0) known = {};
        known.join(seen);
      }
  }

  // The same where a is made: in place if packed rows are plain, else by way of staging memory.
  void make_rows(std::int64_t block, std::int64_t g, std::int64_t i) {
    const MadeMatrix& a = *p_.made_a;
    const std::int64_t k = p_.begin_of(block), terms = terms_of(block), first = t_.m0 + rows_.begin(i);
    const std::int64_t end = std::min(i + together_, rows_.count), rows = rows_.begin(end) - rows_.begin(i);
    if (!a.transposed && e_.a_row_bytes != 0)
      return a.make(a.self, first, rows, k, terms, packed_a(g, i), static_cast<std::int64_t>(e_.a_row_bytes));
    if (a.transposed)
      a.make(a.self, k, terms, first, rows, made_, rows * size_);
    else
      a.make(a.self, first, rows, k, terms, made_, kBlockTerms * size_);
    for (std::int64_t panel = i; panel < end; ++panel) {
      Operand made{made_, kBlockTerms, 1};
      if (a.transposed) made = {made_ + (rows_.begin(panel) - rows_.begin(i)) * size_, 1, rows};
      known_a_[place_of(g, panel)] = e_.pack_a(made, static_cast<int>(rows_.size(panel)), terms, packed_a(g, panel));
    }
  }

  void prefetch(const std::byte* tile) const {
    for (std::size_t at = 0; tile && at < tile_bytes_; at += 64) __builtin_prefetch(tile + at);
  }

  // While a panel of a is multiplied by the panels of b, brings in its successor's rows, a share at each tile. Rows
  // that follow one another in memory need no help.
  void prefetch_rows(std::int64_t i, std::int64_t j, std::int64_t first, std::int64_t end) const {
    const std::int64_t k = p_.begin_of(first), terms = p_.begin_of(end) - k;
    if (p_.a.term != 1 || p_.a.row <= terms || i + 1 >= rows_.count) return;
    const std::int64_t rows = rows_.size(i + 1), share = ceil_div(rows, column_panels_);
    const std::byte* row = rows_of(i + 1, k).data + j * share * p_.a.row * size_;
    for (std::int64_t r = j * share; r < std::min(rows, (j + 1) * share); ++r, row += p_.a.row * size_) {
      for (std::int64_t at = 0; at < terms * size_; at += 64) __builtin_prefetch(row + at);
    }
  }

  std::byte* slot(int level, std::int64_t i, std::int64_t j) const {
    std::int64_t at = level;
    if (level >= group_levels_) at = group_levels_ + ((level - group_levels_) * rows_.count + i) * column_panels_ + j;
    return slots_ + static_cast<std::size_t>(at) * tile_bytes_;
  }

  // The block sums of a tile, added to `left`: by the engine's instruction where that is exact, on operands scaled by a
  // power of two where this makes it so, else by widened FMA (scaling.h).
  void multiply_block(std::int64_t block, std::int64_t g, std::int64_t i, std::int64_t j, int rows,
                      const std::byte* left, std::byte* out) {
    const std::byte *a = packed_a(g, i), *b = panel(block, g, j);
    const std::int64_t terms = terms_of(block);
    const int columns = columns_of(j);
    if (!e_.tile_any) return e_.tile(a, b, rows, columns, terms, left, out);
    const Magnitudes &x = known_a_[place_of(g, i)], &y = known_b(g)[j];
    if (normal_products(x, y)) return e_.tile(a, b, rows, columns, terms, left, out);
    const std::optional<Scaling> scaling = scaling_of(x, y, terms);
    if (!scaling) {
      record_ran(Target::avx512);  // the other engine's instruction is not what these tiles run
      return e_.tile_any(a, b, rows, columns, terms, left, out);
    }
    const auto& [of_b, shift] = *scaling;
    if (copies_.empty()) copies_.resize(static_cast<std::size_t>(group_));
    std::byte* const copy = scaled_ + static_cast<std::size_t>(g) * std::max(a_bytes_, b_bytes_);
    const ScaledCopy wanted{*scaling, block, of_b ? j : i};
    if (ScaledCopy& held = copies_[static_cast<std::size_t>(g)]; held != wanted) {
      const auto steps = static_cast<std::size_t>(ceil_div(terms, kStepTerms));
      const std::size_t whole = of_b ? e_.b_bytes : e_.a_bytes;  // rows of units lie as far apart in a short block, too
      e_.scale(of_b ? b : a, !of_b && e_.a_step_bytes != 0 ? whole : whole / (kBlockTerms / kStepTerms) * steps, shift,
               copy);
      held = wanted;
    }
    e_.tile(of_b ? a : copy, of_b ? copy : b, rows, columns, terms, nullptr, out);
    e_.unscale(left, out, shift, rows * e_.columns);
  }

  void compute(std::int64_t block, std::int64_t g, std::int64_t i, std::int64_t j, int rows) {
    const auto before = static_cast<std::uint64_t>(block - t_.block0);  // blocks summed so far: the counter
    const bool last = block + 1 == t_.block1;
    const int level = std::countr_one(before);  // where a carry comes to rest
    std::uint64_t pending = last ? before : before & ((std::uint64_t{1} << level) - 1);
    const std::byte* left = pending ? slot(std::countr_zero(pending), i, j) : nullptr;
    pending &= pending - 1;
    std::byte* const rest_place = last ? tile_ : slot(level, i, j);
    prefetch(left);
    for (std::uint64_t rest = pending; rest != 0; rest &= rest - 1) prefetch(slot(std::countr_zero(rest), i, j));
    multiply_block(block, g, i, j, rows, left, pending ? tile_ : rest_place);
    for (; pending != 0; pending &= pending - 1)
      e_.add(slot(std::countr_zero(pending), i, j), tile_, (pending & (pending - 1)) ? tile_ : rest_place,
             rows * e_.columns);
    if (last) finish(i, j, rows);
  }

  void finish(std::int64_t i, std::int64_t j, int rows) const {
    const std::int64_t row = rows_.begin(i), column = j * e_.columns;
    Destination at = out_;
    at.data += row * out_row_ + column * out_column_;
    if (at.bias) at.bias += (row * at.bias_row + column * at.bias_column) * wide_;
    e_.finish(tile_, e_.columns, rows, columns_of(j), at);
  }

  // Which panel's block a member's scaled copy is of.
  struct ScaledCopy {
    Scaling scaling;
    std::int64_t block = -1, panel = -1;
    bool operator==(const ScaledCopy&) const = default;
  };

  // Panel i is done: rows go on to the epilogue, several panels at a time while they are in the second-level cache.
  void hand_on(std::int64_t i) {
    constexpr std::int64_t elements = 16384;
    const std::int64_t rows = rows_.begin(i + 1) - handed_on_;
    if (i + 1 < rows_.count && rows * columns_ < elements) return;
    p_.epilogue->run(p_.epilogue->closure, p_.first_row + t_.m0 + handed_on_, rows, t_.n0, columns_);
    handed_on_ += rows;
  }

  const Engine& e_;
  const Problem& p_;
  const Task t_;
  const Destination out_;  // at the task's first element
  const Panels rows_;
  const std::int64_t columns_, column_panels_, blocks_, group_;
  const std::int64_t size_, out_row_, out_column_, wide_;  // bytes
  const std::size_t a_bytes_, b_bytes_, tile_bytes_;
  const std::int64_t together_;  // panels of a packed at once
  std::int64_t handed_on_ = 0;   // rows
  int group_levels_;             // slots below it serve whichever tile is at work
  std::vector<Magnitudes> known_a_;
  std::vector<ScaledCopy> copies_;
  std::byte *a_, *made_, *b_, *scaled_, *tile_, *slots_;
  Magnitudes* known_b_;
};

// Products with few elements and a long k: threads take aligned subtrees of 2^i blocks, whose sums then meet in the
// same tree: at distance 1, 2, 4, ... the left one takes the right one in.
void multiply_subtrees(const Engine& e, const Problem& p, std::int64_t subtree) {
  const std::int64_t blocks = p.blocks(), parts = ceil_div(blocks, subtree);
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
  static thread_local Scratch memory;
  return memory.take(bytes);
}

void hand_on(const Problem& p) {
  if (!p.epilogue) return;
  parallel_for(p.batch.elements() * p.m, ceil_div(16384, p.n), [&](std::int64_t begin, std::int64_t end) {
    p.epilogue->run(p.epilogue->closure, p.first_row + begin, end - begin, 0, p.n);
  });
}

Problem product_of(const Problem& problem, std::int64_t i) {
  Problem one = problem;
  one.batch = {};
  one.first_row += i * problem.m;
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
  rest.epilogue = nullptr;
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
  other.epilogue = nullptr;
  return other;
}

Blocking default_blocking(const Engine& e, const Problem& p, int threads) {
  // b's packed blocks of a task stay in the second-level cache, the pending sums in the third.
  constexpr std::int64_t cached_b = 512 << 10, most_row_panels = 128;
  const std::int64_t panel_bytes = static_cast<std::int64_t>(e.b_bytes) * e.group;
  const std::int64_t most_panels = std::max<std::int64_t>(1, cached_b / panel_bytes);
  const std::int64_t panels = ceil_div(p.n, e.columns), blocks = p.blocks();
  const std::int64_t row_panels = ceil_div(p.m, e.rows), batches = p.batch.elements();
  std::int64_t parts_n = ceil_div(panels, most_panels), parts_m = ceil_div(row_panels, most_row_panels);
  // Below about 100 us in all, threads cost more than they give.
  const bool small = static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) < 1 << 20;
  if (threads > 1 && !small && batches * parts_m * parts_n < 8 * threads) {
    if (batches == 1 && blocks >= 4 * threads && p.k >= 8 * std::max(p.m, p.n)) {
      // Small enough that what the last subtree lacks leaves no thread idle for long.
      const auto each = static_cast<std::uint64_t>(blocks / (3 * threads));
      return {p.m, p.n, static_cast<std::int64_t>(std::bit_floor(each))};
    }
    // As many tasks as threads, or a multiple. Cutting columns packs a again, cutting rows packs b again; panels of b
    // may not divide evenly, rows do, where there are enough of them to pay for b.
    const std::int64_t want = ceil_div(threads, batches);
    const std::int64_t cut_n = std::min(panels, ceil_div(parts_n, want) * want);
    const bool uneven = panels < want || 8 * cut_n * ceil_div(panels, cut_n) * e.columns > 9 * p.n;
    if (row_panels >= want && (panels < want || p.m >= 4 * p.n || (uneven && row_panels >= 4 * want))) {
      // Many tasks are handed out in ranges, four a thread: as many in each.
      const std::int64_t multiple = parts_m > 4 * want ? 4 * want : want;
      parts_m = std::min(row_panels, ceil_div(parts_m, multiple) * multiple);
    } else {
      parts_n = cut_n;
    }
  }
  return {ceil_div(p.m, parts_m), ceil_div(panels, parts_n) * e.columns, 0};
}

std::shared_ptr<const PackedOperand> pack_whole(const Engine& e, const Operand& b, std::int64_t n, std::int64_t k) {
  auto packed = std::make_shared<PackedOperand>();
  const std::int64_t panels = ceil_div(n, e.columns), steps = ceil_div(k, kStepTerms);
  packed->blocks = ceil_div(k, kBlockTerms);
  packed->panel_bytes = e.b_bytes / (kBlockTerms / kStepTerms) * static_cast<std::size_t>(steps);
  packed->memory = Buffer::allocate(packed->panel_bytes * static_cast<std::size_t>(panels));
  packed->magnitudes.resize(static_cast<std::size_t>(panels * packed->blocks));
  // magnitudes is [panel][block]; a panel's blocks are packed one at a time into it.
  parallel_for(panels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j)
      for (std::int64_t block = 0; block < packed->blocks; ++block)
        e.pack_b(shifted(b, e.dtype, j * e.columns, block * kBlockTerms),
                 std::min<std::int64_t>(e.columns, n - j * e.columns), std::min(kBlockTerms, k - block * kBlockTerms),
                 packed->memory->data() + static_cast<std::size_t>(j) * packed->panel_bytes +
                     static_cast<std::size_t>(block) * e.b_bytes,
                 packed->panel_bytes, &packed->magnitudes[static_cast<std::size_t>(j * packed->blocks + block)]);
  });
  return packed;
}

void multiply(const Engine& e, const Problem& p, const Blocking& blocking) {
  std::optional<TileCall> tiles;
  if (e.target == Target::amx) tiles.emplace();
  const std::int64_t blocks = p.blocks(), batches = p.batch.elements();
  if (blocking.blocks > 0 && blocking.blocks < blocks) {
    Problem apart = p;
    apart.epilogue = nullptr;
    for (std::int64_t i = 0; i < batches; ++i) multiply_subtrees(e, product_of(apart, i), blocking.blocks);
    return hand_on(p);
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
