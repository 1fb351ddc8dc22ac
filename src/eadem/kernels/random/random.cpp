#include "eadem/kernels/random/random.h"

#include <algorithm>
#include <array>

#include "eadem/base/parallel.h"
#include "eadem/kernels/elementwise/elementwise.h"
#include "eadem/kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/random/random.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<std::uint32_t>;
using V = hn::Vec<D>;

struct Blocks {
  V x, y;
};

template <int rotation>
HWY_INLINE void mix(V& x, V& y) {
  x = hn::Add(x, y);
  y = hn::Xor(hn::RotateRight<32 - rotation>(y), x);
}

// Threefry-2x32 of the counters (high, low + lane).
HWY_INLINE Blocks threefry(const numerics::Key key, std::uint32_t high, V low) {
  const D d;
  const V schedule[3] = {hn::Set(d, key.high), hn::Set(d, key.low), hn::Set(d, key.high ^ key.low ^ 0x1bd11bda)};
  V x = hn::Add(hn::Set(d, high), schedule[0]), y = hn::Add(low, schedule[1]);
  const auto inject = [&](std::uint32_t group) HWY_ATTR {
    x = hn::Add(x, schedule[(group + 1) % 3]);
    y = hn::Add(y, hn::Add(schedule[(group + 2) % 3], hn::Set(d, group + 1)));
  };
  const auto even = [&]() HWY_ATTR { mix<13>(x, y), mix<15>(x, y), mix<26>(x, y), mix<6>(x, y); };
  const auto odd = [&]() HWY_ATTR { mix<17>(x, y), mix<29>(x, y), mix<16>(x, y), mix<24>(x, y); };
  even(), inject(0), odd(), inject(1), even(), inject(2), odd(), inject(3), even(), inject(4);
  return {x, y};
}

// Whole vectors; `out` has room for them. The low counters of [begin, begin + count) do not wrap.
void xored_blocks(numerics::Key key, std::uint64_t begin, std::size_t count, std::uint32_t* out) {
  const D d;
  const auto high = static_cast<std::uint32_t>(begin >> 32), low = static_cast<std::uint32_t>(begin);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const Blocks blocks = threefry(key, high, hn::Iota(d, low + static_cast<std::uint32_t>(i)));
    hn::StoreU(hn::Xor(blocks.x, blocks.y), d, out + i);
  }
}
void paired_blocks(numerics::Key key, std::uint64_t begin, std::size_t count, std::uint64_t* out) {
  const D d;
  const auto high = static_cast<std::uint32_t>(begin >> 32), low = static_cast<std::uint32_t>(begin);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const Blocks blocks = threefry(key, high, hn::Iota(d, low + static_cast<std::uint32_t>(i)));
    hn::StoreInterleaved2(blocks.y, blocks.x, d, reinterpret_cast<std::uint32_t*>(out + i));  // little-endian
  }
}

// max(low, fma(f, range, low)) with f the leading bits as a fraction, in place.
void uniform_f32(const std::uint32_t* bits, std::size_t count, float low, float range, float* out) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto raw = hn::Or(hn::ShiftRight<9>(hn::LoadU(du, bits + i)), hn::Set(du, 0x3f800000u));
    const auto f = hn::Sub(hn::BitCast(d, raw), hn::Set(d, 1.0f));
    hn::StoreU(hn::Max(hn::MulAdd(f, hn::Set(d, range), hn::Set(d, low)), hn::Set(d, low)), d, out + i);
  }
}
void uniform_f64(const std::uint64_t* bits, std::size_t count, double low, double range, double* out) {
  const hn::ScalableTag<double> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto raw = hn::Or(hn::ShiftRight<12>(hn::LoadU(du, bits + i)), hn::Set(du, 0x3ff0000000000000u));
    const auto f = hn::Sub(hn::BitCast(d, raw), hn::Set(d, 1.0));
    hn::StoreU(hn::Max(hn::MulAdd(f, hn::Set(d, range), hn::Set(d, low)), hn::Set(d, low)), d, out + i);
  }
}
#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels {
namespace {

using numerics::Key;

constexpr std::size_t kTile = kTileElements;  // a power of two, so that no tile crosses a multiple of 2^32
constexpr std::int64_t kGrain = 32;           // tiles a thread takes at least

void xored_blocks(Key key, std::uint64_t begin, std::size_t count, std::uint32_t* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = numerics::random_bits<std::uint32_t>(key, begin + i);
}
void paired_blocks(Key key, std::uint64_t begin, std::size_t count, std::uint64_t* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = numerics::random_bits<std::uint64_t>(key, begin + i);
}
void uniform_f32(const std::uint32_t* bits, std::size_t count, float low, float range, float* out) {
  for (std::size_t i = 0; i < count; ++i)
    out[i] = std::max(low, std::fma(static_cast<float>(bits[i] >> 9) * 0x1p-23f, range, low));
}
void uniform_f64(const std::uint64_t* bits, std::size_t count, double low, double range, double* out) {
  for (std::size_t i = 0; i < count; ++i)
    out[i] = std::max(low, std::fma(static_cast<double>(bits[i] >> 12) * 0x1p-52, range, low));
}

constexpr auto kXored = EADEM_PER_TARGET(xored_blocks, xored_blocks);
constexpr auto kPaired = EADEM_PER_TARGET(paired_blocks, paired_blocks);
constexpr auto kUniformF32 = EADEM_PER_TARGET(uniform_f32, uniform_f32);
constexpr auto kUniformF64 = EADEM_PER_TARGET(uniform_f64, uniform_f64);

// A tile of T in L1, with room for whole vectors.
template <class T>
using Tile = std::array<T, kTile>;

// Calls tile(begin, count, out) for all tiles; the output elements are of type T.
template <class T, class F>
void for_tiles(void* out, std::int64_t count, const F& tile) {
  const std::int64_t tiles = (count + static_cast<std::int64_t>(kTile) - 1) / static_cast<std::int64_t>(kTile);
  parallel_for(tiles, kGrain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t begin = i * static_cast<std::int64_t>(kTile);
      const auto size = std::min(kTile, static_cast<std::size_t>(count - begin));
      tile(static_cast<std::uint64_t>(begin), size, static_cast<T*>(out) + begin);
    }
  });
}

// Uniforms of type T (float or double) of one tile.
template <class T>
struct UniformTile {
  T low, range;
  decltype(kXored.pick()) xored = kXored.pick();
  decltype(kPaired.pick()) paired = kPaired.pick();
  decltype(kUniformF32.pick()) f32 = kUniformF32.pick();
  decltype(kUniformF64.pick()) f64 = kUniformF64.pick();

  void operator()(Key key, std::uint64_t begin, std::size_t count, Tile<T>& out) const {
    if constexpr (sizeof(T) == 4) {
      Tile<std::uint32_t> bits;
      xored(key, begin, count, bits.data());
      f32(bits.data(), count, low, range, out.data());
    } else {
      Tile<std::uint64_t> bits;
      paired(key, begin, count, bits.data());
      f64(bits.data(), count, low, range, out.data());
    }
  }
};

}  // namespace

void random_bits(Key key, DType type, void* out, std::int64_t count) {
  if (type == DType::u64) {
    const auto paired = kPaired.pick();
    return for_tiles<std::uint64_t>(out, count, [&](std::uint64_t begin, std::size_t size, std::uint64_t* to) {
      Tile<std::uint64_t> bits;
      paired(key, begin, size, bits.data());
      std::copy_n(bits.data(), size, to);
    });
  }
  const auto xored = kXored.pick();
  const auto narrow = [&]<class T>(std::type_identity<T>) {
    for_tiles<T>(out, count, [&](std::uint64_t begin, std::size_t size, T* to) {
      Tile<std::uint32_t> bits;
      xored(key, begin, size, bits.data());
      for (std::size_t i = 0; i < size; ++i) to[i] = static_cast<T>(bits[i]);
    });
  };
  if (type == DType::u8)
    narrow(std::type_identity<std::uint8_t>{});
  else if (type == DType::u16)
    narrow(std::type_identity<std::uint16_t>{});
  else
    narrow(std::type_identity<std::uint32_t>{});
}

void random_uniform(Key key, DType type, double low, double high, void* out, std::int64_t count) {
  visit_floating(type, [&]<class T>(std::type_identity<T>) {
    using W = numerics::Wide<T>;
    const T least = numerics::round_to<T>(low), most = numerics::round_to<T>(high);
    const W lowest = numerics::widen(least);
    const W range = numerics::widen(numerics::round_to<T>(numerics::widen(most) - lowest));
    if constexpr (Float16<T>) {
      const auto xored = kXored.pick();
      for_tiles<T>(out, count, [&](std::uint64_t begin, std::size_t size, T* to) {
        Tile<std::uint32_t> bits;
        xored(key, begin, size, bits.data());
        constexpr int used = numerics::detail::kSignificand<T>;
        for (std::size_t i = 0; i < size; ++i) {
          const std::uint32_t lead =
              std::same_as<T, bfloat16> ? (bits[i] & 0xff) >> (8 - used) : (bits[i] & 0xffff) >> (16 - used);
          const float f = static_cast<float>(lead) * (std::same_as<T, bfloat16> ? 0x1p-7f : 0x1p-10f);
          const T value = numerics::round_to<T>(numerics::widen(numerics::round_to<T>(f * range)) + lowest);
          to[i] = numerics::widen(value) > lowest ? value : least;
        }
      });
    } else {
      const UniformTile<T> uniform{lowest, range};
      for_tiles<T>(out, count, [&](std::uint64_t begin, std::size_t size, T* to) {
        Tile<T> values;
        uniform(key, begin, size, values);
        std::copy_n(values.data(), size, to);
      });
    }
  });
}

void random_normal(Key key, DType type, void* out, std::int64_t count) {
  visit_floating(type, [&]<class T>(std::type_identity<T>) {
    using W = numerics::Wide<T>;
    const W least = std::same_as<W, double> ? static_cast<W>(-1 + 0x1p-53) : static_cast<W>(-1 + 0x1p-24);
    const UniformTile<W> uniform{least, static_cast<W>(1 - least)};
    const TileFn erfinv = elementary(numerics::Function::sqrt2_erfinv, kDTypeOf<W>);
    for_tiles<T>(out, count, [&](std::uint64_t begin, std::size_t size, T* to) {
      Tile<W> values;
      uniform(key, begin, size, values);
      erfinv({.in = {values.data()}, .out = values.data(), .count = size});
      for (std::size_t i = 0; i < size; ++i) to[i] = numerics::round_to<T>(values[i]);
    });
  });
}

}  // namespace eadem::kernels
#endif
