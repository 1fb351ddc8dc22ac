#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <optional>

#include "eadem/io/atomic_file.h"
#include "eadem/io/npy.h"
#include "eadem/io/printable.h"

namespace eadem::io {
namespace {

constexpr std::uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                        kLocator64 = 0x07064b50;
constexpr std::size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kEnd64Size = 56, kLocator64Size = 20;
constexpr std::uint16_t kWide = 0xffff;  // in place of a number that zip64's own fields hold
constexpr std::uint32_t kWide32 = 0xffffffff;
constexpr std::uint16_t kZip64Field = 1, kStored = 0, kDeflated = 8, kEncrypted = 1;
constexpr std::uint64_t kBestRatio = 1032;  // of deflate: a length and a distance of two bits for 258 bytes

/// Little-endian numbers at offsets, each checked to lie in the file.
struct Reader {
  std::span<const std::byte> bytes;
  const std::string& name;

  template <class T>
  T at(std::uint64_t offset) const {
    require(offset, sizeof(T));
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
    return value;
  }
  std::string_view text(std::uint64_t offset, std::uint64_t length) const {
    require(offset, length);
    return {reinterpret_cast<const char*>(bytes.data()) + offset, static_cast<std::size_t>(length)};
  }
  void require(std::uint64_t offset, std::uint64_t length) const {
    if (offset > bytes.size() || length > bytes.size() - offset)
      fail<FileError>("{}: needs {} bytes at byte {}, but has {} in all", name, length, offset, bytes.size());
  }
  void require_signature(std::uint64_t offset, std::uint32_t signature, std::string_view what) const {
    if (at<std::uint32_t>(offset) != signature) fail<FileError>("{}: there is no {} at byte {}", name, what, offset);
  }
};

struct Directory {
  std::uint64_t entries = 0, offset = 0, size = 0;
};

Directory find_directory(const Reader& file) {
  if (file.bytes.size() < kEndSize) fail<FileError>("{}: {} bytes, too short for npz", file.name, file.bytes.size());
  // The end record is last but for a comment of at most 65535 bytes.
  const std::size_t last = file.bytes.size() - kEndSize, first = last - std::min<std::size_t>(last, 65535);
  std::size_t end = last;
  while (file.at<std::uint32_t>(end) != kEnd || file.at<std::uint16_t>(end + 20) != last - end)
    if (end-- == first) fail<FileError>("{}: not an npz file: a zip archive's end record is missing", file.name);
  Directory d{file.at<std::uint16_t>(end + 10), file.at<std::uint32_t>(end + 16), file.at<std::uint32_t>(end + 12)};
  // Of the disk where the archive ends, that of the directory, and the entries on the former.
  std::uint64_t disk = file.at<std::uint16_t>(end + 4), start = file.at<std::uint16_t>(end + 6);
  std::uint64_t here = file.at<std::uint16_t>(end + 8);
  // Without a locator the numbers are themselves: 65535 entries are as many as the short record can name.
  const bool located = end >= kLocator64Size && file.at<std::uint32_t>(end - kLocator64Size) == kLocator64;
  if (d.offset == kWide32 || d.size == kWide32 || (d.entries == kWide && located)) {
    if (!located) fail<FileError>("{}: its zip64 locator is missing", file.name);
    const auto record = file.at<std::uint64_t>(end - kLocator64Size + 8);
    file.require(record, kEnd64Size);
    file.require_signature(record, kEnd64, "zip64 end record");
    d = {file.at<std::uint64_t>(record + 32), file.at<std::uint64_t>(record + 48), file.at<std::uint64_t>(record + 40)};
    disk = file.at<std::uint32_t>(record + 16), start = file.at<std::uint32_t>(record + 20);
    here = file.at<std::uint64_t>(record + 24);
  }
  if (disk != 0 || start != 0 || here != d.entries)
    fail<FileError>("{}: is split: {} of its {} entries are on disk {}, and its directory begins on disk {}", file.name,
                    here, d.entries, disk, start);
  file.require(d.offset, d.size);
  if (d.entries > d.size / kCentralSize)
    fail<FileError>("{}: says to have {} entries in a directory of {} bytes", file.name, d.entries, d.size);
  return d;
}

// The numbers of zip64's field of an entry, in place of those that are all ones.
void read_zip64(const Reader& file, std::uint64_t extra, std::uint64_t length, std::uint64_t* const numbers[3],
                std::string_view entry) {
  const std::uint64_t end = extra + length;
  for (std::uint64_t at = extra; at + 4 <= end;) {
    const auto id = file.at<std::uint16_t>(at);
    const std::uint64_t size = file.at<std::uint16_t>(at + 2);
    std::uint64_t next = at + 4;
    if (size > end - next) break;
    at = next + size;
    if (id != kZip64Field) continue;
    for (int i = 0; i < 3; ++i) {
      if (*numbers[i] != kWide32) continue;
      if (next + 8 > at) fail<FileError>("{}: entry '{}': its zip64 field is too short", file.name, entry);
      *numbers[i] = file.at<std::uint64_t>(next);
      next += 8;
    }
    return;
  }
}

struct Inflater {
  z_stream stream{};
  Inflater() {
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) fail<MemoryError>("[npz] zlib cannot begin to inflate");
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }
};

// zlib counts in 32 bits: memory is handed to it, and taken from it, in pieces.
constexpr std::size_t kPiece = std::size_t{1} << 30;

// The `size` bytes that `packed` holds, or nothing if it holds other than as many. Memory grows with what comes: a size
// that is a lie costs none.
std::optional<std::vector<std::byte>> inflated(std::span<const std::byte> packed, std::size_t size) {
  Inflater inflater;
  z_stream& s = inflater.stream;
  s.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  std::vector<std::byte> to(std::min(size, 4 * packed.size() + 1));
  std::size_t in = packed.size(), done = 0;
  Bytef none = 0;
  for (;;) {
    if (done == to.size() && done < size) to.resize(size / 2 > done ? 2 * done : size);
    const auto given = static_cast<uInt>(std::min(in, kPiece));
    const auto room = static_cast<uInt>(std::min(to.size() - done, kPiece));
    s.avail_in = given;
    s.avail_out = room;
    s.next_out = room == 0 ? &none : reinterpret_cast<Bytef*>(to.data() + done);
    const int status = inflate(&s, Z_NO_FLUSH);
    in -= given - s.avail_in;
    done += room - s.avail_out;
    if (status == Z_STREAM_END) return in == 0 && done == size ? std::optional(std::move(to)) : std::nullopt;
    if (status != Z_OK || (given == s.avail_in && room == s.avail_out)) return {};
  }
}

std::uint32_t crc_of(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::vector<std::byte> deflated(std::span<const std::byte> bytes) {
  z_stream s{};
  if (deflateInit2(&s, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    fail<MemoryError>("[npz] zlib cannot begin to deflate");
  std::vector<std::byte> packed(deflateBound(&s, static_cast<uLong>(bytes.size())));
  s.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
  s.avail_in = static_cast<uInt>(bytes.size());
  s.next_out = reinterpret_cast<Bytef*>(packed.data());
  s.avail_out = static_cast<uInt>(packed.size());
  const int status = deflate(&s, Z_FINISH);
  packed.resize(s.total_out);
  deflateEnd(&s);
  if (status != Z_STREAM_END) fail<MemoryError>("[npz] zlib cannot deflate {} bytes", bytes.size());
  return packed;
}

}  // namespace

Npz Npz::parse(std::shared_ptr<const MappedFile> mapped) {
  Npz npz;
  npz.file_ = mapped;
  const Reader file{mapped->bytes(), mapped->name()};
  const Directory directory = find_directory(file);
  std::uint64_t at = directory.offset;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    file.require(at, kCentralSize);
    file.require_signature(at, kCentral, "directory entry");
    const auto flags = file.at<std::uint16_t>(at + 8), method = file.at<std::uint16_t>(at + 10);
    const std::uint64_t name_length = file.at<std::uint16_t>(at + 28), extra = file.at<std::uint16_t>(at + 30);
    const std::uint64_t comment = file.at<std::uint16_t>(at + 32);
    std::string name(file.text(at + kCentralSize, name_length));
    const std::string shown = printable(name);
    Entry entry{file.at<std::uint32_t>(at + 42), 0,
                file.at<std::uint32_t>(at + 20), file.at<std::uint32_t>(at + 24),
                file.at<std::uint32_t>(at + 16), method == kDeflated};
    std::uint64_t* const numbers[] = {&entry.size, &entry.packed, &entry.header};
    file.require(at + kCentralSize + name_length, extra + comment);
    read_zip64(file, at + kCentralSize + name_length, extra, numbers, shown);
    if (file.at<std::uint16_t>(at + 34) != 0)
      fail<FileError>("{}: entry '{}' is on disk {} of a split archive", file.name, shown,
                      file.at<std::uint16_t>(at + 34));
    if (flags & kEncrypted) fail<FileError>("{}: entry '{}' is encrypted", file.name, shown);
    if (method != kStored && method != kDeflated)
      fail<FileError>("{}: entry '{}' is compressed by method {}; stored and deflated are read", file.name, shown,
                      method);
    file.require(entry.header, kLocalSize);
    file.require_signature(entry.header, kLocal, "local header");
    const std::uint64_t local_name = file.at<std::uint16_t>(entry.header + 26);
    if (file.text(entry.header + kLocalSize, local_name) != name)
      fail<FileError>("{}: entry '{}' has another name in its own header", file.name, shown);
    if (const auto own = file.at<std::uint16_t>(entry.header + 8); own != method)
      fail<FileError>("{}: entry '{}' is compressed by method {}, but by {} in its own header", file.name, shown,
                      method, own);
    entry.data = entry.header + kLocalSize + local_name + file.at<std::uint16_t>(entry.header + 28);
    file.require(entry.data, entry.packed);
    if (entry.data + entry.packed > directory.offset)
      fail<FileError>("{}: entry '{}' runs into the directory", file.name, shown);
    if (entry.deflated ? entry.size / kBestRatio > entry.packed : entry.size != entry.packed)
      fail<FileError>("{}: entry '{}' says that {} bytes hold {}", file.name, shown, entry.packed, entry.size);
    if (name.size() < 4 || name.substr(name.size() - 4) != ".npy")
      fail<FileError>("{}: entry '{}' is no .npy file", file.name, shown);
    name.resize(name.size() - 4);
    npz.entries_.emplace_back(std::move(name), entry);
    at += kCentralSize + name_length + extra + comment;
  }
  if (at != directory.offset + directory.size)
    fail<FileError>("{}: the directory has {} bytes, but its {} entries take {}", file.name, directory.size,
                    directory.entries, at - directory.offset);
  std::vector<const std::pair<std::string, Entry>*> order;
  for (const auto& entry : npz.entries_) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->second.header < b->second.header; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i]->second.header < order[i - 1]->second.data + order[i - 1]->second.packed)
      fail<FileError>("{}: entries '{}' and '{}' overlap", file.name, printable(order[i - 1]->first),
                      printable(order[i]->first));
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->first < b->first; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i]->first == order[i - 1]->first)
      fail<FileError>("{}: has two entries '{}'", file.name, printable(order[i]->first));
  return npz;
}

Npz Npz::open(const std::filesystem::path& path, Access access) {
  return parse(MappedFile::open(path, access));
}

std::vector<std::string> Npz::names() const {
  std::vector<std::string> all;
  for (const auto& [name, entry] : entries_) all.push_back(name);
  return all;
}

NpyArray Npz::array(std::string_view name) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const auto& each) { return each.first == name; });
  const std::string shown = printable(name);
  if (found == entries_.end()) fail<FileError>("{}: there is no array '{}'", file_->name(), shown);
  const Entry& entry = found->second;
  const auto packed = file_->bytes().subspan(entry.data, entry.packed);
  try {
    std::optional<std::vector<std::byte>> plain;
    if (entry.deflated && !(plain = inflated(packed, entry.size)))
      fail<FileError>("{}: array '{}' does not inflate to its {} bytes", file_->name(), shown, entry.size);
    const std::span<const std::byte> bytes = plain ? *plain : packed;
    if (crc_of(bytes) != entry.crc) fail<FileError>("{}: array '{}' fails its checksum", file_->name(), shown);
    return parse_npy(MappedFile::copy_of(fmt::format("{}: array '{}'", file_->name(), shown), bytes));
  } catch (const std::bad_alloc&) {
    fail<MemoryError>("{}: array '{}' of {} bytes is more than there is memory for", file_->name(), shown, entry.size);
  }
}

void NpzWriter::add(std::string name, DType dtype, const Shape& shape, std::span<const std::byte> bytes) {
  const auto required = static_cast<std::uint64_t>(checked_elements("npz", shape)) * size_of(dtype);
  if (required != bytes.size())
    fail<ValueError>("[npz] array '{}': {} of {} takes {} bytes, got {}", name, shape, dtype, required, bytes.size());
  if (name.size() > 60000) fail<ValueError>("[npz] a name has at most 60000 bytes, got {}", name.size());
  if (!items_.emplace(name, Item{dtype, shape, bytes}).second) fail<ValueError>("[npz] the name '{}' is taken", name);
}

std::vector<std::byte> NpzWriter::bytes(bool deflate) const {
  std::vector<std::byte> all;
  std::vector<std::byte> directory;
  const auto put = [](std::vector<std::byte>& to, auto value) {
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    to.insert(to.end(), begin, begin + sizeof(value));
  };
  const auto put_text = [](std::vector<std::byte>& to, std::string_view text) {
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    to.insert(to.end(), begin, begin + text.size());
  };
  for (const auto& [name, item] : items_) {
    const std::vector<std::byte> plain = npy_bytes(item.dtype, item.shape, item.bytes);
    constexpr std::size_t kMost = 0xf0000000;
    if (plain.size() > kMost || all.size() > kMost - plain.size())
      fail<ValueError>("[npz] archives from 4 GiB on are not written");
    const std::vector<std::byte> packed = deflate ? deflated(plain) : plain;
    const std::string file = name + ".npy";
    const auto offset = static_cast<std::uint32_t>(all.size());
    // What the two headers have in common; the date is the format's first, 1980-01-01, and names are UTF-8.
    const auto common = [&](std::vector<std::byte>& to) {
      put(to, std::uint16_t{20});
      put(to, std::uint16_t{1u << 11});
      put(to, deflate ? kDeflated : kStored);
      put(to, std::uint16_t{0});
      put(to, std::uint16_t{1u << 5 | 1});
      put(to, crc_of(plain));
      put(to, static_cast<std::uint32_t>(packed.size()));
      put(to, static_cast<std::uint32_t>(plain.size()));
      put(to, static_cast<std::uint16_t>(file.size()));
      put(to, std::uint16_t{0});
    };
    put(all, kLocal);
    common(all);
    put_text(all, file);
    all.insert(all.end(), packed.begin(), packed.end());
    put(directory, kCentral);
    put(directory, std::uint16_t{20});
    common(directory);
    put(directory, std::uint16_t{0});           // comment
    put(directory, std::uint16_t{0});           // disk
    put(directory, std::uint16_t{0});           // internal attributes
    put(directory, std::uint32_t{0600} << 16);  // external ones: Unix's rw for the owner, as NumPy's
    put(directory, offset);
    put_text(directory, file);
  }
  if (items_.size() > kWide || all.size() + directory.size() >= std::numeric_limits<std::uint32_t>::max())
    fail<ValueError>("[npz] archives from 4 GiB or 65536 arrays on are not written");
  const auto offset = static_cast<std::uint32_t>(all.size());
  all.insert(all.end(), directory.begin(), directory.end());
  put(all, kEnd);
  put(all, std::uint32_t{0});  // disks
  put(all, static_cast<std::uint16_t>(items_.size()));
  put(all, static_cast<std::uint16_t>(items_.size()));
  put(all, static_cast<std::uint32_t>(directory.size()));
  put(all, offset);
  put(all, std::uint16_t{0});
  return all;
}

void NpzWriter::write(const std::filesystem::path& path, bool deflate) const {
  AtomicFile file(path);
  file.write(bytes(deflate));
  file.commit();
}

}  // namespace eadem::io
