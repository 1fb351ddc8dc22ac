#include "eadem/kernels/amx_tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace eadem::kernels {
namespace {

// The layout that _tile_loadconfig reads: palette 1, and 16 rows of 64 bytes for registers 0..7.
struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1, start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfiguration) == 64);

__attribute__((target("amx-tile"))) void configure() {
  const TileConfiguration configuration;
  _tile_loadconfig(&configuration);
}
__attribute__((target("amx-tile"))) void release() {
  _tile_release();
}

}  // namespace

thread_local constinit std::uint64_t TileCall::configured_in = 0;

void TileCall::load(std::uint64_t call) {
  configure();
  configured_in = call;
}

TileCall::~TileCall() {
  if (configured_in == 0) return;
  release();
  configured_in = 0;
}

}  // namespace eadem::kernels

#else

namespace eadem::kernels {
TileCall::~TileCall() {}
}  // namespace eadem::kernels

#endif
