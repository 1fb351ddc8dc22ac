#include "eadem/models/load.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "eadem/base/float_environment.h"
#include "eadem/numerics/quantized_blocks.h"
#include "eadem/numerics/rounding.h"
#include "eadem/ops/ops.h"

namespace eadem::models {
namespace {

// Rows of the q and k projections as llama GGUF files hold them (pair by pair) in the order that half-split rope wants.
std::vector<std::int64_t> half_split_rows(std::int64_t heads, std::int64_t head_size) {
  std::vector<std::int64_t> rows;
  for (std::int64_t head = 0; head < heads; ++head)
    for (std::int64_t half = 0; half < 2; ++half)
      for (std::int64_t pair = 0; pair < head_size / 2; ++pair) rows.push_back(head * head_size + 2 * pair + half);
  return rows;
}

void require_finite(const std::string& source, std::string_view name, const Array& x) {
  visit_floating(x.dtype(), [&]<class T>(std::type_identity<T>) {
    const auto values = x.data<T>();
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!std::isfinite(numerics::to_double(values[i])))
        fail<FileError>("{}: tensor {}: element {} is {}: weights must be finite", source, name, i,
                        numerics::to_double(values[i]));
  });
}

// A tensor of a model file, whatever the format: a window on the file's memory, or blocks of codes.
struct Source {
  std::string file;
  std::string name;
  Shape shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const io::MappedFile> mapping;
  DType dtype = DType::f32;                                      // of a dense tensor
  std::optional<numerics::QuantizedType> blocks = std::nullopt;  // of a quantized one
};

Array dense_array(const Source& source, DType dtype) {
  if (source.blocks) fail<FileError>("{}: tensor {} must not be quantized", source.file, source.name);
  if (!is_floating(source.dtype))
    fail<FileError>("{}: tensor {} must be of a floating dtype, got {}", source.file, source.name, source.dtype);
  Array x = Array::allocate({source.dtype, source.shape});
  if (!source.bytes.empty()) std::memcpy(x.view().data, source.bytes.data(), source.bytes.size());
  source.mapping->drop_pages(source.bytes);
  require_finite(source.file, source.name, x);
  return x.dtype() == dtype ? x : convert(x, dtype);
}

Array permuted(const Array& x, std::span<const std::int64_t> rows) {
  if (rows.empty()) return x;
  return take(x, Array::from(rows, {static_cast<std::int64_t>(rows.size())}), 0);
}

// A matrix of the file, its rows to be taken in another order if `order` is not empty.
struct Rows {
  Source source;
  std::span<const std::int64_t> order = {};
};

void require_matrix(const Rows& rows) {
  const Source& source = rows.source;
  if (source.shape.rank() != 2)
    fail<FileError>("{}: tensor {} must have two axes, got {}", source.file, source.name, source.shape);
  if (!rows.order.empty() && static_cast<std::int64_t>(rows.order.size()) != source.shape[0])
    fail<FileError>("{}: tensor {} must have {} rows, got {}", source.file, source.name, rows.order.size(),
                    source.shape);
}

// Whether two matrices can be one weight: of equal width, both dense, or with equal codes.
bool joinable(const Source& a, const Source& b) {
  if (a.shape[1] != b.shape[1] || a.blocks.has_value() != b.blocks.has_value()) return false;
  return !a.blocks || numerics::format_of(*a.blocks) == numerics::format_of(*b.blocks);
}

// Joinable matrices, one below the other.
nn::Weight join(std::span<const Rows> parts, DType dtype) {
  if (!parts[0].source.blocks) {
    std::vector<Array> dense;
    for (const Rows& part : parts) dense.push_back(permuted(dense_array(part.source, dtype), part.order));
    return nn::Weight::dense(dense.size() == 1 ? dense[0] : concatenate(dense, 0));
  }
  std::vector<nn::Weight::Named> matrices;
  std::vector<std::vector<std::byte>> reordered;
  for (const auto& [source, order] : parts) {
    std::span<const std::byte> bytes = source.bytes;
    if (!order.empty()) {
      std::vector<std::byte>& copy = reordered.emplace_back();
      const std::size_t row_bytes = bytes.size() / static_cast<std::size_t>(source.shape[0]);
      for (const std::int64_t row : order) {
        const auto part = bytes.subspan(static_cast<std::size_t>(row) * row_bytes, row_bytes);
        copy.insert(copy.end(), part.begin(), part.end());
      }
      bytes = copy;
    }
    std::string name = fmt::format("{}: tensor {}", source.file, source.name);
    const auto matrix = numerics::block_matrix(name, *source.blocks, source.shape[0], source.shape[1], bytes);
    matrices.push_back({std::move(name), matrix});
  }
  nn::Weight weight = nn::Weight::quantized(matrices);
  for (const Rows& part : parts) part.source.mapping->drop_pages(part.source.bytes);
  return weight;
}

nn::Weight matrix(const Source& source, DType dtype) {
  const Rows rows{source};
  require_matrix(rows);
  return join({&rows, 1}, dtype);
}

// Norm gains and rope factors of 16-bit models are exact in f32: both file formats give the same gains.
Array gain(const Source& source, DType dtype) {
  return dense_array(source, dtype == DType::f64 ? dtype : DType::f32);
}

// How a file format names the parts of a model.
struct Names {
  std::string_view embedding, norm, output, layer;  // layer has one {}
  std::string_view attention_norm, query, key, value, attention_output, mlp_norm, gate, up, down;
};
constexpr Names kGgufNames{"token_embd", "output_norm", "output",   "blk.{}.",  "attn_norm", "attn_q",  "attn_k",
                           "attn_v",     "attn_output", "ffn_norm", "ffn_gate", "ffn_up",    "ffn_down"};
constexpr Names kHuggingFaceNames{
    "model.embed_tokens", "model.norm",       "lm_head",          "model.layers.{}.", "input_layernorm",
    "self_attn.q_proj",   "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "post_attention_layernorm",
    "mlp.gate_proj",      "mlp.up_proj",      "mlp.down_proj"};

// Finds a tensor by its full name; null when the file has none.
using Find = std::function<std::optional<Source>(const std::string&)>;

Llama assemble(const std::string& file, LlamaConfig config, DType dtype, const Names& names, bool interleaved,
               bool tied, const Find& find) {
  const auto required = [&](const std::string& name) {
    std::optional<Source> source = find(name);
    if (!source) fail<FileError>("{}: tensor {} is missing", file, name);
    return *std::move(source);
  };
  // Projections of one input, in as few products as their forms allow.
  using Wanted = std::pair<std::string, std::span<const std::int64_t>>;
  const auto projections = [&](std::initializer_list<Wanted> wanted) {
    std::vector<Rows> rows;
    std::vector<std::optional<Array>> biases;
    for (const auto& [name, order] : wanted) {
      rows.push_back({required(name + ".weight"), order});
      require_matrix(rows.back());
      const std::optional<Source> bias = find(name + ".bias");
      biases.push_back(bias ? std::optional(permuted(gain(*bias, dtype), order)) : std::nullopt);
    }
    std::vector<Llama::Projection> products;
    for (std::size_t begin = 0, end; begin < rows.size(); begin = end) {
      for (end = begin + 1; end < rows.size() && joinable(rows[begin].source, rows[end].source) &&
                            biases[begin].has_value() == biases[end].has_value();)
        ++end;
      const auto parts = std::span(rows).subspan(begin, end - begin);
      products.push_back({join(parts, dtype), std::nullopt, {}});
      Llama::Projection& p = products.back();
      for (const Rows& part : parts) p.outputs.push_back(part.source.shape[0]);
      if (!biases[begin]) continue;
      std::vector<Array> joined;
      for (std::size_t i = begin; i < end; ++i) joined.push_back(*biases[i]);
      p.bias = concatenate(joined, 0);
    }
    return products;
  };
  const auto projection = [&](const std::string& name) { return std::move(projections({{name, {}}})[0]); };
  std::vector<std::int64_t> query_rows, key_rows;
  if (interleaved) {
    query_rows = half_split_rows(config.heads, config.head_size);
    key_rows = half_split_rows(config.kv_heads, config.head_size);
  }
  Llama::Weights weights{matrix(required(fmt::format("{}.weight", names.embedding)), dtype),
                         {},
                         gain(required(fmt::format("{}.weight", names.norm)), dtype),
                         std::nullopt};
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string prefix = fmt::format(fmt::runtime(names.layer), i);
    const auto name = [&](std::string_view part) { return prefix + std::string(part); };
    weights.layers.push_back(
        {.attention_norm = gain(required(name(names.attention_norm) + ".weight"), dtype),
         .mlp_norm = gain(required(name(names.mlp_norm) + ".weight"), dtype),
         .query_key_value =
             projections({{name(names.query), query_rows}, {name(names.key), key_rows}, {name(names.value), {}}}),
         .output = projection(name(names.attention_output)),
         .gate_up = projections({{name(names.gate), {}}, {name(names.up), {}}}),
         .down = projection(name(names.down))});
  }
  if (!tied) weights.output = matrix(required(fmt::format("{}.weight", names.output)), dtype);
  try {
    return Llama(std::move(config), dtype, std::move(weights));
  } catch (const ShapeError& error) {
    fail<FileError>("{}: {}", file, error.what());
  }
}

std::optional<DType> dense_dtype(io::GgmlType type) {
  switch (type) {
    case io::GgmlType::f32: return DType::f32;
    case io::GgmlType::f16: return DType::f16;
    case io::GgmlType::bf16: return DType::bf16;
    case io::GgmlType::f64: return DType::f64;
    default: return std::nullopt;
  }
}

std::optional<numerics::QuantizedType> block_type(io::GgmlType type) {
  std::string name(io::layout_of(type).name);
  std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return numerics::quantized_type_named(name);
}

}  // namespace

Llama load_gguf(const io::GgufFile& file, DType dtype) {
  const FloatEnvironment environment;  // weights are rounded and packed outside of launches, on this thread, too
  const std::string& name = file.file()->name();
  LlamaConfig config = config_from_gguf(file);
  const bool interleaved = config.architecture == "llama";
  const bool tied = !file.find_tensor("output.weight");
  return assemble(name, std::move(config), dtype, kGgufNames, interleaved, tied,
                  [&](const std::string& tensor_name) -> std::optional<Source> {
                    const io::GgufTensor* tensor = file.find_tensor(tensor_name);
                    if (!tensor) return std::nullopt;
                    Source source{name, tensor_name, tensor->shape, tensor->bytes, file.file()};
                    if (const auto dense = dense_dtype(tensor->type))
                      source.dtype = *dense;
                    else if (const auto blocks = block_type(tensor->type))
                      source.blocks = blocks;
                    else
                      fail<FileError>("{}: tensor {} has type {}, which no weight can have", name, tensor_name,
                                      io::layout_of(tensor->type).name);
                    return source;
                  });
}

Llama load_hugging_face(const std::filesystem::path& folder, DType dtype, io::Access access) {
  const FloatEnvironment environment;
  const std::filesystem::path path = folder / "config.json";
  const io::Json json = io::read_json(path);
  const io::JsonView view(json, path.string());
  LlamaConfig config = config_from_json(view);
  const bool tied = view.value_or<bool>("tie_word_embeddings", false);
  const io::Safetensors tensors = io::Safetensors::open_folder(folder, access);
  return assemble(folder.string(), std::move(config), dtype, kHuggingFaceNames, false, tied,
                  [&](const std::string& tensor_name) -> std::optional<Source> {
                    const io::SafeTensor* tensor = tensors.find(tensor_name);
                    if (!tensor) return std::nullopt;
                    return Source{folder.string(), tensor_name,  tensor->shape,
                                  tensor->bytes,   tensor->file, tensor->dtype};
                  });
}

}  // namespace eadem::models
