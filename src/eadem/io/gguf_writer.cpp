#include <bit>
#include <cstring>
#include <type_traits>

#include "eadem/io/atomic_file.h"
#include "eadem/io/gguf.h"

namespace eadem::io {
namespace {

constexpr std::size_t kAlignment = 32;

struct Sink {
  std::vector<std::byte> bytes;

  template <class T>
  requires std::is_arithmetic_v<T>
  void put(T value) {
    const auto* data = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), data, data + sizeof(T));
  }
  void put(const std::string& text) {
    put(std::uint64_t{text.size()});
    const auto* data = reinterpret_cast<const std::byte*>(text.data());
    bytes.insert(bytes.end(), data, data + text.size());
  }
  void put(const GgufArray& array) {
    put(static_cast<std::uint32_t>(array.elements.index()));
    std::visit(
        [&](const auto& elements) {
          put(std::uint64_t{elements.size()});
          for (const typename std::remove_cvref_t<decltype(elements)>::value_type& element : elements) put(element);
        },
        array.elements);
  }
  void pad() { bytes.resize((bytes.size() + kAlignment - 1) / kAlignment * kAlignment); }
};

}  // namespace

void GgufWriter::add(std::string name, GgmlType type, const Shape& shape, std::span<const std::byte> bytes) {
  const GgmlLayout& layout = layout_of(type);
  const std::int64_t elements = checked_elements("gguf", shape);
  const std::int64_t row = shape.empty() ? 1 : shape.back();
  if (shape.rank() > 4 || row % layout.elements != 0 ||
      static_cast<std::uint64_t>(elements / layout.elements * layout.bytes) != bytes.size())
    fail<ValueError>("[gguf] tensor '{}': {} bytes do not make {}{}", name, bytes.size(), layout.name, shape);
  tensors_.push_back({std::move(name), type, shape, 0, bytes});
}

std::vector<std::byte> GgufWriter::bytes() const {
  Sink sink;
  sink.put(std::uint32_t{0x46554747});  // "GGUF"
  sink.put(std::uint32_t{3});
  sink.put(std::uint64_t{tensors_.size()});
  sink.put(std::uint64_t{metadata_.size()});
  for (const auto& [key, value] : metadata_) {
    sink.put(key);
    sink.put(static_cast<std::uint32_t>(value.index()));
    std::visit([&](const auto& stored) { sink.put(stored); }, value);
  }
  std::uint64_t offset = 0;
  for (const GgufTensor& tensor : tensors_) {
    sink.put(tensor.name);
    sink.put(static_cast<std::uint32_t>(tensor.shape.rank()));
    for (int axis = tensor.shape.rank(); axis-- > 0;) sink.put(static_cast<std::uint64_t>(tensor.shape[axis]));
    sink.put(static_cast<std::uint32_t>(tensor.type));
    sink.put(offset);
    offset += (tensor.bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
  }
  for (const GgufTensor& tensor : tensors_) {
    sink.pad();
    sink.bytes.insert(sink.bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  sink.pad();
  return std::move(sink.bytes);
}

void GgufWriter::write(const std::filesystem::path& path) const {
  AtomicFile file(path);
  file.write(bytes());
  file.commit();
}

}  // namespace eadem::io
