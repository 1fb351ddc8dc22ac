// The programs that grad, jvp and vmap record of every primitive's samples, as text: one digest each in
// tests/golden/programs.txt, whatever compiler built this. (C++ leaves the order of arguments to the compiler: a rule
// that records two equations as arguments of one call has another program, and second derivatives other bits, under
// another compiler.) Regenerate with EADEM_UPDATE_GOLDEN=1; EADEM_PROGRAM_TEXTS=FILE writes the texts themselves.

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <map>

#include "eadem/ops/catalog.h"
#include "eadem/transforms/transforms.h"
#include "tests/support/sample_data.h"

namespace eadem {
namespace {

using namespace eadem::testing;

std::string text_of(const Types& types, const std::function<Arrays(const Arrays&)>& f) {
  try {
    return print(*trace("sample", types, f).program);
  } catch (const Error& error) {
    return fmt::format("refused: {}", error.what());
  }
}

Types joined(Types first, const Types& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

// Of one sample: reverse mode, forward mode, forward over reverse, and a batch of every operand.
std::array<std::pair<std::string, std::string>, 4> texts(const Primitive& primitive, const Sample& sample) {
  Types operands;
  for (const SampleOperand& operand : sample.operands) operands.push_back({operand.dtype, operand.shape});
  const Types results = primitive.infer({operands, sample.attributes.get()});
  const auto f = [&](const Arrays& in) { return apply_all(primitive, in, sample.attributes.get()); };
  const std::size_t count = operands.size();
  const auto gradient = [&](const Arrays& in) {
    Arrays outputs;
    const auto begun =
        detail::begin_vjp("vjp", f, Arrays(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(count)), outputs);
    std::vector<std::optional<Array>> cotangents(in.begin() + static_cast<std::ptrdiff_t>(count), in.end());
    return detail::finish_vjp(*begun, cotangents);
  };
  const auto tangents_of = [](const auto& g, const Arrays& in) {
    const auto half = in.begin() + static_cast<std::ptrdiff_t>(in.size() / 2);
    auto [values, directions] = detail::jvp_arrays("jvp", g, Arrays(in.begin(), half), Arrays(half, in.end()));
    values.insert(values.end(), directions.begin(), directions.end());
    return values;
  };
  Types batched = operands;
  for (TensorType& type : batched) type.shape.insert(0, 2);
  const Types with_cotangents = joined(operands, results);
  return {{{"vjp", text_of(with_cotangents, gradient)},
           {"jvp", text_of(joined(operands, operands), [&](const Arrays& in) { return tangents_of(f, in); })},
           {"jvp of vjp", text_of(joined(with_cotangents, with_cotangents),
                                  [&](const Arrays& in) { return tangents_of(gradient, in); })},
           {"vmap", count == 0 ? std::string() : text_of(batched, [&](const Arrays& in) {
              return detail::vmap_arrays("vmap", f, in, std::vector<std::optional<std::int64_t>>(count, 0), 0);
            })}}};
}

TEST(ProgramTexts, AreTheSameUnderEveryCompiler) {
  std::map<std::string, std::string> actual;
  std::ofstream all;
  if (const char* path = std::getenv("EADEM_PROGRAM_TEXTS")) all.open(path);
  for (const Primitive* primitive : catalog()) {
    if (std::holds_alternative<Control>(primitive->run)) continue;
    const std::vector<Sample> samples = samples_of(*primitive);
    std::map<std::string, std::string> of_kind;
    for (std::size_t i = 0; i < samples.size(); ++i)
      for (const auto& [kind, text] : texts(*primitive, samples[i])) {
        of_kind[kind] += text + "\n";
        if (all) all << primitive->name << "#" << i << " " << kind << "\n" << text << "\n";
      }
    for (const auto& [kind, text] : of_kind)
      actual.emplace(fmt::format("{} {}", primitive->name, kind), sha256_of(std::as_bytes(std::span(text))));
  }
  const std::string path = EADEM_SOURCE_DIR "/tests/golden/programs.txt";
  if (const char* update = std::getenv("EADEM_UPDATE_GOLDEN"); update && *update == '1') {
    std::ofstream file(path);
    for (const auto& [name, digest] : actual) file << digest << ' ' << name << '\n';
    return;
  }
  std::ifstream file(path);
  std::size_t known = 0;
  for (std::string digest, name; file >> digest && file.get() && std::getline(file, name); ++known) {
    const auto found = actual.find(name);
    EXPECT_TRUE(found != actual.end() && found->second == digest) << name << ": another program than the recorded one";
  }
  EXPECT_EQ(known, actual.size())
      << "run with EADEM_UPDATE_GOLDEN=1 after adding or changing primitives or their samples";
}

}  // namespace
}  // namespace eadem
