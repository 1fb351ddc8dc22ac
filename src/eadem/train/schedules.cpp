#include "eadem/train/schedules.h"

#include <numbers>

#include "eadem/ops/ops.h"

namespace eadem::train {
namespace {

void require_steps(std::int64_t steps) {
  if (steps < 1) fail<ValueError>("[schedule] needs at least one step, got {}", steps);
}

// The share of `steps` that is done, in f64, at most 1.
Array progress(const Array& step, std::int64_t steps) {
  return minimum(convert(step, DType::f64) / static_cast<double>(steps), ones({}, DType::f64));
}

}  // namespace

Schedule constant_schedule(double value) {
  return [value](const Array&) { return full({}, value, DType::f64); };
}

Schedule linear_schedule(double begin, double end, std::int64_t steps) {
  require_steps(steps);
  return [=](const Array& step) {
    const Array t = progress(step, steps);
    return (1.0 - t) * begin + t * end;
  };
}

Schedule cosine_schedule(double begin, double end, std::int64_t steps) {
  require_steps(steps);
  return [=](const Array& step) {
    const Array t = (cos(progress(step, steps) * std::numbers::pi) + 1.0) * 0.5;
    return t * (begin - end) + end;
  };
}

Schedule exponential_schedule(double begin, double rate, std::int64_t steps) {
  require_steps(steps);
  return [=](const Array& step) {
    const Array t = convert(step, DType::f64) / static_cast<double>(steps);
    return pow(full({}, rate, DType::f64), t) * begin;
  };
}

Schedule warmup_cosine_schedule(double peak, double end, std::int64_t warmup, std::int64_t steps) {
  if (warmup >= steps) fail<ValueError>("[schedule] {} steps of warm-up leave none of {}", warmup, steps);
  const Schedule rise = linear_schedule(0, peak, warmup), fall = cosine_schedule(peak, end, steps - warmup);
  return [=](const Array& step) {
    const Array start = full({}, static_cast<double>(warmup), DType::i64);
    return where(step < start, rise(step), fall(maximum(step - start, zeros_like(step))));
  };
}

}  // namespace eadem::train
