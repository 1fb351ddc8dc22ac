#pragma once

#include <cstddef>

namespace eadem {

/// Uninitialised memory on a boundary of `alignment` (a power of two, at least 16), filled with the poison byte where
/// one is set. Throws std::bad_alloc. It comes from operator new, so that a program (or a test) that replaces that
/// decides.
std::byte* allocate_aligned(std::size_t bytes, std::size_t alignment);
/// Gives back what allocate_aligned gave for the same alignment; null is allowed.
void free_aligned(std::byte* data, std::size_t alignment) noexcept;

/// Fills all memory handed out from now on with this byte (0..255; -1: leaves it as it is), so that a read of unwritten
/// memory shows in the bits: new buffers, and scratch memory at each use. The auditor and EADEM_POISON=BYTE use it.
/// Throws ValueError beyond that range.
void set_poison(int byte);
/// The byte in force, or -1. ValueError when EADEM_POISON is neither empty nor a number from 0 to 255.
int poison();
/// Fills the memory with the poison byte, if one is set.
void fill_with_poison(std::byte* data, std::size_t bytes);

/// Memory that a thread keeps from one use to the next, 64-byte aligned: a kernel declares one `thread_local Scratch`
/// for each purpose, and asks it at each use. What it holds at the beginning of a use is not defined.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { free_aligned(data_, kAlignment); }

  /// At least `bytes`, valid until the next call. Throws std::bad_alloc, and then holds nothing.
  std::byte* take(std::size_t bytes) {
    if (bytes > size_) grow(bytes);
    fill_with_poison(data_, bytes);
    return data_;
  }

 private:
  static constexpr std::size_t kAlignment = 64;
  void grow(std::size_t bytes);

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace eadem
