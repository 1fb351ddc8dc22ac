#pragma once

#include <vector>

#include "eadem/base/buffer.h"
#include "eadem/kernels/contraction/contraction.h"

namespace eadem {

/// Scratch memory for a kernel, freed when it returns, and what is to be done with the parts of its result.
class Context {
 public:
  explicit Context(const kernels::Epilogue* epilogue = nullptr) : epilogue_(epilogue) {}
  /// For a kernel that `hands_on`: null if nothing.
  const kernels::Epilogue* epilogue() const { return epilogue_; }
  /// Uninitialised, 64-byte aligned memory of at least `bytes`.
  std::byte* scratch(std::size_t bytes) {
    blocks_.push_back(Buffer::allocate(bytes));
    return blocks_.back()->data();
  }

 private:
  const kernels::Epilogue* epilogue_;
  std::vector<BufferRef> blocks_;
};

}  // namespace eadem
