#include "eadem/models/config.h"

#include <cmath>
#include <cstring>

#include "eadem/numerics/elementary.h"
#include "eadem/numerics/rope.h"

namespace eadem::models {
namespace {

// Extents beyond these are lies: they keep every product of two of them in 63 bits.
constexpr std::int64_t kMostExtent = std::int64_t{1} << 24, kMostLayers = 4096, kMostContext = std::int64_t{1} << 31;

void require_range(const std::string& source, std::string_view key, std::int64_t value, std::int64_t most) {
  if (value < 1 || value > most) fail<FileError>("{}: {} must be in [1, {}], got {}", source, key, most, value);
}

void check(const LlamaConfig& c, const std::string& source) {
  require_range(source, "the vocabulary's size", c.vocabulary, kMostExtent);
  require_range(source, "the hidden size", c.hidden, kMostExtent);
  require_range(source, "the intermediate size", c.intermediate, kMostExtent);
  require_range(source, "the number of layers", c.layers, kMostLayers);
  require_range(source, "the number of heads", c.heads, 65536);
  require_range(source, "the number of key-value heads", c.kv_heads, c.heads);
  require_range(source, "the head's size", c.head_size, 65536);
  require_range(source, "the context's length", c.context, kMostContext);
  if (c.heads % c.kv_heads != 0)
    fail<FileError>("{}: {} heads are not a multiple of {} key-value heads", source, c.heads, c.kv_heads);
  require_range(source, "the product of heads and head size", c.heads * c.head_size, kMostExtent);
  if (c.head_size % 2 != 0) fail<FileError>("{}: the head's size must be even for rope, got {}", source, c.head_size);
  if (!(c.rms_epsilon > 0 && c.rms_epsilon < 1))
    fail<FileError>("{}: the norm's epsilon must be in (0, 1), got {}", source, c.rms_epsilon);
}

void set_rope(LlamaConfig& c, const std::string& source, double theta) {
  if (!(theta > 0 && std::isfinite(theta)))
    fail<FileError>("{}: the rope's base must be positive and finite, got {}", source, theta);
  c.rope_frequencies = numerics::rope_frequencies(theta, c.head_size);
}

// Divides by factors held as f32, as GGUF files store them: then both file formats of a model give the same angles.
void scale_rope(LlamaConfig& c, const std::string& source, std::span<const float> factors) {
  if (factors.size() != c.rope_frequencies.size())
    fail<FileError>("{}: {} rope factors were needed, got {}", source, c.rope_frequencies.size(), factors.size());
  for (std::size_t i = 0; i < factors.size(); ++i) {
    if (!(factors[i] > 0 && std::isfinite(factors[i])))
      fail<FileError>("{}: rope factor {} must be positive and finite, got {}", source, i, factors[i]);
    c.rope_frequencies[i] /= static_cast<double>(factors[i]);
  }
}

void require_architecture(const std::string& source, const std::string& name) {
  if (name != "llama" && name != "qwen2")
    fail<UnsupportedError>("{}: architecture '{}' is not supported; supported are llama and qwen2", source, name);
}

// Llama 3.1's interpolation (config.json, rope_scaling of type llama3): wavelengths beyond a limit are slowed down by
// `factor`, those below another are kept, and between them the factor is blended.
std::vector<float> llama3_factors(const LlamaConfig& c, const io::JsonView& scaling) {
  const double factor = scaling.required<double>("factor"), low = scaling.required<double>("low_freq_factor");
  const double high = scaling.required<double>("high_freq_factor");
  const double original = scaling.required<double>("original_max_position_embeddings");
  if (!(factor > 0 && low > 0 && high > low && original > 0)) scaling.refuse("has impossible factors");
  constexpr double kTurn = 6.283185307179586;
  std::vector<float> factors;
  for (const double frequency : c.rope_frequencies) {
    const double wavelength = kTurn / frequency;
    double divisor = 1;
    if (wavelength > original / low)
      divisor = factor;
    else if (wavelength >= original / high) {
      const double smooth = (original / wavelength - low) / (high - low);
      divisor = 1 / ((1 - smooth) / factor + smooth);
    }
    factors.push_back(static_cast<float>(divisor));
  }
  return factors;
}

}  // namespace

LlamaConfig config_from_gguf(const io::GgufFile& file) {
  const std::string& source = file.file()->name();
  LlamaConfig c;
  c.architecture = file.required<std::string>("general.architecture");
  require_architecture(source, c.architecture);
  const auto key = [&](std::string_view name) { return c.architecture + "." + std::string(name); };
  c.hidden = file.required<std::int64_t>(key("embedding_length"));
  c.layers = file.required<std::int64_t>(key("block_count"));
  c.heads = file.required<std::int64_t>(key("attention.head_count"));
  c.kv_heads = file.value_or<std::int64_t>(key("attention.head_count_kv"), c.heads);
  c.intermediate = file.required<std::int64_t>(key("feed_forward_length"));
  c.context = file.required<std::int64_t>(key("context_length"));
  c.rms_epsilon = file.required<double>(key("attention.layer_norm_rms_epsilon"));
  require_range(source, key("attention.head_count"), c.heads, 65536);
  c.head_size = file.value_or<std::int64_t>(key("attention.key_length"), c.hidden / c.heads);
  const Shape& embedding = file.tensor("token_embd.weight").shape;
  if (embedding.rank() != 2) fail<FileError>("{}: tensor token_embd.weight must have two axes", source);
  c.vocabulary = embedding[0];
  check(c, source);
  const std::int64_t rotated = file.value_or<std::int64_t>(key("rope.dimension_count"), c.head_size);
  if (rotated != c.head_size)
    fail<UnsupportedError>("{}: {} = {}: only whole heads ({}) are rotated", source, key("rope.dimension_count"),
                           rotated, c.head_size);
  if (const auto scaling = file.optional<std::string>(key("rope.scaling.type")); scaling && *scaling != "none")
    fail<UnsupportedError>("{}: {} = '{}' is not supported", source, key("rope.scaling.type"), *scaling);
  set_rope(c, source, file.value_or<double>(key("rope.freq_base"), 10000.0));
  if (const io::GgufTensor* factors = file.find_tensor("rope_freqs.weight")) {
    if (factors->type != io::GgmlType::f32) fail<FileError>("{}: tensor rope_freqs.weight must be F32", source);
    std::vector<float> values(factors->bytes.size() / sizeof(float));
    std::memcpy(values.data(), factors->bytes.data(), values.size() * sizeof(float));
    scale_rope(c, source + ": tensor rope_freqs.weight", values);
  }
  return c;
}

LlamaConfig config_from_json(const io::JsonView& json) {
  LlamaConfig c;
  c.architecture = json.required<std::string>("model_type");
  require_architecture("config.json", c.architecture);
  c.vocabulary = json.required<std::int64_t>("vocab_size");
  c.hidden = json.required<std::int64_t>("hidden_size");
  c.layers = json.required<std::int64_t>("num_hidden_layers");
  c.heads = json.required<std::int64_t>("num_attention_heads");
  c.kv_heads = json.value_or<std::int64_t>("num_key_value_heads", c.heads);
  c.intermediate = json.required<std::int64_t>("intermediate_size");
  c.context = json.required<std::int64_t>("max_position_embeddings");
  c.rms_epsilon = static_cast<float>(json.required<double>("rms_norm_eps"));
  require_range("config.json", "num_attention_heads", c.heads, 65536);
  c.head_size = json.value_or<std::int64_t>("head_dim", c.hidden / c.heads);
  check(c, "config.json");
  if (json.value_or<bool>("use_sliding_window", false)) json.at("use_sliding_window").refuse("is not supported");
  if (json.has("hidden_act") && json.required<std::string>("hidden_act") != "silu")
    json.at("hidden_act").refuse("must be silu");
  // A GGUF file holds base and epsilon as f32; both formats of a model must give the same bits.
  const io::JsonView& rope = json.has("rope_parameters") ? json.at("rope_parameters") : json;  // newer files nest it
  set_rope(c, "config.json", static_cast<float>(rope.value_or<double>("rope_theta", 10000.0)));
  if (json.value_or<double>("partial_rotary_factor", 1.0) != 1) json.at("partial_rotary_factor").refuse("must be 1");
  if (json.has("rope_scaling") || json.has("rope_parameters")) {
    const io::JsonView scaling = json.has("rope_scaling") ? json.at("rope_scaling") : json.at("rope_parameters");
    const std::string kind =
        scaling.has("rope_type") ? scaling.required<std::string>("rope_type") : scaling.required<std::string>("type");
    if (kind == "llama3")
      scale_rope(c, "config.json: rope_scaling", llama3_factors(c, scaling));
    else if (kind != "default")
      scaling.refuse("has a type that is not supported");
  }
  return c;
}

}  // namespace eadem::models
