#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace eadem {

/// The root of every error that Eadem throws; `what()` says operation, requirement, what came, and where.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Shapes, axes or extents that an operation cannot take.
struct ShapeError : Error {
  using Error::Error;
};
/// Dtypes that an operation cannot take.
struct TypeError : Error {
  using Error::Error;
};
/// A value or an attribute outside its domain.
struct ValueError : Error {
  using Error::Error;
};
/// A file that cannot be read, written or trusted; the message names file, item and byte offset.
struct FileError : Error {
  using Error::Error;
};
/// Memory that the system did not give for an operation or its result.
struct MemoryError : Error {
  using Error::Error;
};
/// Something that Eadem declines to do because it could not keep the bit contract, or does not do yet.
struct UnsupportedError : Error {
  using Error::Error;
};

/// Throws an error of type E with a formatted message: `fail<ShapeError>("[matmul] ... {}", shape)`.
template <class E, class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace eadem
