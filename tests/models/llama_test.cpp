#include "eadem/models/llama.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "eadem/audit/evaluation.h"
#include "eadem/models/load.h"
#include "eadem/ops/ops.h"
#include "tests/support/hostile_float.h"
#include "tests/support/tiny_llama.h"

namespace eadem {
namespace {

using testing::TemporaryFolder;
using testing::TinyFiles;
using testing::TinyOptions;

std::vector<std::int32_t> tokens(std::int64_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> result;
  for (std::int64_t i = 0; i < count; ++i)
    result.push_back(static_cast<std::int32_t>((i * i * 7 + 3 * i + 1) % vocabulary));
  return result;
}

class BothFormats : public ::testing::TestWithParam<TinyOptions> {};

// GGUF stores llama's q and k rows in another order, and names everything otherwise; the bits must be the same.
TEST_P(BothFormats, GiveTheSameBits) {
  const TemporaryFolder folder;
  const TinyFiles files = testing::write_tiny_llama(folder.path(), GetParam());
  for (const DType dtype : {DType::bf16, DType::f32, DType::f64}) {
    const models::Llama a = models::load_gguf(io::GgufFile::open(files.gguf), dtype);
    const models::Llama b = models::load_hugging_face(files.folder, dtype, io::Access::map);
    EXPECT_EQ(a.config(), b.config());
    const auto input = tokens(37, a.config().vocabulary);
    const audit::Comparison comparison = audit::compare(audit::evaluate(a, input), audit::evaluate(b, input));
    EXPECT_GT(comparison.compared, 37 * 48);
    EXPECT_EQ(comparison.differing, 0);
  }
}
INSTANTIATE_TEST_SUITE_P(Models, BothFormats,
                         ::testing::Values(TinyOptions{}, TinyOptions{.architecture = "qwen2"},
                                           TinyOptions{.architecture = "qwen2", .tied = true},
                                           TinyOptions{.tied = true}, TinyOptions{.llama3_rope = true}));

// Projections of one input are one product where they can be; several products give the same bits.
TEST(Llama, JoinedProjectionsKeepTheBits) {
  auto matrix = [seed = 0](std::int64_t rows, std::int64_t columns) mutable {
    std::vector<bfloat16> values;
    for (std::int64_t i = 0; i < rows * columns; ++i)
      values.push_back(to_bfloat16(std::sin(static_cast<double>(i * i % 977 + 131 * seed)) / 4));
    ++seed;
    return Array::from(values, {rows, columns});
  };
  const models::LlamaConfig c{.architecture = "qwen2",
                              .vocabulary = 40,
                              .hidden = 32,
                              .layers = 1,
                              .heads = 2,
                              .kv_heads = 1,
                              .head_size = 16,
                              .intermediate = 48,
                              .context = 64,
                              .rope_frequencies = std::vector<double>(8, 0.1)};
  const Array ones = convert(broadcast_to(Array::scalar(1, DType::f32), {32}), DType::f32);
  using Projections = std::vector<models::Llama::Projection>;
  const auto join = [](const Projections& parts) {
    std::vector<Array> weights, biases;
    std::vector<std::int64_t> outputs;
    for (const models::Llama::Projection& p : parts) {
      weights.push_back(*p.weight.array());
      if (p.bias) biases.push_back(*p.bias);
      outputs.push_back(p.outputs[0]);
    }
    return Projections{{nn::Weight::dense(concatenate(weights, 0)),
                        biases.empty() ? std::nullopt : std::optional(concatenate(biases, 0)), outputs}};
  };
  const auto part = [&](std::int64_t rows, std::int64_t columns, bool bias) {
    std::optional<Array> b;
    if (bias) b = convert(reshape(matrix(rows, 1), {rows}), DType::f32);
    return models::Llama::Projection{nn::Weight::dense(matrix(rows, columns)), b, {rows}};
  };
  const Projections qkv{part(32, 32, true), part(16, 32, true), part(16, 32, true)};
  const Projections gate_up{part(48, 32, false), part(48, 32, false)};
  const models::Llama::Projection output = part(32, 32, false), down = part(32, 48, false);
  const nn::Weight embedding = nn::Weight::dense(matrix(40, 32));
  const auto model = [&](const Projections& first, const Projections& second) {
    return models::Llama(c, DType::bf16, {embedding, {{ones, ones, first, output, second, down}}, ones, std::nullopt});
  };
  const auto input = tokens(21, 40);
  const audit::Evaluation apart = audit::evaluate(model(qkv, gate_up), input);
  const audit::Evaluation joined = audit::evaluate(model(join(qkv), join(gate_up)), input);
  const audit::Comparison comparison = audit::compare(apart, joined);
  EXPECT_GT(comparison.compared, 21 * 40);
  EXPECT_EQ(comparison.differing, 0);
  EXPECT_THROW(model({qkv[1], qkv[0], qkv[2]}, gate_up), ShapeError);
  EXPECT_THROW(model(qkv, {gate_up[0]}), ShapeError);
}

TEST(Llama, SingleIsNearDouble) {
  const models::Llama model = models::builtin_tiny(DType::f64);
  const auto input = tokens(9, model.config().vocabulary);
  const audit::Evaluation wide = audit::evaluate(model, input);
  const audit::Evaluation narrow = audit::evaluate(models::builtin_tiny(DType::f32), input);
  double error = 0, norm = 0;
  for (std::int64_t i = 0; i < wide.logits.elements(); ++i) {
    const double y64 = wide.logits.data<double>()[static_cast<std::size_t>(i)];
    const double y = narrow.logits.data<float>()[static_cast<std::size_t>(i)];
    error += (y - y64) * (y - y64);
    norm += y64 * y64;
  }
  EXPECT_GT(norm, 0);
  EXPECT_LT(std::sqrt(error / norm), 2e-6);
}

TEST(Llama, RefusesWhatItCannotRun) {
  const models::Llama model = models::builtin_tiny(DType::bf16);
  nn::KvCache cache = model.make_cache(1);
  const auto run = [&](std::int64_t token, std::int64_t position) {
    model.hidden(Array::from(std::vector<std::int64_t>{token}, {1, 1}), {{position}, {1}}, cache);
  };
  EXPECT_THROW(run(320, 0), ValueError);
  EXPECT_THROW(run(-1, 0), ValueError);
  EXPECT_THROW(run(0, model.config().context), ValueError);
  EXPECT_NO_THROW(run(319, 0));
}

// A host that flushes subnormals and rounds upwards while it loads moves no bit, though a whole gain is subnormal.
TEST(Llama, LoadsTheSameBitsWhereTheHostFlushesSubnormals) {
  const TemporaryFolder folder;
  const io::GgufFile good = io::GgufFile::open(testing::write_tiny_llama(folder.path(), {}).gguf);
  io::GgufWriter writer;
  for (const auto& [key, value] : good.metadata()) writer.set(key, value);
  std::vector<std::uint32_t> gain;
  for (const io::GgufTensor& t : good.tensors()) {
    std::span<const std::byte> bytes = t.bytes;
    if (t.name == "output_norm.weight") {
      ASSERT_EQ(t.type, io::GgmlType::f32);
      for (std::size_t i = 0; i < t.bytes.size() / 4; ++i)
        gain.push_back(0x00004000u + 37 * static_cast<std::uint32_t>(i));
      bytes = std::as_bytes(std::span(gain));
    }
    writer.add(t.name, t.type, t.shape, bytes);
  }
  writer.write(folder.path() / "subnormal.gguf");
  const io::GgufFile file = io::GgufFile::open(folder.path() / "subnormal.gguf");
  for (const DType dtype : {DType::bf16, DType::f32, DType::f64}) {
    const auto load = [&](bool hostile) {
      std::optional<testing::HostileFloat> host;
      if (hostile) host.emplace();
      return std::pair(models::load_gguf(file, dtype), models::builtin_tiny(dtype));
    };
    const auto expected = load(false), got = load(true);
    const auto input = tokens(9, expected.first.config().vocabulary);
    const audit::Evaluation want = audit::evaluate(expected.first, input);
    EXPECT_EQ(audit::compare(want, audit::evaluate(got.first, input)).differing, 0);
    EXPECT_EQ(audit::compare(audit::evaluate(expected.second, input), audit::evaluate(got.second, input)).differing, 0);
    if (dtype != DType::f32) continue;
    const auto logits = want.logits.data<float>();
    EXPECT_TRUE(std::any_of(logits.begin(), logits.end(), [](float x) { return std::fpclassify(x) == FP_SUBNORMAL; }));
  }
}

TEST(Llama, NamesTheTensorThatIsMissingOrNotFinite) {
  const TemporaryFolder folder;
  const TinyFiles files = testing::write_tiny_llama(folder.path(), {});
  const io::GgufFile good = io::GgufFile::open(files.gguf);
  const auto rewrite = [&](std::string_view leave_out, std::string_view poison) {
    io::GgufWriter writer;
    for (const auto& [key, value] : good.metadata()) writer.set(key, value);
    std::vector<std::vector<std::byte>> kept;
    kept.reserve(good.tensors().size());
    for (const io::GgufTensor& t : good.tensors()) {
      if (t.name == leave_out) continue;
      kept.emplace_back(t.bytes.begin(), t.bytes.end());
      if (t.name == poison) kept.back()[7] = kept.back()[6] = std::byte{0xff};  // element 1 becomes NaN
      writer.add(t.name, t.type, t.shape, kept.back());
    }
    writer.write(folder.path() / "bad.gguf");
    return io::GgufFile::open(folder.path() / "bad.gguf");
  };
  const auto message = [](const io::GgufFile& file) -> std::string {
    try {
      models::load_gguf(file, DType::bf16);
    } catch (const FileError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message(rewrite("blk.1.ffn_up.weight", "")).find("blk.1.ffn_up.weight is missing"), std::string::npos);
  EXPECT_NE(message(rewrite("", "blk.0.attn_k.weight")).find("blk.0.attn_k.weight: element"), std::string::npos);
}

TEST(Config, RefusesLies) {
  const auto with = [](const char* change) {
    io::Json json = io::parse_json(R"({"model_type":"llama","vocab_size":48,"hidden_size":32,"num_hidden_layers":2,
      "num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":64,"max_position_embeddings":512,
      "rms_norm_eps":1e-5})",
                                   "config.json");
    json.merge_patch(io::parse_json(change, "change"));
    models::config_from_json(io::JsonView(json, "config.json"));
  };
  EXPECT_NO_THROW(with("{}"));
  EXPECT_THROW(with(R"({"model_type":"mamba"})"), UnsupportedError);
  EXPECT_THROW(with(R"({"model_type":null})"), FileError);
  EXPECT_THROW(with(R"({"num_attention_heads":0})"), FileError);
  EXPECT_THROW(with(R"({"num_key_value_heads":3})"), FileError);
  EXPECT_THROW(with(R"({"hidden_size":-32})"), FileError);
  EXPECT_THROW(with(R"({"num_hidden_layers":1e30})"), FileError);
  EXPECT_THROW(with(R"({"head_dim":7})"), FileError);
  EXPECT_THROW(with(R"({"rms_norm_eps":0})"), FileError);
  EXPECT_THROW(with(R"({"rope_theta":-1})"), FileError);
  EXPECT_THROW(with(R"({"hidden_act":"gelu"})"), FileError);
  EXPECT_THROW(with(R"({"rope_scaling":{"rope_type":"yarn"}})"), FileError);
}

}  // namespace
}  // namespace eadem
