#include "eadem/kernels/attention/attention.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "eadem/base/buffer.h"
#include "eadem/base/memory.h"
#include "eadem/base/parallel.h"
#include "eadem/kernels/attention/tile.h"

namespace eadem::kernels {
namespace {

using namespace attention_detail;

constexpr std::int64_t kChunk = kKeys * numerics::kChunkBlocks;

constexpr std::size_t padded(std::int64_t bytes) {
  return static_cast<std::size_t>(round_up(bytes, 64));
}

// The levels of a binary counter that counts to n.
int levels(std::int64_t n) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n)));
}

// Memory of one thread, cut up anew for every tile. A tile needs less than a megabyte for usual heads.
class TileMemory {
 public:
  explicit TileMemory(std::size_t bytes) {
    static thread_local Scratch memory;
    next_ = memory.take(bytes);
  }
  template <class E = void>
  E* take(std::int64_t bytes) {
    return reinterpret_cast<E*>(std::exchange(next_, next_ + padded(bytes)));
  }

 private:
  std::byte* next_;
};

// The blocks of a batch row that some query may see: those that begin at start + 128 n, n in [first, end).
struct Blocks {
  std::int64_t start = 0, length = 0, first = 0, end = 0;
  std::int64_t packed = 0;  // how many blocks the batch rows before have
};

// The tree over chunks, as a binary counter whose nodes are states by number; -1 is an empty node.
class StateTree {
 public:
  StateTree(const Body& body, const State* states, std::int64_t rows, std::int64_t columns, std::int64_t first_chunk)
      : body_(body), states_(states), rows_(rows), columns_(columns), count_(first_chunk) {
    std::fill(std::begin(pending_), std::end(pending_), -1);
  }

  // Adds the next chunk, -1 when none of its keys is visible.
  void add(int chunk) {
    std::size_t level = 0;
    for (; (count_ >> level) & 1; ++level) chunk = join(std::exchange(pending_[level], -1), chunk);
    pending_[level] = chunk;
    ++count_;
  }
  // The number of the state that holds the sum; -1 if all is empty.
  int sum() {
    int result = -1;
    for (const int earlier : pending_) result = join(earlier, result);
    return result;
  }
  // A state that no node holds.
  int unused() const {
    int number = 0;
    while (std::find(std::begin(pending_), std::end(pending_), number) != std::end(pending_)) ++number;
    return number;
  }

 private:
  int join(int earlier, int later) {
    if (earlier < 0) return later;
    if (later >= 0) body_.combine(states_[earlier], states_[later], rows_, columns_);
    return earlier;
  }

  const Body& body_;
  const State* states_;
  std::int64_t rows_, columns_, count_;
  int pending_[48];
};

class Attention {
 public:
  Attention(const numerics::AttentionOperands& x, const numerics::AttentionOptions& options, const Body& body,
            Pack pack, const PairedBody* paired, const numerics::AttentionResiduals* residuals)
      : body_(body), pack_(pack), paired_(paired) {
    g_.residuals = residuals;
    const bool paged = x.pages.data;
    g_.x = x;
    g_.options = options;
    g_.batch = x.q.shape[0];
    g_.kv_heads = x.k.shape[1];
    g_.group = x.q.shape[1] / std::max<std::int64_t>(g_.kv_heads, 1);
    g_.queries = x.q.shape[2];
    g_.keys = paged ? x.pages.shape[1] * kKeys : x.k.shape[2];
    g_.head_size = x.q.shape[3];
    g_.columns = round_up(g_.head_size, 16);
    many_tiles_ = g_.rows() > kTileRows;
    g_.key_panel = many_tiles_ ? kPanel : kKeys;
    g_.value_panel = many_tiles_ ? kPanel : g_.columns;
    width_ = x.q.dtype == DType::f64 ? 8 : 4;
    find_blocks();
  }

  void run() {
    const std::int64_t tiles = (g_.rows() + kTileRows - 1) / kTileRows, heads = g_.batch * g_.kv_heads;
    if (!many_tiles_) return share_chunks();
    pack_all();
    // Causal queries get dearer with their position: the dearest tiles first.
    parallel_for(tiles * heads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n)
        run_tile(n % heads / g_.kv_heads, n % g_.kv_heads, tiles - 1 - n / heads);
    });
  }

 private:
  void find_blocks() {
    blocks_.resize(static_cast<std::size_t>(g_.batch));
    for (std::int64_t b = 0; b < g_.batch; ++b) {
      Blocks& each = blocks_[static_cast<std::size_t>(b)];
      // Both ends of what a query may see grow with the query.
      const numerics::KeyRange lowest = numerics::visible_keys(g_.x, g_.options, b, 0);
      const numerics::KeyRange highest = numerics::visible_keys(g_.x, g_.options, b, g_.queries - 1);
      each.start = lowest.start;
      each.length = std::clamp<std::int64_t>(numerics::integer_at(g_.x.length, b, g_.keys), 0, g_.keys);
      each.first = (lowest.first - each.start) / kKeys;
      each.end = std::max(each.first, (highest.end - each.start + kKeys - 1) / kKeys);
      if (highest.end <= lowest.first) each.end = each.first;
      each.packed = b == 0 ? 0 : blocks_[static_cast<std::size_t>(b - 1)].packed + count_of(b - 1);
      most_chunks_ = std::max(most_chunks_, (each.end + numerics::kChunkBlocks - 1) / numerics::kChunkBlocks -
                                                each.first / numerics::kChunkBlocks);
    }
  }
  std::int64_t count_of(std::int64_t b) const {
    return blocks_[static_cast<std::size_t>(b)].end - blocks_[static_cast<std::size_t>(b)].first;
  }

  std::int64_t key_bytes() const {
    const std::int64_t wide = g_.head_size * kKeys * width_;
    return paired_ ? std::max(wide, round_up(g_.head_size, 4) / 2 * kKeys * 4) : wide;
  }
  std::int64_t value_bytes() const { return kKeys * round_up(g_.columns, kPanel) * width_; }
  std::int64_t state_bytes() const {
    return static_cast<std::int64_t>(padded(kTileRows * 8) + padded(kTileRows) + padded(kTileRows * width_) +
                                     padded(kTileRows * g_.columns * width_));
  }
  int tree_levels() const { return g_.head_size > 256 ? levels((g_.head_size + 255) / 256) + 1 : 0; }
  // States that a tile holds at once: one being filled, and a node for each level that its chunks reach.
  int tile_states() const { return levels(most_chunks_) + 3; }

  BlockPlace place(std::int64_t b, std::int64_t head, std::int64_t block) const {
    const Blocks& row = blocks_[static_cast<std::size_t>(b)];
    return {b, head, row.start + block * kKeys, row.start, row.length};
  }
  bool absent(const BlockPlace& at) const { return g_.x.pages.data && page_of(g_, at.b, at.first_key) < 0; }

  // Packs every block once for all tiles, if there is memory for it.
  void pack_all() {
    const std::int64_t per_head = blocks_.back().packed + count_of(g_.batch - 1), count = per_head * g_.kv_heads;
    const std::size_t key = padded(key_bytes()), value = padded(value_bytes());
    if (count == 0) return;
    try {
      packed_memory_ = Buffer::allocate(static_cast<std::size_t>(count) * (key + value));
    } catch (const std::bad_alloc&) {
      return;
    }
    packed_.resize(static_cast<std::size_t>(count));
    for (std::size_t n = 0; n < packed_.size(); ++n) {
      packed_[n].k = packed_memory_->data() + n * (key + value);
      packed_[n].v = packed_memory_->data() + n * (key + value) + key;
    }
    for (std::int64_t b = 0; b < g_.batch; ++b) {
      parallel_for(count_of(b) * g_.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t n = begin; n < end; ++n) {
          const BlockPlace at = place(b, n % g_.kv_heads, blocks_[static_cast<std::size_t>(b)].first + n / g_.kv_heads);
          if (absent(at)) continue;
          PackedBlock& block = packed(at);
          if (!paired_ || !paired_->pack(g_, at, block)) pack_(g_, at, block);
        }
      });
    }
  }
  PackedBlock& packed(const BlockPlace& at) {
    const Blocks& row = blocks_[static_cast<std::size_t>(at.b)];
    const std::int64_t block = (at.first_key - at.start) / kKeys - row.first;
    return packed_[static_cast<std::size_t>((row.packed + block) * g_.kv_heads + at.head)];
  }

  // A tile's memory, and its queries.
  struct Work {
    Tile tile;
    PackedBlock own;      // a block that is not packed yet, or not in the form that this tile needs
    void *keys, *values;  // room for that
    std::vector<State> states;
  };
  std::size_t work_bytes(int states) const {
    const std::int64_t rows = kTileRows;
    return padded(rows * g_.head_size * width_) + padded(rows * round_up(g_.head_size, 4) * 2) +
           2 * padded(rows * kKeys * width_) + padded(rows * g_.columns * width_) + padded(value_bytes()) * 2 +
           padded(key_bytes()) + padded(tree_levels() * rows * kKeys * width_) +
           static_cast<std::size_t>(states * state_bytes());
  }
  void prepare(Work& work, std::int64_t b, std::int64_t head, std::int64_t tile, int states) const {
    TileMemory scratch(work_bytes(states));
    Tile& t = work.tile;
    t.b = b;
    t.head = head;
    t.first_row = tile * kTileRows;
    t.rows = std::min(kTileRows, g_.rows() - t.first_row);
    for (std::int64_t r = 0; r < t.rows; ++r)
      t.range[r] = numerics::visible_keys(g_.x, g_.options, b, (t.first_row + r) % g_.queries);
    t.q = scratch.take(kTileRows * g_.head_size * width_);
    t.pairs = scratch.take<std::uint32_t>(kTileRows * round_up(g_.head_size, 4) * 2);
    t.s = scratch.take(kTileRows * kKeys * width_);
    t.low = scratch.take(kTileRows * kKeys * width_);
    t.product = scratch.take(kTileRows * g_.columns * width_);
    t.spare = scratch.take(value_bytes());
    t.tree = scratch.take(tree_levels() * kTileRows * kKeys * width_);
    t.least_exponent = 0;
    work.keys = scratch.take(key_bytes());
    work.values = scratch.take(value_bytes());
    for (int i = 0; i < states; ++i) work.states.push_back(state_in(scratch.take<std::byte>(state_bytes())));
    body_.pack_queries(g_, t);
    if (paired_) paired_->pack_queries(g_, t);
  }
  State state_in(std::byte* memory) const {
    State state;
    state.maximum = reinterpret_cast<double*>(memory);
    state.nan = reinterpret_cast<bool*>(memory += padded(kTileRows * 8));
    state.sum = memory += padded(kTileRows);
    state.acc = memory + padded(kTileRows * width_);
    return state;
  }
  void clear(const State& state, std::int64_t rows) const {
    std::fill(state.maximum, state.maximum + rows, -std::numeric_limits<double>::infinity());
    std::fill(state.nan, state.nan + rows, false);
    std::fill_n(static_cast<std::byte*>(state.sum), rows * width_, std::byte{0});
    std::fill_n(static_cast<std::byte*>(state.acc), rows * g_.columns * width_, std::byte{0});
  }

  // Applies the blocks of one chunk, those that some row of the tile may see.
  void run_chunk(Work& work, std::int64_t chunk, const State& state) {
    clear(state, work.tile.rows);
    const Blocks& row = blocks_[static_cast<std::size_t>(work.tile.b)];
    const std::int64_t end = std::min(row.end, (chunk + 1) * numerics::kChunkBlocks);
    for (std::int64_t block = std::max(row.first, chunk * numerics::kChunkBlocks); block < end; ++block) {
      BlockPlace at = place(work.tile.b, work.tile.head, block);
      if (g_.x.pages.data && !many_tiles_ && block + 1 < end) at.next_page = page_of(g_, at.b, at.first_key + kKeys);
      const bool seen = std::any_of(work.tile.range, work.tile.range + work.tile.rows, [&](const auto& range) {
        return range.first < std::min(range.end, at.first_key + kKeys) && range.end > at.first_key;
      });
      if (!seen || absent(at)) continue;
      body_.apply(g_, work.tile, block_for(work, at), at, state, paired_);
    }
  }

  // The block packed as this tile needs it: wide where vdpbf16ps would flush a product's subnormal.
  const PackedBlock& block_for(Work& work, const BlockPlace& at) {
    const auto exact = [&](const PackedBlock& block) {
      return !block.paired || work.tile.least_exponent + block.least_exponent >= kLeastExponents;
    };
    if (!packed_.empty() && exact(packed(at))) return packed(at);
    PackedBlock& own = work.own;
    own.k = work.keys;
    own.v = work.values;
    if (packed_.empty() && paired_ && paired_->pack(g_, at, own) && exact(own)) return own;
    pack_(g_, at, own);
    return own;
  }

  void run_tile(std::int64_t b, std::int64_t head, std::int64_t tile) {
    Work work;
    prepare(work, b, head, tile, tile_states());
    std::int64_t first = std::numeric_limits<std::int64_t>::max(), end = 0;
    const std::int64_t start = blocks_[static_cast<std::size_t>(b)].start;
    for (std::int64_t r = 0; r < work.tile.rows; ++r) {
      const numerics::KeyRange& range = work.tile.range[r];
      if (range.first >= range.end) continue;
      first = std::min(first, (range.first - start) / kChunk);
      end = std::max(end, (range.end - start + kChunk - 1) / kChunk);
    }
    StateTree tree(body_, work.states.data(), work.tile.rows, g_.columns, std::min(first, end));
    for (std::int64_t chunk = first; chunk < end; ++chunk) {
      const int number = tree.unused();
      run_chunk(work, chunk, work.states[static_cast<std::size_t>(number)]);
      tree.add(number);
    }
    finish(work, tree);
  }

  void finish(Work& work, StateTree& tree) {
    int number = tree.sum();
    if (number < 0) clear(work.states[static_cast<std::size_t>(number = 0)], work.tile.rows);
    body_.finish(g_, work.tile, work.states[static_cast<std::size_t>(number)]);
  }

  // One tile a key head: the threads share the chunks of its keys, then each tile's tree is summed.
  void share_chunks() {
    const std::int64_t heads = g_.batch * g_.kv_heads, chunks = std::max<std::int64_t>(most_chunks_, 1);
    const std::size_t bytes = static_cast<std::size_t>(state_bytes());
    const BufferRef memory = Buffer::allocate(static_cast<std::size_t>(heads * chunks) * bytes);
    const auto state = [&](std::int64_t head, std::int64_t chunk) {
      return state_in(memory->data() + static_cast<std::size_t>(head * chunks + chunk) * bytes);
    };
    const auto first_chunk = [&](std::int64_t head) {
      return blocks_[static_cast<std::size_t>(head / g_.kv_heads)].first / numerics::kChunkBlocks;
    };
    parallel_for(heads * chunks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        const std::int64_t head = n / chunks, chunk = n % chunks;
        Work work;
        prepare(work, head / g_.kv_heads, head % g_.kv_heads, 0, 0);
        run_chunk(work, first_chunk(head) + chunk, state(head, chunk));
      }
    });
    parallel_for(heads, 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t head = begin; head < end; ++head) {
        Work work;
        prepare(work, head / g_.kv_heads, head % g_.kv_heads, 0, 0);
        for (std::int64_t chunk = 0; chunk < chunks; ++chunk) work.states.push_back(state(head, chunk));
        StateTree tree(body_, work.states.data(), work.tile.rows, g_.columns, first_chunk(head));
        for (std::int64_t chunk = 0; chunk < chunks; ++chunk) tree.add(static_cast<int>(chunk));
        finish(work, tree);
      }
    });
  }

  Problem g_;
  const Body& body_;
  const Pack pack_;
  const PairedBody* const paired_;
  bool many_tiles_;
  std::int64_t width_, most_chunks_ = 0;
  std::vector<Blocks> blocks_;
  BufferRef packed_memory_;
  std::vector<PackedBlock> packed_;
};

void append_head(const numerics::PageAppend& x, std::int64_t b, std::int64_t head) {
  const std::int64_t heads = x.fresh.shape[1], rows = x.fresh.shape[2], head_size = x.fresh.shape[3];
  const std::int64_t position = numerics::integer_at(x.position, b, 0);
  const std::int64_t count = std::clamp<std::int64_t>(numerics::integer_at(x.count, b, rows), 0, rows);
  const DType dtype = x.fresh.dtype;
  const bool paired = numerics::paired_pages(x.pool);
  const auto copy = [&]<class T>(std::type_identity<T>) {
    const auto index = x.values ? numerics::value_page_index : numerics::key_page_index;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = position + i, page = numerics::page_at(x.pages, b, at, x.pool.shape[0]);
      if (page < 0) continue;
      const T* from = x.fresh.as<T>() + b * x.fresh.strides[0] + head * x.fresh.strides[1] + i * x.fresh.strides[2];
      const auto slot = [&](std::int64_t d) { return index(paired, heads, head_size, page, head, at % kKeys, d); };
      // Elements lie at one stride, but for pairs of a key's.
      const std::int64_t unit = paired && !x.values ? 2 : 1, step = slot(unit) - slot(0);
      for (std::int64_t first = 0; first < unit; ++first) {
        T* to = x.pool.as<T>() + slot(first);
        for (std::int64_t d = first; d < head_size; d += unit, to += step) *to = from[d * x.fresh.strides[3]];
      }
      if (!x.values && paired && head_size % 2) x.pool.as<T>()[slot(head_size)] = T{};
    }
  };
  if (size_of(dtype) == 8)
    copy(std::type_identity<std::uint64_t>{});
  else if (size_of(dtype) == 4)
    copy(std::type_identity<std::uint32_t>{});
  else
    copy(std::type_identity<std::uint16_t>{});
}

}  // namespace

void attention(const numerics::AttentionOperands& x, const numerics::AttentionOptions& options,
               const numerics::AttentionResiduals* residuals) {
  if (x.y.elements() == 0) return;
  const Target target = active_target();
  const Body* body = pick_body(x.q.dtype, target);
  if (!body) return residuals ? numerics::attention_saving(x, options, *residuals) : numerics::attention(x, options);
  const PairedBody* paired = nullptr;
  if (x.q.dtype == DType::bf16 && target >= Target::avx512bf16 && target != Target::neon) paired = paired_body();
  if (paired) record_ran(Target::avx512bf16);
  Attention(x, options, *body, pick_pack(x.q.dtype, target), paired, residuals).run();
}

void append_to_pages(const numerics::PageAppend& x) {
  const std::int64_t batch = x.fresh.shape[0], heads = x.fresh.shape[1], rows = x.fresh.shape[2];
  if (x.fresh.elements() == 0) return;
  // One (row of the batch, head) at a time; small appends (decode) are not worth a thread's waking.
  const std::int64_t bytes = rows * x.fresh.shape[3] * static_cast<std::int64_t>(size_of(x.fresh.dtype));
  parallel_for(batch * heads, std::max<std::int64_t>(1, 32768 / bytes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) append_head(x, n / heads, n % heads);
  });
}

}  // namespace eadem::kernels
