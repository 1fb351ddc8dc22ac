#include "eadem/io/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <iterator>
#include <optional>

#include "eadem/io/atomic_file.h"
#include "eadem/io/printable.h"

namespace eadem::io {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64;            // of the data in the file
constexpr std::size_t kLongestHeader = 1u << 16;  // of what is read: an array's header is about a hundred bytes
constexpr std::size_t kGrowth = 21;               // digits that NumPy leaves room for, should the first axis grow

struct Name {
  std::string_view text;  // without the byte order
  DType dtype;
};
constexpr Name kNames[] = {{"f8", DType::f64},    {"f4", DType::f32}, {"V2", DType::bf16}, {"f2", DType::f16},
                           {"i1", DType::i8},     {"i2", DType::i16}, {"i4", DType::i32},  {"i8", DType::i64},
                           {"u1", DType::u8},     {"u2", DType::u16}, {"u4", DType::u32},  {"u8", DType::u64},
                           {"b1", DType::boolean}};

/// The header: a dict as Python prints it, of three known keys.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  struct Header {
    std::string descr;
    bool fortran = false;
    Shape shape;
  };

  Header parse() {
    Header header;
    bool seen[3] = {};
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      const std::size_t which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : 3;
      if (which == 3) refuse(fmt::format("has the unknown key '{}'", printable(key)));
      if (seen[which]) refuse(fmt::format("has the key '{}' twice", key));
      seen[which] = true;
      if (which == 0) header.descr = descr();
      if (which == 1) header.fortran = boolean();
      if (which == 2) header.shape = shape();
      if (accept('}')) break;
      expect(',');
    }
    skip();
    if (at_ != text_.size()) refuse(fmt::format("goes on after its dict with '{}'", printable(text_.substr(at_, 20))));
    for (std::size_t i = 0; i < 3; ++i) {
      constexpr std::string_view kKeys[] = {"descr", "fortran_order", "shape"};
      if (!seen[i]) refuse(fmt::format("lacks the key '{}'", kKeys[i]));
    }
    return header;
  }

 private:
  [[noreturn]] void refuse(std::string_view why) const { fail<FileError>("{}: the header {}", file_, why); }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool accept(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c))
      refuse(fmt::format("needs '{}' at character {}, got '{}'", c, at_, printable(text_.substr(at_, 20))));
  }
  std::string string() {
    skip();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"')
      refuse(fmt::format("needs a string at character {}, got '{}'", at_, printable(text_.substr(at_, 20))));
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) refuse("has a string without end");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    if (inside.find('\\') != std::string_view::npos) refuse("has an escape in a string");
    at_ = end + 1;
    return std::string(inside);
  }
  std::string descr() {
    skip();
    if (at_ < text_.size() && (text_[at_] == '[' || text_[at_] == '('))
      refuse("describes a structured dtype, which is not read");
    return string();
  }
  bool boolean() {
    skip();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return value;
    }
    refuse("needs True or False for fortran_order");
  }
  Shape shape() {
    Shape extents;
    expect('(');
    while (!accept(')')) {
      skip();
      std::int64_t extent = 0;
      const char* begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), extent);
      if (error != std::errc() || extent < 0) refuse("needs extents from 0 to 2^63 - 1 in its shape");
      at_ += static_cast<std::size_t>(end - begin);
      if (extents.rank() == kMaxRank) refuse(fmt::format("has more than {} axes", kMaxRank));
      extents.push_back(extent);
      if (accept(')')) break;
      expect(',');
    }
    try {
      checked_elements("npy", extents);
    } catch (const ShapeError& error) {
      refuse(fmt::format("has a shape that is refused: {}", error.what()));
    }
    return extents;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
};

// '<f4' and its like; the byte order is '>' only where it is.
struct Descr {
  DType dtype;
  bool big_endian;
};
Descr parse_descr(const std::string& text, const std::string& file) {
  if (text == "bfloat16") return {DType::bf16, false};
  const std::string_view name = std::string_view(text).substr(std::min<std::size_t>(1, text.size()));
  for (const Name& each : kNames)
    if (each.text == name && (text[0] == '<' || text[0] == '>' || (text[0] == '|' && size_of(each.dtype) == 1)))
      return {each.dtype, text[0] == '>' && size_of(each.dtype) > 1};
  fail<FileError>("{}: descr is '{}', a dtype that is not read", file, printable(text));
}

// Elements of `size` bytes in the order of memory, from column-major and big-endian ones.
void reorder(std::span<const std::byte> from, std::byte* to, const Shape& shape, std::size_t size, bool fortran,
             bool swap) {
  Shape strides;  // in the source
  std::int64_t step = 1;
  for (const std::int64_t extent : shape) strides.push_back(step), step *= extent;
  if (!fortran) strides = contiguous_strides(shape);
  Shape index = Shape::filled(shape.rank(), 0);
  for (std::int64_t i = shape.elements(), offset = 0; i > 0; --i, to += size) {
    std::memcpy(to, from.data() + static_cast<std::size_t>(offset) * size, size);
    if (swap) std::reverse(to, to + size);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      offset += strides[axis];
      if (++index[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

std::string header_of(DType dtype, const Shape& shape) {
  const auto name = std::find_if(std::begin(kNames), std::end(kNames), [&](const Name& n) { return n.dtype == dtype; });
  std::string extents;
  for (const std::int64_t extent : shape) extents += fmt::format("{}{}", extents.empty() ? "" : ", ", extent);
  if (shape.rank() == 1) extents += ",";
  std::string dict = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                 size_of(dtype) == 1 ? '|' : '<', name->text, extents);
  if (!shape.empty()) dict.append(kGrowth - fmt::format("{}", shape[0]).size(), ' ');
  const std::size_t prefix = kMagic.size() + 4, whole = prefix + dict.size() + 1;
  dict.append((kAlignment - whole % kAlignment) % kAlignment, ' ');
  return dict + '\n';
}

}  // namespace

NpyArray parse_npy(std::shared_ptr<const MappedFile> file) {
  const std::span<const std::byte> bytes = file->bytes();
  const std::string& name = file->name();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.substr(0, kMagic.size()) != kMagic) fail<FileError>("{}: not an npy file: it does not begin as one", name);
  const std::size_t version = kMagic.size();
  if (bytes.size() < version + 4) fail<FileError>("{}: ends within its header", name);
  const auto major = static_cast<unsigned>(bytes[version]), minor = static_cast<unsigned>(bytes[version + 1]);
  if (major < 1 || major > 3 || minor != 0)
    fail<FileError>("{}: version {}.{} is not read, only 1.0, 2.0 and 3.0", name, major, minor);
  std::uint32_t length = 0;
  const std::size_t count = major == 1 ? 2 : 4;
  if (bytes.size() < version + 2 + count) fail<FileError>("{}: ends within its header", name);
  std::memcpy(&length, bytes.data() + version + 2, count);
  const std::size_t begin = version + 2 + count;
  if (length > kLongestHeader || length > bytes.size() - begin)
    fail<FileError>("{}: header length is {}, with {} bytes there and at most {} read", name, length,
                    bytes.size() - begin, kLongestHeader);
  const auto header = HeaderParser(text.substr(begin, length), name).parse();
  const Descr descr = parse_descr(header.descr, name);
  const std::span<const std::byte> data = bytes.subspan(begin + length);
  const std::size_t size = size_of(descr.dtype);
  const auto elements = static_cast<std::uint64_t>(header.shape.elements());
  if (elements > data.size() / size || elements * size != data.size())
    fail<FileError>("{}: shape {} of {} takes {} elements of {} bytes, but {} bytes follow the header", name,
                    header.shape, descr.dtype, elements, size, data.size());
  if (descr.dtype == DType::boolean)
    for (const std::byte& each : data)
      if (each > std::byte{1})
        fail<FileError>("{}: a bool of value {}, required 0 or 1 (at byte {})", name, static_cast<int>(each),
                        &each - bytes.data());
  NpyArray array{descr.dtype, header.shape, {}, {}};
  const bool in_place = !descr.big_endian && (!header.fortran || header.shape.rank() < 2) &&
                        reinterpret_cast<std::uintptr_t>(data.data()) % size == 0 && !data.empty();
  if (in_place) {
    array.buffer = file->buffer(data);
  } else {
    array.buffer = Buffer::allocate(data.size());
    if (!data.empty()) reorder(data, array.buffer->data(), header.shape, size, header.fortran, descr.big_endian);
  }
  array.bytes = {array.buffer->data(), data.size()};
  return array;
}

NpyArray read_npy(const std::filesystem::path& path, Access access) {
  return parse_npy(MappedFile::open(path, access));
}

std::vector<std::byte> npy_bytes(DType dtype, const Shape& shape, std::span<const std::byte> bytes) {
  const auto required = static_cast<std::uint64_t>(checked_elements("npy", shape)) * size_of(dtype);
  if (required != bytes.size())
    fail<ValueError>("[npy] {} of {} takes {} bytes, got {}", shape, dtype, required, bytes.size());
  const std::string header = header_of(dtype, shape);
  std::string start(kMagic);
  start += {'\1', '\0', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  start += header;
  std::vector<std::byte> all(start.size() + bytes.size());
  std::memcpy(all.data(), start.data(), start.size());
  if (!bytes.empty()) std::memcpy(all.data() + start.size(), bytes.data(), bytes.size());
  return all;
}

void write_npy(const std::filesystem::path& path, DType dtype, const Shape& shape, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(npy_bytes(dtype, shape, bytes));
  file.commit();
}

}  // namespace eadem::io
