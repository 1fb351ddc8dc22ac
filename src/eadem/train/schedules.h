#pragma once

#include <functional>

#include "eadem/array/array.h"

namespace eadem::train {

/// A number, f64 [], as a function of the step, i64 [], which counts from 0.
using Schedule = std::function<Array(const Array& step)>;

Schedule constant_schedule(double value);
/// From `begin` to `end` in `steps` equal steps, then `end`.
Schedule linear_schedule(double begin, double end, std::int64_t steps);
/// begin (1 + cos(pi t)) / 2, t from 0 to 1 in `steps` steps, down to `end`.
Schedule cosine_schedule(double begin, double end, std::int64_t steps);
/// begin rate^(step / steps).
Schedule exponential_schedule(double begin, double rate, std::int64_t steps);
/// Linear from 0 to `peak` in `warmup` steps, then cosine to `end` at `steps`.
Schedule warmup_cosine_schedule(double peak, double end, std::int64_t warmup, std::int64_t steps);

}  // namespace eadem::train
