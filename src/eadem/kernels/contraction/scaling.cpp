#include "eadem/kernels/contraction/scaling.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define EADEM_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma")))

namespace eadem::kernels::contraction {
namespace {

// 2^exponent, of the normal numbers.
EADEM_AVX512 __m512 power_of_two(int exponent) {
  return _mm512_set1_ps(std::bit_cast<float>((exponent + 127) << 23));
}

}  // namespace

// Exponents are raised as integers; a subnormal is its significand times 2^(shift - 133), of which the shift is 7 at
// least. So no arithmetic meets a subnormal, which would be slow.
EADEM_AVX512 void scale_bf16(const void* packed, std::size_t bytes, int shift, void* out) {
  const auto* from = static_cast<const std::byte*>(packed);
  auto* to = static_cast<std::byte*>(out);
  const __m512i below_sign = _mm512_set1_epi16(0x7fff), least_normal = _mm512_set1_epi16(0x80);
  const __m512i raise = _mm512_set1_epi16(static_cast<short>(shift << 7)), low = _mm512_set1_epi32(0xffff);
  for (std::size_t at = 0; at < bytes; at += 64) {
    const __m512i x = _mm512_loadu_si512(from + at), magnitude = _mm512_and_si512(x, below_sign);
    const __mmask32 normal = _mm512_cmpge_epu16_mask(magnitude, least_normal);
    __m512i y = _mm512_mask_add_epi16(x, normal, x, raise);  // zeros stay
    const __mmask32 subnormal = _kandn_mask32(normal, _mm512_test_epi16_mask(magnitude, magnitude));
    if (subnormal != 0) {
      const __m512 unit = power_of_two(shift - 133);
      const auto floats = [&](__m512i significands) EADEM_AVX512 {
        return _mm512_castps_si512(_mm512_mul_ps(_mm512_cvtepi32_ps(significands), unit));
      };
      const __m512i even = floats(_mm512_and_si512(magnitude, low)), odd = floats(_mm512_srli_epi32(magnitude, 16));
      const __m512i both = _mm512_or_si512(_mm512_srli_epi32(even, 16), _mm512_andnot_si512(low, odd));
      const __m512i sign = _mm512_andnot_si512(below_sign, x);
      y = _mm512_mask_mov_epi16(y, subnormal, _mm512_or_si512(both, sign));
    }
    _mm512_storeu_si512(to + at, y);
  }
}

EADEM_AVX512 void unscale_sums(const void* left, void* sums, int shift, std::int64_t count) {
  const auto* before = static_cast<const float*>(left);
  auto* out = static_cast<float*>(sums);
  const __m512 back = power_of_two(-shift);
  for (std::int64_t i = 0; i < count; i += 16) {
    const __m512 x = _mm512_load_ps(out + i);
    // The product is exact, so the FMA is the sum, rounded once.
    _mm512_store_ps(out + i, before ? _mm512_fmadd_ps(x, back, _mm512_load_ps(before + i)) : _mm512_mul_ps(x, back));
  }
}

}  // namespace eadem::kernels::contraction
#endif
