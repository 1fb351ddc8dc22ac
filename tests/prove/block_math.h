#pragma once

#include <cmath>

#if defined(EADEM_HAVE_MVEC)
#include <immintrin.h>
#endif

// The C library's double functions over blocks: glibc's vector ones (libmvec, at most 4 ulp) where the CPU has AVX-512,
// else the scalar ones.

namespace eadem::prove {

inline constexpr int kBlock = 512;

/// Up to kBlock doubles.
struct Block {
  alignas(64) double v[kBlock];
  int count = 0;
  double& operator[](int i) { return v[i]; }
  double operator[](int i) const { return v[i]; }
};

template <class F>
Block map(const Block& a, F f) {
  Block r;
  r.count = a.count;
  for (int i = 0; i < a.count; ++i) r[i] = f(a[i]);
  return r;
}
template <class F>
Block map(const Block& a, const Block& b, F f) {
  Block r;
  r.count = a.count;
  for (int i = 0; i < a.count; ++i) r[i] = f(a[i], b[i]);
  return r;
}

#if defined(EADEM_HAVE_MVEC)
inline bool has_avx512() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
  return has;
}
using VectorFunction = __m512d (*)(__m512d);
template <VectorFunction f>
[[gnu::target("avx512f")]] void map_vector(const Block& a, Block& r) {
  int i = 0;
  for (; i + 8 <= a.count; i += 8) _mm512_store_pd(r.v + i, f(_mm512_load_pd(a.v + i)));
}
#define EADEM_BLOCK_FUNCTION(name)                                            \
  extern "C" [[gnu::target("avx512f")]] __m512d _ZGVeN8v_##name(__m512d);     \
  inline Block name(const Block& a) {                                         \
    Block r;                                                                  \
    r.count = a.count;                                                        \
    int done = 0;                                                             \
    if (has_avx512()) map_vector<_ZGVeN8v_##name>(a, r), done = a.count & ~7; \
    for (int i = done; i < a.count; ++i) r[i] = std::name(a[i]);              \
    return r;                                                                 \
  }
#else
#define EADEM_BLOCK_FUNCTION(name)                        \
  inline Block name(const Block& a) {                     \
    return map(a, [](double x) { return std::name(x); }); \
  }
#endif

EADEM_BLOCK_FUNCTION(cbrt)
EADEM_BLOCK_FUNCTION(exp)
EADEM_BLOCK_FUNCTION(exp2)
EADEM_BLOCK_FUNCTION(expm1)
EADEM_BLOCK_FUNCTION(log)
EADEM_BLOCK_FUNCTION(log2)
EADEM_BLOCK_FUNCTION(log10)
EADEM_BLOCK_FUNCTION(log1p)
EADEM_BLOCK_FUNCTION(sin)
EADEM_BLOCK_FUNCTION(cos)
EADEM_BLOCK_FUNCTION(tan)
EADEM_BLOCK_FUNCTION(asin)
EADEM_BLOCK_FUNCTION(acos)
EADEM_BLOCK_FUNCTION(atan)
EADEM_BLOCK_FUNCTION(sinh)
EADEM_BLOCK_FUNCTION(cosh)
EADEM_BLOCK_FUNCTION(tanh)
EADEM_BLOCK_FUNCTION(asinh)
EADEM_BLOCK_FUNCTION(acosh)
EADEM_BLOCK_FUNCTION(atanh)
EADEM_BLOCK_FUNCTION(erf)
EADEM_BLOCK_FUNCTION(erfc)
#undef EADEM_BLOCK_FUNCTION

}  // namespace eadem::prove
