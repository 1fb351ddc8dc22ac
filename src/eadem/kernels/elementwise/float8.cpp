#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/elementwise/float8.cpp"
#include "hwy/foreach_target.h"
// foreach_target comes first.
#include "eadem/kernels/elementwise/loops-inl.h"

#if HWY_ONCE
#include "eadem/kernels/elementwise/float8.h"
#include "eadem/kernels/elementwise/table-inl.h"

namespace eadem::kernels {
namespace {

using numerics::E4M3;
using numerics::E5M2;

template <class Format>
constexpr TileTable decoders() {
  TileTable table{};
  for_each_element_type([&]<class To>(std::type_identity<To>) {
    using Own = std::conditional_t<Float16<To>, float, To>;  // 16-bit elements are held as float, which is exact here
    if constexpr (FloatingElement<To>)
      table[static_cast<std::size_t>(kDTypeOf<To>)] =
          per_target<numerics::FromFloat8<Format, Own>, Own, std::uint8_t>();
  });
  return table;
}

// [format][saturating]
constexpr TileTable kEncoders[2][2] = {
    {table_of<numerics::ToFloat8<E4M3, false>, 1>(), table_of<numerics::ToFloat8<E4M3, true>, 1>()},
    {table_of<numerics::ToFloat8<E5M2, false>, 1>(), table_of<numerics::ToFloat8<E5M2, true>, 1>()}};
constexpr TileTable kDecoders[2] = {decoders<E4M3>(), decoders<E5M2>()};

}  // namespace

TileFn to_float8(DType from, numerics::Float8 format, bool saturating) {
  return kEncoders[static_cast<int>(format)][saturating ? 1 : 0][static_cast<std::size_t>(from)].pick();
}
TileFn from_float8(numerics::Float8 format, DType to) {
  return kDecoders[static_cast<int>(format)][static_cast<std::size_t>(to)].pick();
}

}  // namespace eadem::kernels
#endif
