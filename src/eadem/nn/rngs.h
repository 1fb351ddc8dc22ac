#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "eadem/array/array.h"

namespace eadem {

/// A seed, or a key u32[2], from which a stream of keys starts.
class RngSeed {
 public:
  RngSeed(std::uint64_t seed);  // NOLINT: a number is a seed
  RngSeed(Array key);           // NOLINT: and so is a key
  const Array& key() const { return key_; }

 private:
  Array key_;
};

/// A stream of keys: draw number i is fold_in(key, i), as flax.nnx.RngStream's.
struct RngStream {
  Array key;
  std::uint32_t count = 0;

  Array operator()();
  static void fields(auto& m, auto f) { f("key", m.key), f("count", m.count); }
};

/// Named streams of keys, as flax.nnx.Rngs: `Rngs(0)` has the stream "default", which stands in for any name that it
/// lacks; `Rngs({{"params", 0}, {"dropout", 1}})` has those two. Drawing moves the stream on. C++ evaluates function
/// arguments in any order: draw in member initialisers or statements, never twice in one call. A tree; its leaves are
/// the keys.
class Rngs {
 public:
  explicit Rngs(RngSeed seed);
  Rngs(std::initializer_list<std::pair<const std::string, RngSeed>> streams);

  /// The next key of the stream of that name, else of "default"; throws ValueError when there is neither.
  Array operator()(std::string_view name = "default") { return stream(name)(); }
  Array params() { return stream("params")(); }
  Array dropout() { return stream("dropout")(); }

  /// New streams of the same names, each with `count` keys u32[count, 2], split from the stream's next key: for vmap.
  Rngs split(std::int64_t count);
  /// New streams of the same names, each started from the stream's next key.
  Rngs fork();

  static void fields(auto& m, auto f) { f("streams", m.streams_); }

 private:
  RngStream& stream(std::string_view name);
  Rngs() = default;

  std::map<std::string, RngStream> streams_;
};

}  // namespace eadem
