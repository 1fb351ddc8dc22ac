#include "eadem/nn/rngs.h"

#include "eadem/ops/ops.h"

namespace eadem {

RngSeed::RngSeed(std::uint64_t seed) : key_(random_key(seed)) {}
RngSeed::RngSeed(Array key) : key_(std::move(key)) {
  if (key_.type() != TensorType{DType::u32, {2}}) fail<TypeError>("[rngs] a key is u32[2], got {}", key_.type());
}

Array RngStream::operator()() {
  return fold_in(key, count++);
}

Rngs::Rngs(RngSeed seed) {
  streams_["default"].key = seed.key();
}
Rngs::Rngs(std::initializer_list<std::pair<const std::string, RngSeed>> streams) {
  for (const auto& [name, seed] : streams) streams_[name].key = seed.key();
}

RngStream& Rngs::stream(std::string_view name) {
  auto found = streams_.find(std::string(name));
  if (found == streams_.end()) found = streams_.find("default");
  if (found == streams_.end()) fail<ValueError>("[rngs] there is no stream named '{}', and no 'default'", name);
  return found->second;
}

Rngs Rngs::split(std::int64_t count) {
  Rngs result;
  for (auto& [name, each] : streams_) result.streams_[name].key = split_key(each(), count);
  return result;
}
Rngs Rngs::fork() {
  Rngs result;
  for (auto& [name, each] : streams_) result.streams_[name].key = each();
  return result;
}

}  // namespace eadem
