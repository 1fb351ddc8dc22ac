#include "eadem/audit/reproduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "eadem/base/parallel.h"
#include "eadem/kernels/contraction/contraction.h"
#include "eadem/kernels/target.h"
#include "eadem/transforms/compile.h"

namespace eadem::audit {
namespace {

using Layers = Stack<FlaxLayer>;

// Threads, target and tuning of the process, put back at the end.
class MachineScope {
 public:
  MachineScope() : threads_(threads()), target_(kernels::active_target()), tuning_(kernels::tuning()) {}
  ~MachineScope() {
    set_threads(threads_);
    kernels::set_target(target_);
    kernels::set_tuning(tuning_);
  }
  MachineScope(const MachineScope&) = delete;
  MachineScope& operator=(const MachineScope&) = delete;
  int threads_before() const { return threads_; }
  kernels::Target target_before() const { return target_; }

 private:
  int threads_;
  kernels::Target target_;
  bool tuning_;
};

Array looped(const Layers& layers, const Array& x) {
  Array y = x;
  for (const FlaxLayer& layer : layers) y = layer(y);
  return y;
}

// A way to run the network: its output, or the gradient of the sum of the output's squares by all parameters and the
// input.
struct Way {
  std::string_view name;
  bool scans, compiled;
};
constexpr Way kWays[] = {
    {"scan", true, false}, {"loop", false, false}, {"compiled scan", true, true}, {"compiled loop", false, true}};

Arrays evaluated(const Way& way, bool gradient, const Layers& layers, const Array& x) {
  const auto network = [scans = way.scans](const Layers& l, const Array& in) {
    return scans ? scan(l, in) : looped(l, in);
  };
  const auto slopes = grad([network](const std::pair<Layers, Array>& at) {
    const Array y = network(at.first, at.second);
    return sum(y * y);
  });
  if (gradient) {
    const std::pair<Layers, Array> at(layers, x);
    return leaves(way.compiled ? compile(slopes)(at) : slopes(at));
  }
  return {way.compiled ? compile(network)(layers, x) : network(layers, x)};
}

// How many elements differ in their bits; `largest` grows to the largest distance.
std::int64_t differing(const Arrays& want, const Arrays& got, double& largest) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const Array a = contiguous(want[i]), b = contiguous(got[i]);
    const std::size_t size = size_of(a.dtype());
    const Array difference = contiguous(convert(a, DType::f64) - convert(b, DType::f64));
    for (std::int64_t at = 0; at < a.elements(); ++at) {
      const std::size_t offset = static_cast<std::size_t>(at) * size;
      if (std::memcmp(a.view().data + offset, b.view().data + offset, size) == 0) continue;
      ++count;
      largest = std::max(largest, std::abs(difference.data<double>()[static_cast<std::size_t>(at)]));
    }
  }
  return count;
}

std::int64_t elements_of(const Arrays& arrays) {
  std::int64_t count = 0;
  for (const Array& each : arrays) count += each.elements();
  return count;
}

struct MachineForm {
  int threads;
  kernels::Target target;
};

FlaxComparison compare(DType dtype, std::int64_t depth, bool gradient, const Array& x,
                       const std::vector<MachineForm>& forms) {
  FlaxComparison result;
  result.dtype = dtype, result.depth = depth, result.quantity = gradient ? "gradient" : "output";
  const Layers layers = flax_layers(depth, dtype);
  set_threads(1);
  const Arrays want = evaluated(kWays[1], gradient, layers, convert(x, dtype));
  for (const Array& each : want)
    result.magnitude = std::max(result.magnitude, max(convert(abs(each), DType::f64)).item<double>());
  for (const MachineForm& form : forms) {
    set_threads(form.threads);
    kernels::set_target(form.target);
    for (const Way& way : kWays) {
      const Arrays got = evaluated(way, gradient, layers, convert(x, dtype));
      const std::int64_t different = differing(want, got, result.largest);
      if (different && result.first.empty())
        result.first = fmt::format("{}, {} threads, {}", way.name, form.threads, kernels::name_of(form.target));
      ++result.forms;
      result.compared += elements_of(want);
      result.differing += different;
    }
  }
  return result;
}

void compare_constructors(FlaxReport& report) {
  const Array keys = split_key(random_key(0), 2);
  const Layers layers = flax_layers(2, DType::f32);
  for (std::int64_t i = 0; i < 2; ++i) {
    Rngs rngs(squeeze(slice_axis(keys, 0, {i, i + 1}), 0));
    const Arrays want = leaves(FlaxLayer(16, DType::f32, rngs));
    double largest = 0;
    report.parameters_compared += elements_of(want);
    report.parameters_differing += differing(want, leaves(layers[i]), largest);
  }
}

// The network while the tuner chooses among candidates, one of which is wrong.
void tune(FlaxReport& report, const Array& x) {
  static const bool planted = [] {
    kernels::contraction_tuner().add(kernels::planted_candidate());
    return true;
  }();
  report.planted = fmt::format("contraction/{}", kernels::planted_candidate().name);
  const Layers layers = flax_layers(2, DType::f32);
  const Arrays want = evaluated(kWays[1], false, layers, x);
  kernels::clear_tuner();
  kernels::set_tuning(planted);
  for (const Way& way : kWays) {
    double largest = 0;
    report.tuned_compared += elements_of(want);
    report.tuned_differing += differing(want, evaluated(way, false, layers, x), largest);
  }
  report.refusals = kernels::tuner_refusals();
  kernels::clear_tuner();
}

}  // namespace

Stack<FlaxLayer> flax_layers(std::int64_t depth, DType dtype) {
  return vmap_init(split_key(random_key(0), depth), [dtype](Rngs& rngs) { return FlaxLayer(16, dtype, rngs); });
}

std::int64_t FlaxReport::differing() const {
  std::int64_t count = parameters_differing + tuned_differing;
  for (const FlaxComparison& each : comparisons) count += each.differing;
  return count;
}
bool FlaxReport::planted_refused() const {
  return std::any_of(refusals.begin(), refusals.end(),
                     [&](const kernels::Refusal& each) { return each.candidate == planted; });
}
bool FlaxReport::holds() const {
  const bool only_planted = std::all_of(refusals.begin(), refusals.end(),
                                        [&](const kernels::Refusal& each) { return each.candidate == planted; });
  return differing() == 0 && planted_refused() && only_planted;
}

double xla_distance(double a, double b) {
  return std::abs(a - b) / (std::max(std::abs(a), std::abs(b)) + 1);
}

FlaxReport reproduce_flax_4629(const std::function<void(const std::string&)>& progress,
                               const std::vector<std::int64_t>& depths) {
  const MachineScope scope;
  FlaxReport report;
  const Array x = normal(random_key(0), {2, 2, 16});
  std::vector<MachineForm> forms;
  for (const int count : {1, 2, 3, 7}) forms.push_back({count, scope.target_before()});
  for (const kernels::Target target : kernels::available_targets()) forms.push_back({scope.threads_before(), target});
  progress("constructors");
  compare_constructors(report);
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const std::int64_t depth : depths)
      for (const bool gradient : {false, true}) {
        kernels::set_target(scope.target_before());
        progress(fmt::format("{}, depth {}, {}", dtype, depth, gradient ? "gradient" : "output"));
        report.comparisons.push_back(compare(dtype, depth, gradient, x, forms));
      }
  set_threads(scope.threads_before());
  kernels::set_target(kernels::available_targets().back());  // the scalar one has no kernels to choose among
  progress("tuner");
  tune(report, x);
  return report;
}

}  // namespace eadem::audit
