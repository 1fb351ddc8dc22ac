#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

#include "eadem/base/parallel.h"
#include "eadem/kernels/target.h"
#include "eadem/ops/catalog.h"
#include "eadem/runtime/execute.h"
#include "tests/support/sample_data.h"

// The conformance matrix: every sample of every primitive, under every target of this CPU, threads and layouts, has the
// bits of the definition; and these have the golden digests, recorded once for all machines.

namespace eadem {
namespace {

using namespace eadem::testing;

struct Prepared {
  std::vector<Tensor> operands, results;
  std::vector<TensorView> operand_views, result_views;
  Launch launch;
};

// A set of operands.
using Operands = std::uint64_t;
bool in(Operands set, std::size_t i) {
  return (set >> i & 1) != 0;
}

// Those in `broadcast` have stride 0 along an axis; with `copied`, their elements in memory of their own.
Prepared prepare(const Primitive& primitive, const Sample& sample, Layout layout, Operands broadcast = 0,
                 bool copied = false) {
  Prepared p;
  std::vector<TensorType> types;
  for (std::size_t i = 0; i < sample.operands.size(); ++i) {
    p.operands.push_back(materialize(sample.operands[i], 1000 + i, in(broadcast, i) ? Layout::broadcast : layout));
    if (copied && in(broadcast, i)) {
      Tensor copy = allocate(p.operands.back().view.type());
      std::ranges::copy(elements_of(p.operands.back().view), copy.memory.begin());
      p.operands.back() = std::move(copy);
    }
    p.operand_views.push_back(p.operands.back().view);
    types.push_back(p.operand_views.back().type());
  }
  for (const TensorType& type : primitive.infer({types, sample.attributes.get()})) {
    p.results.push_back(allocate(type));
    p.result_views.push_back(p.results.back().view);
  }
  p.launch = {p.operand_views, p.result_views, sample.attributes.get()};
  return p;
}

class Conformance : public ::testing::TestWithParam<const Primitive*> {
 protected:
  void TearDown() override {
    kernels::set_target(kernels::available_targets().back());
    set_threads(1);
  }
};

TEST_P(Conformance, EveryFormHasTheBitsOfTheDefinition) {
  const Primitive& primitive = *GetParam();
  const std::vector<Sample> samples = samples_of(primitive);
  ASSERT_FALSE(samples.empty());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    Prepared expected = prepare(primitive, samples[i], Layout::contiguous);
    execute_reference(primitive, expected.launch);
    const auto check = [&](const Prepared& got, const Prepared& want, std::string_view what) {
      for (std::size_t r = 0; r < got.result_views.size(); ++r)
        EXPECT_EQ(first_difference(got.result_views[r], want.result_views[r]), "")
            << primitive.name << " sample " << i << " result " << r << ": " << what << "; attributes "
            << primitive.attributes->print(samples[i].attributes.get());
    };
    // A reshape is a view only of what strides can express; its public function copies first, so does this.
    const bool any_layout = primitive.name != "reshape";
    for (const Layout layout : kLayouts) {
      if (layout != Layout::contiguous && !any_layout) continue;
      Prepared reference = prepare(primitive, samples[i], layout);
      execute_reference(primitive, reference.launch);
      check(reference, expected, fmt::format("reference, layout {}", static_cast<int>(layout)));
    }
    // All operands broadcast, and each of the first three alone.
    std::map<Operands, Prepared> broadcasts;
    const std::size_t operands = samples[i].operands.size();
    std::vector<Operands> sets;
    if (any_layout && operands > 0) sets.push_back((Operands{1} << operands) - 1);
    for (std::size_t each = 0; each < std::min<std::size_t>(operands, 3) && operands > 1 && any_layout; ++each)
      sets.push_back(Operands{1} << each);
    for (const Operands set : sets) {
      Prepared& want = broadcasts[set] = prepare(primitive, samples[i], Layout::contiguous, set, true);
      execute_reference(primitive, want.launch);
      Prepared reference = prepare(primitive, samples[i], Layout::contiguous, set);
      execute_reference(primitive, reference.launch);
      check(reference, want, fmt::format("reference, operands broadcast {:b}", set));
    }
    for (const int count : {1, 2, 3, 7}) {
      set_threads(count);  // outermost: it starts and ends threads
      for (const kernels::Target target : kernels::available_targets()) {
        // All threads on the best target, one and three on the others.
        if (target != kernels::available_targets().back() && count != 1 && count != 3) continue;
        kernels::set_target(target);
        for (const Layout layout : kLayouts) {
          if (layout != Layout::contiguous && !any_layout) continue;
          Prepared got = prepare(primitive, samples[i], layout);
          execute(primitive, got.launch);
          check(got, expected,
                fmt::format("target {}, {} threads, layout {}", kernels::name_of(target), count,
                            static_cast<int>(layout)));
        }
        for (const Operands set : sets) {
          Prepared got = prepare(primitive, samples[i], Layout::contiguous, set);
          execute(primitive, got.launch);
          check(got, broadcasts.at(set),
                fmt::format("target {}, {} threads, operands broadcast {:b}", kernels::name_of(target), count, set));
        }
      }
    }
    if (HasFailure()) return;
  }
}

TEST_P(Conformance, AttributesPrintAndParse) {
  const Primitive& primitive = *GetParam();
  for (const Sample& sample : samples_of(primitive)) {
    const AttributeKind& kind = *primitive.attributes;
    const std::string text = kind.print(sample.attributes.get());
    const auto parsed = kind.parse(text, catalog());
    EXPECT_TRUE(kind.equal(parsed.get(), sample.attributes.get())) << text;
    EXPECT_EQ(kind.hash(parsed.get()), kind.hash(sample.attributes.get()));
  }
}

// Higher-order primitives run other primitives; tests/transforms holds them to their laws.
std::vector<const Primitive*> first_order() {
  std::vector<const Primitive*> all(catalog().begin(), catalog().end());
  std::erase_if(all, [](const Primitive* p) { return std::holds_alternative<Control>(p->run); });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Catalog, Conformance, ::testing::ValuesIn(first_order()),
                         [](const auto& each) { return std::string(each.param->name); });

TEST(Catalog, IsSortedAndDescribed) {
  std::string_view last;
  for (const Primitive* primitive : catalog()) {
    EXPECT_LT(last, primitive->name);
    EXPECT_FALSE(primitive->summary.empty()) << primitive->name;
    EXPECT_EQ(find_primitive(primitive->name), primitive);
    last = primitive->name;
  }
}

// tests/golden/primitives.txt: a line for each sample, "primitive#index digest". Regenerate with EADEM_UPDATE_GOLDEN=1.
TEST(Golden, PrimitivesHaveTheRecordedBits) {
  const std::string path = std::string(EADEM_SOURCE_DIR) + "/tests/golden/primitives.txt";
  std::map<std::string, std::string> actual, recorded;
  for (const Primitive* primitive : catalog()) {
    const std::vector<Sample> samples = samples_of(*primitive);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      Prepared p = prepare(*primitive, samples[i], Layout::contiguous);
      execute(*primitive, p.launch);
      std::vector<std::byte> bytes;
      for (const TensorView& view : p.result_views) {
        const std::vector<std::byte> part = elements_of(view);
        bytes.insert(bytes.end(), part.begin(), part.end());
      }
      actual[fmt::format("{}#{}", primitive->name, i)] = sha256_of(bytes);
    }
  }
  if (const char* update = std::getenv("EADEM_UPDATE_GOLDEN"); update && *update == '1') {
    std::ofstream file(path);
    for (const auto& [name, digest] : actual) file << name << ' ' << digest << '\n';
  }
  std::ifstream file(path);
  for (std::string name, digest; file >> name >> digest;) recorded[name] = digest;
  EXPECT_EQ(recorded.size(), actual.size()) << "run with EADEM_UPDATE_GOLDEN=1 after adding samples";
  for (const auto& [name, digest] : recorded) EXPECT_EQ(actual[name], digest) << name;
}

}  // namespace
}  // namespace eadem
