#include "eadem/kernels/random/random.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "eadem/base/parallel.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"

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

// Keys are [..., 2]; each has its own stream, so that a batch of them is what each gives alone.
Shape require_keys(std::string_view operation, const Signature& s, std::size_t operands = 1) {
  ops::require_operands(operation, s, operands);
  const TensorType& keys = s.operands[0];
  if (keys.dtype != DType::u32 || keys.shape.empty() || keys.shape.back() != 2)
    fail<TypeError>("[{}] a key is u32[2], several are u32[..., 2], got {}", operation, keys);
  Shape leading = keys.shape;
  leading.pop_back();
  return leading;
}
Shape joined(std::string_view operation, Shape leading, const Shape& shape) {
  checked_elements(operation, shape);
  for (const std::int64_t extent : shape) leading.push_back(extent);
  checked_elements(operation, leading);
  return leading;
}
// The i-th key, row-major.
Key key_at(const TensorView& keys, std::int64_t i) {
  const int last = keys.shape.rank() - 1;
  std::int64_t offset = 0;
  for (int axis = last - 1; axis >= 0; --axis) {
    offset += i % keys.shape[axis] * keys.strides[axis];
    i /= keys.shape[axis];
  }
  const auto* words = keys.as<const std::uint32_t>() + offset;
  return {words[0], words[keys.strides[last]]};
}
void store_key(Key key, std::uint32_t* words) {
  words[0] = key.high;
  words[1] = key.low;
}

// The reference of a draw: element i of a key's part of the result is element(key, i).
template <class T, class Element>
void draw_each(const Launch& launch, const Element& element) {
  T* next = launch.results[0].as<T>();
  const std::int64_t keys = launch.operands[0].elements() / 2;
  const std::int64_t count = keys == 0 ? 0 : launch.results[0].elements() / keys;
  for (std::int64_t k = 0; k < keys; ++k)
    for (std::int64_t i = 0; i < count; ++i)
      *next++ = element(key_at(launch.operands[0], k), static_cast<std::uint64_t>(i));
}

// draw(key, its part of the result, the part's elements): many keys go to many threads, of one the draw itself does.
template <class Draw>
void draw_by_key(const Launch& launch, const Draw& draw) {
  const TensorView& result = launch.results[0];
  const std::int64_t keys = launch.operands[0].elements() / 2;
  if (result.elements() == 0) return;
  const std::int64_t count = result.elements() / keys;
  const auto of_key = [&](std::int64_t k) {
    draw(key_at(launch.operands[0], k), result.data + k * count * static_cast<std::int64_t>(size_of(result.dtype)),
         count);
  };
  if (keys == 1) return of_key(0);
  parallel_for(keys, std::max<std::int64_t>(1, 16384 / count), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) of_key(k);
  });
}

template <class T>
std::pair<T, T> bounds(const UniformAttribute& a) {
  return {numerics::round_to<T>(a.low + 0.0), numerics::round_to<T>(a.high + 0.0)};
}

// New keys [begin, end) of all that the launch makes.
void split(const Launch& launch, std::int64_t begin, std::int64_t end) {
  const std::int64_t count = launch.as<CountAttribute>().count;
  for (std::int64_t i = begin; i < end; ++i)
    store_key(numerics::split(key_at(launch.operands[0], i / count), static_cast<std::uint64_t>(i % count)),
              launch.results[0].as<std::uint32_t>() + 2 * i);
}
void fold(const Launch& launch) {
  const TensorView& data = launch.operands[1];
  std::uint32_t* next = launch.results[0].as<std::uint32_t>();
  std::int64_t k = 0;
  ops::for_each_index(data.shape, [&](const Shape& at) {
    const auto number = *reinterpret_cast<const std::uint32_t*>(ops::element_at(data, at));
    store_key(numerics::fold_in(key_at(launch.operands[0], k++), number), next);
    next += 2;
  });
}

// A batch of keys is an axis of keys more.
void keys_batch(Batch& b) {
  b.set(apply(b.primitive(), std::array{b.in()}, b.equation().attributes.get()));
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
      const Shape keys = require_keys("random_bits", s);
      const auto& a = s.as<DrawAttribute>();
      if (!is_unsigned_integer(a.dtype)) fail<TypeError>("[random_bits] bits are u8, u16, u32 or u64, got {}", a.dtype);
      return {{a.dtype, joined("random_bits", keys, a.shape)}};
    },
    .reference =
        [](const Launch& launch) {
          visit(launch.results[0].dtype, [&]<class T>(std::type_identity<T>) {
            if constexpr (std::unsigned_integral<T> && !std::same_as<T, bool>)
              draw_each<T>(launch, [](Key key, std::uint64_t i) { return numerics::random_bits<T>(key, i); });
          });
        },
    .run = Kernel{[](const Launch& launch, Context&) {
      draw_by_key(launch, [&](Key key, void* out, std::int64_t count) {
        kernels::random_bits(key, launch.results[0].dtype, out, count);
      });
    }},
    .batch = keys_batch,
    .samples =
        [](SampleSink& sink) {
          for (const DType dtype : {DType::u8, DType::u16, DType::u32, DType::u64}) {
            sink.add({{DType::u32, {2}, Fill::wide}}, DrawAttribute{dtype, {3, 7}});
            sink.add({{DType::u32, {2}, Fill::wide}}, DrawAttribute{dtype, {2051}});
          }
          sink.add({{DType::u32, {2}, Fill::wide}}, DrawAttribute{DType::u32, {}});
          sink.add({{DType::u32, {2}, Fill::wide}}, DrawAttribute{DType::u32, {0}});
          sink.add({{DType::u32, {3, 2}, Fill::wide}}, DrawAttribute{DType::u16, {2, 5}});
          sink.add({{DType::u32, {0, 2}}}, DrawAttribute{DType::u16, {2, 5}});
        },
    .promote = Promote::keep};

constinit const Primitive prim::uniform{
    .name = "uniform",
    .summary = "Uniform numbers between two bounds: max(low, fma(f, high - low, low)), JAX's bits.",
    .attributes = &kAttributesOf<UniformAttribute>,
    .infer = [](const Signature& s) -> Types {
      const Shape keys = require_keys("uniform", s);
      const auto& a = s.as<UniformAttribute>();
      if (!is_floating(a.dtype)) fail<TypeError>("[uniform] dtype must be floating, got {}", a.dtype);
      visit_floating(a.dtype, [&]<class T>(std::type_identity<T>) {
        const double low = numerics::to_double(numerics::round_to<T>(a.low));
        const double high = numerics::to_double(numerics::round_to<T>(a.high));
        if (!(low <= high) || !std::isfinite(numerics::to_double(numerics::round_to<T>(high - low))))
          fail<ValueError>("[uniform] low must not exceed high and both must be finite in {}, got {} and {}", a.dtype,
                           a.low, a.high);
      });
      return {{a.dtype, joined("uniform", keys, a.shape)}};
    },
    .reference =
        [](const Launch& launch) {
          visit_floating(launch.results[0].dtype, [&]<class T>(std::type_identity<T>) {
            const auto limits = bounds<T>(launch.as<UniformAttribute>());
            draw_each<T>(launch, [&](Key key, std::uint64_t i) {
              return numerics::uniform<T>(key, i, limits.first, limits.second);
            });
          });
        },
    .run = Kernel{[](const Launch& launch, Context&) {
      const auto& a = launch.as<UniformAttribute>();
      draw_by_key(launch, [&](Key key, void* out, std::int64_t count) {
        kernels::random_uniform(key, launch.results[0].dtype, a.low + 0.0, a.high + 0.0, out, count);
      });
    }},
    .batch = keys_batch,
    .samples =
        [](SampleSink& sink) {
          for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
            sink.add({{DType::u32, {2}, Fill::wide}}, UniformAttribute{dtype, {5, 67}, 0, 1});
            sink.add({{DType::u32, {2}, Fill::wide}}, UniformAttribute{dtype, {1030}, -0.7, 0.1});
          }
          sink.add({{DType::u32, {2}, Fill::wide}}, UniformAttribute{DType::f32, {2, 2}, -0.0, 0});
          sink.add({{DType::u32, {2}, Fill::wide}}, UniformAttribute{DType::f32, {3, 0}, 2, 3});
          sink.add({{DType::u32, {2, 3, 2}, Fill::wide}}, UniformAttribute{DType::bf16, {7}, -1, 1});
        },
    .promote = Promote::keep};

constinit const Primitive prim::normal{
    .name = "normal",
    .summary = "Standard normal numbers: sqrt(2) erfinv(u) rounded once, u uniform on (-1, 1).",
    .attributes = &kAttributesOf<DrawAttribute>,
    .infer = [](const Signature& s) -> Types {
      const Shape keys = require_keys("normal", s);
      const auto& a = s.as<DrawAttribute>();
      if (!is_floating(a.dtype)) fail<TypeError>("[normal] dtype must be floating, got {}", a.dtype);
      return {{a.dtype, joined("normal", keys, a.shape)}};
    },
    .reference =
        [](const Launch& launch) {
          visit_floating(launch.results[0].dtype, [&]<class T>(std::type_identity<T>) {
            draw_each<T>(launch, [](Key key, std::uint64_t i) { return numerics::normal<T>(key, i); });
          });
        },
    .run = Kernel{[](const Launch& launch, Context&) {
      draw_by_key(launch, [&](Key key, void* out, std::int64_t count) {
        kernels::random_normal(key, launch.results[0].dtype, out, count);
      });
    }},
    .batch = keys_batch,
    .samples =
        [](SampleSink& sink) {
          for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
            sink.add({{DType::u32, {2}, Fill::wide}}, DrawAttribute{dtype, {5, 213}});
          sink.add({{DType::u32, {2}, Fill::wide}}, DrawAttribute{DType::f32, {}});
          sink.add({{DType::u32, {2}, Fill::wide}}, DrawAttribute{DType::f32, {0, 4}});
          sink.add({{DType::u32, {5, 2}, Fill::wide}}, DrawAttribute{DType::f32, {}});
        },
    .promote = Promote::keep};

constinit const Primitive prim::split_key{
    .name = "split_key",
    .summary = "New keys from a key.",
    .attributes = &kAttributesOf<CountAttribute>,
    .infer = [](const Signature& s) -> Types {
      const Shape keys = require_keys("split_key", s);
      const std::int64_t count = s.as<CountAttribute>().count;
      if (count < 0) fail<ValueError>("[split_key] count must not be negative, got {}", count);
      return {{DType::u32, joined("split_key", keys, {count, 2})}};
    },
    .reference = [](const Launch& launch) { split(launch, 0, launch.results[0].elements() / 2); },
    .run = Kernel{[](const Launch& launch, Context&) {
      parallel_for(launch.results[0].elements() / 2, 4096,
                   [&](std::int64_t begin, std::int64_t end) { split(launch, begin, end); });
    }},
    .batch = keys_batch,
    .samples =
        [](SampleSink& sink) {
          for (const std::int64_t count : {0, 1, 2, 9000})
            sink.add({{DType::u32, {2}, Fill::wide}}, CountAttribute{count});
          sink.add({{DType::u32, {3, 2}, Fill::wide}}, CountAttribute{5});
        },
    .promote = Promote::keep};

constinit const Primitive prim::fold_in{
    .name = "fold_in",
    .summary = "A new key from a key and a number.",
    .infer = [](const Signature& s) -> Types {
      const Shape keys = require_keys("fold_in", s, 2);
      if (s.operands[1] != TensorType{DType::u32, keys})
        fail<TypeError>("[fold_in] keys {} need numbers u32{}, got {}", s.operands[0], keys, s.operands[1]);
      return {s.operands[0]};
    },
    .reference = fold,
    .run = Kernel{[](const Launch& launch, Context&) { fold(launch); }},
    .batch = ops::elementwise_batch,
    .samples =
        [](SampleSink& sink) {
          sink.add({{DType::u32, {2}, Fill::wide}, {DType::u32, {}, Fill::wide}});
          sink.add({{DType::u32, {3, 2, 2}, Fill::wide}, {DType::u32, {3, 2}, Fill::wide}});
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
    .batch = ops::elementwise_batch,
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
  return fold_in(key, Array::from(std::span<const std::uint32_t>(&data, 1), {}));
}
Array fold_in(const Array& key, const Array& data) {
  Shape keys = key.shape();
  if (!keys.empty()) keys.pop_back();
  return apply(prim::fold_in, {key, broadcast_to(convert(data, DType::u32), keys)});
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
Array bernoulli(const Array& key, double probability, const Shape& shape) {
  if (!(probability >= 0 && probability <= 1))
    fail<ValueError>("[bernoulli] the probability must be in [0, 1], got {}", probability);
  const Array u = uniform(key, shape);
  return less(u, full_like(u, probability));
}
Array permutation(const Array& key, std::int64_t count) {
  if (count < 0) fail<ValueError>("[permutation] count must not be negative, got {}", count);
  // Sorting by random words shuffles; where words tie it is not fair, so it is done often enough that ties do not show.
  const double rounds = std::ceil(3 * std::log(std::max(1.0, static_cast<double>(count))) / std::log(4294967295.0));
  Array order = arange(count), rest = key;
  for (int i = 0; i < static_cast<int>(rounds); ++i) {
    const Array keys = split_key(rest);
    rest = squeeze(slice_axis(keys, 0, {0, 1}), 0);
    const Array words = random_bits(squeeze(slice_axis(keys, 0, {1, 2}), 0), {count});
    order = take(order, argsort(words), 0);
  }
  return order;
}
Array categorical(const Array& weights, const Array& uniforms) {
  return apply(prim::categorical, {weights, uniforms});
}

}  // namespace eadem
