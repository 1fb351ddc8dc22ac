#include "eadem/nn/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "eadem/numerics/attention.h"
#include "eadem/ops/ops.h"

namespace eadem::nn {

using numerics::kKeyBlock;

KvCache::KvCache(std::int64_t batch, std::int64_t layers, DType dtype, std::int64_t kv_heads, std::int64_t head_size)
    : dtype_(dtype), kv_heads_(kv_heads), head_size_(head_size) {
  if (batch < 1 || layers < 1 || kv_heads < 1 || head_size < 1)
    fail<ValueError>("[kv_cache] extents must be positive, got {} sequences, {} layers, {} heads of {}", batch, layers,
                     kv_heads, head_size);
  rows_.resize(static_cast<std::size_t>(batch));
  lengths_.resize(static_cast<std::size_t>(batch));
  keys_.resize(static_cast<std::size_t>(layers));
  values_.resize(static_cast<std::size_t>(layers));
  grow(batch);
  set_lengths(lengths_);
}

// More pages, zeroed: a page's unused slots are never read for a result, but they are read. The pools of all layers lie
// in one block of memory, which the system can back with huge pages: a step reads them all.
void KvCache::grow(std::int64_t pages) {
  const Shape key_shape = numerics::key_page_shape(dtype_, pages, kv_heads_, head_size_);
  const Shape value_shape = numerics::value_page_shape(dtype_, pages, kv_heads_, head_size_);
  const auto bytes_of = [&](const Shape& shape) {
    return static_cast<std::size_t>(shape.elements()) * size_of(dtype_);
  };
  const auto padded = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
  const auto memory = std::make_shared<const BufferRef>(
      Buffer::allocate(keys_.size() * (padded(bytes_of(key_shape)) + padded(bytes_of(value_shape)))));
  std::byte* next = (*memory)->data();
  const auto larger = [&](Array& pool, const Shape& shape) {
    const std::size_t bytes = bytes_of(shape);
    const std::size_t old = capacity_ == 0 ? 0 : bytes_of(pool.shape());
    if (old != 0) std::memcpy(next, pool.view().data, old);
    std::memset(next + old, 0, bytes - old);
    pool = Array(Buffer::borrow(next, bytes, memory), contiguous_view(next, dtype_, shape));
    next += padded(bytes);
  };
  for (std::size_t layer = 0; layer < keys_.size(); ++layer) {
    larger(keys_[layer], key_shape);
    larger(values_[layer], value_shape);
  }
  // Handed out from the back: lowest page first.
  std::vector<std::int32_t> more;
  for (std::int64_t page = pages; page-- > capacity_;) more.push_back(static_cast<std::int32_t>(page));
  free_.insert(free_.begin(), more.begin(), more.end());
  capacity_ = pages;
}

void KvCache::set_lengths(std::span<const std::int64_t> lengths) {
  if (lengths.size() != lengths_.size())
    fail<ShapeError>("[kv_cache] {} lengths for {} sequences", lengths.size(), lengths_.size());
  bool table_changed = table_.rank() != 2;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    if (lengths[b] < 0) fail<ValueError>("[kv_cache] sequence {} cannot have length {}", b, lengths[b]);
    const std::size_t needed = static_cast<std::size_t>((lengths[b] + kKeyBlock - 1) / kKeyBlock);
    table_changed |= needed != rows_[b].size();
    while (rows_[b].size() > needed) {
      free_.push_back(rows_[b].back());
      rows_[b].pop_back();
    }
    while (rows_[b].size() < needed) {
      if (free_.empty()) grow(2 * capacity_);
      rows_[b].push_back(free_.back());
      free_.pop_back();
    }
    lengths_[b] = lengths[b];
  }
  length_array_ = Array::from(lengths_, {batch()});
  if (!table_changed) return;
  std::size_t longest = 1;
  for (const auto& row : rows_) longest = std::max(longest, row.size());
  std::vector<std::int32_t> table(rows_.size() * longest, -1);
  for (std::size_t b = 0; b < rows_.size(); ++b)
    std::copy(rows_[b].begin(), rows_[b].end(), table.begin() + static_cast<std::ptrdiff_t>(b * longest));
  table_ = Array::from(table, {batch(), static_cast<std::int64_t>(longest)});
}

void KvCache::append(std::int64_t layer, const Array& keys, const Array& values, const Array& position,
                     const Array& count) {
  Array& key_pool = keys_[static_cast<std::size_t>(layer)];
  Array& value_pool = values_[static_cast<std::size_t>(layer)];
  key_pool = append_key_pages(std::move(key_pool), keys, table_, position, count);
  value_pool = append_value_pages(std::move(value_pool), values, table_, position, count);
}

Array KvCache::gather(const Array& pool, bool values, std::int64_t sequence) const {
  const std::int64_t length = this->length(sequence);
  Array result = Array::allocate({dtype_, {kv_heads_, length, head_size_}});
  const auto& row = rows_[static_cast<std::size_t>(sequence)];
  const std::size_t size = size_of(dtype_);
  std::byte* to = result.view().data;
  for (std::int64_t head = 0; head < kv_heads_; ++head)
    for (std::int64_t i = 0; i < length; ++i)
      for (std::int64_t d = 0; d < head_size_; ++d, to += size) {
        const std::int64_t page = row[static_cast<std::size_t>(i / kKeyBlock)], slot = i % kKeyBlock;
        const std::int64_t from = values ? numerics::value_page_index(numerics::paired_pages(pool.view()), kv_heads_,
                                                                      head_size_, page, head, slot, d)
                                         : numerics::key_page_index(numerics::paired_pages(pool.view()), kv_heads_,
                                                                    head_size_, page, head, slot, d);
        std::memcpy(to, pool.view().data + from * static_cast<std::int64_t>(size), size);
      }
  return result;
}

Array KvCache::keys_of(std::int64_t layer, std::int64_t sequence) const {
  return gather(key_pool(layer), false, sequence);
}
Array KvCache::values_of(std::int64_t layer, std::int64_t sequence) const {
  return gather(value_pool(layer), true, sequence);
}

std::int64_t KvCache::bytes() const {
  std::int64_t total = 0;
  for (const auto* pools : {&keys_, &values_})
    for (const Array& pool : *pools) total += pool.elements() * static_cast<std::int64_t>(size_of(dtype_));
  return total;
}

}  // namespace eadem::nn
