#include "eadem/base/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <vector>

#include "eadem/base/allocations.h"
#include "eadem/base/memory.h"

namespace eadem {

struct Buffer::Prepared {
  struct Form {
    const void* tag;
    std::ptrdiff_t offset;
    DType dtype;
    Shape shape, strides;
    std::shared_ptr<const void> value;
  };
  std::mutex mutex;
  std::vector<Form> forms;
};

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t alignment_of(std::size_t capacity) {
  return capacity >= 2 * kHugePage ? kHugePage : kAlignment;
}

void free_block(std::byte* data, std::size_t capacity) {
  free_aligned(data, alignment_of(capacity));
}

// Freed blocks of equal capacity, kept by thread: a tiny operation's result costs no trip to the allocator, and a
// large one's no page faults. Capacities are powers of two or, above 1 MiB, multiples of an eighth of one.
class BlockCache {
 public:
  ~BlockCache() {
    for (std::size_t i = 0; i < count_; ++i) free_block(blocks_[i].data, blocks_[i].capacity);
    closed = true;
  }
  std::byte* take(std::size_t capacity) {
    for (std::size_t i = count_; i-- > 0;)
      if (blocks_[i].capacity == capacity) {
        std::byte* data = blocks_[i].data;
        remove(i);
        return data;
      }
    return nullptr;
  }
  bool keep(std::byte* data, std::size_t capacity) {
    if (closed || capacity > kMostBytes) return false;
    while (count_ > 0 && (kept_ + capacity > kMostBytes || count_ == kMostBlocks)) {
      free_block(blocks_[0].data, blocks_[0].capacity);
      remove(0);
    }
    blocks_[count_++] = {data, capacity};
    kept_ += capacity;
    return true;
  }

 private:
  static constexpr std::size_t kMostBytes = std::size_t{256} << 20, kMostBlocks = 64;
  struct Block {
    std::byte* data;
    std::size_t capacity;
  };
  void remove(std::size_t i) {
    kept_ -= blocks_[i].capacity;
    std::move(blocks_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
              blocks_.begin() + static_cast<std::ptrdiff_t>(count_--),
              blocks_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  std::array<Block, kMostBlocks> blocks_;  // oldest first; no vector, for a buffer's end must not allocate
  std::size_t count_ = 0, kept_ = 0;
  // Outlives the cache: a buffer that is freed while its thread ends must not reach a cache that is gone.
  static thread_local constinit bool closed;
};
thread_local constinit bool BlockCache::closed = false;
thread_local BlockCache cache;

std::atomic<std::int64_t> live = 0, peak = 0;

void count(std::int64_t bytes) {
  const std::int64_t now = live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t most = peak.load(std::memory_order_relaxed);
  while (now > most && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
}

std::size_t capacity_for(std::size_t bytes) {
  std::size_t power = kAlignment;
  while (power < bytes) power <<= 1;
  if (power <= (std::size_t{1} << 20)) return power;
  const std::size_t step = power / 16;
  return (bytes + step - 1) / step * step;
}

}  // namespace

std::int64_t live_bytes() {
  return live.load(std::memory_order_relaxed);
}
std::int64_t peak_bytes() {
  return peak.load(std::memory_order_relaxed);
}
void reset_peak_bytes() {
  peak.store(live.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

BufferRef Buffer::allocate(std::size_t bytes) {
  if (bytes > (std::size_t{1} << 62)) throw std::bad_alloc();
  auto* buffer = new Buffer;
  BufferRef reference(buffer);
  const std::size_t capacity = capacity_for(bytes);
  std::byte* data = cache.take(capacity);
  if (!data) {
    data = allocate_aligned(capacity, alignment_of(capacity));
    if (alignment_of(capacity) == kHugePage) madvise(data, capacity, MADV_HUGEPAGE);
  }
  buffer->data_ = data;
  buffer->size_ = bytes;
  buffer->capacity_ = capacity;
  count(static_cast<std::int64_t>(bytes));
  fill_with_poison(data, capacity);
  return reference;
}

BufferRef Buffer::borrow(void* data, std::size_t bytes, std::shared_ptr<const void> keep) {
  auto* buffer = new Buffer;
  buffer->data_ = static_cast<std::byte*>(data);
  buffer->size_ = bytes;
  buffer->keep_ = std::move(keep);
  return BufferRef(buffer);
}

Buffer::~Buffer() {
  delete prepared_.load();
}

void Buffer::release(Buffer* buffer) {
  if (buffer->capacity_ != 0) live.fetch_sub(static_cast<std::int64_t>(buffer->size_), std::memory_order_relaxed);
  if (buffer->capacity_ != 0 && !cache.keep(buffer->data_, buffer->capacity_))
    free_block(buffer->data_, buffer->capacity_);
  delete buffer;
}

std::shared_ptr<const void> Buffer::prepared(const TensorView& view, const void* form,
                                             const std::function<std::shared_ptr<const void>()>& make) const {
  Prepared* all = prepared_.load(std::memory_order_acquire);
  if (!all) {
    auto fresh = std::make_unique<Prepared>();
    if (prepared_.compare_exchange_strong(all, fresh.get(), std::memory_order_acq_rel)) all = fresh.release();
  }
  const std::lock_guard lock(all->mutex);
  const std::ptrdiff_t offset = view.data - data_;
  for (const Prepared::Form& known : all->forms)
    if (known.tag == form && known.offset == offset && known.dtype == view.dtype && known.shape == view.shape &&
        known.strides == view.strides)
      return known.value;
  all->forms.push_back({form, offset, view.dtype, view.shape, view.strides, make()});
  return all->forms.back().value;
}

void Buffer::drop_prepared() const {
  if (Prepared* all = prepared_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(all->mutex);
    all->forms.clear();
  }
}

}  // namespace eadem
