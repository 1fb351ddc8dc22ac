#include "eadem/audit/evaluation.h"

#include <algorithm>
#include <cstring>

#include "eadem/io/atomic_file.h"
#include "eadem/io/mapped_file.h"
#include "eadem/numerics/rounding.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"

namespace eadem::audit {
namespace {

// Visits the arrays of an evaluation in the order of computation.
template <class F>
void for_each_array(const Evaluation& e, F&& f) {
  for (std::size_t layer = 0; layer < e.keys.size(); ++layer) {
    f(static_cast<std::int64_t>(layer), "key", e.keys[layer]);
    f(static_cast<std::int64_t>(layer), "value", e.values[layer]);
  }
  f(std::int64_t{-1}, "logits", e.logits);
}

void compare_array(std::int64_t layer, const char* tensor, const Array& expected, const Array& got,
                   Comparison& result) {
  if (expected.type() != got.type())
    fail<ValueError>("[audit] {} of layer {}: {} cannot be compared with {}", tensor, layer, expected.type(),
                     got.type());
  const std::size_t size = size_of(expected.dtype());
  result.compared += expected.elements();
  if (std::memcmp(expected.view().data, got.view().data, static_cast<std::size_t>(expected.elements()) * size) == 0)
    return;
  const Shape strides = contiguous_strides(expected.shape());
  for (std::int64_t i = 0; i < expected.elements(); ++i) {
    const std::ptrdiff_t offset = i * static_cast<std::int64_t>(size);
    if (std::memcmp(expected.view().data + offset, got.view().data + offset, size) == 0) continue;
    if (++result.differing > 1 || result.first) continue;
    Difference& first = result.first.emplace();
    first.layer = layer;
    first.tensor = tensor;
    for (int axis = 0; axis < strides.rank(); ++axis) first.index.push_back(i / strides[axis] % expected.shape()[axis]);
    visit_floating(expected.dtype(), [&]<class T>(std::type_identity<T>) {
      first.expected = numerics::to_double(expected.view().as<const T>()[i]);
      first.got = numerics::to_double(got.view().as<const T>()[i]);
    });
  }
}

// Runs the batch of a form, the audited sequence and its companions in step.
class Runner {
 public:
  Runner(const models::Llama& model, const std::vector<std::int32_t>& tokens, const Form& form)
      : model_(model),
        form_(form),
        sequences_(form.companions),
        cache_(model.make_cache(static_cast<std::int64_t>(form.companions.size()) + 1)) {
    sequences_.insert(sequences_.begin() + form.place, tokens);
  }

  Evaluation run() {
    const auto& tokens = sequences_[static_cast<std::size_t>(form_.place)];
    const auto total = static_cast<std::int64_t>(tokens.size());
    Arrays logits;
    std::int64_t done = 0;
    for (std::size_t i = 0; done < total; ++i) {
      const std::int64_t wanted = form_.chunks.empty() ? total : form_.chunks[i % form_.chunks.size()];
      const std::int64_t count = std::min(wanted, total - done);
      logits.push_back(step(done, count, tokens));
      done += count;
      if (form_.rejected > 0 && done < total) {
        const auto wrong = std::min(form_.rejected, total - done);
        std::vector<std::int32_t> guesses(tokens.begin(), tokens.begin() + done);
        for (std::int64_t k = 0; k < wrong; ++k)
          guesses.push_back(static_cast<std::int32_t>((k * 7 + done) % model_.config().vocabulary));
        step(done, wrong, guesses);
      }
    }
    Evaluation result;
    result.logits = logits.size() == 1 ? logits[0] : concatenate(logits, 0);
    for (std::int64_t layer = 0; layer < cache_.layers(); ++layer) {
      result.keys.push_back(cache_.keys_of(layer, form_.place));
      result.values.push_back(cache_.values_of(layer, form_.place));
    }
    return result;
  }

 private:
  // Runs tokens [begin, begin + count) of the audited sequence (read from `tokens`) and, of each companion, what lies
  // there; logits [count, vocabulary].
  Array step(std::int64_t begin, std::int64_t count, const std::vector<std::int32_t>& tokens) {
    const std::int64_t width = form_.left_padding + count + form_.right_padding;
    std::vector<std::int64_t> matrix;
    models::Placement placement;
    for (std::size_t b = 0; b < sequences_.size(); ++b) {
      const bool audited = static_cast<std::int64_t>(b) == form_.place;
      const std::vector<std::int32_t>& row = audited ? tokens : sequences_[b];
      const std::int64_t at = audited ? begin : std::min<std::int64_t>(begin, static_cast<std::int64_t>(row.size()));
      const std::int64_t own =
          audited ? count : std::min<std::int64_t>(count, static_cast<std::int64_t>(row.size()) - at);
      // Left padding is possible where a sequence begins: later rows would fall on positions that are taken.
      const std::int64_t left = at == 0 ? form_.left_padding : 0;
      placement.position.push_back(at - left);
      placement.count.push_back(left + own);
      for (std::int64_t i = 0; i < width; ++i) {
        const bool real = i >= left && i < left + own;
        matrix.push_back(real ? row[static_cast<std::size_t>(at + i - left)] : i % model_.config().vocabulary);
      }
      if (audited) first_column_ = left;
    }
    const Array input = Array::from(matrix, {static_cast<std::int64_t>(sequences_.size()), width});
    const Array hidden = model_.hidden(input, placement, cache_);
    const Array own = slice(hidden, {{form_.place, form_.place + 1}, {first_column_, first_column_ + count}});
    return contiguous(model_.logits(reshape(own, {count, model_.config().hidden})));
  }

  const models::Llama& model_;
  const Form& form_;
  std::vector<std::vector<std::int32_t>> sequences_;
  nn::KvCache cache_;
  std::int64_t first_column_ = 0;
};

}  // namespace

Evaluation evaluate(const models::Llama& model, const std::vector<std::int32_t>& tokens, const Form& form) {
  if (tokens.empty()) fail<ValueError>("[audit] needs at least one token");
  if (form.place < 0 || form.place > static_cast<std::int64_t>(form.companions.size()))
    fail<ValueError>("[audit] place {} is not in a batch of {}", form.place, form.companions.size() + 1);
  return Runner(model, tokens, form).run();
}

Comparison compare(const Evaluation& expected, const Evaluation& got) {
  if (expected.keys.size() != got.keys.size())
    fail<ValueError>("[audit] {} layers cannot be compared with {}", expected.keys.size(), got.keys.size());
  Comparison result;
  Arrays others;
  for_each_array(got, [&](std::int64_t, const char*, const Array& each) { others.push_back(each); });
  std::size_t i = 0;
  for_each_array(expected, [&](std::int64_t layer, const char* tensor, const Array& each) {
    compare_array(layer, tensor, each, others[i++], result);
  });
  return result;
}

Evaluation head(const Evaluation& e, std::int64_t count) {
  Evaluation result{contiguous(slice_axis(e.logits, 0, {0, count})), {}, {}};
  for (const Array& each : e.keys) result.keys.push_back(contiguous(slice_axis(each, 1, {0, count})));
  for (const Array& each : e.values) result.values.push_back(contiguous(slice_axis(each, 1, {0, count})));
  return result;
}

void write_evaluation(const Evaluation& e, const std::filesystem::path& path) {
  io::AtomicFile file(path);
  for_each_array(e, [&](std::int64_t, const char*, const Array& each) {
    file.write(std::span(each.view().data, static_cast<std::size_t>(each.elements()) * size_of(each.dtype())));
  });
  file.commit();
}

Evaluation read_evaluation(const std::filesystem::path& path, const Evaluation& like) {
  const auto file = io::MappedFile::open(path);
  std::span<const std::byte> rest = file->bytes();
  Arrays arrays;
  for_each_array(like, [&](std::int64_t, const char*, const Array& each) {
    const std::size_t bytes = static_cast<std::size_t>(each.elements()) * size_of(each.dtype());
    if (rest.size() < bytes) fail<FileError>("{}: holds {} bytes too few", path.string(), bytes - rest.size());
    arrays.push_back(Array::allocate(each.type()));
    std::memcpy(arrays.back().view().data, rest.data(), bytes);
    rest = rest.subspan(bytes);
  });
  if (!rest.empty()) fail<FileError>("{}: holds {} bytes too many", path.string(), rest.size());
  Evaluation result;
  for (std::size_t i = 0; i + 1 < arrays.size(); i += 2) {
    result.keys.push_back(arrays[i]);
    result.values.push_back(arrays[i + 1]);
  }
  result.logits = arrays.back();
  return result;
}

}  // namespace eadem::audit
