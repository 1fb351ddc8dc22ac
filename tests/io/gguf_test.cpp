#include "eadem/io/gguf.h"

#include <sys/resource.h>

#include <numeric>

#include "tests/io/files.h"

namespace eadem::io {
namespace {

using testing::Bytes;
using testing::expect_refusal;
using testing::TemporaryFolder;

GgufFile parse(std::span<const std::byte> bytes) {
  return GgufFile::parse(MappedFile::copy_of("test.gguf", bytes));
}

struct TensorInfo {
  std::string name = "weight";
  std::vector<std::uint64_t> dims = {4};
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
};

/// A file written field by field, so that any of them may lie.
struct Raw {
  std::uint32_t magic = 0x46554747, version = 3;
  std::optional<std::uint64_t> tensor_count, pair_count;
  std::vector<std::vector<std::byte>> pairs;
  std::vector<TensorInfo> tensors = {{}};
  std::size_t data = 1024;

  Raw& pair(std::string_view key, std::uint32_t type, const std::function<void(Bytes&)>& value) {
    Bytes bytes;
    bytes.put(std::uint64_t{key.size()}).put(key).put(type);
    value(bytes);
    pairs.push_back(bytes.bytes);
    return *this;
  }
  std::vector<std::byte> bytes() const {
    Bytes file;
    file.put(magic).put(version).put(tensor_count.value_or(tensors.size())).put(pair_count.value_or(pairs.size()));
    for (const auto& each : pairs) file.bytes.insert(file.bytes.end(), each.begin(), each.end());
    for (const TensorInfo& tensor : tensors) {
      file.put(std::uint64_t{tensor.name.size()}).put(tensor.name);
      file.put(static_cast<std::uint32_t>(tensor.dims.size()));
      for (const std::uint64_t dim : tensor.dims) file.put(dim);
      file.put(tensor.type).put(tensor.offset);
    }
    file.bytes.resize((file.bytes.size() + 31) / 32 * 32 + data);
    return file.bytes;
  }
};

void expect_refused(const Raw& raw, const std::vector<std::string>& parts, const std::string& label) {
  expect_refusal<FileError>([&] { parse(raw.bytes()); }, parts, label);
}

// Public report C37.
TEST(Gguf, SizesThatWrapAreRefusedByTensorAndField) {
  constexpr std::uint64_t k32 = std::uint64_t{1} << 32, k62 = std::uint64_t{1} << 62;
  const auto one = [](std::vector<std::uint64_t> dims, std::uint32_t type, std::uint64_t offset = 0) {
    Raw raw;
    raw.tensors = {{"bad.weight", std::move(dims), type, offset}};
    return raw;
  };
  expect_refused(one({INT64_MAX, 2}, 24), {"bad.weight", "dims"}, "I8 [2^63-1,2]");
  expect_refused(one({k32, k32}, 0), {"bad.weight", "dims"}, "F32 [2^32,2^32]");
  expect_refused(one({k62}, 0), {"bad.weight", "dims"}, "F32 [2^62]");
  expect_refused(one({UINT64_MAX}, 0), {"bad.weight", "dims[0]"}, "F32 [2^64-1]");
  expect_refused(one({1, 1, 1, 1, 1}, 0), {"bad.weight", "n_dims is 5"}, "n_dims 5");
  expect_refused(one({1, 1, 1, 1, 1, 1, 1, 1, 1}, 0), {"bad.weight", "n_dims is 9"}, "n_dims 9");
  expect_refused(one({33}, 2), {"bad.weight", "dims[0] is 33", "Q4_0"}, "Q4_0 [33]");
  expect_refused(one({4}, 0, std::uint64_t{1} << 40), {"bad.weight", "offset 1099511627776"}, "offset 2^40");
  expect_refused(one({4}, 0, UINT64_MAX - 31), {"bad.weight", "offset"}, "offset that wraps");
  expect_refused(one({4}, 0, 4), {"bad.weight", "offset 4", "alignment 32"}, "offset 4");
  expect_refused(one({4}, 39999), {"bad.weight", "type 39999"}, "type 39999");
  expect_refused(one({32}, 20), {"bad.weight", "type 20 (IQ4_NL)"}, "IQ4_NL");
  Raw overlap;
  overlap.tensors = {{"first", {64}, 0, 0}, {"second", {8}, 0, 224}};
  expect_refused(overlap, {"second", "offset", "first"}, "overlap");
  Raw cut = one({64}, 0);
  cut.data = 255;
  expect_refused(cut, {"bad.weight", "256 bytes", "255"}, "data cut short");

  Raw key;
  key.pairs = {Bytes().put(std::uint64_t{1} << 63).put("a long key follows").bytes};
  expect_refused(key, {"length of the key", "9223372036854775808"}, "key length 2^63");
  Raw array;
  array.pair("list", 9, [](Bytes& b) { b.put(std::uint32_t{4}).put(std::uint64_t{1} << 61); });
  expect_refused(array, {"list", "array length", "2305843009213693952"}, "u32 array of 2^61");
  Raw count;
  count.tensor_count = std::uint64_t{1} << 60;
  expect_refused(count, {"number of tensors is 1152921504606846976"}, "n_tensors 2^60");
  Raw pairs;
  pairs.pair_count = UINT64_MAX;
  expect_refused(pairs, {"number of metadata pairs"}, "n_kv 2^64-1");

  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  const long before = usage.ru_maxrss;
  for (int i = 0; i < 100; ++i) expect_refused(one({k32, k32}, 0), {"dims"}, "again");
  getrusage(RUSAGE_SELF, &usage);
  EXPECT_LT(usage.ru_maxrss - before, 10 << 10) << "refusing took 10 MB";
}

// Public report C38.
TEST(Gguf, AlignmentDuplicatesAndKinds) {
  const auto alignment = [](std::uint32_t type, auto value) {
    Raw raw;
    raw.pair("general.alignment", type, [&](Bytes& b) { b.put(value); });
    return raw;
  };
  for (const std::uint32_t wrong : {0u, 3u, 4u, 48u, 1u << 31})
    expect_refused(alignment(4, wrong), {"general.alignment", std::to_string(wrong)}, "alignment");
  expect_refused(alignment(10, std::uint64_t{32}), {"general.alignment", "u32"}, "alignment as u64");
  Raw text;
  text.pair("general.alignment", 8, [](Bytes& b) { b.put(std::uint64_t{2}).put("32"); });
  expect_refused(text, {"general.alignment", "u32"}, "alignment as string");
  EXPECT_EQ(parse(alignment(4, std::uint32_t{64}).bytes()).alignment(), 64u);

  Raw empty;
  empty.tensors = {{"empty", {4, 0}, 0, 0}, {"full", {4}, 0, 0}};
  const GgufFile file = parse(empty.bytes());
  EXPECT_EQ(file.tensor("empty").shape, (Shape{0, 4}));
  EXPECT_TRUE(file.tensor("empty").bytes.empty());
  EXPECT_EQ(file.tensor("full").bytes.size(), 16u);

  const auto byte = [](std::uint8_t value) { return [value](Bytes& b) { b.put(value); }; };
  expect_refused(Raw().pair("", 0, byte(1)), {"key of metadata pair 0 is empty"}, "empty key");
  expect_refused(Raw().pair("a.b", 0, byte(1)).pair("a.b", 0, byte(1)), {"key 'a.b' occurs twice"}, "same key");
  expect_refused(Raw().pair("flag", 7, byte(2)), {"flag", "bool of value 2"}, "bool 2");
  expect_refused(Raw().pair("flag", 13, byte(2)), {"flag", "unknown type 13"}, "type 13");
  Raw twice;
  twice.tensors = {{"same", {4}, 0, 0}, {"same", {4}, 0, 32}};
  expect_refused(twice, {"tensor 'same' occurs twice"}, "same tensor");
  const auto nested = [](int levels) {
    Raw raw;
    raw.pair("deep", 9, [&](Bytes& b) {
      for (int i = 1; i < levels; ++i) b.put(std::uint32_t{9}).put(std::uint64_t{1});
      b.put(std::uint32_t{0}).put(std::uint64_t{1}).put(std::uint8_t{7});
    });
    return raw;
  };
  expect_refused(nested(3), {"deep", "nests arrays"}, "arrays three deep");
  EXPECT_NE(parse(nested(2).bytes()).find("deep"), nullptr);

  Raw version;
  version.version = 0x03000000;
  expect_refused(version, {"version 3", "big-endian"}, "big-endian");
  for (const std::uint32_t other : {0u, 1u, 4u}) {
    version.version = other;
    expect_refused(version, {"version " + std::to_string(other)}, "version");
  }
  version.version = 2;
  EXPECT_EQ(parse(version.bytes()).version(), 2u);
  Raw magic;
  magic.magic = 0x47475546;
  expect_refused(magic, {"test.gguf", "not a GGUF file"}, "magic");
}

std::vector<std::byte> rich_file(std::vector<std::byte>& storage) {
  GgufWriter writer;
  writer.set("u8", std::uint8_t{200});
  writer.set("i8", std::int8_t{-3});
  writer.set("u16", std::uint16_t{60000});
  writer.set("i16", std::int16_t{-300});
  writer.set("u32", std::uint32_t{4000000000});
  writer.set("i32", std::int32_t{-70000});
  writer.set("f32", 0.5f);
  writer.set("bool", true);
  writer.set("text", std::string("caf\xc3\xa9"));
  writer.set("u64", UINT64_MAX);
  writer.set("i64", INT64_MIN);
  writer.set("f64", 1e300);
  writer.set("ids", GgufArray{std::vector<std::int32_t>{1, -2, 3}});
  writer.set("tokens", GgufArray{std::vector<std::string>{"a", "", "bc"}});
  writer.set("flags", GgufArray{std::vector<bool>{true, false}});
  writer.set("nested", GgufArray{std::vector<GgufArray>{{std::vector<float>{1, 2}}, {std::vector<double>{3}}}});
  storage.resize(40);
  for (std::size_t i = 0; i < storage.size(); ++i) storage[i] = static_cast<std::byte>(i);
  writer.add("blocks", GgmlType::q4_1, {2, 32}, storage);
  writer.add("scalar", GgmlType::f32, {}, std::span(storage).first(4));
  writer.add("none", GgmlType::f16, {0, 4}, {});
  return writer.bytes();
}

TEST(Gguf, WhatIsWrittenIsRead) {
  std::vector<std::byte> storage;
  const GgufFile file = parse(rich_file(storage));
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.metadata().size(), 16u);
  EXPECT_EQ(file.required<std::int64_t>("u8"), 200);
  EXPECT_EQ(file.required<std::int64_t>("i8"), -3);
  EXPECT_EQ(file.required<std::int64_t>("u16"), 60000);
  EXPECT_EQ(file.required<std::int64_t>("i16"), -300);
  EXPECT_EQ(file.required<std::int64_t>("u32"), 4000000000);
  EXPECT_EQ(file.required<std::int64_t>("i32"), -70000);
  EXPECT_EQ(file.required<double>("f32"), 0.5);
  EXPECT_EQ(file.required<double>("i32"), -70000.0);
  EXPECT_EQ(file.required<bool>("bool"), true);
  EXPECT_EQ(file.required<std::string>("text"), "caf\xc3\xa9");
  EXPECT_EQ(file.required<std::int64_t>("i64"), INT64_MIN);
  EXPECT_EQ(file.required<double>("f64"), 1e300);
  EXPECT_EQ(file.required<std::vector<std::int64_t>>("ids"), (std::vector<std::int64_t>{1, -2, 3}));
  EXPECT_EQ(file.required<std::vector<std::string>>("tokens"), (std::vector<std::string>{"a", "", "bc"}));
  EXPECT_EQ(file.required<std::vector<bool>>("flags"), (std::vector<bool>{true, false}));
  EXPECT_EQ(file.value_or<std::int64_t>("absent", 5), 5);
  EXPECT_EQ(file.optional<bool>("absent"), std::nullopt);
  const auto refuse = [&](auto type, const char* key, const char* part) {
    expect_refusal<FileError>([&] { file.required<typename decltype(type)::type>(key); }, {"test.gguf", key, part},
                              key);
  };
  refuse(std::type_identity<std::int64_t>{}, "u64", "integer of 64 bits");
  refuse(std::type_identity<std::int64_t>{}, "f32", "integer of 64 bits");
  refuse(std::type_identity<std::int64_t>{}, "bool", "integer of 64 bits");
  refuse(std::type_identity<double>{}, "text", "a number");
  refuse(std::type_identity<std::string>{}, "absent", "missing");
  refuse(std::type_identity<std::vector<std::string>>{}, "ids", "array of strings");

  const GgufTensor& blocks = file.tensor("blocks");
  EXPECT_EQ(blocks.type, GgmlType::q4_1);
  EXPECT_EQ(blocks.shape, (Shape{2, 32}));
  EXPECT_EQ(blocks.bytes.size(), 40u);
  EXPECT_EQ(std::memcmp(blocks.bytes.data(), storage.data(), 40), 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.bytes.data()) % 32, 0u);
  EXPECT_EQ(file.file()->bytes().data() + blocks.offset, blocks.bytes.data());
  EXPECT_EQ(file.tensor("scalar").shape, Shape{});
  EXPECT_EQ(file.find_tensor("nothing"), nullptr);
  expect_refusal<FileError>([&] { file.tensor("nothing"); }, {"test.gguf", "nothing"}, "no tensor");
}

TEST(Gguf, TheWriterRefusesWrongSizes) {
  GgufWriter writer;
  const std::vector<std::byte> bytes(20);
  expect_refusal<ValueError>([&] { writer.add("w", GgmlType::q4_1, {33}, bytes); }, {"w", "Q4_1"}, "block");
  expect_refusal<ValueError>([&] { writer.add("w", GgmlType::f32, {4}, bytes); }, {"w", "20"}, "bytes");
}

TEST(Gguf, DamagedFilesNeverCrash) {
  std::vector<std::byte> storage;
  const auto bytes = rich_file(storage);
  testing::damage(bytes, [](std::span<const std::byte> damaged) {
    const GgufFile file = parse(damaged);
    for (const GgufTensor& tensor : file.tensors()) {
      // Every byte that is promised can be read.
      std::accumulate(tensor.bytes.begin(), tensor.bytes.end(), 0,
                      [](int sum, std::byte b) { return sum + static_cast<int>(b); });
    }
  });
  for (std::size_t length = 0; length + 32 < bytes.size(); ++length)
    EXPECT_THROW(parse(std::span(bytes).first(length)), FileError) << length;
}

TEST(Gguf, MappedAndReadFilesAreTheSame) {
  const TemporaryFolder folder;
  std::vector<std::byte> storage;
  const auto path = folder.write("model.gguf", rich_file(storage));
  const GgufFile mapped = GgufFile::open(path), read = GgufFile::open(path, Access::read);
  EXPECT_TRUE(mapped.file()->mapped());
  EXPECT_FALSE(read.file()->mapped());
  ASSERT_EQ(mapped.metadata(), read.metadata());
  const auto a = mapped.tensor("blocks").bytes, b = read.tensor("blocks").bytes;
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size()), 0);
}

}  // namespace
}  // namespace eadem::io
