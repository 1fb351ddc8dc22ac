#include "eadem/base/memory.h"

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "eadem/base/error.h"

namespace eadem {
namespace {

constexpr int kUnread = -2;  // EADEM_POISON has not been looked at
std::atomic<int> poison_byte{kUnread};

int poison_of_environment() {
  const char* value = std::getenv("EADEM_POISON");
  if (!value || !*value) return -1;
  const std::string_view text = value;
  int byte = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), byte);
  if (error != std::errc() || end != text.data() + text.size() || byte < 0 || byte > 255)
    fail<ValueError>("[EADEM_POISON] must be a number from 0 to 255, got '{}'", value);
  return byte;
}

}  // namespace

void set_poison(int byte) {
  if (byte < -1 || byte > 255) fail<ValueError>("[set_poison] must be -1 or a byte from 0 to 255, got {}", byte);
  poison_byte.store(byte, std::memory_order_relaxed);
}

int poison() {
  int byte = poison_byte.load(std::memory_order_relaxed);
  if (byte == kUnread) poison_byte.store(byte = poison_of_environment(), std::memory_order_relaxed);
  return byte;
}

void fill_with_poison(std::byte* data, std::size_t bytes) {
  if (const int byte = poison(); byte >= 0 && bytes > 0) std::memset(data, byte, bytes);
}

std::byte* allocate_aligned(std::size_t bytes, std::size_t alignment) {
  return static_cast<std::byte*>(::operator new (bytes, std::align_val_t{alignment}));
}

void free_aligned(std::byte* data, std::size_t alignment) noexcept {
  ::operator delete (data, std::align_val_t{alignment});
}

void Scratch::grow(std::size_t bytes) {
  free_aligned(std::exchange(data_, nullptr), kAlignment);
  size_ = 0;
  const std::size_t rounded = (bytes + 4095) / 4096 * 4096;
  data_ = allocate_aligned(rounded, kAlignment);
  size_ = rounded;
}

}  // namespace eadem
