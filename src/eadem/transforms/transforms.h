#pragma once

#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "eadem/array/trace.h"
#include "eadem/array/tree.h"
#include "eadem/ops/ops.h"

// Transforms of functions: they take a function on trees of arrays (see tree.h) and give another. They nest in any
// order, run at once on concrete arrays, and are recorded where an outer transform is recording. The laws: scan and the
// loop written out have the same bits, forward and backward, and so have their derivatives of every order (a gradient
// that is differentiated again is recorded with its scans and remats written out: its program grows with the length);
// vmap of any of these has those of each slice. But a gradient of a vmap adds over the batch, and where a scan's
// operands are shared by the batch, not in the order of the loop (docs/numerics.md).

namespace eadem {

/// Which values of a rematerialised function are kept for its gradient; see checkpoint_policies.
struct RematPolicy {
  std::string name = "nothing_saveable";
  std::vector<std::string> names = {};
};

namespace detail {

using ArraysFunction = std::function<Arrays(const Arrays&)>;

/// The gradient of f's first output, which must be a floating scalar; `outputs` gets all of them.
Arrays grad_arrays(std::string who, const ArraysFunction& f, const Arrays& inputs, Arrays& outputs);
struct VjpState;  // a forward pass that can be reversed
std::shared_ptr<VjpState> begin_vjp(std::string who, const ArraysFunction& f, const Arrays& inputs, Arrays& outputs);
/// Cotangents of all outputs to those of the inputs; an absent one is a structural zero.
Arrays finish_vjp(const VjpState&, const std::vector<std::optional<Array>>& cotangents);
std::pair<Arrays, Arrays> jvp_arrays(std::string who, const ArraysFunction& f, const Arrays& inputs,
                                     const Arrays& tangents);
Arrays vmap_arrays(std::string who, const ArraysFunction& f, const Arrays& inputs,
                   const std::vector<std::optional<std::int64_t>>& in_axes, std::int64_t out_axis);
Arrays scan_arrays(std::string who, const ArraysFunction& f, const Arrays& carries, const Arrays& slices,
                   std::int64_t length, bool reverse);
Arrays while_arrays(std::string who, const ArraysFunction& condition, const ArraysFunction& body,
                    const Arrays& carries);
Arrays cond_arrays(std::string who, const Array& index, const std::vector<ArraysFunction>& branches,
                   const Arrays& operands);
Arrays remat_arrays(std::string who, const ArraysFunction& f, const Arrays& inputs, const RematPolicy& policy);
Arrays custom_vjp_arrays(std::string who, const ArraysFunction& f, const ArraysFunction& forward,
                         const ArraysFunction& backward, const Arrays& inputs, std::size_t joined = 0,
                         const ArraysFunction& join = nullptr);
struct AddedUp {};  // what cotangents are without a `join`
/// begin, begin + 1, ...: i64[count].
Array counted_from(std::int64_t begin, std::int64_t count);
/// i64: 1 where the bool scalar holds; throws TypeError for another type.
Array index_of_predicate(const Array& predicate);
/// The type's name as the compiler writes it; of a lambda, where it stands.
template <class F>
std::string_view type_name() {
  constexpr std::string_view text = __PRETTY_FUNCTION__;
  constexpr std::size_t begin = text.find("F = ") + 4, end = std::min(text.find(';', begin), text.rfind(']'));
  return text.substr(begin, end - begin);
}

template <class F>
std::string name_of_function(std::string_view transform) {
  return std::string(transform) + " of " + std::string(type_name<F>());
}

}  // namespace detail

/// The value of f and its gradient with respect to argument `argument`, whose type the gradient has (integer leaves get
/// zeros): f gives a floating scalar. Throws ShapeError or TypeError otherwise, and TypeError where the argument holds
/// no floating array.
template <std::size_t argument = 0, class F>
auto value_and_grad(F f) {
  return [f](const auto&... arguments) {
    const auto& chosen = std::get<argument>(std::tie(arguments...));
    using Chosen = std::remove_cvref_t<decltype(chosen)>;
    Arrays outputs;
    const auto call = [&](const Arrays& values) {
      std::tuple<std::remove_cvref_t<decltype(arguments)>...> all(arguments...);
      std::get<argument>(all) = with_leaves(chosen, values);
      return Arrays{std::apply(f, all)};
    };
    const Arrays gradient = detail::grad_arrays(detail::name_of_function<F>("grad"), call, leaves(chosen), outputs);
    return std::pair<Array, Chosen>(outputs[0], with_leaves(chosen, gradient));
  };
}

/// The gradient of f, as value_and_grad gives it.
template <std::size_t argument = 0, class F>
auto grad(F f) {
  return [g = value_and_grad<argument>(f)](const auto&... arguments) { return g(arguments...).second; };
}

/// For f giving (loss, auxiliary results): ((loss, auxiliary), gradient).
template <std::size_t argument = 0, class F>
auto value_and_grad_aux(F f) {
  return [f](const auto&... arguments) {
    const auto& chosen = std::get<argument>(std::tie(arguments...));
    using Result = std::remove_cvref_t<decltype(f(arguments...))>;
    using Aux = std::tuple_element_t<1, Result>;
    std::optional<Aux> traced;
    Arrays outputs;
    const auto call = [&](const Arrays& values) {
      std::tuple<std::remove_cvref_t<decltype(arguments)>...> all(arguments...);
      std::get<argument>(all) = with_leaves(chosen, values);
      auto [loss, aux] = std::apply(f, all);
      Arrays results{loss};
      for (const Array& leaf : leaves(aux)) results.push_back(leaf);
      traced = aux;
      return results;
    };
    const Arrays gradient = detail::grad_arrays(detail::name_of_function<F>("grad"), call, leaves(chosen), outputs);
    Aux aux = with_leaves(*traced, std::span<const Array>(outputs).subspan(1));
    return std::pair(Result(outputs[0], std::move(aux)), with_leaves(chosen, gradient));
  };
}

/// f's value at `primals` and the function from a cotangent of it to those of the primals.
template <class F, class... P>
auto vjp(F f, const P&... primals) {
  using Result = std::remove_cvref_t<decltype(f(primals...))>;
  const std::tuple<P...> all(primals...);
  const Arrays inputs = leaves(all);
  std::optional<Result> traced;
  Arrays outputs;
  const auto state = detail::begin_vjp(
      detail::name_of_function<F>("vjp"),
      [&](const Arrays& values) {
        traced = std::apply(f, with_leaves(all, values));
        return leaves(*traced);
      },
      inputs, outputs);
  return std::pair(with_leaves(*traced, outputs), [state, all](const Result& cotangent) {
    std::vector<std::optional<Array>> cotangents;
    for (const Array& leaf : leaves(cotangent)) cotangents.emplace_back(leaf);
    return with_leaves(all, detail::finish_vjp(*state, cotangents));
  });
}

namespace detail {

template <class F, class... P>
auto jvp_of(F f, const std::tuple<P...>& primals, const std::tuple<P...>& tangents) {
  using Result = std::remove_cvref_t<decltype(std::apply(f, primals))>;
  std::optional<Result> traced;
  const auto [outputs, directions] = detail::jvp_arrays(
      detail::name_of_function<F>("jvp"),
      [&](const Arrays& values) {
        traced = std::apply(f, with_leaves(primals, values));
        return leaves(*traced);
      },
      leaves(primals), leaves(tangents));
  return std::pair(with_leaves(*traced, outputs), with_leaves(*traced, directions));
}

// What f takes when it does not take each of P: all of them as one.
template <class F, class... P>
auto whole_of(const P&... each) {
  if constexpr (std::is_invocable_v<F&, const std::tuple<P...>&>) {
    return std::tuple<P...>(each...);
  } else {
    static_assert(sizeof...(P) == 2, "jvp: f does not take these primals");
    return std::pair<P...>(each...);
  }
}

}  // namespace detail

/// f's value at the primals and its directional derivative along the tangents, which have the primals' types. As in C++
/// `std::tuple(x)` of a pair or a tuple x is x's elements, an f that takes only the whole gets the whole.
template <class F, class... P>
auto jvp(F f, const std::tuple<P...>& primals, const std::tuple<P...>& tangents) {
  if constexpr (std::is_invocable_v<F&, const P&...>) {
    return detail::jvp_of(f, primals, tangents);
  } else {
    const auto whole = [](const P&... each) { return detail::whole_of<F>(each...); };
    using Whole = decltype(std::apply(whole, primals));
    return detail::jvp_of(f, std::tuple<Whole>(std::apply(whole, primals)),
                          std::tuple<Whole>(std::apply(whole, tangents)));
  }
}

/// Over which axis of each argument vmap maps: one for all its leaves, nullopt for an argument that is not mapped.
using InAxes = std::vector<std::optional<std::int64_t>>;

/// f over a batch: slices of the arguments along `in_axes` (default: axis 0 of each), results stacked along `out_axis`.
/// Every slice has the bits of f on it alone. Throws ShapeError where the arguments' extents disagree.
template <class F>
auto vmap(F f, InAxes in_axes = {}, std::int64_t out_axis = 0) {
  return [f, in_axes, out_axis](const auto&... arguments) {
    using Result = std::remove_cvref_t<decltype(f(arguments...))>;
    const std::string who = detail::name_of_function<F>("vmap");
    if (!in_axes.empty() && in_axes.size() != sizeof...(arguments))
      fail<ValueError>("[{}] in_axes has {} entries for {} arguments", who, in_axes.size(), sizeof...(arguments));
    const std::tuple<std::remove_cvref_t<decltype(arguments)>...> all(arguments...);
    std::vector<std::optional<std::int64_t>> axes;
    std::size_t which = 0;
    const auto add = [&](const auto& argument) {
      const std::optional<std::int64_t> axis = in_axes.empty() ? std::optional<std::int64_t>(0) : in_axes[which];
      axes.insert(axes.end(), leaves(argument).size(), axis);
      ++which;
    };
    (add(arguments), ...);
    std::optional<Result> traced;
    const Arrays results = detail::vmap_arrays(
        who,
        [&](const Arrays& values) {
          traced = std::apply(f, with_leaves(all, values));
          return leaves(*traced);
        },
        leaves(all), axes, out_axis);
    return with_leaves(*traced, results);
  };
}

struct ScanOptions {
  std::optional<std::int64_t> length = {};  ///< needed only when there are no slices
  bool reverse = false;                     ///< from the last slice to the first; results keep their places
};

/// A loop with a carry: (carry, ys) of `carry, y = f(carry, x)` for x the slices of xs' leaves along axis 0, ys the y
/// stacked. Its bits are the written loop's. Throws TypeError where the carry changes its type.
template <class F, class Carry, class Xs>
auto scan(F f, const Carry& carry, const Xs& xs, ScanOptions options = {}) {
  using Y = std::tuple_element_t<1, std::remove_cvref_t<decltype(f(carry, xs))>>;
  const Arrays initial = leaves(carry), slices = leaves(xs);
  const std::string who = detail::name_of_function<F>("scan");
  std::int64_t length = options.length.value_or(0);
  if (slices.empty() && !options.length) fail<ValueError>("[{}] needs a length, as it has no slices", who);
  for (const Array& slice : slices) {
    if (slice.rank() == 0) fail<ShapeError>("[{}] slices need an axis to go along, got {}", who, slice.type());
    if (!options.length && &slice == &slices[0]) length = slice.shape()[0];
    if (slice.shape()[0] != length)
      fail<ShapeError>("[{}] has length {}, a source of slices is {}", who, length, slice.type());
  }
  std::optional<Y> traced;
  const Arrays results = detail::scan_arrays(
      who,
      [&](const Arrays& values) {
        const auto [next, y] = f(with_leaves(carry, std::span(values).first(initial.size())),
                                 with_leaves(xs, std::span(values).subspan(initial.size())));
        Arrays outputs = leaves(next);
        if (outputs.size() != initial.size())
          fail<TypeError>("[{}] the carry has {} arrays before an iteration and {} after it", who, initial.size(),
                          outputs.size());
        for (const Array& leaf : leaves(y)) outputs.push_back(leaf);
        traced = y;
        return outputs;
      },
      initial, slices, length, options.reverse);
  return std::pair(with_leaves(carry, std::span(results).first(initial.size())),
                   with_leaves(*traced, std::span(results).subspan(initial.size())));
}

/// f on each slice of xs' leaves along axis 0, one after the other, stacked: vmap's bits in less memory.
template <class F, class Xs>
auto map(F f, const Xs& xs) {
  return scan([f](std::tuple<>, const Xs& x) { return std::pair(std::tuple<>(), f(x)); }, std::tuple<>(), xs).second;
}

/// The carry after `carry = body(carry)` while condition(carry), a bool scalar, holds. Forward mode only.
template <class Condition, class Body, class Carry>
Carry while_loop(Condition condition, Body body, const Carry& carry) {
  return with_leaves(
      carry, detail::while_arrays(
                 detail::name_of_function<Body>("while_loop"),
                 [&](const Arrays& values) { return Arrays{condition(with_leaves(carry, values))}; },
                 [&](const Arrays& values) { return leaves(body(with_leaves(carry, values))); }, leaves(carry)));
}

/// The carry after `carry = body(i, carry)` for i in [begin, end), an i64 scalar.
template <class Body, class Carry>
Carry fori_loop(std::int64_t begin, std::int64_t end, Body body, const Carry& carry) {
  const Array indices = detail::counted_from(begin, std::max<std::int64_t>(end - begin, 0));
  return scan([&](const Carry& c, const Array& i) { return std::pair(Carry(body(i, c)), std::tuple<>()); }, carry,
              indices)
      .first;
}

/// branches[index](operands...), the index clamped into range; only that branch runs. All must give the same types.
template <class... Branch, class... T>
auto switch_case(const Array& index, const std::tuple<Branch...>& branches, const T&... operands) {
  using Result = std::remove_cvref_t<decltype(std::get<0>(branches)(operands...))>;
  const std::tuple<T...> all(operands...);
  std::optional<Result> traced;
  std::vector<detail::ArraysFunction> functions;
  std::apply(
      [&](const Branch&... branch) {
        (functions.push_back([&all, &traced, &branch](const Arrays& values) {
          traced = std::apply(branch, with_leaves(all, values));
          return leaves(*traced);
        }),
         ...);
      },
      branches);
  const Arrays results =
      detail::cond_arrays(detail::name_of_function<std::tuple<Branch...>>("cond"), index, functions, leaves(all));
  return with_leaves(*traced, results);
}

/// yes(operands...) where the bool scalar `predicate` holds, else no(operands...); only that one runs.
template <class Yes, class No, class... T>
auto cond(const Array& predicate, Yes yes, No no, const T&... operands) {
  return switch_case(detail::index_of_predicate(predicate), std::tuple<No, Yes>(no, yes), operands...);
}

/// The policies of `remat`, named as JAX's. Arguments and results are kept in any case; a loop or branch inside is one
/// equation.
namespace checkpoint_policies {
/// Computes everything again.
inline RematPolicy nothing_saveable() {
  return {"nothing_saveable"};
}
/// Computes nothing again, as without remat.
inline RematPolicy everything_saveable() {
  return {"everything_saveable"};
}
/// Keeps the results of matmul, linear, dot_general and quantized products.
inline RematPolicy dots_saveable() {
  return {"dots_saveable"};
}
/// Keeps those of products without batch axes: of activations by weights, not of attention's scores.
inline RematPolicy dots_with_no_batch_dims_saveable() {
  return {"dots_with_no_batch_dims_saveable"};
}
/// Keeps what checkpoint_name(x, name) names so.
inline RematPolicy save_only_these_names(std::vector<std::string> names) {
  return {"save_only_these_names", std::move(names)};
}
}  // namespace checkpoint_policies

/// f, whose values, but for those that the policy keeps, are computed again for its gradient: less memory, the same
/// bits. Throws ValueError for a policy that does not exist.
template <class F>
auto remat(F f, RematPolicy policy = {}) {
  return [f, policy](const auto&... arguments) {
    using Result = std::remove_cvref_t<decltype(f(arguments...))>;
    const std::tuple<std::remove_cvref_t<decltype(arguments)>...> all(arguments...);
    std::optional<Result> traced;
    const Arrays results = detail::remat_arrays(
        detail::name_of_function<F>("remat"),
        [&](const Arrays& values) {
          traced = std::apply(f, with_leaves(all, values));
          return leaves(*traced);
        },
        leaves(all), policy);
    return with_leaves(*traced, results);
  };
}

/// f with a reverse rule of its own: forward(arguments...) gives (f's result, residuals), backward(residuals,
/// cotangent) gives a tuple of the arguments' cotangents. Those that the last argument gets from several uses are
/// added, or are joined by join(one, other), whose order must not matter and to which zeros are nothing; then the last
/// argument is for functions of this kind alone (other uses would be joined as well), vmap must batch all of it or
/// nothing (ValueError), and where join chooses between equals it has no derivatives.
template <class F, class Forward, class Backward, class Join = detail::AddedUp>
auto custom_vjp(F f, Forward forward, Backward backward, Join join = {}) {
  return [=](const auto&... arguments) {
    using Result = std::remove_cvref_t<decltype(f(arguments...))>;
    using Residuals = std::tuple_element_t<1, std::remove_cvref_t<decltype(forward(arguments...))>>;
    const std::tuple<std::remove_cvref_t<decltype(arguments)>...> all(arguments...);
    const auto& last = std::get<sizeof...(arguments) - 1>(all);
    std::size_t joined = 0;
    detail::ArraysFunction joining;
    if constexpr (!std::is_same_v<Join, detail::AddedUp>) {
      joined = leaves(last).size();
      joining = [&](const Arrays& values) {
        const auto both = std::span(values);
        return leaves(join(with_leaves(last, both.first(joined)), with_leaves(last, both.subspan(joined))));
      };
    }
    std::optional<Result> traced;
    std::optional<Residuals> residuals;
    const Arrays results = detail::custom_vjp_arrays(
        detail::name_of_function<F>("custom_vjp"),
        [&](const Arrays& values) {
          traced = std::apply(f, with_leaves(all, values));
          return leaves(*traced);
        },
        [&](const Arrays& values) {
          auto [result, kept] = std::apply(forward, with_leaves(all, values));
          Arrays outputs = leaves(result);
          for (const Array& leaf : leaves(kept)) outputs.push_back(leaf);
          residuals = kept;
          return outputs;
        },
        [&](const Arrays& values) {
          const std::size_t count = leaves(*residuals).size();
          return leaves(backward(with_leaves(*residuals, std::span(values).first(count)),
                                 with_leaves(*traced, std::span(values).subspan(count))));
        },
        leaves(all), joined, joining);
    return with_leaves(*traced, results);
  };
}

/// The derivatives of f's result, an array, by its argument, one too: [result axes.., argument axes..]. In reverse
/// mode, a row of the result at a time under vmap.
template <class F>
auto jacobian(F f) {
  return [f](const Array& x) {
    const auto [y, pull] = vjp(f, x);
    const std::int64_t count = y.elements();
    Shape basis = y.shape(), result = y.shape();
    basis.insert(0, count);
    for (const std::int64_t extent : x.shape()) result.push_back(extent);
    const Array unit = convert(equal(expand_dims(arange(count), 1), expand_dims(arange(count), 0)), y.dtype());
    // clang 14 cannot capture a structured binding.
    const auto& of_cotangent = pull;
    const auto row = [&of_cotangent](const Array& ct) { return std::get<0>(of_cotangent(ct)); };
    return reshape(vmap(row)(reshape(unit, basis)), result);
  };
}

/// The second derivatives of a scalar function of one array: [argument axes.., argument axes..].
template <class F>
auto hessian(F f) {
  return jacobian([g = grad(f)](const Array& x) { return g(x); });
}

}  // namespace eadem
