#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "eadem/base/parallel.h"
#include "eadem/kernels/peak.h"
#include "eadem/kernels/target.h"
#include "eadem/numerics/rounding.h"
#include "eadem/ops/convolution.h"
#include "eadem/ops/ops.h"
#include "eadem/text/loaded_model.h"
#include "eadem/transforms/compile.h"

// Reads one JSON request a line and answers with seconds a repetition (the best of several), one line each:
//   {"work": "gemm", "dtype": "f32", "m": 64, "n": 64, "k": 64, "packed": false, "threads": 2, "seconds": 0.2}
// The caller lets a peer run in between, so that both see the same machine.

namespace eadem {
namespace {

using Json = nlohmann::json;
using Work = std::function<void()>;

Array random_array(DType dtype, const Shape& shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Array x = Array::allocate({dtype, shape});
  visit_floating(dtype, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t i = 0; i < x.elements(); ++i)
      x.view().as<T>()[i] = numerics::round_to<T>(static_cast<double>(random() >> 11) * 0x1p-52 - 1);
  });
  return x;
}

DType dtype_of(const Json& request) {
  return dtype_named(request.at("dtype").get<std::string>()).value();
}

Work gemm(const Json& r) {
  const std::int64_t m = r.at("m"), n = r.at("n"), k = r.at("k");
  const Array a = random_array(dtype_of(r), {m, k}, 1);
  if (r.at("packed")) {
    const Array w = random_array(dtype_of(r), {n, k}, 2);
    return [=] { linear(a, w); };
  }
  const Array b = random_array(dtype_of(r), {k, n}, 2);
  return [=] { matmul(a, b); };
}

Work operation(const Json& r) {
  const std::string op = r.at("op");
  const std::int64_t rows = r.at("rows"), columns = r.at("columns");
  const Array x = random_array(dtype_of(r), {rows, columns}, 1);
  if (op == "add") return [x, y = random_array(dtype_of(r), {rows, columns}, 2)] { add(x, y); };
  if (op == "exp") return [=] { exp(x); };
  if (op == "tanh") return [=] { tanh(x); };
  if (op == "gelu") return [=] { gelu(x); };
  if (op == "silu") return [=] { silu(x); };
  if (op == "softmax") return [=] { softmax(x, -1); };
  if (op == "sum0") return [=] { sum(x, {0}); };
  if (op == "sum1") return [=] { sum(x, {1}); };
  if (op == "layer_norm") {
    const Array gamma = random_array(dtype_of(r), {columns}, 2), beta = random_array(dtype_of(r), {columns}, 3);
    return [=] { layer_norm(x, gamma, beta, 1e-5); };
  }
  throw std::invalid_argument("unknown op " + op);
}

Work attend(const Json& r) {
  const Shape shape{r.at("batch"), r.at("heads"), r.at("length"), r.at("size")};
  const Array q = random_array(dtype_of(r), shape, 1), k = random_array(dtype_of(r), shape, 2);
  const Array v = random_array(dtype_of(r), shape, 3);
  return [=] { attention(q, k, v, {.causal = Causal::lower_right}); };
}

// A convolution, same padding; or with it what a cotangent of its output sends to the input and the kernel.
Work convolution(const Json& r) {
  const DType dtype = dtype_of(r);
  const std::int64_t extent = r.at("extent"), channels = r.at("channels"), outputs = r.at("outputs");
  const std::int64_t taps = r.at("taps"), stride = r.at("stride"), groups = r.at("groups"), pad = (taps - 1) / 2;
  const Array x = random_array(dtype, {r.at("batch"), extent, extent, channels}, 1);
  const Array w = random_array(dtype, {taps, taps, channels / groups, outputs}, 2);
  const auto f = [=](const Array& in, const Array& kernel) {
    return conv_general(
        in, kernel, {.strides = {stride, stride}, .padding = Padding::given({pad, pad}, {pad, pad}), .groups = groups});
  };
  if (!r.at("backward")) return [=] { f(x, w); };
  const Array dy = random_array(dtype, f(x, w).shape(), 3);
  return [=] { vjp(f, x, w).second(dy); };
}

const text::LoadedModel& model_of(const Json& r) {
  static std::map<std::string, text::LoadedModel> models;
  const std::string path = r.at("model"), key = path + r.at("dtype").get<std::string>();
  const auto found = models.find(key);
  if (found != models.end()) return found->second;
  return models.emplace(key, text::load_model(path, dtype_of(r))).first->second;
}

Array token_row(std::int64_t count, std::int64_t from) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < count; ++i) tokens.push_back((from + i) * 7919 % 40000 + 100);
  return Array::from(tokens, {1, count});
}

Work prefill(const Json& r) {
  const models::Llama& model = model_of(r).model;
  const std::int64_t count = r.at("tokens");
  return [&model, count] {
    nn::KvCache cache = model.make_cache(1);
    const Array hidden = model.hidden(token_row(count, 0), {{0}, {count}}, cache);
    model.logits(slice(hidden, {{0, 1}, {count - 1, count}}));
  };
}

// One token after another from position `begin` to `end`; the time is that of all of them.
Work decode(const Json& r) {
  const models::Llama& model = model_of(r).model;
  const std::int64_t begin = r.at("begin"), end = r.at("end");
  const auto cache = std::make_shared<nn::KvCache>(model.make_cache(1));
  model.hidden(token_row(begin, 0), {{0}, {begin}}, *cache);
  return [&model, cache, begin, end] {
    for (std::int64_t position = begin; position < end; ++position)
      model.logits(model.hidden(token_row(1, position), {{position}, {1}}, *cache));
  };
}

// gelu(1.5 x + 2) sigmoid(x), as one compiled function.
Work fused(const Json& r) {
  const Array x = random_array(dtype_of(r), {r.at("rows"), r.at("columns")}, 1);
  const auto f = compile([](const Array& a) { return gelu(a * 1.5 + 2.0) * sigmoid(a); });
  return [=] { f(x); };
}

struct Dense {
  Array w, b;
  static void fields(auto& m, auto f) { f("w", m.w), f("b", m.b); }
};

// Forty-eight layers x + tanh(w x + b), value and gradient: as a scan, or written out.
Work layers(const Json& r) {
  constexpr std::int64_t kDepth = 48, kWidth = 256, kRows = 32;
  const DType dtype = dtype_of(r);
  const Dense stacked{random_array(dtype, {kDepth, kWidth, kWidth}, 1) * 0.05,
                      random_array(dtype, {kDepth, kWidth}, 2)};
  const Array x = random_array(dtype, {kRows, kWidth}, 3);
  const auto layer = [](const Dense& l, const Array& h) { return h + tanh(linear(h, l.w, l.b)); };
  if (r.at("scan")) {
    const auto step = compile(value_and_grad([layer](const Dense& all, const Array& in) {
      return sum(
          scan([layer](const Array& h, const Dense& l) { return std::pair(layer(l, h), std::tuple<>()); }, in, all)
              .first,
          {0, 1});
    }));
    return [=] { step(stacked, x); };
  }
  const auto step = compile(value_and_grad([layer](const Dense& all, const Array& in) {
    Array h = in;
    for (std::int64_t i = 0; i < kDepth; ++i) {
      const auto at = [&](const Array& a) { return squeeze(slice_axis(a, 0, {i, i + 1}), 0); };
      h = layer({at(all.w), at(all.b)}, h);
    }
    return sum(h, {0, 1});
  }));
  return [=] { step(stacked, x); };
}

struct TransformerBlock {
  Array gain1, shift1, qkv, qkv_bias, out, out_bias, gain2, shift2, up, up_bias, down, down_bias;
  static void fields(auto& m, auto f) {
    f("gain1", m.gain1), f("shift1", m.shift1), f("qkv", m.qkv), f("qkv_bias", m.qkv_bias), f("out", m.out);
    f("out_bias", m.out_bias), f("gain2", m.gain2), f("shift2", m.shift2), f("up", m.up), f("up_bias", m.up_bias);
    f("down", m.down), f("down_bias", m.down_bias);
  }
  Array operator()(const Array& x) const {
    const std::int64_t batch = x.extent(0), length = x.extent(1), width = x.extent(2), heads = 8;
    const Array joined =
        reshape(linear(layer_norm(x, gain1, shift1), qkv, qkv_bias), {batch, length, 3, heads, width / heads});
    const auto part = [&](std::int64_t i) {
      return transpose(squeeze(slice_axis(joined, 2, {i, i + 1}), 2), {0, 2, 1, 3});
    };
    const Array mixed = transpose(attention(part(0), part(1), part(2), {}), {0, 2, 1, 3});
    const Array h = x + linear(reshape(mixed, x.shape()), out, out_bias);
    return h + linear(gelu(linear(layer_norm(h, gain2, shift2), up, up_bias)), down, down_bias);
  }
};

// A transformer block, 4 x 256 x 512, forward and backward: the gradients of its parameters and input.
Work block(const Json& r) {
  const DType dtype = dtype_of(r);
  constexpr std::int64_t kWidth = 512, kInner = 2048;
  std::uint64_t seed = 1;
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    return random_array(dtype, {rows, columns}, seed++) * 0.04;
  };
  const auto vector = [&](std::int64_t size) { return random_array(dtype, {size}, seed++); };
  const TransformerBlock model{vector(kWidth),     vector(kWidth),         matrix(3 * kWidth, kWidth),
                               vector(3 * kWidth), matrix(kWidth, kWidth), vector(kWidth),
                               vector(kWidth),     vector(kWidth),         matrix(kInner, kWidth),
                               vector(kInner),     matrix(kWidth, kInner), vector(kWidth)};
  const Array x = random_array(dtype, {4, 256, kWidth}, seed);
  const auto loss = [](const std::pair<TransformerBlock, Array>& in) { return sum(in.first(in.second), {0, 1, 2}); };
  const std::pair<TransformerBlock, Array> inputs(model, x);
  if (!r.at("compiled")) return [=] { value_and_grad(loss)(inputs); };
  const auto step = compile(value_and_grad(loss));
  return [=] { step(inputs); };
}

Work dispatch(const Json&) {
  const Array x = Array::from<float>({1, 2, 3, 4}), y = Array::from<float>({5, 6, 7, 8});
  return [=] {
    for (int i = 0; i < 1000; ++i) add(x, y);
  };
}

Work work_of(const Json& r) {
  const std::string work = r.at("work");
  if (work == "gemm") return gemm(r);
  if (work == "op") return operation(r);
  if (work == "attention") return attend(r);
  if (work == "conv") return convolution(r);
  if (work == "prefill") return prefill(r);
  if (work == "decode") return decode(r);
  if (work == "dispatch") return dispatch(r);
  if (work == "fused") return fused(r);
  if (work == "layers") return layers(r);
  if (work == "block") return block(r);
  throw std::invalid_argument("unknown work " + work);
}

double seconds_of(const Work& work, double budget) {
  using Clock = std::chrono::steady_clock;
  double best = INFINITY, total = 0;
  for (int i = 0; i < 3 || total < budget; ++i) {
    const auto start = Clock::now();
    work();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, seconds);
    total += seconds;
  }
  return best;
}

Json answer(const Json& request) {
  if (request.at("work") == "info") {
    const models::Llama* model = request.contains("model") ? &model_of(request).model : nullptr;
    return {{"target", kernels::name_of(kernels::active_target())},
            {"fma_gflops", kernels::measure_fma_rate() * 1e-9},
            {"read_gb_per_s", kernels::measure_read_bandwidth(std::size_t{90} << 20) * 1e-9},
            {"weight_bytes", model ? model->weight_bytes() : 0}};
  }
  if (request.at("work") == "read") {
    const auto bytes = request.at("bytes").get<std::size_t>();
    return {{"seconds", static_cast<double>(bytes) / kernels::measure_read_bandwidth(bytes)}};
  }
  // The last request's operands are kept: rounds of one work repeat it.
  static std::string last;
  static Work work;
  Json key = request;
  key.erase("seconds");
  if (key.dump() != last) {
    work = nullptr;
    work = work_of(request);
    work();
    last = key.dump();
  }
  return {{"seconds", seconds_of(work, request.at("seconds"))}};
}

}  // namespace
}  // namespace eadem

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    nlohmann::json reply;
    try {
      const auto request = nlohmann::json::parse(line);
      if (const int threads = request.value("threads", 1); threads != eadem::threads()) eadem::set_threads(threads);
      reply = eadem::answer(request);
    } catch (const std::exception& error) {
      reply = {{"error", error.what()}};
    }
    std::cout << reply.dump() << std::endl;
  }
}
