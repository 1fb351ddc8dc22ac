#include "eadem/kernels/elementwise/elementwise.h"
#include "eadem/kernels/elementwise/held.h"
#include "eadem/kernels/target.h"

namespace eadem::kernels {
namespace {

template <class T, numerics::Function function>
void scalar_loop(const TileArgs& args) {
  for (std::size_t i = 0; i < args.count; ++i)
    static_cast<Held<T>*>(args.out)[i] =
        to_held<T>(numerics::Elementary<function>{}(from_held<T>(static_cast<const Held<T>*>(args.in[0])[i])));
}
template <class T, numerics::Function2 function>
void scalar_loop(const TileArgs& args) {
  for (std::size_t i = 0; i < args.count; ++i)
    static_cast<Held<T>*>(args.out)[i] =
        to_held<T>(numerics::Elementary2<function>{}(from_held<T>(static_cast<const Held<T>*>(args.in[0])[i]),
                                                     from_held<T>(static_cast<const Held<T>*>(args.in[1])[i])));
}

template <class F, int count, class T, int... f>
constexpr std::array<TileFn, count> loops(std::integer_sequence<int, f...>) {
  return {&scalar_loop<T, static_cast<F>(f)>...};
}
template <class F, int count, class T>
constexpr std::array<TileFn, count> kLoops = loops<F, count, T>(std::make_integer_sequence<int, count>());

template <class F, int count>
TileFn pick(F function, DType dtype) {
  record_ran(Target::scalar);
  return visit_floating(
      dtype, [&]<class T>(std::type_identity<T>) { return kLoops<F, count, T>[static_cast<std::size_t>(function)]; });
}

}  // namespace

TileFn elementary(numerics::Function function, DType dtype) {
  return pick<numerics::Function, numerics::kFunctionCount>(function, dtype);
}
TileFn elementary(numerics::Function2 function, DType dtype) {
  return pick<numerics::Function2, numerics::kFunction2Count>(function, dtype);
}

}  // namespace eadem::kernels
