#include "eadem/numerics/random.h"

#include <bit>

namespace eadem::numerics {

Key threefry2x32(Key key, Key counter) {
  constexpr int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const std::uint32_t schedule[3] = {key.high, key.low, key.high ^ key.low ^ 0x1bd11bda};
  std::uint32_t x = counter.high + schedule[0], y = counter.low + schedule[1];
  for (std::uint32_t group = 0; group < 5; ++group) {
    for (const int rotation : rotations[group % 2]) {
      x += y;
      y = std::rotl(y, rotation) ^ x;
    }
    x += schedule[(group + 1) % 3];
    y += schedule[(group + 2) % 3] + group + 1;
  }
  return {x, y};
}

}  // namespace eadem::numerics
