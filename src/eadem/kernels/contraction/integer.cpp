#include "eadem/kernels/contraction/integer.h"

#include <algorithm>
#include <type_traits>

#include "eadem/base/parallel.h"

namespace eadem::kernels::contraction {
namespace {

// sum + a * b, wrapping: unsigned arithmetic of at least 32 bits, so that nothing promotes to a signed int.
template <class T>
T add_product(T sum, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return sum || (a && b);
  } else {
    using U = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    return static_cast<T>(static_cast<U>(sum) + static_cast<U>(a) * static_cast<U>(b));
  }
}

// Row i of c, b's rows in turn.
template <class T>
void row(const Problem& p, std::int64_t i) {
  const T* a = reinterpret_cast<const T*>(p.a.data) + i * p.a.row;
  T* c = reinterpret_cast<T*>(p.c.data) + i * p.c.row;
  std::fill(c, c + p.n, T{});
  for (std::int64_t k = 0; k < p.k; ++k) {
    const T x = a[k * p.a.term];
    const T* b = reinterpret_cast<const T*>(p.b.data) + k * p.b.term;
    if (p.b.row == 1)
      for (std::int64_t n = 0; n < p.n; ++n) c[n] = add_product(c[n], x, b[n]);
    else
      for (std::int64_t n = 0; n < p.n; ++n) c[n] = add_product(c[n], x, b[n * p.b.row]);
  }
}

}  // namespace

void multiply_integers(const Problem& p) {
  visit(p.dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!FloatingElement<T>) {
      const std::int64_t work = std::max<std::int64_t>(1, p.n * p.k);
      parallel_for(p.batch.elements() * p.m, std::max<std::int64_t>(1, 65536 / work),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) row<T>(product_of(p, i / p.m), i % p.m);
                   });
    }
  });
}

}  // namespace eadem::kernels::contraction
