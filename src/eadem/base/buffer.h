#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "eadem/base/tensor_view.h"

namespace eadem {

class Buffer;
/// A counted reference to a Buffer.
class BufferRef {
 public:
  BufferRef() = default;
  explicit BufferRef(Buffer* adopted) : buffer_(adopted) {}
  BufferRef(const BufferRef& other);
  BufferRef(BufferRef&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
  BufferRef& operator=(BufferRef other) noexcept {
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~BufferRef();
  Buffer* operator->() const { return buffer_; }
  Buffer& operator*() const { return *buffer_; }
  Buffer* get() const { return buffer_; }
  explicit operator bool() const { return buffer_ != nullptr; }

 private:
  Buffer* buffer_ = nullptr;
};

/// 64-byte aligned memory: allocated here, mapped from a file, or lent by the caller. Freed with its last reference.
class Buffer {
 public:
  /// Uninitialised memory (poisoned: memory.h); every kernel must write what it hands on. Throws std::bad_alloc.
  static BufferRef allocate(std::size_t bytes);
  /// Memory that `keep` (if any) keeps alive: a mapped file, a vector. It is borrowed, so never donated (`unique`).
  static BufferRef borrow(void* data, std::size_t bytes, std::shared_ptr<const void> keep);

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  /// Whether this is the only reference to memory of our own, so that it may be overwritten (donation).
  bool unique() const { return capacity_ != 0 && references_.load(std::memory_order_acquire) == 1; }

  /// The prepared (packed) form of the operand `view`, which lies in this buffer: made by `make` at the first call,
  /// kept with the buffer and shared by all later calls with equal form, offset, dtype, shape and strides.
  /// `form` must be the address of a static tag, one for each packed layout.
  std::shared_ptr<const void> prepared(const TensorView& view, const void* form,
                                       const std::function<std::shared_ptr<const void>()>& make) const;
  /// Forgets all prepared forms; to be called before the memory is overwritten.
  void drop_prepared() const;

 private:
  friend class BufferRef;
  struct Prepared;
  Buffer() = default;
  ~Buffer();
  static void release(Buffer*);

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;  // what was allocated; zero when borrowed
  std::shared_ptr<const void> keep_;
  mutable std::atomic<std::int64_t> references_{1};
  mutable std::atomic<Prepared*> prepared_{nullptr};
};

inline BufferRef::BufferRef(const BufferRef& other) : buffer_(other.buffer_) {
  if (buffer_) buffer_->references_.fetch_add(1, std::memory_order_relaxed);
}
inline BufferRef::~BufferRef() {
  if (buffer_ && buffer_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) Buffer::release(buffer_);
}

}  // namespace eadem
