#pragma once

#include <vector>

#include "eadem/base/buffer.h"

namespace eadem {

/// Scratch memory for a kernel, freed when it returns.
class Context {
 public:
  /// Uninitialised, 64-byte aligned memory of at least `bytes`.
  std::byte* scratch(std::size_t bytes) {
    blocks_.push_back(Buffer::allocate(bytes));
    return blocks_.back()->data();
  }

 private:
  std::vector<BufferRef> blocks_;
};

}  // namespace eadem
