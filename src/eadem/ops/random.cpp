#include "eadem/kernels/random/random.h"

#include <cmath>

#include "eadem/base/parallel.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"

namespace eadem {
namespace {

using numerics::Key;

struct DrawAttribute {
  DType dtype = DType::f32;
  Shape shape;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &DrawAttribute::dtype), field("shape", &DrawAttribute::shape));
  }
};
struct UniformAttribute {
  DType dtype = DType::f32;
  Shape shape;
  double low = 0, high = 1;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &UniformAttribute::dtype), field("shape", &UniformAttribute::shape),
                      field("low", &UniformAttribute::low), field("high", &UniformAttribute::high));
  }
};
struct CountAttribute {
  std::int64_t count = 0;
  static constexpr auto fields() { return std::tuple(field("count", &CountAttribute::count)); }
};

void require_key(std::string_view operation, const Signature& s, std::size_t operands = 1) {
  ops::require_operands(operation, s, operands);
  if (s.operands[0] != TensorType{DType::u32, {2}})
    fail<TypeError>("[{}] a key is u32[2], got {}", operation, s.operands[0]);
}
Key key_of(const TensorView& view) {
  const auto* words = view.as<const std::uint32_t>();
  return {words[0], words[view.strides[0]]};
}
void store_key(Key key, std::uint32_t* words) {
  words[0] = key.high;
  words[1] = key.low;
}

// The reference of a draw: element i of the result is element(type, key, i).
template <class Element>
void draw_each(const Launch& launch, const Element& element) {
  const TensorView& result = launch.results[0];
  const Key key = key_of(launch.operands[0]);
  for (std::int64_t i = 0; i < result.elements(); ++i) element(key, static_cast<std::uint64_t>(i), i);
}

template <class T>
std::pair<T, T> bounds(const UniformAttribute& a) {
  return {numerics::round_to<T>(a.low + 0.0), numerics::round_to<T>(a.high + 0.0)};
}

void split(const Launch& launch, std::int64_t begin, std::int64_t end) {
  const Key key = key_of(launch.operands[0]);
  for (std::int64_t i = begin; i < end; ++i)
    store_key(numerics::split(key, static_cast<std::uint64_t>(i)), launch.results[0].as<std::uint32_t>() + 2 * i);
}
void fold(const Launch& launch) {
  store_key(numerics::fold_in(key_of(launch.operands[0]), *launch.operands[1].as<const std::uint32_t>()),
            launch.results[0].as<std::uint32_t>());
}

// Rows [begin, end) of a weighted draw.
void draw_rows(const Launch& launch, std::int64_t begin, std::int64_t end) {
  const TensorView &weights = launch.operands[0], &uniforms = launch.operands[1], &result = launch.results[0];
  const int last = weights.shape.rank() - 1;
  const std::int64_t count = weights.shape[last], step = weights.strides[last];
  visit_floating(weights.dtype, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t rest = row, weight_offset = 0, uniform_offset = 0;
      for (int axis = last - 1; axis >= 0; --axis) {
        const std::int64_t index = rest % uniforms.shape[axis];
        rest /= uniforms.shape[axis];
        weight_offset += index * weights.strides[axis];
        uniform_offset += index * uniforms.strides[axis];
      }
      const T* w = weights.as<const T>() + weight_offset;
      const double u = uniforms.as<const double>()[uniform_offset];
      result.as<std::int64_t>()[row] =
          u >= 0 && u < 1 ? numerics::categorical(
                                count, [&](std::int64_t i) { return numerics::to_double(w[i * step]); }, u)
                          : -1;
    }
  });
}

}  // namespace

constinit const Primitive prim::random_bits{
    .name = "random_bits",
    .summary = "Random bits of a key: Threefry-2x32, JAX's partitionable scheme.",
    .attributes = &kAttributesOf<DrawAttribute>,
    .infer = [](const Signature& s) -> Types {
      require_key("random_bits", s);
      const auto& a = s.as<DrawAttribute>();
      if (!is_unsigned_integer(a.dtype)) fail<TypeError>("[random_bits] bits are u8, u16, u32 or u64, got {}", a.dtype);
      checked_elements("random_bits", a.shape);
      return {{a.dtype, a.shape}};
    },
    .reference =
        [](const Launch& launch) {
          visit(launch.results[0].dtype, [&]<class T>(std::type_identity<T>) {
            if constexpr (std::unsigned_integral<T> && !std::same_as<T, bool>)
              draw_each(launch, [&](Key key, std::uint64_t index, std::int64_t i) {
                launch.results[0].as<T>()[i] = numerics::random_bits<T>(key, index);
              });
          });
        },
    .run = Kernel{[](const Launch& launch, Context&) {
      const TensorView& result = launch.results[0];
      kernels::random_bits(key_of(launch.operands[0]), result.dtype, result.data, result.elements());
    }},
    .samples =
        [](SampleSink& sink) {
          for (const DType dtype : {DType::u8, DType::u16, DType::u32, DType::u64}) {
            sink.add({{DType::u32, {2}, Fill::wide}}, DrawAttribute{dtype, {3, 7}});
            sink.add({{DType::u32, {2}, Fill::wide}}, DrawAttribute{dtype, {2051}});
          }
          sink.add({{DType::u32, {2}, Fill::wide}}, DrawAttribute{DType::u32, {}});
          sink.add({{DType::u32, {2}, Fill::wide}}, DrawAttribute{DType::u32, {0}});
        },
    .promote = Promote::keep};

constinit const Primitive prim::uniform{
    .name = "uniform",
    .summary = "Uniform numbers between two bounds: max(low, fma(f, high - low, low)), JAX's bits.",
    .attributes = &kAttributesOf<UniformAttribute>,
    .infer = [](const Signature& s) -> Types {
      require_key("uniform", s);
      const auto& a = s.as<UniformAttribute>();
      if (!is_floating(a.dtype)) fail<TypeError>("[uniform] dtype must be floating, got {}", a.dtype);
      visit_floating(a.dtype, [&]<class T>(std::type_identity<T>) {
        const double low = numerics::to_double(numerics::round_to<T>(a.low));
        const double high = numerics::to_double(numerics::round_to<T>(a.high));
        if (!(low <= high) || !std::isfinite(numerics::to_double(numerics::round_to<T>(high - low))))
          fail<ValueError>("[uniform] low must not exceed high and both must be finite in {}, got {} and {}", a.dtype,
                           a.low, a.high);
      });
      checked_elements("uniform", a.shape);
      return {{a.dtype, a.shape}};
    },
    .reference =
        [](const Launch& launch) {
          visit_floating(launch.results[0].dtype, [&]<class T>(std::type_identity<T>) {
            const auto limits = bounds<T>(launch.as<UniformAttribute>());
            draw_each(launch, [&](Key key, std::uint64_t index, std::int64_t i) {
              launch.results[0].as<T>()[i] = numerics::uniform<T>(key, index, limits.first, limits.second);
            });
          });
        },
    .run = Kernel{[](const Launch& launch, Context&) {
      const TensorView& result = launch.results[0];
      const auto& a = launch.as<UniformAttribute>();
      kernels::random_uniform(key_of(launch.operands[0]), result.dtype, a.low + 0.0, a.high + 0.0, result.data,
                              result.elements());
    }},
    .samples =
        [](SampleSink& sink) {
          for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
            sink.add({{DType::u32, {2}, Fill::wide}}, UniformAttribute{dtype, {5, 67}, 0, 1});
            sink.add({{DType::u32, {2}, Fill::wide}}, UniformAttribute{dtype, {1030}, -0.7, 0.1});
          }
          sink.add({{DType::u32, {2}, Fill::wide}}, UniformAttribute{DType::f32, {2, 2}, -0.0, 0});
          sink.add({{DType::u32, {2}, Fill::wide}}, UniformAttribute{DType::f32, {3, 0}, 2, 3});
        },
    .promote = Promote::keep};

constinit const Primitive prim::normal{
    .name = "normal",
    .summary = "Standard normal numbers: sqrt(2) erfinv(u) rounded once, u uniform on (-1, 1).",
    .attributes = &kAttributesOf<DrawAttribute>,
    .infer = [](const Signature& s) -> Types {
      require_key("normal", s);
      const auto& a = s.as<DrawAttribute>();
      if (!is_floating(a.dtype)) fail<TypeError>("[normal] dtype must be floating, got {}", a.dtype);
      checked_elements("normal", a.shape);
      return {{a.dtype, a.shape}};
    },
    .reference =
        [](const Launch& launch) {
          visit_floating(launch.results[0].dtype, [&]<class T>(std::type_identity<T>) {
            draw_each(launch, [&](Key key, std::uint64_t index, std::int64_t i) {
              launch.results[0].as<T>()[i] = numerics::normal<T>(key, index);
            });
          });
        },
    .run = Kernel{[](const Launch& launch, Context&) {
      const TensorView& result = launch.results[0];
      kernels::random_normal(key_of(launch.operands[0]), result.dtype, result.data, result.elements());
    }},
    .samples =
        [](SampleSink& sink) {
          for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
            sink.add({{DType::u32, {2}, Fill::wide}}, DrawAttribute{dtype, {5, 213}});
          sink.add({{DType::u32, {2}, Fill::wide}}, DrawAttribute{DType::f32, {}});
          sink.add({{DType::u32, {2}, Fill::wide}}, DrawAttribute{DType::f32, {0, 4}});
        },
    .promote = Promote::keep};

constinit const Primitive prim::split_key{
    .name = "split_key",
    .summary = "New keys from a key.",
    .attributes = &kAttributesOf<CountAttribute>,
    .infer = [](const Signature& s) -> Types {
      require_key("split_key", s);
      const std::int64_t count = s.as<CountAttribute>().count;
      if (count < 0) fail<ValueError>("[split_key] count must not be negative, got {}", count);
      const Shape shape = {count, 2};
      checked_elements("split_key", shape);
      return {{DType::u32, shape}};
    },
    .reference = [](const Launch& launch) { split(launch, 0, launch.results[0].shape[0]); },
    .run = Kernel{[](const Launch& launch, Context&) {
      parallel_for(launch.results[0].shape[0], 4096,
                   [&](std::int64_t begin, std::int64_t end) { split(launch, begin, end); });
    }},
    .samples =
        [](SampleSink& sink) {
          for (const std::int64_t count : {0, 1, 2, 9000})
            sink.add({{DType::u32, {2}, Fill::wide}}, CountAttribute{count});
        },
    .promote = Promote::keep};

constinit const Primitive prim::fold_in{.name = "fold_in",
                                        .summary = "A new key from a key and a number.",
                                        .infer = [](const Signature& s) -> Types {
                                          require_key("fold_in", s, 2);
                                          if (s.operands[1] != TensorType{DType::u32, {}})
                                            fail<TypeError>("[fold_in] the number must be a scalar u32, got {}",
                                                            s.operands[1]);
                                          return {{DType::u32, {2}}};
                                        },
                                        .reference = fold,
                                        .run = Kernel{[](const Launch& launch, Context&) { fold(launch); }},
                                        .samples =
                                            [](SampleSink& sink) {
                                              sink.add({{DType::u32, {2}, Fill::wide}, {DType::u32, {}, Fill::wide}});
                                            },
                                        .promote = Promote::keep};

constinit const Primitive prim::categorical{
    .name = "categorical",
    .summary = "A weighted draw along the last axis; what has weight zero is never drawn.",
    .infer = [](const Signature& s) -> Types {
      ops::require_operands("categorical", s, 2);
      const TensorType &weights = s.operands[0], &uniforms = s.operands[1];
      if (!is_floating(weights.dtype) || uniforms.dtype != DType::f64)
        fail<TypeError>("[categorical] takes floating weights and f64 uniforms, got {} and {}", weights, uniforms);
      Shape rows = weights.shape;
      if (rows.empty()) fail<ShapeError>("[categorical] weights need an axis to draw along, got {}", weights);
      rows.pop_back();
      if (!(uniforms.shape == rows))
        fail<ShapeError>("[categorical] weights {} need uniforms of shape {}, got {}", weights, rows, uniforms);
      return {{DType::i64, rows}};
    },
    .reference = [](const Launch& launch) { draw_rows(launch, 0, launch.results[0].elements()); },
    .run = Kernel{[](const Launch& launch, Context&) {
      const std::int64_t count = launch.operands[0].shape.back();
      parallel_for(launch.results[0].elements(), std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(1, count)),
                   [&](std::int64_t begin, std::int64_t end) { draw_rows(launch, begin, end); });
    }},
    .samples =
        [](SampleSink& sink) {
          for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
            sink.add({{dtype, {3, 4, 17}, Fill::unit}, {DType::f64, {3, 4}, Fill::unit}});
          sink.add({{DType::f32, {9, 50}, Fill::edges}, {DType::f64, {9}, Fill::unit}});
          sink.add({{DType::f32, {6, 5}, Fill::unit}, {DType::f64, {6}, Fill::edges}});
          sink.add({{DType::f32, {1000}, Fill::positive}, {DType::f64, {}, Fill::unit}});
          sink.add({{DType::f32, {2, 0}}, {DType::f64, {2}, Fill::unit}});
          sink.add({{DType::f32, {0, 3}}, {DType::f64, {0}}});
        },
    .promote = Promote::keep};

Array random_key(std::uint64_t seed) {
  const Key key = numerics::random_key(seed);
  return Array::from<std::uint32_t>({key.high, key.low});
}
Array split_key(const Array& key, std::int64_t count) {
  return apply(prim::split_key, {key}, CountAttribute{count});
}
Array fold_in(const Array& key, std::uint32_t data) {
  return apply(prim::fold_in, {key, Array::from(std::span<const std::uint32_t>(&data, 1), {})});
}
Array random_bits(const Array& key, const Shape& shape, DType dtype) {
  return apply(prim::random_bits, {key}, DrawAttribute{dtype, shape});
}
Array uniform(const Array& key, const Shape& shape, DType dtype, double low, double high) {
  return apply(prim::uniform, {key}, UniformAttribute{dtype, shape, low, high});
}
Array normal(const Array& key, const Shape& shape, DType dtype) {
  return apply(prim::normal, {key}, DrawAttribute{dtype, shape});
}
Array categorical(const Array& weights, const Array& uniforms) {
  return apply(prim::categorical, {weights, uniforms});
}

}  // namespace eadem
