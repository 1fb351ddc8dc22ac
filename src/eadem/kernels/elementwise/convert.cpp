#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/elementwise/convert.cpp"
#include "hwy/foreach_target.h"
// foreach_target comes first.
#include "eadem/kernels/elementwise/loops-inl.h"

#if HWY_ONCE
#include "eadem/kernels/elementwise/elementwise.h"
#include "eadem/kernels/elementwise/table-inl.h"

namespace eadem::kernels {
namespace {

// Integers convert to integers, and to bool, by their bits: the sign of the result's type is irrelevant, and that of
// the operand's too unless the result is wider.
template <class From, class To>
constexpr PerTarget<TileFn> converter() {
  if constexpr (std::integral<From> && IntegerElement<To>) {
    using Result = std::make_unsigned_t<To>;
    if constexpr (std::same_as<From, bool>)
      return per_target<numerics::Convert<Result>, Result, std::uint8_t>();
    else if constexpr (sizeof(To) <= sizeof(From))
      return per_target<numerics::Convert<Result>, Result, std::make_unsigned_t<From>>();
    else
      return per_target<numerics::Convert<Result>, Result, From>();
  } else if constexpr (std::same_as<From, bool>) {
    return per_target<numerics::Convert<To>, To, std::uint8_t>();
  } else if constexpr (IntegerElement<From> && std::same_as<To, bool>) {
    return per_target<numerics::Convert<To>, To, std::make_unsigned_t<From>>();
  } else if constexpr (Float16<From> && !FloatingElement<To>) {
    return converter<float, To>();  // held alike
  } else {
    return per_target<numerics::Convert<To>, To, From>();
  }
}

template <class From>
constexpr TileTable table_from() {
  TileTable table{};
  for_each_element_type(
      [&]<class To>(std::type_identity<To>) { table[static_cast<std::size_t>(kDTypeOf<To>)] = converter<From, To>(); });
  return table;
}

constexpr auto kTables = [] {
  std::array<TileTable, kDTypeCount> tables{};
  for_each_element_type([&]<class From>(std::type_identity<From>) {
    tables[static_cast<std::size_t>(kDTypeOf<From>)] = table_from<From>();
  });
  return tables;
}();

}  // namespace

TileFn convert(DType from, DType to) {
  return kTables[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)].pick();
}

}  // namespace eadem::kernels
#endif
