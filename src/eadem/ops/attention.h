#pragma once

#include <span>

#include "eadem/array/rules.h"
#include "eadem/numerics/attention.h"

// What the records of attention share with those of its derivative.

namespace eadem::ops {

/// Of attention, paged_attention and the derivatives. The optional operands follow q, k, v (and, with pages, the page
/// table and the length) in this order.
struct AttentionAttributes {
  bool causal = false, upper_left = false;
  std::int64_t window = 0;
  double softcap = 0, scale = 1;
  bool mask = false, bias = false, start = false, length = false, position = false;
  static constexpr auto fields() {
    using A = AttentionAttributes;
    return std::tuple(field("causal", &A::causal), field("upper_left", &A::upper_left), field("window", &A::window),
                      field("softcap", &A::softcap), field("scale", &A::scale), field("mask", &A::mask),
                      field("bias", &A::bias), field("start", &A::start), field("length", &A::length),
                      field("position", &A::position));
  }
  numerics::AttentionOptions options() const {
    using numerics::Causal;
    const Causal alignment = !causal ? Causal::none : upper_left ? Causal::upper_left : Causal::lower_right;
    return {alignment, window, softcap, scale};
  }
};

/// Operands after the first `fixed`, in the attributes' order.
template <class T>
struct AttentionOptional {
  const T *mask = nullptr, *bias = nullptr, *start = nullptr, *length = nullptr, *position = nullptr;
};
template <class T>
AttentionOptional<T> optional_operands(std::span<const T> operands, std::size_t fixed, const AttentionAttributes& a) {
  AttentionOptional<T> found;
  const auto next = [&](bool present, const T*& slot) {
    if (present) slot = &operands[fixed++];
  };
  next(a.mask, found.mask);
  next(a.bias, found.bias);
  next(a.start, found.start);
  next(a.length, found.length);
  next(a.position, found.position);
  return found;
}
/// How many optional operands there are.
inline std::size_t count_of(const AttentionAttributes& a) {
  return static_cast<std::size_t>(a.mask + a.bias + a.start + a.length + a.position);
}

void require_heads(std::string_view operation, const TensorType& q, const TensorType& k, std::int64_t kv_heads,
                   std::int64_t head_size);
void require_vector(std::string_view operation, std::string_view what, const TensorType& type, std::int64_t batch);
void require_options(std::string_view operation, const AttentionAttributes& a);
/// Throws unless operands 0, 1, 2 are q, k, v over dense keys, and those from `fixed` on the optional ones.
void require_dense(std::string_view operation, const Signature& s, std::size_t fixed);
/// The operands of the launch; y is its first result.
numerics::AttentionOperands dense(const Launch& launch, std::size_t fixed = 3);

/// The reverse rule, given the residuals m, l, o.
void attention_rule(Vjp& g, const Arrays& residuals);
/// The batch joins B.
void attention_batch(Batch& b);

}  // namespace eadem::ops
