#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/elementwise/compare.cpp"
#include "hwy/foreach_target.h"
// foreach_target comes first.
#include "eadem/kernels/elementwise/loops-inl.h"

#if HWY_ONCE
#include "eadem/kernels/elementwise/elementwise.h"
#include "eadem/kernels/elementwise/table-inl.h"

namespace eadem::kernels {

template <>
inline constexpr bool kSignless<numerics::Equal> = true;
template <>
inline constexpr bool kSignless<numerics::NotEqual> = true;

namespace {
template <class Operation, int operands>
constexpr TileTable kTable = table_of<Operation, operands>();
}

TileFn equal(const Signature& s) {
  return pick_from(kTable<numerics::Equal, 2>, s);
}
TileFn not_equal(const Signature& s) {
  return pick_from(kTable<numerics::NotEqual, 2>, s);
}
TileFn less(const Signature& s) {
  return pick_from(kTable<numerics::Less, 2>, s);
}
TileFn less_equal(const Signature& s) {
  return pick_from(kTable<numerics::LessEqual, 2>, s);
}
TileFn greater(const Signature& s) {
  return pick_from(kTable<numerics::Greater, 2>, s);
}
TileFn greater_equal(const Signature& s) {
  return pick_from(kTable<numerics::GreaterEqual, 2>, s);
}
TileFn is_nan(const Signature& s) {
  return pick_from(kTable<numerics::IsNan, 1>, s);
}
TileFn is_finite(const Signature& s) {
  return pick_from(kTable<numerics::IsFinite, 1>, s);
}
TileFn is_inf(const Signature& s) {
  return pick_from(kTable<numerics::IsInf, 1>, s);
}

// Bits move, so one loop serves all dtypes whose held elements have the same size.
TileFn select(const Signature& s) {
  static constexpr auto table = [] {
    std::array<PerTarget<TileFn>, 9> by_size{};
    by_size[1] = per_target<numerics::Select, std::uint8_t, bool, std::uint8_t, std::uint8_t>();
    by_size[2] = per_target<numerics::Select, std::uint16_t, bool, std::uint16_t, std::uint16_t>();
    by_size[4] = per_target<numerics::Select, std::uint32_t, bool, std::uint32_t, std::uint32_t>();
    by_size[8] = per_target<numerics::Select, std::uint64_t, bool, std::uint64_t, std::uint64_t>();
    return by_size;
  }();
  const DType dtype = s.operands[1].dtype;
  return table[is_16_bit_float(dtype) ? sizeof(float) : size_of(dtype)].pick();
}

}  // namespace eadem::kernels
#endif
