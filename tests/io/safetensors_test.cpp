#include "eadem/io/safetensors.h"

#include "tests/io/files.h"

namespace eadem::io {
namespace {

using testing::Bytes;
using testing::expect_refusal;
using testing::TemporaryFolder;

std::vector<std::byte> raw(std::string_view header, std::size_t data) {
  Bytes file;
  file.put(std::uint64_t{header.size()}).put(header);
  file.bytes.resize(file.bytes.size() + data);
  return file.bytes;
}
Safetensors parse(std::span<const std::byte> bytes) {
  return Safetensors::parse(MappedFile::copy_of("test.safetensors", bytes));
}
void expect_refused(std::string_view header, std::size_t data, const std::vector<std::string>& parts) {
  auto all = parts;
  all.push_back("test.safetensors");
  expect_refusal<FileError>([&] { parse(raw(header, data)); }, all, std::string(header));
}

// Public report C40.
TEST(Safetensors, ShapesAgainstBytes) {
  expect_refused(R"({"w":{"dtype":"F32","shape":[1000,1000],"data_offsets":[0,4]}})", 4, {"w.data_offsets", "4000000"});
  expect_refused(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0, {"w.shape"});
  expect_refused(R"({"w":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0, {"w.shape"});
  expect_refused(R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, {"w.shape", "-1"});
  expect_refused(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, {"w.data_offsets"});
  expect_refused(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 4, {"w.data_offsets", "8"});
  expect_refused(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", 4, {"w.data_offsets"});
  expect_refused(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 8, {"w.data_offsets"});
  expect_refused(R"({"w":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4, {"w.shape"});
  expect_refused(R"({"w":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4, {"w.shape"});
}

TEST(Safetensors, EmptyTensorsAndScalarsRoundTripToTheByte) {
  const std::vector<std::byte> data(64, std::byte{1});
  SafetensorsWriter writer;
  writer.add("a", DType::f32, {0, 3}, {});
  writer.add("b", DType::bf16, {2, 0, 4}, {});
  writer.add("c", DType::f32, {0}, {});
  writer.add("scalar", DType::f64, {}, std::span(data).first(8));
  writer.add("flags", DType::boolean, {3}, std::span(data).first(3));
  writer.add("caf\xc3\xa9 \"quoted\"", DType::i16, {2, 2}, std::span(data).first(8));
  writer.set("format", "pt");
  writer.set("author", "x");
  const auto first = writer.bytes();
  const Safetensors read = parse(first);
  ASSERT_EQ(read.tensors().size(), 6u);
  EXPECT_EQ(read.tensor("b").shape, (Shape{2, 0, 4}));
  EXPECT_EQ(read.tensor("scalar").shape, Shape{});
  EXPECT_EQ(read.tensor("scalar").bytes.size(), 8u);
  EXPECT_EQ(read.metadata().at("format"), "pt");
  SafetensorsWriter again;
  for (auto each = read.tensors().rbegin(); each != read.tensors().rend(); ++each)
    again.add(each->name, each->dtype, each->shape, each->bytes);
  for (const auto& [key, value] : read.metadata()) again.set(key, value);
  EXPECT_EQ(again.bytes(), first);
  const TemporaryFolder folder;
  again.write(folder.path() / "x.safetensors");
  const auto file = MappedFile::open(folder.path() / "x.safetensors");
  EXPECT_TRUE(std::equal(first.begin(), first.end(), file->bytes().begin(), file->bytes().end()));
}

TEST(Safetensors, EveryDTypeRoundTrips) {
  const std::vector<std::byte> data(16);
  for (int t = 0; t < kDTypeCount; ++t) {
    const auto dtype = static_cast<DType>(t);
    SafetensorsWriter writer;
    writer.add("w", dtype, {2}, std::span(data).first(2 * size_of(dtype)));
    EXPECT_EQ(parse(writer.bytes()).tensor("w").dtype, dtype);
  }
}

TEST(Safetensors, TheHeaderIsChecked) {
  const std::string good = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  expect_refused("{" + good + "}", 5, {"1 bytes of data follow"});
  expect_refused("{" + good + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})", 6, {"'b'", "begin at 2"});
  expect_refused("{" + good + R"(,"b":{"dtype":"U8","shape":[1],"data_offsets":[5,6]}})", 6, {"'b'", "begin at 5"});
  expect_refused("{" + good + "," + good + "}", 4, {"'a' occurs twice"});
  expect_refused(R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})", 4, {"a.dtype", "F8_E4M3"});
  expect_refused(R"({"a":{"dtype":"U8","shape":[4]}})", 4, {"a.data_offsets", "missing"});
  expect_refused(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":1}})", 4, {"'a'", "'x'"});
  expect_refused(R"({"a":3})", 0, {"'a'", "must be an object"});
  expect_refused("[1]", 0, {"must be an object"});
  expect_refused(R"({"__metadata__":{"a":1}})", 0, {"__metadata__.a", "must be a string"});
  expect_refused("{", 0, {"byte"});
  expect_refusal<FileError>([] { parse({}); }, {"too short"}, "empty");
  for (const std::uint64_t length : {std::uint64_t{3}, std::uint64_t{99'999'999}, UINT64_MAX})
    expect_refusal<FileError>([&] { parse(Bytes().put(length).put("{}").bytes); }, {"header length"}, "length");
  auto two = raw(R"({"a":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}})", 4);
  two.back() = std::byte{2};
  expect_refusal<FileError>([&] { parse(two); }, {"'a'", "BOOL of value 2"}, "bool 2");
  EXPECT_TRUE(parse(raw("{}", 0)).tensors().empty());
}

TEST(Safetensors, TheWriterRefusesWhatAReaderWould) {
  SafetensorsWriter writer;
  const std::vector<std::byte> data(8);
  writer.add("a", DType::f32, {2}, data);
  expect_refusal<ValueError>([&] { writer.add("a", DType::f32, {2}, data); }, {"'a' is taken"}, "twice");
  expect_refusal<ValueError>([&] { writer.add("b", DType::f32, {3}, data); }, {"'b'", "12 bytes"}, "bytes");
  writer.add("\xff", DType::f32, {2}, data);
  expect_refusal<ValueError>([&] { writer.bytes(); }, {"UTF-8"}, "name");
}

TEST(Safetensors, DamagedFilesNeverCrash) {
  const std::vector<std::byte> data(24, std::byte{1});
  SafetensorsWriter writer;
  writer.add("a", DType::f64, {1, 2}, std::span(data).first(16));
  writer.add("b", DType::boolean, {3}, std::span(data).first(3));
  writer.set("k", "v");
  const auto bytes = writer.bytes();
  testing::damage(bytes, [](std::span<const std::byte> damaged) {
    int sum = 0;
    const Safetensors file = parse(damaged);
    for (const SafeTensor& tensor : file.tensors())
      for (const std::byte byte : tensor.bytes) sum += static_cast<int>(byte);
    EXPECT_GE(sum, 0);
  });
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(parse(std::span(bytes).first(length)), FileError) << length;
}

TEST(Safetensors, ShardsOfAFolder) {
  const TemporaryFolder folder;
  const std::vector<std::byte> data(8);
  const auto shard = [&](const std::string& file, std::vector<std::string> names) {
    SafetensorsWriter writer;
    for (std::string& name : names) writer.add(std::move(name), DType::f32, {2}, data);
    writer.write(folder.path() / file);
  };
  const auto index = [&](std::string_view map) {
    folder.write("model.safetensors.index.json", fmt::format(R"({{"metadata":{{}},"weight_map":{}}})", map));
  };
  shard("model.safetensors", {"only"});
  EXPECT_EQ(Safetensors::open_folder(folder.path()).tensors().size(), 1u);
  shard("one.safetensors", {"a", "c"});
  shard("two.safetensors", {"b"});
  index(R"({"a":"one.safetensors","b":"two.safetensors","c":"one.safetensors"})");
  const Safetensors all = Safetensors::open_folder(folder.path());
  ASSERT_EQ(all.tensors().size(), 3u);
  EXPECT_EQ(all.tensor("b").file->name(), folder.path() / "two.safetensors");
  const auto refuse = [&](std::string_view map, const std::vector<std::string>& parts) {
    index(map);
    expect_refusal<FileError>([&] { Safetensors::open_folder(folder.path()); }, parts, std::string(map));
  };
  refuse(R"({"a":"one.safetensors"})", {"'c'", "one.safetensors", "not listed"});
  refuse(R"({"z":"two.safetensors","b":"two.safetensors"})", {"'z'", "not in two.safetensors"});
  refuse(R"({"a":"../one.safetensors"})", {"weight_map.a", "same folder"});
  refuse(R"({"a":"three.safetensors"})", {"three.safetensors", "No such file"});
  refuse(R"({"a":5})", {"weight_map.a", "must be a string"});
  refuse("[]", {"weight_map", "must be an object"});
}

}  // namespace
}  // namespace eadem::io
