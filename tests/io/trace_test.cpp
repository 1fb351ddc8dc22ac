#include "eadem/io/trace.h"

#include <cmath>

#include "eadem/io/sha256.h"
#include "tests/io/files.h"

namespace eadem::io {
namespace {

using testing::expect_refusal;
using testing::TemporaryFolder;

TraceHeader header() {
  return {.numerics = "v1",
          .model = "builtin:tiny",
          .model_sha256 = std::string(64, 'a'),
          .settings = {.dtype = "bf16",
                       .prompt = {1, 5, 9},
                       .max_tokens = 8,
                       .temperature = 0.1,
                       .top_k = 40,
                       .top_p = 0.95,
                       .min_p = 0.05,
                       .repetition_penalty = 1.1,
                       .seed = UINT64_MAX},
          .machine = {.cpu = "Some CPU \xff", .target = "avx3", .threads = 2}};
}
TraceStep step(std::int64_t token) {
  return {token, std::string(64, static_cast<char>('0' + token % 10))};
}

std::string text_of(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
}
std::string written(const TraceHeader& head, int steps) {
  const TemporaryFolder folder;
  TraceWriter writer(folder.path() / "t", head);
  for (int i = 0; i < steps; ++i) writer.add(step(i));
  writer.finish();
  return text_of(folder.path() / "t");
}

TEST(Trace, WhatIsWrittenIsRead) {
  const std::string text = written(header(), 3);
  const Trace trace = parse_trace(text, "t");
  EXPECT_EQ(trace.header.numerics, "v1");
  EXPECT_EQ(trace.header.model, "builtin:tiny");
  EXPECT_EQ(trace.header.settings, header().settings);
  EXPECT_EQ(trace.header.machine.target, "avx3");
  EXPECT_EQ(trace.header.machine.threads, 2);
  EXPECT_EQ(trace.steps, (std::vector<TraceStep>{step(0), step(1), step(2)}));
  EXPECT_EQ(written(trace.header, 3).size(), text.size());
  EXPECT_TRUE(parse_trace(written(header(), 0), "t").steps.empty());
}

TEST(Trace, AnUnfinishedOneLeavesNothing) {
  const TemporaryFolder folder;
  {
    TraceWriter writer(folder.path() / "t", header());
    for (int i = 0; i < 2000; ++i) writer.add(step(i));
  }
  EXPECT_EQ(folder.files(), 0);
  expect_refusal<FileError>(
      [] {
        TraceWriter writer("/dev/full", header());
        writer.add(step(1));
        writer.finish();
      },
      {"/dev/full", "No space left"}, "full disk");
}

TEST(Trace, TheWriterRefusesWhatAReaderWould) {
  const TemporaryFolder folder;
  const auto refuse = [&](auto change, const char* part) {
    TraceHeader head = header();
    change(head);
    expect_refusal<ValueError>([&] { TraceWriter(folder.path() / "t", head); }, {part}, part);
  };
  refuse([](TraceHeader& h) { h.settings.temperature = NAN; }, "settings.temperature");
  refuse([](TraceHeader& h) { h.settings.repetition_penalty = INFINITY; }, "settings.repetition_penalty");
  refuse([](TraceHeader& h) { h.settings.dtype = "f16"; }, "settings.dtype");
  refuse([](TraceHeader& h) { h.settings.prompt = {-1}; }, "settings.prompt");
  refuse([](TraceHeader& h) { h.model_sha256 = "x"; }, "model.sha256");
  TraceWriter writer(folder.path() / "t", header());
  expect_refusal<ValueError>([&] { writer.add({5, "abc"}); }, {"step 0", "logits"}, "digest");
}

TEST(Trace, DamageIsFound) {
  const std::string text = written(header(), 2);
  testing::damage(std::as_bytes(std::span(text)), [](std::span<const std::byte> damaged) {
    parse_trace({reinterpret_cast<const char*>(damaged.data()), damaged.size()}, "t");
  });
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_THROW(parse_trace(std::string_view(text).substr(0, length), "t"), FileError) << length;
  const auto refuse = [&](std::string_view from, std::string_view to, const std::vector<std::string>& parts) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    expect_refusal<FileError>([&] { parse_trace(changed, "file.trace"); }, parts, std::string(to));
  };
  refuse("\"eadem_trace\":1", "\"eadem_trace\":2", {"file.trace: line 1", "eadem_trace"});
  refuse("\"step\":1", "\"step\":2", {"line 3", "'step' must be 1"});
  refuse("\"count\":2", "\"count\":3", {"line 4", "'count' must be 2"});
  refuse("{\"step\":0", "{\"stop\":0", {"line 2", "'step' is missing"});
  refuse("\"seed\":18446744073709551615", "\"seed\":-1", {"line 1", "settings.seed"});
  refuse("\"token\":1", "\"token\":-1", {"line 3", "token"});
  refuse("\"end\":true", "\"end\":false", {"line 4", "'end'"});
  expect_refusal<FileError>([&] { parse_trace(text + "{}\n", "t"); }, {"line 5", "follows the end"}, "after the end");
  expect_refusal<FileError>([] { parse_trace("", "t"); }, {"t: the end record is missing"}, "empty");
}

TEST(Trace, TheFirstDifferenceIsNamed) {
  const Trace left = parse_trace(written(header(), 4), "t");
  const auto field_after = [&](auto change) {
    Trace right = left;
    change(right);
    const auto difference = diff(left, right);
    if (!difference) return std::string("none");
    return difference->step ? fmt::format("{}@{}", difference->field, *difference->step) : difference->field;
  };
  EXPECT_EQ(field_after([](Trace&) {}), "none");
  EXPECT_EQ(field_after([](Trace& t) { t.header.machine = {"other", "scalar", 7}; }), "none");
  EXPECT_EQ(field_after([](Trace& t) { t.header.model = "elsewhere"; }), "none");
  EXPECT_EQ(field_after([](Trace& t) { t.header.numerics = "v2"; }), "numerics");
  EXPECT_EQ(field_after([](Trace& t) { t.header.model_sha256[0] = 'b'; }), "model.sha256");
  EXPECT_EQ(field_after([](Trace& t) { t.header.settings.seed--; }), "settings.seed");
  EXPECT_EQ(field_after([](Trace& t) { t.header.settings.top_p = 0.951; }), "settings.top_p");
  EXPECT_EQ(field_after([](Trace& t) { t.header.settings.prompt.pop_back(); }), "settings.prompt");
  EXPECT_EQ(field_after([](Trace& t) { t.steps[2].logits[5]++; }), "logits@2");
  EXPECT_EQ(field_after([](Trace& t) { t.steps[1].token++; }), "token@1");
  EXPECT_EQ(field_after([](Trace& t) { t.steps.pop_back(); }), "count");
}

}  // namespace
}  // namespace eadem::io
