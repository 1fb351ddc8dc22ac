#include "eadem/io/json.h"

#include "tests/io/files.h"

namespace eadem::io {
namespace {

using testing::expect_refusal;

void expect_refused(std::string_view text, const std::vector<std::string>& parts) {
  expect_refusal<FileError>([&] { parse_json(text, "config.json", {.bytes = 1000, .depth = 5}); }, parts,
                            std::string(text.substr(0, 40)));
}

TEST(Json, ErrorsNameFileAndByte) {
  expect_refused("", {"config.json", "byte 0"});
  expect_refused("{\"a\": 1,}", {"config.json", "byte 9"});
  expect_refused("{\"a\": nul}", {"byte 10"});
  expect_refused("[1, 2] x", {"byte 8"});
  expect_refused("{\"a\": 1e999}", {"config.json"});
  expect_refused("\"\xff\"", {"config.json", "UTF-8"});
  expect_refused("\"\\ud800\"", {"config.json"});
  expect_refused("NaN", {"config.json"});
  expect_refused("{\"a\": 1, \"b\": {\"c\": 1, \"c\": 2}}", {"'c' occurs twice", "byte"});
  expect_refused("[[[[[[1]]]]]]", {"deeper than 5", "byte 6"});
  expect_refused(std::string(1001, ' '), {"1001 bytes"});
}

TEST(Json, WhatIsParsedIsTheValue) {
  const std::string text = R"({"a":[1,-2,3.5,null,true,"x",{}],"b":{"c":[[],[1]],"d":18446744073709551615},"e":""})";
  EXPECT_EQ(parse_json(text, "x").dump(), text);
  EXPECT_EQ(parse_json("7", "x"), 7);
  EXPECT_EQ(parse_json("[[[[[1]]]]]", "x", {.depth = 5}).dump(), "[[[[[1]]]]]");
}

TEST(Json, GettersNameFileAndKey) {
  const Json root = parse_json(R"({"n":5,"huge":18446744073709551615,"x":1.5,"s":"t","on":true,"none":null,
                                   "list":[1,2],"mixed":[1,"a"],"sub":{"factor":"8","items":[{"id":1},{"id":-1}]}})",
                               "dir/config.json");
  const JsonView view(root, "dir/config.json");
  EXPECT_EQ(view.required<std::int64_t>("n"), 5);
  EXPECT_EQ(view.required<double>("n"), 5.0);
  EXPECT_EQ(view.required<std::uint64_t>("huge"), UINT64_MAX);
  EXPECT_EQ(view.required<double>("x"), 1.5);
  EXPECT_EQ(view.required<std::string>("s"), "t");
  EXPECT_EQ(view.required<bool>("on"), true);
  EXPECT_EQ(view.required<std::vector<std::int64_t>>("list"), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(view.optional<std::int64_t>("none"), std::nullopt);
  EXPECT_EQ(view.value_or<std::int64_t>("absent", 3), 3);
  EXPECT_EQ(view.at("sub").at("items").elements()[1].required<std::int64_t>("id"), -1);
  const auto refuse = [&](const std::function<void()>& f, const std::vector<std::string>& parts) {
    auto all = parts;
    all.push_back("dir/config.json");
    expect_refusal<FileError>(f, all, parts[0]);
  };
  refuse([&] { view.required<std::int64_t>("absent"); }, {"'absent' is missing"});
  refuse([&] { view.required<std::int64_t>("none"); }, {"'none' is missing"});
  refuse([&] { view.required<std::int64_t>("x"); }, {"'x' must be an integer", "a fractional number"});
  refuse([&] { view.required<std::int64_t>("huge"); }, {"'huge' must be an integer of 64 bits"});
  refuse([&] { view.required<bool>("n"); }, {"'n' must be a boolean"});
  refuse([&] { view.at("sub").required<double>("factor"); }, {"'sub.factor' must be a number, it is a string"});
  refuse([&] { view.required<std::vector<std::int64_t>>("mixed"); }, {"'mixed'", "element 1 is a string"});
  refuse([&] { view.at("n").required<bool>("a"); }, {"'n' must be an object"});
  refuse([&] { view.at("sub").at("items").elements()[1].required<std::uint64_t>("id"); }, {"'sub.items[1].id'"});
}

TEST(Json, DamagedTextNeverCrashes) {
  const std::string text = R"({"a":[1,-2.5e3,null,true,"x\u00e9\n",{}],"b":{"c":[[],[1]]}})";
  testing::damage(std::as_bytes(std::span(text)), [](std::span<const std::byte> damaged) {
    parse_json({reinterpret_cast<const char*>(damaged.data()), damaged.size()}, "x").dump();
  });
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_THROW(parse_json(std::string_view(text).substr(0, length), "x"), FileError) << length;
}

TEST(Json, FilesAreRead) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(read_json(folder.write("a.json", "{\"a\":1}"))["a"], 1);
  expect_refusal<FileError>([&] { read_json(folder.path() / "b.json"); }, {"b.json", "No such file"}, "absent");
}

}  // namespace
}  // namespace eadem::io
