#pragma once

#include "eadem/array/array.h"

// What the gradients of prod and cumprod are made of.

namespace eadem::ops {

/// The last axis moved by `by` places (forwards if positive), `value` where nothing comes from.
Array shifted(const Array& x, std::int64_t by, double value);
/// [..., n] to the products of the elements before each, by doubling: no division, so that zeros are as good as others.
Array products_before(const Array& x);

}  // namespace eadem::ops
