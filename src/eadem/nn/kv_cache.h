#pragma once

#include <cstdint>
#include <vector>

#include "eadem/array/array.h"

namespace eadem::nn {

/// The keys and values of a batch of sequences, in pages of 128 positions (ops.h, paged_attention).
///
/// Each sequence has its own row of the page table and its own length; pages are handed out as sequences grow, and the
/// pools grow by doubling. The layers' pools are separate, the table is common.
class KvCache {
 public:
  /// Empty, for `batch` sequences. Throws ValueError for extents below 1.
  KvCache(std::int64_t batch, std::int64_t layers, DType dtype, std::int64_t kv_heads, std::int64_t head_size);

  std::int64_t batch() const { return static_cast<std::int64_t>(lengths_.size()); }
  std::int64_t layers() const { return static_cast<std::int64_t>(keys_.size()); }
  std::int64_t length(std::int64_t sequence) const { return lengths_[static_cast<std::size_t>(sequence)]; }

  /// Makes room so that sequence b can hold lengths[b] positions, and sets its length to that. Shorter than before
  /// forgets the end: how rejected speculation is undone.
  void set_lengths(std::span<const std::int64_t> lengths);

  /// The page table, i32 [batch, T].
  const Array& pages() const { return table_; }
  /// The lengths, i64 [batch].
  const Array& lengths() const { return length_array_; }

  /// Writes keys and values [batch, kv_heads, L, head_size] of a layer: row i of sequence b at position[b] + i (rows
  /// before 0 are padding), count[b] rows of it. The positions must lie inside the lengths set before.
  void append(std::int64_t layer, const Array& keys, const Array& values, const Array& position, const Array& count);
  const Array& key_pool(std::int64_t layer) const { return keys_[static_cast<std::size_t>(layer)]; }
  const Array& value_pool(std::int64_t layer) const { return values_[static_cast<std::size_t>(layer)]; }

  /// The keys (values) of one sequence in one layer, [kv_heads, length, head_size]: what the auditor compares.
  Array keys_of(std::int64_t layer, std::int64_t sequence) const;
  Array values_of(std::int64_t layer, std::int64_t sequence) const;

  /// Bytes of all pools.
  std::int64_t bytes() const;

 private:
  void grow(std::int64_t pages);
  Array gather(const Array& pool, bool values, std::int64_t sequence) const;

  DType dtype_;
  std::int64_t kv_heads_, head_size_;
  std::vector<Array> keys_, values_;
  std::vector<std::vector<std::int32_t>> rows_;  // the page table by sequence
  std::vector<std::int32_t> free_;
  std::vector<std::int64_t> lengths_;
  std::int64_t capacity_ = 0;
  Array table_, length_array_;
};

}  // namespace eadem::nn
