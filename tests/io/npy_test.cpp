#include "eadem/io/npy.h"

#include <algorithm>
#include <cmath>

#include "eadem/numerics/rounding.h"
#include "tests/io/files.h"

namespace eadem::io {
namespace {

using testing::Bytes;
using testing::damage;
using testing::expect_refusal;
using testing::TemporaryFolder;

// Written by NumPy: tests/io/data/make_numpy_files.py.
std::filesystem::path stored(const std::string& name) {
  return std::filesystem::path(EADEM_SOURCE_DIR) / "tests/io/data" / name;
}
std::vector<std::byte> bytes_of(const std::string& name) {
  const auto file = MappedFile::open(stored(name));
  return {file->bytes().begin(), file->bytes().end()};
}
NpyArray parse(std::span<const std::byte> bytes) {
  return parse_npy(MappedFile::copy_of("test.npy", bytes));
}
Npz parse_zip(std::span<const std::byte> bytes) {
  return Npz::parse(MappedFile::copy_of("test.npz", bytes));
}

std::vector<double> values(const NpyArray& array) {
  std::vector<double> all;
  visit(array.dtype, [&]<class T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < array.bytes.size() / sizeof(T); ++i) {
      T value;
      std::memcpy(&value, array.bytes.data() + i * sizeof(T), sizeof(T));
      if constexpr (FloatingElement<T>)
        all.push_back(numerics::to_double(value));
      else
        all.push_back(static_cast<double>(value));
    }
  });
  return all;
}

TEST(Npy, EveryDTypeAsNumpyWroteIt) {
  for (const char* archive : {"all.npz", "compressed.npz"}) {
    const Npz file = Npz::open(stored(archive));
    EXPECT_EQ(file.names().size(), archive[0] == 'a' ? 13u : 14u);
    for (int t = 0; t < kDTypeCount; ++t) {
      const auto dtype = static_cast<DType>(t);
      const NpyArray array = file.array(name_of(dtype));
      EXPECT_EQ(array.dtype, dtype);
      EXPECT_EQ(array.shape, (Shape{2, 3}));
      std::vector<double> want;
      for (int k = 0; k < 6; ++k) {
        double value = k - 2;
        if (is_unsigned_integer(dtype) && value < 0) value += std::ldexp(1.0, static_cast<int>(8 * size_of(dtype)));
        want.push_back(dtype == DType::boolean ? k % 2 : value);
      }
      EXPECT_EQ(values(array), want) << name_of(dtype);
    }
  }
  EXPECT_EQ(Npz::open(stored("compressed.npz")).array("long").shape, (Shape{5000}));
}

TEST(Npy, OrdersVersionsAndEmptyArrays) {
  const std::vector<double> six{-2, -1, 0, 1, 2, 3};
  for (const char* name : {"version2.npy", "version3.npy", "big_endian.npy"})
    for (const Access access : {Access::map, Access::read}) {
      const NpyArray array = read_npy(stored(name), access);
      EXPECT_EQ(values(array), six) << name;
      EXPECT_EQ(array.shape, (Shape{2, 3}));
    }
  const NpyArray fortran = read_npy(stored("fortran.npy"));
  std::vector<double> want(24);
  for (std::size_t i = 0; i < want.size(); ++i) want[i] = static_cast<double>(i) - 2;
  EXPECT_EQ(values(fortran), want);
  EXPECT_EQ(fortran.shape, (Shape{2, 3, 4}));
  EXPECT_EQ(read_npy(stored("scalar.npy")).shape, Shape{});
  EXPECT_EQ(values(read_npy(stored("scalar.npy"))), (std::vector<double>{-2}));
  EXPECT_EQ(read_npy(stored("empty.npy")).shape, (Shape{0, 3}));
}

TEST(Npy, WritesNumpysBytes) {
  for (const char* name : {"scalar.npy", "empty.npy"}) {
    const NpyArray array = read_npy(stored(name));
    EXPECT_EQ(npy_bytes(array.dtype, array.shape, array.bytes), bytes_of(name)) << name;
  }
  const Npz file = Npz::open(stored("all.npz"));
  const TemporaryFolder folder;
  for (const bool deflate : {false, true}) {
    NpzWriter writer;
    std::vector<NpyArray> arrays;
    for (const std::string& name : file.names()) {
      arrays.push_back(file.array(name));
      writer.add(name, arrays.back().dtype, arrays.back().shape, arrays.back().bytes);
    }
    writer.write(folder.path() / "x.npz", deflate);
    const Npz again = Npz::open(folder.path() / "x.npz");
    const std::vector<std::string> names = again.names();
    EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
    EXPECT_EQ(again.names().size(), arrays.size());
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const NpyArray array = again.array(file.names()[i]);
      EXPECT_EQ(array.dtype, arrays[i].dtype);
      EXPECT_EQ(values(array), values(arrays[i]));
    }
    EXPECT_THROW(writer.add("f32", DType::f32, {0}, {}), ValueError);
    EXPECT_THROW(writer.add("new", DType::f32, {2}, {}), ValueError);
  }
  const float numbers[] = {1, 2};
  write_npy(folder.path() / "x.npy", DType::f32, {2}, std::as_bytes(std::span(numbers)));
  EXPECT_EQ(values(read_npy(folder.path() / "x.npy")), (std::vector<double>{1, 2}));
  EXPECT_THROW(npy_bytes(DType::f32, {3}, std::as_bytes(std::span(numbers))), ValueError);
}

TEST(Npy, TheHeaderIsChecked) {
  const auto refused = [](std::string_view header, std::size_t data, const std::vector<std::string>& parts) {
    Bytes file;
    file.put("\x93NUMPY").put(std::uint8_t{1}).put(std::uint8_t{0});
    file.put(static_cast<std::uint16_t>(header.size())).put(header);
    file.bytes.resize(file.bytes.size() + data);
    auto all = parts;
    all.push_back("test.npy");
    expect_refusal<FileError>([&] { parse(file.bytes); }, all, std::string(header));
  };
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 4, {"2 elements", "4 bytes follow"});
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 12, {"12 bytes follow"});
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", 0, {"shape"});
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}", 0, {"shape"});
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 4, {"extents"});
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1)}", 4, {"12 axes"});
  refused("{'descr': '<c8', 'fortran_order': False, 'shape': ()}", 8, {"'<c8'"});
  refused("{'descr': '<V3', 'fortran_order': False, 'shape': ()}", 3, {"'<V3'"});
  refused("{'descr': '|O', 'fortran_order': False, 'shape': ()}", 8, {"'|O'"});
  refused("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", 4, {"structured"});
  refused("{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", 4, {"fortran_order"});
  refused("{'descr': '<f4', 'shape': ()}", 4, {"lacks", "fortran_order"});
  refused("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", 4, {"twice"});
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1}", 4, {"unknown key 'x'"});
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': ()} + 1", 4, {"goes on"});
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (", 4, {"extents"});
  refused("{'descr': '<f4", 4, {"without end"});
  refused("{'descr': '\\x3cf4', 'fortran_order': False, 'shape': ()}", 4, {"escape"});
  refused("", 4, {"'{'"});
  for (const char* name : {"complex.npy", "structured.npy"}) EXPECT_THROW(read_npy(stored(name)), FileError) << name;
  EXPECT_THROW(read_npy(stored("none.npy")), FileError);
  std::vector<std::byte> later = bytes_of("version2.npy");
  later[6] = std::byte{4};
  EXPECT_THROW(parse(later), FileError);
}

TEST(Npy, BoolsAreZeroOrOne) {
  const std::byte two[] = {std::byte{2}};
  const auto bytes = npy_bytes(DType::boolean, {1}, two);
  expect_refusal<FileError>([&] { parse(bytes); }, {"bool of value 2"}, "bool");
}

TEST(Npz, WhatIsWrongIsNamed) {
  const float numbers[] = {1, 2, 3};
  NpzWriter writer;
  writer.add("w", DType::f32, {3}, std::as_bytes(std::span(numbers)));
  writer.add("v", DType::f32, {3}, std::as_bytes(std::span(numbers)));
  for (const bool deflate : {false, true}) {
    const std::vector<std::byte> good = writer.bytes(deflate);
    EXPECT_THROW(parse_zip(good).array("x"), FileError);
    const auto patched = [&](std::size_t at, std::initializer_list<int> bytes) {
      std::vector<std::byte> bad = good;
      for (const int byte : bytes) bad[at++] = static_cast<std::byte>(byte);
      return bad;
    };
    const std::size_t data = 30 + 5 + (deflate ? 10 : 128);  // within the first array, "v"
    expect_refusal<FileError>([&] { parse_zip(patched(data, {1, 2, 3})).array("v"); }, {"array 'v'"}, "checksum");
    const auto text = [](const std::vector<std::byte>& bytes) {
      return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    const std::size_t central = text(good).find("PK\1\2");
    expect_refusal<FileError>([&] { parse_zip(patched(central + 8, {1})); }, {"'v.npy'", "encrypted"}, "encrypted");
    expect_refusal<FileError>([&] { parse_zip(patched(central + 10, {12})); }, {"method 12"}, "method");
    expect_refusal<FileError>(
        [&] {
          parse_zip(patched(central + 24, {255, 255, 255, 127}));
        },
        {"'v.npy'", "hold"}, "a size that nothing holds");
    expect_refusal<FileError>([&] { parse_zip(patched(8, {deflate ? 0 : 8})); }, {"'v.npy'", "own header"}, "method");
    expect_refusal<FileError>([&] { parse_zip(patched(central + 34, {1})); }, {"'v.npy'", "disk 1"}, "entry's disk");
    for (const std::size_t field : {4, 6, 8})
      expect_refusal<FileError>([&] { parse_zip(patched(good.size() - 22 + field, {1})); }, {"is split"}, "disk");
    expect_refusal<FileError>([&] { parse_zip(patched(good.size() - 14, {1, 0, 1, 0})); }, {"1 entries take"}, "count");
    expect_refusal<FileError>([&] { parse_zip(patched(central + 46, {'w'})); }, {"another name"}, "name");
    expect_refusal<FileError>([&] { parse_zip(patched(30, {'w'})); }, {"another name"}, "name");
    const std::size_t second = text(good).find("PK\1\2", central + 1);
    expect_refusal<FileError>([&] { parse_zip(patched(second + 42, {0, 0})); }, {"another name"}, "offset");
    expect_refusal<FileError>([&] { parse_zip(patched(second + 46, {'v'})); }, {"another name"}, "twice");
    damage(good, [](std::span<const std::byte> bytes) {
      const Npz file = parse_zip(bytes);
      for (const std::string& name : file.names()) file.array(name);
    });
  }
  expect_refusal<FileError>([&] { parse_zip(std::as_bytes(std::span("no zip archive, but long enough"))); },
                            {"end record"}, "text");
}

// As many as zip's own record can name, which does not mean zip64; read and written.
TEST(Npz, HasUpTo65535Arrays) {
  NpzWriter writer;
  const std::byte one[] = {std::byte{1}};
  for (int i = 0; i < 65535; ++i) writer.add(std::to_string(i), DType::u8, {1}, one);
  const std::vector<std::byte> bytes = writer.bytes();
  const Npz file = parse_zip(bytes);
  EXPECT_EQ(file.names().size(), 65535u);
  EXPECT_EQ(values(file.array("65534")), std::vector<double>{1});
  writer.add("x", DType::u8, {1}, one);
  EXPECT_THROW(writer.bytes(), ValueError);
}

std::size_t peak_kilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmPeak:")) return std::stoul(line.substr(7));
  return 0;
}

// An entry of 4 MB of noise that says to hold 3 GB.
TEST(Npz, ALyingSizeTakesNoMemory) {
  std::vector<std::byte> noise(std::size_t{1} << 22);
  std::uint32_t state = 1;
  for (std::byte& each : noise) state = state * 1664525 + 1013904223, each = static_cast<std::byte>(state >> 24);
  NpzWriter writer;
  writer.add("v", DType::u8, {std::int64_t{1} << 22}, noise);
  std::vector<std::byte> bytes = writer.bytes(true);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::uint32_t lie = 3u << 30;
  std::memcpy(bytes.data() + text.rfind("PK\1\2") + 24, &lie, 4);
  const Npz file = parse_zip(bytes);
  const std::size_t before = peak_kilobytes();
  expect_refusal<FileError>([&] { file.array("v"); }, {"does not inflate"}, "lie");
  EXPECT_LT(peak_kilobytes() - before, 200u << 10);
}

}  // namespace
}  // namespace eadem::io
