#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace eadem {

/// The number of threads that parallel_for may use, the caller included.
int threads();

/// Sets it for the process (at least 1). The bits of no result depend on it. Not to be called inside parallel_for.
void set_threads(int count);

namespace detail {
using Chunk = void (*)(void* closure, std::int64_t begin, std::int64_t end);
void parallel_for(std::int64_t count, std::int64_t grain, void* closure, Chunk chunk);
}  // namespace detail

/// Calls f(begin, end) over disjoint ranges that cover [0, count), each of at least `grain` but for the last, on
/// several threads. Which thread takes which range is not defined; a call from inside runs inline. If f throws, ranges
/// not yet begun are left out, and one of the exceptions comes out here once nobody runs f any more.
template <class F>
void parallel_for(std::int64_t count, std::int64_t grain, F&& f) {
  detail::parallel_for(count, grain, const_cast<void*>(static_cast<const void*>(std::addressof(f))),
                       [](void* closure, std::int64_t begin, std::int64_t end) {
                         (*static_cast<std::remove_reference_t<F>*>(closure))(begin, end);
                       });
}

}  // namespace eadem
