#include "eadem/train/checkpoint.h"

#include <cstring>

#include "eadem/io/safetensors.h"
#include "eadem/io/sha256.h"
#include "eadem/ops/ops.h"

namespace eadem::train::detail {
namespace {

std::span<const std::byte> bytes_of(const Array& dense) {
  return {dense.view().data, static_cast<std::size_t>(dense.elements()) * size_of(dense.dtype())};
}

}  // namespace

void save_arrays(const std::filesystem::path& path, const Named& arrays) {
  io::SafetensorsWriter writer;
  Arrays dense;  // borrowed from until the file is written
  for (const auto& [name, array] : arrays) {
    dense.push_back(contiguous(array));
    writer.add(name, array.dtype(), array.shape(), bytes_of(dense.back()));
  }
  writer.write(path);
}

Arrays load_arrays(const std::filesystem::path& path, const Named& like) {
  const io::Safetensors file = io::Safetensors::open(path);
  if (file.tensors().size() != like.size())
    fail<FileError>("{}: has {} arrays, {} were needed", path.string(), file.tensors().size(), like.size());
  Arrays loaded;
  for (const auto& [name, array] : like) {
    const io::SafeTensor& tensor = file.tensor(name);
    const TensorType type{tensor.dtype, tensor.shape};
    if (type != array.type())
      fail<FileError>("{}: array {} is {}, {} was needed", path.string(), name, type, array.type());
    Array& copy = loaded.emplace_back(Array::allocate(type));
    if (!tensor.bytes.empty()) std::memcpy(copy.view().data, tensor.bytes.data(), tensor.bytes.size());
  }
  return loaded;
}

std::string sha256_of(const Named& arrays) {
  io::Sha256 digest;
  for (const auto& [name, array] : arrays) {
    digest.update(fmt::format("{} {}\n", name, array.type()));
    digest.update(bytes_of(contiguous(array)));
  }
  return digest.hex();
}

}  // namespace eadem::train::detail
