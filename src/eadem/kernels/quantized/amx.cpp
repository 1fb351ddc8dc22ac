#if defined(__x86_64__)
#include "eadem/kernels/amx_tiles.h"
#include "eadem/kernels/quantized/amx-inl.h"

#define EADEM_AMX __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma,f16c,amx-tile,amx-bf16")))

namespace eadem::kernels::quantized {
namespace {

EADEM_AMX void group_product(const std::uint32_t* x, std::ptrdiff_t x_stride, const std::uint32_t* codes, int steps,
                             float* out) {
  const std::ptrdiff_t x_bytes = x_stride * 4;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int i = 0; i < steps; ++i, x += 16, codes += 16 * 32) {
    _tile_loadd(4, x, x_bytes);
    _tile_loadd(5, x + 16 * x_stride, x_bytes);
    _tile_loadd(6, codes, 128);
    _tile_loadd(7, codes + 16, 128);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, out, 64);
  _tile_stored(1, out + 256, 64);
  _tile_stored(2, out + 512, 64);
  _tile_stored(3, out + 768, 64);
}

}  // namespace

void prefill_tiles(const Task& task, std::int64_t begin, std::int64_t end) {
  TileCall::configure_tiles();
  by_tiles<&group_product>(task, begin, end);
}

}  // namespace eadem::kernels::quantized
#endif
