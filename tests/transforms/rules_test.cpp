// The rules of every primitive in the catalog, on its own samples. Batch rules: the bits of stacked slices, whichever
// operands are batched. Derivatives, in f64: reverse mode against central differences, forward mode against reverse.

#include "eadem/array/rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "eadem/ops/catalog.h"
#include "eadem/ops/ops.h"
#include "eadem/transforms/executable_region.h"
#include "eadem/transforms/transforms.h"
#include "tests/support/bits.h"
#include "tests/support/sample_data.h"

namespace eadem {
namespace {

using namespace eadem::testing;

// Primitives that take reals to reals and have no derivative yet, or none at all.
const std::map<std::string_view, std::string_view> kWithoutDerivative = {
    {"kv_page_append", "writes a cache, which only inference has"},
    {"paged_attention", "reads a cache, which only inference has"},
};

std::vector<const Primitive*> first_order() {
  std::vector<const Primitive*> all(catalog().begin(), catalog().end());
  std::erase_if(all, [](const Primitive* p) { return std::holds_alternative<Control>(p->run); });
  return all;
}

Array array_of(const SampleOperand& operand, std::uint64_t seed) {
  const Tensor tensor = materialize(operand, seed, Layout::contiguous);
  Array result = Array::allocate(tensor.view.type());
  const std::vector<std::byte> bytes = elements_of(tensor.view);
  if (!bytes.empty()) std::memcpy(result.view().data, bytes.data(), bytes.size());
  return result;
}

std::int64_t elements_in(const Sample& sample) {
  std::int64_t most = 0;
  for (const SampleOperand& operand : sample.operands) most = std::max(most, operand.shape.elements());
  return most;
}

class Rules : public ::testing::TestWithParam<const Primitive*> {
 protected:
  void SetUp() override { set_canonical_checked(true); }
  void TearDown() override { set_canonical_checked(false); }
  const Primitive& primitive() const { return *GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(Catalog, Rules, ::testing::ValuesIn(first_order()),
                         [](const auto& each) { return std::string(each.param->name); });

// ---- Parts: f(x[i:j]) == f(x)[i:j] along the axes where a record says so, as regions of a compiled program rely on.

TEST_P(Rules, PartsAreThoseOfTheWhole) {
  const auto& form = primitive().run;
  const Kernel* kernel = std::get_if<Kernel>(&form);
  if (!std::holds_alternative<Tile>(form) && !std::holds_alternative<Row>(form) && !(kernel && kernel->axis_of)) return;
  std::size_t parts = 0;
  std::vector<Sample> samples = samples_of(primitive());
  if (&primitive() == &prim::matmul)  // its own have no batch that both operands have
    samples.push_back({{{DType::bf16, {2, 3, 4, 40}}, {DType::bf16, {3, 40, 5}}}, nullptr});
  for (const Sample& sample : samples) {
    Program program;
    Arrays operands;
    for (std::size_t i = 0; i < sample.operands.size(); ++i) {
      operands.push_back(array_of(sample.operands[i], i + 1));
      program.inputs.push_back(program.add_value(operands.back().type()));
    }
    const Arrays whole = apply_all(primitive(), operands, sample.attributes.get());
    program.add_equation(primitive(), program.inputs, sample.attributes, types_of(whole));
    const Equation& equation = program.equations[0];
    for (int axis = 0; axis < whole[0].rank(); ++axis) {
      std::vector<int> axes;
      for (std::size_t i = 0; i < operands.size(); ++i) axes.push_back(axis_of(program, equation, i, axis));
      if (std::find(axes.begin(), axes.end(), kNoParts) != axes.end()) continue;
      const std::int64_t extent = whole[0].shape()[axis], middle = (extent + 1) / 3;
      for (const auto& [from, to] : {std::pair(std::int64_t{0}, middle), std::pair(middle, extent)}) {
        if (from == to) continue;
        Arrays part;
        for (std::size_t i = 0; i < operands.size(); ++i)
          part.push_back(axes[i] < 0 ? operands[i] : slice_axis(operands[i], axes[i], {from, to}));
        const Arrays got = apply_all(primitive(), part, sample.attributes.get());
        for (std::size_t r = 0; r < whole.size(); ++r)
          EXPECT_TRUE(same_bits({got[r]}, {slice_axis(whole[r], axis, {from, to})}))
              << "axis " << axis << " of result " << r << " of " << primitive().name << ", " << from << " to " << to;
        ++parts;
      }
    }
  }
  EXPECT_GT(parts, 0u);
}

// ---- Batch rules.

// The sample with the operands of `subset` batched `size` times.
void check_batch(const Primitive& primitive, const Sample& sample, unsigned subset, std::int64_t size,
                 const std::string& what) {
  const std::size_t count = sample.operands.size();
  const auto is_batched = [&](std::size_t i) { return (subset >> i & 1) != 0; };
  std::vector<Arrays> slices(static_cast<std::size_t>(size));
  Arrays inputs;
  std::vector<std::optional<std::int64_t>> axes;
  for (std::size_t i = 0; i < count; ++i) {
    if (is_batched(i)) {
      Arrays each;
      for (std::uint64_t b = 0; b < static_cast<std::uint64_t>(size); ++b) {
        each.push_back(array_of(sample.operands[i], 1000 * (b + 1) + i));
        slices[b].push_back(each.back());
      }
      Shape shape = sample.operands[i].shape;
      shape.insert(0, size);
      inputs.push_back(size == 0 ? zeros(shape, sample.operands[i].dtype) : stack(each));
      axes.emplace_back(0);
    } else {
      inputs.push_back(array_of(sample.operands[i], 1000 + i));
      for (Arrays& each : slices) each.push_back(inputs.back());
      axes.emplace_back();
    }
  }
  const auto f = [&](const Arrays& in) { return apply_all(primitive, in, sample.attributes.get()); };
  const Arrays got = detail::vmap_arrays("vmap", f, inputs, axes, 0);
  Types types;
  for (const SampleOperand& operand : sample.operands) types.push_back({operand.dtype, operand.shape});
  const Types expected_types = primitive.infer({types, sample.attributes.get()});
  std::vector<Arrays> expected(got.size());
  for (const Arrays& slice : slices) {
    const Arrays results = f(slice);
    for (std::size_t r = 0; r < results.size(); ++r) expected[r].push_back(results[r]);
  }
  ASSERT_EQ(got.size(), expected_types.size()) << what;
  for (std::size_t r = 0; r < got.size(); ++r) {
    Shape shape = expected_types[r].shape;
    shape.insert(0, size);
    ASSERT_EQ(got[r].type(), (TensorType{expected_types[r].dtype, shape})) << what;
    if (size == 0) continue;
    ASSERT_EQ(first_difference(got[r].view(), stack(expected[r]).view()), "") << what << ", result " << r;
  }
}

TEST_P(Rules, BatchIsStackedSlices) {
  const std::vector<Sample> samples = samples_of(primitive());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::size_t count = samples[i].operands.size();
    if (count == 0 || elements_in(samples[i]) > 3000) continue;
    for (unsigned subset = 1; subset < 1u << count; ++subset) {
      // Of many operands: each alone, and all.
      if (count > 4 && (subset & (subset - 1)) != 0 && subset + 1 != 1u << count) continue;
      for (const std::int64_t size : {3, 1, 0}) {
        if (size != 3 && subset != 1) continue;
        check_batch(primitive(), samples[i], subset, size,
                    fmt::format("{} sample {}, operands {:b} batched {} times, attributes {}", primitive().name, i,
                                subset, size, primitive().attributes->print(samples[i].attributes.get())));
        if (HasFatalFailure()) return;
      }
    }
  }
}

// ---- Derivatives.

struct Case {
  Arrays operands;
  std::shared_ptr<const void> attributes;
};

// The samples with f64 in place of every float, and values at which there is a derivative; where such operands give
// f64 results. A function defined on part of the line gets positive numbers too.
std::vector<Case> real_cases(const Primitive& primitive) {
  std::vector<Case> cases;
  std::set<std::string> seen;
  for (const Sample& sample : samples_of(primitive)) {
    if (elements_in(sample) > 3000) continue;
    for (const Fill otherwise : {Fill::normal, Fill::positive}) {
      std::string key = primitive.attributes->print(sample.attributes.get());
      Types types;
      std::vector<SampleOperand> operands = sample.operands;
      for (SampleOperand& operand : operands) {
        if (is_floating(operand.dtype)) {
          operand.dtype = DType::f64;
          if (operand.fill != Fill::unit) operand.fill = otherwise;
        } else if (operand.fill == Fill::wide) {
          operand.fill = Fill::positive;  // bytes of packed weights: small ones, so that scales are finite
        }
        types.push_back({operand.dtype, operand.shape});
        key += fmt::format(" {}:{}", types.back(), static_cast<int>(operand.fill));
      }
      if (!seen.insert(key).second) continue;
      const auto is_real = [](const TensorType& type) { return type.dtype == DType::f64; };
      if (std::none_of(types.begin(), types.end(), is_real)) continue;
      try {
        const Types results = primitive.infer({types, sample.attributes.get()});
        if (std::none_of(results.begin(), results.end(), is_real)) continue;
      } catch (const TypeError&) {
        continue;  // the attributes ask for another dtype
      }
      Case each{{}, sample.attributes};
      for (std::size_t i = 0; i < operands.size(); ++i) each.operands.push_back(array_of(operands[i], 1000 + i));
      cases.push_back(std::move(each));
    }
  }
  return cases;
}

bool takes_reals_to_reals(const Primitive& primitive) {
  for (const Sample& sample : samples_of(primitive)) {
    Types types;
    bool takes = false;
    for (const SampleOperand& operand : sample.operands) {
      types.push_back({operand.dtype, operand.shape});
      takes = takes || is_floating(operand.dtype);
    }
    for (const TensorType& type : primitive.infer({types, sample.attributes.get()}))
      if (takes && is_floating(type.dtype)) return true;
  }
  return false;
}

class DerivativeCase {
 public:
  DerivativeCase(const Primitive& primitive, const Case& each) : primitive_(primitive), case_(each) {
    values_ = run(case_.operands);
    std::uint64_t seed = 77;
    for (const Array& value : values_) {
      if (value.dtype() != DType::f64) {
        cotangents_.emplace_back();
        continue;
      }
      // No weight where the value is not finite: there is no difference to compare with.
      cotangents_.emplace_back(
          where(is_finite(value), normal(random_key(++seed), value.shape(), DType::f64), zeros_like(value)));
    }
    Arrays outputs;
    const auto state = detail::begin_vjp(
        "vjp", [&](const Arrays& in) { return run(in); }, case_.operands, outputs);
    gradients_ = detail::finish_vjp(*state, cotangents_);
  }

  /// Compares up to `most` elements of each operand's gradient with differences; counts those that were compared.
  void check_differences(int most, int& compared) {
    for (std::size_t i = 0; i < case_.operands.size(); ++i) {
      const Array& operand = case_.operands[i];
      if (operand.dtype() != DType::f64 || operand.elements() == 0) continue;
      const Array gradient = contiguous(gradients_[i]);
      const std::int64_t step = std::max<std::int64_t>(1, operand.elements() / most);
      for (std::int64_t at = 0; at < operand.elements(); at += step) {
        const double fine = extrapolated(i, at, 0x1p-13), coarse = extrapolated(i, at, 0x1p-11);
        const double got = gradient.data<double>()[static_cast<std::size_t>(at)];
        // The differences' own error, by how they differ; 1e-6 beside that is far from any wrong formula.
        const double doubt = 4 * std::fabs(fine - coarse);
        if (!(doubt <= 1e-3 * (1 + std::fabs(fine)))) continue;  // a jump, a pole or the domain's end is near
        ++compared;
        ASSERT_LE(std::fabs(got - fine), doubt + 1e-6 * std::fabs(fine) + 1e-8)
            << primitive_.name << " operand " << i << " element " << at << ": gradient " << got << ", difference "
            << fine << "; attributes " << primitive_.attributes->print(case_.attributes.get());
      }
    }
  }

  /// <tangent, vjp(cotangent)> == <jvp(tangent), cotangent>.
  void check_forward() {
    Arrays tangents;
    for (std::size_t i = 0; i < case_.operands.size(); ++i) {
      const Array& operand = case_.operands[i];
      tangents.push_back(operand.dtype() == DType::f64 ? normal(random_key(500 + i), operand.shape(), DType::f64)
                                                       : zeros_like(operand));
    }
    const auto [outputs, directions] = detail::jvp_arrays(
        "jvp", [&](const Arrays& in) { return run(in); }, case_.operands, tangents);
    double reverse = 0, forward = 0, scale = 0;
    const auto add = [&](const Array& a, const Array& b, double& total) {
      const Array x = contiguous(a), y = contiguous(b);
      for (std::size_t k = 0; k < x.data<double>().size(); ++k) {
        if (x.data<double>()[k] == 0) continue;
        const double product = x.data<double>()[k] * y.data<double>()[k];
        total += product;
        scale += std::fabs(product);
      }
    };
    for (std::size_t i = 0; i < tangents.size(); ++i)
      if (tangents[i].dtype() == DType::f64) add(gradients_[i], tangents[i], reverse);
    for (std::size_t r = 0; r < directions.size(); ++r)
      if (cotangents_[r]) add(*cotangents_[r], directions[r], forward);
    ASSERT_LE(std::fabs(reverse - forward), 1e-13 * scale + 1e-300)
        << primitive_.name << ": reverse " << reverse << ", forward " << forward << "; attributes "
        << primitive_.attributes->print(case_.attributes.get());
  }

 private:
  Arrays run(const Arrays& in) const { return apply_all(primitive_, in, case_.attributes.get()); }

  // <cotangents, f(x + h e) - f(x - h e)> / 2h with Richardson's step: the error is of the order of h^4.
  double extrapolated(std::size_t operand, std::int64_t at, double h) const {
    return (4 * difference(operand, at, h) - difference(operand, at, 2 * h)) / 3;
  }
  double difference(std::size_t operand, std::int64_t at, double relative) const {
    const double x = contiguous(case_.operands[operand]).data<double>()[static_cast<std::size_t>(at)];
    const double h = relative * std::max(std::fabs(x), 0x1p-10), above = x + h, below = x - h;
    double total = 0;
    const Arrays up = moved(operand, at, above), down = moved(operand, at, below);
    for (std::size_t r = 0; r < up.size(); ++r) {
      if (!cotangents_[r]) continue;
      const Array a = contiguous(up[r]), b = contiguous(down[r]), ct = contiguous(*cotangents_[r]);
      for (std::size_t k = 0; k < a.data<double>().size(); ++k)
        if (ct.data<double>()[k] != 0) total += ct.data<double>()[k] * (a.data<double>()[k] - b.data<double>()[k]);
    }
    return total / (above - below);
  }
  Arrays moved(std::size_t operand, std::int64_t at, double value) const {
    Arrays operands = case_.operands;
    operands[operand] = copy(operands[operand]);
    operands[operand].view().as<double>()[at] = value;
    return run(operands);
  }

  const Primitive& primitive_;
  const Case& case_;
  Arrays values_, gradients_;
  std::vector<std::optional<Array>> cotangents_;
};

TEST_P(Rules, DerivativesAgreeWithDifferences) {
  if (!takes_reals_to_reals(primitive())) return;
  if (primitive().name == "stop_gradient") return;  // it has none, whatever the differences say
  if (!primitive().vjp && !primitive().decompose) {
    EXPECT_TRUE(kWithoutDerivative.contains(primitive().name))
        << primitive().name << " takes reals to reals: it needs a vjp, a decomposition, or a reason here";
    return;
  }
  int compared = 0;
  for (const Case& each : real_cases(primitive())) {
    DerivativeCase derivative(primitive(), each);
    derivative.check_differences(12, compared);
    if (HasFatalFailure()) return;
    derivative.check_forward();
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(compared, 0) << primitive().name << ": no sample has a derivative that could be compared";
}

}  // namespace
}  // namespace eadem
