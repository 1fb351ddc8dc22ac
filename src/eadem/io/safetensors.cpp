#include "eadem/io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <set>

#include "eadem/io/atomic_file.h"
#include "eadem/io/json.h"
#include "eadem/io/printable.h"

namespace eadem::io {
namespace {

constexpr std::size_t kLongestHeader = 100'000'000;  // the format's own limit

struct Name {
  std::string_view text;
  DType dtype;
};
constexpr Name kNames[] = {{"F64", DType::f64},     {"F32", DType::f32}, {"BF16", DType::bf16}, {"F16", DType::f16},
                           {"I8", DType::i8},       {"I16", DType::i16}, {"I32", DType::i32},   {"I64", DType::i64},
                           {"U8", DType::u8},       {"U16", DType::u16}, {"U32", DType::u32},   {"U64", DType::u64},
                           {"BOOL", DType::boolean}};

std::string_view name_in_file(DType dtype) {
  return std::find_if(std::begin(kNames), std::end(kNames), [&](const Name& name) { return name.dtype == dtype; })
      ->text;
}

DType parse_dtype(const JsonView& view) {
  const auto text = view.as<std::string>();
  for (const Name& name : kNames)
    if (name.text == text) return name.dtype;
  view.refuse(fmt::format("is {}, a dtype that is not read", text));
}

Shape parse_shape(const JsonView& view) {
  const auto extents = view.as<std::vector<std::int64_t>>();
  try {
    Shape shape{std::span<const std::int64_t>(extents)};
    checked_elements("safetensors", shape);
    return shape;
  } catch (const ShapeError& error) {
    view.refuse(fmt::format("is refused: {}", error.what()));
  }
}

// One entry of the header; `data` is where the data section starts, `size` how long it is.
SafeTensor parse_tensor(const std::string& name, const JsonView& entry, std::uint64_t data, std::uint64_t size) {
  if (!entry.value().is_object()) entry.refuse("must be an object");
  for (const auto& [key, value] : entry.value().items())
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      entry.refuse(fmt::format("has the unknown field '{}'", key));
  SafeTensor tensor{.name = name, .dtype = parse_dtype(entry.at("dtype")), .shape = parse_shape(entry.at("shape"))};
  const JsonView field = entry.at("data_offsets");
  const auto offsets = field.as<std::vector<std::uint64_t>>();
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    field.refuse("must be two offsets, the second not below the first");
  if (offsets[1] > size) field.refuse(fmt::format("ends at {}, but the data section has {} bytes", offsets[1], size));
  const std::uint64_t required = static_cast<std::uint64_t>(tensor.shape.elements()) * size_of(tensor.dtype);
  if (offsets[1] - offsets[0] != required)
    field.refuse(fmt::format("gives {} bytes, but shape {} of {} takes {}", offsets[1] - offsets[0], tensor.shape,
                             tensor.dtype, required));
  tensor.offset = data + offsets[0];
  return tensor;
}

// The format wants every byte of the data to belong to exactly one tensor.
void require_full_cover(const std::string& file, const std::vector<SafeTensor>& tensors, std::uint64_t data,
                        std::uint64_t size) {
  std::vector<const SafeTensor*> order;
  for (const SafeTensor& tensor : tensors) order.push_back(&tensor);
  const auto length = [](const SafeTensor& t) { return static_cast<std::uint64_t>(t.bytes.size()); };
  std::sort(order.begin(), order.end(), [&](const SafeTensor* a, const SafeTensor* b) {
    return std::pair(a->offset, length(*a)) < std::pair(b->offset, length(*b));
  });
  std::uint64_t at = data;
  for (const SafeTensor* tensor : order) {
    if (tensor->offset != at)
      fail<FileError>("{}: tensor '{}': data_offsets begin at {}, the tensors before it end at {}", file,
                      printable(tensor->name), tensor->offset - data, at - data);
    at += length(*tensor);
  }
  if (at != data + size)
    fail<FileError>("{}: {} bytes of data follow the last tensor (at byte {})", file, data + size - at, at);
}

void require_booleans(const std::string& file, const SafeTensor& tensor) {
  for (const std::byte& byte : tensor.bytes)
    if (byte > std::byte{1})
      fail<FileError>("{}: tensor '{}': a BOOL of value {}, required 0 or 1 (at byte {})", file, printable(tensor.name),
                      static_cast<int>(byte), tensor.offset + static_cast<std::uint64_t>(&byte - tensor.bytes.data()));
}

void sort_by_name(std::vector<SafeTensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const SafeTensor& a, const SafeTensor& b) { return a.name < b.name; });
}

}  // namespace

Safetensors Safetensors::parse(std::shared_ptr<const MappedFile> file) {
  const std::span<const std::byte> bytes = file->bytes();
  const std::string& name = file->name();
  std::uint64_t header = 0;
  if (bytes.size() < sizeof(header)) fail<FileError>("{}: {} bytes, too short for safetensors", name, bytes.size());
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header > kLongestHeader)
    fail<FileError>("{}: header length is {}, at most {} (at byte 0)", name, header, kLongestHeader);
  if (header > bytes.size() - sizeof(header))
    fail<FileError>("{}: header length is {}, but only {} bytes follow (at byte 0)", name, header,
                    bytes.size() - sizeof(header));
  const std::uint64_t data = sizeof(header) + header, size = bytes.size() - data;
  const Json root = parse_json({reinterpret_cast<const char*>(bytes.data()) + sizeof(header), header},
                               name + ": header", {.bytes = kLongestHeader, .depth = 4});
  const JsonView view(root, name + ": header");
  if (!root.is_object()) view.refuse("must be an object");

  Safetensors result;
  result.name_ = name;
  for (const auto& [key, value] : root.items()) {
    const JsonView entry = view.at(key);
    if (key == "__metadata__") {
      if (!value.is_object()) entry.refuse("must be an object");
      for (const auto& [label, text] : value.items()) result.metadata_[label] = entry.required<std::string>(label);
      continue;
    }
    SafeTensor tensor = parse_tensor(key, entry, data, size);
    tensor.bytes =
        bytes.subspan(tensor.offset, static_cast<std::size_t>(tensor.shape.elements()) * size_of(tensor.dtype));
    tensor.file = file;
    if (tensor.dtype == DType::boolean) require_booleans(name, tensor);
    result.tensors_.push_back(std::move(tensor));
  }
  require_full_cover(name, result.tensors_, data, size);
  sort_by_name(result.tensors_);
  return result;
}

Safetensors Safetensors::open(const std::filesystem::path& path, Access access) {
  return parse(MappedFile::open(path, access));
}

namespace {

constexpr const char *kIndex = "model.safetensors.index.json", *kWhole = "model.safetensors";

// The shards that an index lists, and the tensors of each.
std::map<std::string, std::set<std::string>> shards_of(const std::filesystem::path& index) {
  const Json root = read_json(index);
  const JsonView map = JsonView(root, index.string()).at("weight_map");
  if (!map.value().is_object()) map.refuse("must be an object");
  std::map<std::string, std::set<std::string>> shards;
  for (const auto& [tensor, file] : map.value().items()) {
    const auto shard = map.required<std::string>(tensor);
    if (shard.empty() || shard == ".." || shard.find('/') != shard.npos || shard.find('\0') != shard.npos)
      map.at(tensor).refuse("must be the name of a file in the same folder");
    shards[shard].insert(tensor);
  }
  return shards;
}

}  // namespace

std::vector<std::string> Safetensors::files_of_folder(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / kIndex)) return {kWhole};
  std::vector<std::string> names{kIndex};
  for (const auto& [shard, tensors] : shards_of(folder / kIndex)) names.push_back(shard);
  std::sort(names.begin(), names.end());
  return names;
}

Safetensors Safetensors::open_folder(const std::filesystem::path& folder, Access access) {
  const std::filesystem::path index = folder / kIndex;
  if (!std::filesystem::exists(index)) return open(folder / kWhole, access);
  Safetensors result;
  result.name_ = index.string();
  for (const auto& [shard, wanted] : shards_of(index)) {
    Safetensors part = open(folder / shard, access);
    for (SafeTensor& tensor : part.tensors_)
      if (!wanted.contains(tensor.name))
        fail<FileError>("{}: tensor '{}' of {} is not listed there", index.string(), tensor.name, shard);
    for (const std::string& tensor : wanted)
      if (!part.find(tensor)) fail<FileError>("{}: tensor '{}' is not in {}", index.string(), tensor, shard);
    std::move(part.tensors_.begin(), part.tensors_.end(), std::back_inserter(result.tensors_));
    result.metadata_.merge(part.metadata_);
  }
  sort_by_name(result.tensors_);
  return result;
}

const SafeTensor* Safetensors::find(std::string_view name) const {
  const auto found = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                      [](const SafeTensor& tensor, std::string_view key) { return tensor.name < key; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

const SafeTensor& Safetensors::tensor(std::string_view name) const {
  const SafeTensor* found = find(name);
  if (!found) fail<FileError>("{}: tensor '{}' is missing", name_, name);
  return *found;
}

void SafetensorsWriter::add(std::string name, DType dtype, const Shape& shape, std::span<const std::byte> bytes) {
  const auto required = static_cast<std::uint64_t>(checked_elements("safetensors", shape)) * size_of(dtype);
  if (required != bytes.size())
    fail<ValueError>("[safetensors] tensor '{}': {} of {} takes {} bytes, got {}", name, shape, dtype, required,
                     bytes.size());
  if (name == "__metadata__" || tensors_.contains(name))
    fail<ValueError>("[safetensors] the tensor name '{}' is taken", name);
  tensors_[name] = {.name = name, .dtype = dtype, .shape = shape, .bytes = bytes};
}

// As Hugging Face's writer: the widest elements first, so that each tensor is aligned to its element; then by name.
std::vector<const SafeTensor*> SafetensorsWriter::order() const {
  std::vector<const SafeTensor*> order;
  for (const auto& [name, tensor] : tensors_) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(),
                   [](const SafeTensor* a, const SafeTensor* b) { return size_of(a->dtype) > size_of(b->dtype); });
  return order;
}

std::string SafetensorsWriter::header(const std::vector<const SafeTensor*>& order) const {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  if (!metadata_.empty()) root["__metadata__"] = metadata_;
  std::uint64_t at = 0;
  for (const SafeTensor* tensor : order) {
    nlohmann::ordered_json& entry = root[tensor->name];
    entry["dtype"] = name_in_file(tensor->dtype);
    entry["shape"] = std::vector<std::int64_t>(tensor->shape.begin(), tensor->shape.end());
    entry["data_offsets"] = {at, at + tensor->bytes.size()};
    at += tensor->bytes.size();
  }
  std::string text;
  try {
    text = root.dump();
  } catch (const nlohmann::json::exception&) {
    fail<ValueError>("[safetensors] a tensor's name or the metadata is not UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

std::vector<std::byte> SafetensorsWriter::bytes() const {
  const auto tensors = order();
  const std::string text = header(tensors);
  const std::uint64_t length = text.size();
  std::vector<std::byte> all(sizeof(length) + text.size());
  std::memcpy(all.data(), &length, sizeof(length));
  std::memcpy(all.data() + sizeof(length), text.data(), text.size());
  for (const SafeTensor* tensor : tensors) all.insert(all.end(), tensor->bytes.begin(), tensor->bytes.end());
  return all;
}

void SafetensorsWriter::write(const std::filesystem::path& path) const {
  const auto tensors = order();
  const std::string text = header(tensors);
  const std::uint64_t length = text.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(text);
  for (const SafeTensor* tensor : tensors) file.write(tensor->bytes);
  file.commit();
}

}  // namespace eadem::io
