#include "eadem/io/gguf.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "eadem/io/printable.h"

namespace eadem::io {
namespace {

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::uint64_t kGreatestAlignment = 1 << 16;
constexpr std::uint64_t kLongestKey = 65535;
constexpr std::uint32_t kMostDimensions = 4;
constexpr int kMostArrayLevels = 2;

struct Row {
  GgmlType type;
  GgmlLayout layout;
};
constexpr Row kLayouts[] = {
    {GgmlType::f32, {"F32", 1, 4}},       {GgmlType::f16, {"F16", 1, 2}},       {GgmlType::q4_0, {"Q4_0", 32, 18}},
    {GgmlType::q4_1, {"Q4_1", 32, 20}},   {GgmlType::q5_0, {"Q5_0", 32, 22}},   {GgmlType::q5_1, {"Q5_1", 32, 24}},
    {GgmlType::q8_0, {"Q8_0", 32, 34}},   {GgmlType::q2_k, {"Q2_K", 256, 84}},  {GgmlType::q3_k, {"Q3_K", 256, 110}},
    {GgmlType::q4_k, {"Q4_K", 256, 144}}, {GgmlType::q5_k, {"Q5_K", 256, 176}}, {GgmlType::q6_k, {"Q6_K", 256, 210}},
    {GgmlType::i8, {"I8", 1, 1}},         {GgmlType::i16, {"I16", 1, 2}},       {GgmlType::i32, {"I32", 1, 4}},
    {GgmlType::i64, {"I64", 1, 8}},       {GgmlType::f64, {"F64", 1, 8}},       {GgmlType::bf16, {"BF16", 1, 2}}};

const GgmlLayout* find_layout(std::uint32_t type) {
  for (const Row& row : kLayouts)
    if (static_cast<std::uint32_t>(row.type) == type) return &row.layout;
  return nullptr;
}

// Names of ggml's types that Eadem does not read, for the refusal.
std::string_view foreign_name(std::uint32_t type) {
  constexpr std::pair<std::uint32_t, std::string_view> kNames[] = {
      {4, "Q4_2"},     {5, "Q4_3"},   {9, "Q8_1"},    {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"},
      {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {23, "IQ4_XS"},
      {29, "IQ1_M"},   {34, "TQ1_0"}, {35, "TQ2_0"},  {39, "MXFP4"}};
  for (const auto& [number, name] : kNames)
    if (number == type) return name;
  return "unknown";
}

}  // namespace

const GgmlLayout& layout_of(GgmlType type) {
  const GgmlLayout* layout = find_layout(static_cast<std::uint32_t>(type));
  if (!layout) fail<ValueError>("[gguf] type {} is not one of GgmlType", static_cast<std::uint32_t>(type));
  return *layout;
}

// Walks the header. Every count is compared with the bytes left before anything is allocated for it.
struct GgufFile::Reader {
  GgufFile& gguf;
  std::span<const std::byte> bytes;
  std::size_t at = 0;

  template <class... Args>
  [[noreturn]] void refuse(std::size_t offset, fmt::format_string<Args...> format, Args&&... args) const {
    fail<FileError>("{}: {} (at byte {})", gguf.file_->name(),
                    printable(fmt::format(format, std::forward<Args>(args)...)), offset);
  }
  std::size_t left() const { return bytes.size() - at; }

  template <class T>
  T number(std::string_view what) {
    static_assert(std::endian::native == std::endian::little);
    if (left() < sizeof(T)) refuse(at, "the file ends inside {}", what);
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    at += sizeof(T);
    return value;
  }
  // A count of items of at least `least` bytes each, which must all be still to come.
  std::uint64_t count(std::string_view what, std::uint64_t least) {
    const std::size_t start = at;
    const auto value = number<std::uint64_t>(what);
    if (value > left() / least) refuse(start, "{} is {}, but only {} bytes follow", what, value, left());
    return value;
  }
  std::string string(std::string_view what) {
    const std::uint64_t length = count(fmt::format("length of {}", what), 1);
    std::string text(reinterpret_cast<const char*>(bytes.data() + at), length);
    at += length;
    return text;
  }
  bool boolean(std::string_view what) {
    const auto value = number<std::uint8_t>(what);
    if (value > 1) refuse(at - 1, "{} is a bool of value {}, required 0 or 1", what, value);
    return value == 1;
  }

  template <class T>
  T value(const std::string& what, int level) {
    if constexpr (std::same_as<T, bool>)
      return boolean(what);
    else if constexpr (std::same_as<T, std::string>)
      return string(what);
    else if constexpr (std::same_as<T, GgufArray>)
      return array(what, level);
    else
      return number<T>(what);
  }
  GgufArray array(const std::string& what, int level) {
    if (level == kMostArrayLevels) refuse(at, "{} nests arrays deeper than {} levels", what, kMostArrayLevels);
    const std::size_t start = at;
    const auto type = number<std::uint32_t>(what);
    GgufArray result;
    with_type<0>(type, start, what, [&]<class T>(std::type_identity<T>) {
      constexpr std::uint64_t least = std::same_as<T, std::string> ? 8 : std::same_as<T, GgufArray> ? 12 : sizeof(T);
      const std::uint64_t size = count(fmt::format("array length of {}", what), least);
      auto& elements = result.elements.template emplace<std::vector<T>>();
      if constexpr (std::is_arithmetic_v<T>) elements.reserve(size);
      for (std::uint64_t i = 0; i < size; ++i) elements.push_back(value<T>(what, level + 1));
    });
    return result;
  }
  // Calls f with the C++ type of a metadata type number, which is its index in GgufValue.
  template <std::size_t index, class F>
  void with_type(std::uint32_t type, std::size_t start, const std::string& what, F&& f) {
    if constexpr (index < std::variant_size_v<GgufValue>) {
      if (type == index) return f(std::type_identity<std::variant_alternative_t<index, GgufValue>>{});
      with_type<index + 1>(type, start, what, f);
    } else {
      refuse(start, "{} has the unknown type {}", what, type);
    }
  }

  void read() {
    if (number<std::uint32_t>("the magic number") != kMagic) refuse(0, "not a GGUF file: it does not start with GGUF");
    gguf.version_ = number<std::uint32_t>("the version");
    if (gguf.version_ != 0 && (gguf.version_ & 0xffff) == 0)
      refuse(4, "version {} when read big-endian: big-endian GGUF files are not read",
             __builtin_bswap32(gguf.version_));
    if (gguf.version_ != 2 && gguf.version_ != 3) refuse(4, "version {}, versions 2 and 3 are read", gguf.version_);
    const std::uint64_t tensors = count("the number of tensors", 24);
    const std::uint64_t pairs = count("the number of metadata pairs", 13);
    for (std::uint64_t i = 0; i < pairs; ++i) read_pair(i);
    for (std::uint64_t i = 0; i < tensors; ++i) read_tensor(i);
    locate();
  }

  void read_pair(std::uint64_t i) {
    const std::size_t start = at;
    std::string key = string(fmt::format("the key of metadata pair {}", i));
    if (key.empty()) refuse(start, "the key of metadata pair {} is empty", i);
    if (key.size() > kLongestKey) refuse(start, "a key of {} bytes, at most {} are allowed", key.size(), kLongestKey);
    if (!gguf.key_index_.emplace(key, gguf.metadata_.size()).second) refuse(start, "key '{}' occurs twice", key);
    const std::string what = fmt::format("key '{}'", key);
    const std::size_t type_at = at;
    const auto type = number<std::uint32_t>(what);
    with_type<0>(type, type_at, what, [&]<class T>(std::type_identity<T>) {
      gguf.metadata_.emplace_back(std::move(key), GgufValue(std::in_place_type<T>, value<T>(what, 0)));
    });
    if (gguf.metadata_.back().first == "general.alignment") use_alignment(gguf.metadata_.back().second, type_at);
  }

  void use_alignment(const GgufValue& value, std::size_t start) {
    const auto* alignment = std::get_if<std::uint32_t>(&value);
    if (!alignment) refuse(start, "key 'general.alignment' must be a u32 (type 4), it has type {}", value.index());
    if (!std::has_single_bit(*alignment) || *alignment < 8 || *alignment > kGreatestAlignment)
      refuse(start, "key 'general.alignment' is {}, required a power of two from 8 to {}", *alignment,
             kGreatestAlignment);
    gguf.alignment_ = *alignment;
  }

  void read_tensor(std::uint64_t i) {
    const std::size_t start = at;
    GgufTensor tensor;
    tensor.name = string(fmt::format("the name of tensor {}", i));
    if (!gguf.tensor_index_.emplace(tensor.name, gguf.tensors_.size()).second)
      refuse(start, "tensor '{}' occurs twice", tensor.name);
    const std::size_t rank_at = at;
    const auto rank = number<std::uint32_t>(fmt::format("tensor '{}': n_dims", tensor.name));
    if (rank > kMostDimensions)
      refuse(rank_at, "tensor '{}': n_dims is {}, at most {}", tensor.name, rank, kMostDimensions);
    tensor.shape = Shape::filled(static_cast<int>(rank), 0);
    const std::size_t shape_at = at;
    for (std::uint32_t axis = 0; axis < rank; ++axis) {
      const auto extent = number<std::uint64_t>(fmt::format("tensor '{}': dims[{}]", tensor.name, axis));
      if (extent > INT64_MAX)
        refuse(at - 8, "tensor '{}': dims[{}] is {}, more than memory can address", tensor.name, axis, extent);
      tensor.shape[static_cast<int>(rank - 1 - axis)] = static_cast<std::int64_t>(extent);
    }
    const auto type = number<std::uint32_t>(fmt::format("tensor '{}': type", tensor.name));
    const GgmlLayout* layout = find_layout(type);
    if (!layout) refuse(at - 4, "tensor '{}': type {} ({}) is not read", tensor.name, type, foreign_name(type));
    tensor.type = static_cast<GgmlType>(type);
    const std::uint64_t size = byte_count(tensor, *layout, shape_at);
    const std::size_t offset_at = at;
    tensor.offset = number<std::uint64_t>(fmt::format("tensor '{}': offset", tensor.name));
    if (tensor.offset % gguf.alignment_ != 0)
      refuse(offset_at, "tensor '{}': offset {} is not a multiple of the alignment {}", tensor.name, tensor.offset,
             gguf.alignment_);
    // Until the data section is found, the span holds only the size.
    tensor.bytes = {bytes.data(), size};
    gguf.tensors_.push_back(std::move(tensor));
  }

  std::uint64_t byte_count(const GgufTensor& tensor, const GgmlLayout& layout, std::size_t shape_at) const {
    std::int64_t elements = 0;
    try {
      elements = checked_elements("gguf", tensor.shape);
    } catch (const ShapeError&) {
      refuse(shape_at, "tensor '{}': dims {} have more elements than memory can address", tensor.name, tensor.shape);
    }
    const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
    if (row % layout.elements != 0)
      refuse(shape_at, "tensor '{}': dims[0] is {}, not a multiple of the {} elements of a {} block", tensor.name, row,
             layout.elements, layout.name);
    // checked_elements leaves room for 16 bytes an element.
    const auto size = static_cast<std::uint64_t>(elements / layout.elements * layout.bytes);
    if (size > bytes.size())
      refuse(shape_at, "tensor '{}': dims {} of {} take {} bytes, the whole file has {}", tensor.name, tensor.shape,
             layout.name, size, bytes.size());
    return size;
  }

  // Finds the data section and gives each tensor its bytes; they must lie in the file and not overlap.
  void locate() {
    const std::uint64_t data = (at + gguf.alignment_ - 1) / gguf.alignment_ * gguf.alignment_;
    const std::uint64_t size = bytes.size() > data ? bytes.size() - data : 0;
    std::vector<const GgufTensor*> order;
    for (GgufTensor& tensor : gguf.tensors_) {
      const std::uint64_t length = tensor.bytes.size();
      if (length == 0) {  // nothing to read, wherever it says it is
        tensor.bytes = {};
        continue;
      }
      if (tensor.offset > size || length > size - tensor.offset)
        refuse(std::min<std::uint64_t>(data, bytes.size()),
               "tensor '{}': offset {} and {} bytes of data, but the data section has {}", tensor.name, tensor.offset,
               length, size);
      tensor.offset += data;
      tensor.bytes = bytes.subspan(tensor.offset, length);
      order.push_back(&tensor);
    }
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
    for (std::size_t i = 1; i < order.size(); ++i)
      if (order[i - 1]->offset + order[i - 1]->bytes.size() > order[i]->offset)
        refuse(order[i]->offset, "tensor '{}': offset lies inside tensor '{}'", order[i]->name, order[i - 1]->name);
  }
};

GgufFile GgufFile::parse(std::shared_ptr<const MappedFile> file) {
  GgufFile gguf;
  gguf.file_ = std::move(file);
  Reader{gguf, gguf.file_->bytes()}.read();
  return gguf;
}

GgufFile GgufFile::open(const std::filesystem::path& path, Access access) {
  return parse(MappedFile::open(path, access));
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = key_index_.find(key);
  return found == key_index_.end() ? nullptr : &metadata_[found->second].second;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

const GgufTensor& GgufFile::tensor(std::string_view name) const {
  const GgufTensor* found = find_tensor(name);
  if (!found) fail<FileError>("{}: tensor '{}' is missing", file_->name(), name);
  return *found;
}

namespace {

template <class T>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = true;

// A stored value as a T, or nothing when it is of another type or does not fit.
template <class T, class From>
std::optional<T> convert(const From& from) {
  if constexpr (std::same_as<From, T>) {
    return from;
  } else if constexpr (std::is_arithmetic_v<From> && !std::same_as<From, bool> && std::same_as<T, double>) {
    return static_cast<double>(from);
  } else if constexpr (std::is_integral_v<From> && !std::same_as<From, bool> && std::same_as<T, std::int64_t>) {
    return std::in_range<std::int64_t>(from) ? std::optional(static_cast<std::int64_t>(from)) : std::nullopt;
  } else if constexpr (std::same_as<From, GgufArray> && kIsVector<T>) {
    return std::visit([](const auto& elements) { return convert<T>(elements); }, from.elements);
  } else if constexpr (kIsVector<From> && kIsVector<T>) {
    T all;
    all.reserve(from.size());
    for (const typename From::value_type& element : from) {
      auto converted = convert<typename T::value_type>(element);
      if (!converted) return std::nullopt;
      all.push_back(std::move(*converted));
    }
    return all;
  } else {
    return std::nullopt;
  }
}

template <class T>
constexpr std::string_view kind_of() {
  if constexpr (std::same_as<T, bool>)
    return "a bool";
  else if constexpr (std::same_as<T, std::int64_t>)
    return "an integer of 64 bits";
  else if constexpr (std::same_as<T, double>)
    return "a number";
  else if constexpr (std::same_as<T, std::string>)
    return "a string";
  else if constexpr (std::same_as<T, std::vector<std::string>>)
    return "an array of strings";
  else
    return "an array of numbers";
}

}  // namespace

template <class T>
T GgufFile::required(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) fail<FileError>("{}: key '{}' is missing", file_->name(), key);
  auto converted = std::visit([](const auto& stored) { return convert<T>(stored); }, *value);
  if (!converted)
    fail<FileError>("{}: key '{}' must be {}, its GGUF type is {}", file_->name(), key, kind_of<T>(), value->index());
  return std::move(*converted);
}

template bool GgufFile::required<bool>(std::string_view) const;
template std::int64_t GgufFile::required<std::int64_t>(std::string_view) const;
template double GgufFile::required<double>(std::string_view) const;
template std::string GgufFile::required<std::string>(std::string_view) const;
template std::vector<bool> GgufFile::required<std::vector<bool>>(std::string_view) const;
template std::vector<std::int64_t> GgufFile::required<std::vector<std::int64_t>>(std::string_view) const;
template std::vector<double> GgufFile::required<std::vector<double>>(std::string_view) const;
template std::vector<std::string> GgufFile::required<std::vector<std::string>>(std::string_view) const;

}  // namespace eadem::io
