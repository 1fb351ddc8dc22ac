#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "eadem/kernels/target.h"
#include "tests/support/tiny_llama.h"

// The program as people run it: exit codes, output, traces, and what happens when something goes wrong.

namespace eadem {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

struct Finished {
  int exit = -1;
  std::string output;  // standard output and standard error
};

Finished shell(const std::string& command) {
  Finished result;
  std::FILE* pipe = popen(("exec 2>&1; " + command).c_str(), "r");
  char buffer[4096];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) result.output.append(buffer, n);
  const int status = pclose(pipe);
  result.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}
Finished eadem(const std::string& arguments, const std::string& environment = "") {
  return shell(environment + " " + EADEM_BINARY + " " + arguments);
}

std::string slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

#define EXPECT_RUN(run, code, text)                                            \
  do {                                                                         \
    const Finished result_ = (run);                                            \
    EXPECT_EQ(result_.exit, code) << result_.output;                           \
    EXPECT_NE(result_.output.find(text), std::string::npos) << result_.output; \
  } while (false)

TEST(Cli, HelpHasAnExampleEverywhere) {
  EXPECT_RUN(eadem("--help"), 0, "Example: eadem");
  for (const char* command :
       {"info", "inspect", "tokenize", "generate", "verify", "diff", "audit", "evaluate", "reproduce", "tabulate"})
    EXPECT_RUN(eadem(std::string(command) + " --help"), 0, "Example: eadem");
}

TEST(Cli, ReproducesTe1451) {
  const Finished run = eadem("reproduce te-1451 --json");
  EXPECT_EQ(run.exit, 0) << run.output;
  const auto json = nlohmann::json::parse(run.output);
  EXPECT_TRUE(json["holds"]);
  EXPECT_EQ(json["table"]["parameters"], 541184);
  EXPECT_EQ(json["table"]["bytes"], 2 * 541184);
  EXPECT_EQ(json["modules"].size(), 8u * 4 + 17u * 4 * 5);
  const Finished text = eadem("reproduce te-1451");
  EXPECT_NE(text.output.find("Total: 541,184 parameters, 1.1 MB"), std::string::npos) << text.output;
  std::istringstream lines(text.output);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 112u) << line;
}

TEST(Cli, ReproducesFlax4629) {
  const Finished run = eadem("reproduce flax-4629 --json");
  EXPECT_EQ(run.exit, 0) << run.output;
  const auto json = nlohmann::json::parse(run.output);
  EXPECT_TRUE(json["holds"]);
  std::int64_t compared = 0;
  for (const auto& row : json["comparisons"]) {
    EXPECT_EQ(row["differing"], 0) << row;
    EXPECT_GT(row["magnitude"], 0) << "nothing but zeros was compared: " << row;
    compared += row["compared"].get<std::int64_t>();
  }
  EXPECT_GE(compared, 4 * 3 * 64 * 8);
  EXPECT_TRUE(json["tuner"]["refused"]);
  ASSERT_FALSE(json["tuner"]["refusals"].empty());
  EXPECT_EQ(json["tuner"]["refusals"][0]["candidate"], "contraction/planted-14-percent-off");
  EXPECT_RUN(eadem("reproduce flax-4629"), 0, "Verdict: the same bits in every form.");
  EXPECT_RUN(eadem("reproduce"), 2, "subcommand");
}

TEST(Cli, BadUsageAndInputExitWithTwoAndSayWhy) {
  const TemporaryFolder folder;
  const std::string f = folder.path().string();
  EXPECT_RUN(eadem(""), 2, "subcommand");
  EXPECT_RUN(eadem("generate"), 2, "MODEL is required");
  EXPECT_RUN(eadem("generate builtin:tiny --max-tokens -3 -p x"), 2, "max-tokens");
  EXPECT_RUN(eadem("generate builtin:huge -p x"), 2, "builtin:huge");
  EXPECT_RUN(eadem("generate " + f + "/none.gguf -p x"), 2, "none.gguf");
  EXPECT_RUN(eadem("generate builtin:tiny -p x --dtype f16"), 2, "--dtype");
  EXPECT_RUN(eadem("generate builtin:tiny -p x --temperature nan"), 2, "temperature");
  EXPECT_RUN(eadem("generate builtin:tiny -p x -n 100000"), 2, "context");
  EXPECT_RUN(eadem("info", "EADEM_TARGET=mmx"), 2, "EADEM_TARGET");
  for (const char* poison : {"x", "256", "-1", "7f", "1 "})
    EXPECT_RUN(eadem("info", fmt::format("EADEM_POISON='{}'", poison)), 2, "EADEM_POISON");
  std::ofstream(folder.path() / "bad.gguf") << "GGUF nonsense";
  EXPECT_RUN(eadem("inspect " + f + "/bad.gguf"), 2, "bad.gguf");
  std::ofstream(folder.path() / "bad.trace") << "{\"format\": 3}\n";
  EXPECT_RUN(eadem("verify " + f + "/bad.trace"), 2, "bad.trace");
  EXPECT_RUN(eadem("tokenize builtin:tiny --ids 1 2 320"), 2, "320");
  EXPECT_RUN(eadem("evaluate builtin:tiny --tokens-file /dev/null --out " + f + "/out"), 2, "token");
}

TEST(Cli, InfoNamesTargetsAndNumerics) {
  EXPECT_RUN(eadem("info"), 0, "numerics      v1");
  const auto json = nlohmann::json::parse(eadem("info --json --threads 3").output);
  EXPECT_EQ(json["threads"], 3);
  EXPECT_EQ(json["targets"].size(), kernels::available_targets().size());
}

TEST(Cli, TokenizeGoesThereAndBack) {
  const auto json = nlohmann::json::parse(eadem("tokenize builtin:tiny 'the same word, naïve' --json").output);
  std::string ids;
  for (const auto& id : json["ids"]) ids += " " + std::to_string(id.get<int>());
  EXPECT_RUN(eadem("tokenize builtin:tiny --ids" + ids), 0, "the same word, naïve\n");
  EXPECT_RUN(shell("printf 'the word' | " EADEM_BINARY " tokenize builtin:tiny --stdin"), 0, "tokens");
}

TEST(Cli, InspectShowsEveryFormat) {
  const TemporaryFolder folder;
  const testing::TinyFiles files = testing::write_tiny_llama(folder.path(), {});
  EXPECT_RUN(eadem("inspect " + files.gguf.string()), 0, "blk.1.ffn_down.weight");
  EXPECT_RUN(eadem("inspect " + files.folder.string()), 0, "model.layers.1.mlp.down_proj.weight");
  const auto json = nlohmann::json::parse(eadem("inspect --json " + files.gguf.string()).output);
  EXPECT_EQ(json["metadata"]["general.architecture"], "llama");
  for (std::string line; const char c : eadem("inspect " + files.gguf.string()).output) {
    if (c != '\n')
      line += c;
    else
      EXPECT_LE(std::exchange(line, "").size(), 100u);
  }
}

// What a trace holds, and not "0 tensors".
TEST(Cli, InspectShowsATracesSteps) {
  const std::string trace = EADEM_SOURCE_DIR "/tests/golden/traces/tiny.trace";
  const Finished shown = eadem("inspect " + trace);
  EXPECT_EQ(shown.exit, 0);
  EXPECT_NE(shown.output.find("SHA-256 of the logits"), std::string::npos) << shown.output;
  EXPECT_EQ(shown.output.find("tensors"), std::string::npos) << shown.output;
  const auto json = nlohmann::json::parse(eadem("inspect --json " + trace).output);
  EXPECT_EQ(json["steps"].size(), json["metadata"]["emitted tokens"].get<std::size_t>());
  EXPECT_EQ(json["steps"][0]["logits"].get<std::string>().size(), 64u);
}

// Without a prompt (a text), standard input is read; a terminal there is bad usage, not an empty message.
TEST(Cli, WhatIsNotGivenComesFromStandardInput) {
  const std::string generate = EADEM_BINARY " generate builtin:tiny -n 3 --json";
  const Finished given = shell(generate + " -p 'the word'");
  EXPECT_EQ(given.exit, 0);
  const auto tokens = nlohmann::json::parse(given.output)["ids"];
  EXPECT_EQ(nlohmann::json::parse(shell("printf 'the word' | " + generate).output)["ids"], tokens);
  EXPECT_RUN(shell("printf 'the word' | " EADEM_BINARY " tokenize builtin:tiny"), 0, "tokens");
  const auto at_terminal = [](const std::string& arguments) {
    return shell("script -qec '" EADEM_BINARY " " + arguments + "' /dev/null < /dev/null");
  };
  EXPECT_RUN(at_terminal("generate builtin:tiny"), 2, "--prompt is required");
  EXPECT_RUN(at_terminal("tokenize builtin:tiny"), 2, "TEXT is required");
}

class CliTrace : public ::testing::Test {
 protected:
  std::string path(const char* name) const { return (folder_.path() / name).string(); }
  void generate(const std::string& name, const std::string& more = "", const std::string& environment = "") {
    EXPECT_RUN(eadem("generate builtin:tiny -p 'the same words' -n 12 --ignore-end --temperature 0.9 " + more +
                         " --trace " + path(name.c_str()),
                     environment),
               0, "");
  }
  const TemporaryFolder folder_;
};

TEST_F(CliTrace, VerifiesAndDiffers) {
  generate("a");
  EXPECT_RUN(eadem("verify " + path("a")), 0, "same: 12 steps");
  generate("b", "--threads 1 --chunk 3 --speculate 4", "EADEM_TARGET=scalar");
  EXPECT_RUN(eadem("diff " + path("a") + " " + path("b")), 0, "same");
  generate("c", "--seed 6");
  EXPECT_RUN(eadem("diff " + path("a") + " " + path("c")), 1, "settings.seed");
  // One digit of one digest is enough.
  std::string text = slurp(path("a"));
  const std::size_t digest = text.rfind("\"logits\":\"") + 10;
  ASSERT_GT(digest, 10u);
  text[digest] = text[digest] == '0' ? '1' : '0';
  std::ofstream(path("d")) << text;
  EXPECT_RUN(eadem("verify " + path("d")), 1, "differs at step 11");
  // Steps that a generation of this length cannot have are no trace.
  std::string forged = slurp(path("a"));
  forged.replace(forged.find("\"max_tokens\":12"), 15, "\"max_tokens\":1");
  std::ofstream(path("e")) << forged;
  EXPECT_RUN(eadem("verify " + path("e")), 2, "max_tokens");
  // A reader that has gone does not turn a verdict into another.
  EXPECT_RUN(shell("bash -c '" EADEM_BINARY " verify " + path("d") + " | true; exit ${PIPESTATUS[0]}'"), 1, "");
  const Finished json = eadem("verify --json " + path("d"));
  EXPECT_EQ(nlohmann::json::parse(json.output)["first"]["step"], 11);
}

TEST_F(CliTrace, LeavesNothingHalfWritten) {
  EXPECT_RUN(eadem("generate builtin:tiny -p x -n 4 --trace /dev/full"), 2, "/dev/full");
  EXPECT_RUN(eadem("generate builtin:tiny -p x -n 4 --trace " + path("no/such/folder")), 2, "no/such/folder");
  EXPECT_RUN(shell(EADEM_BINARY " generate builtin:tiny -p x -n 4 > /dev/full"), 2, "standard output");
  EXPECT_RUN(shell("bash -c '" EADEM_BINARY " inspect " EADEM_SOURCE_DIR
                   "/tests/golden/traces/tiny.trace | head -c 1 > /dev/null; exit ${PIPESTATUS[0]}'"),
             0, "");
}

TEST_F(CliTrace, InterruptionLeavesNoTrace) {
  const std::string command = std::string(EADEM_BINARY) + " generate builtin:tiny -p x -n 2000 --ignore-end --trace " +
                              path("t") + " > " + path("out") + " 2>&1 & pid=$!; while ! [ -s " + path("out") +
                              " ]; do sleep 0.02; done; kill -INT $pid; wait $pid";
  const Finished run = shell("bash -c '" + command + "'");
  EXPECT_EQ(run.exit, 130) << run.output;
  EXPECT_FALSE(fs::exists(path("t")));
}

// A first SIGINT is heard within a long prefill (the definition's, in f64), and leaves nothing. The signal is sent once
// the program catches it, which it does from the end of loading.
TEST_F(CliTrace, InterruptionDuringPrefill) {
  std::ofstream(path("run.sh")) << "EADEM_TARGET=scalar " EADEM_BINARY
                                   " generate builtin:tiny --dtype f64 --raw -p $(printf %02000d 7) -n 4 --trace "
                                << path("t") << " > " << path("out") << " 2>&1 &\npid=$!\n"
                                << "until grep -q 'SigCgt:.*[2367abef]$' /proc/$pid/status; do sleep 0.02; done\n"
                                << "sleep 0.2\nkill -INT $pid\nwait $pid\n";
  const Finished run = shell("bash " + path("run.sh"));
  EXPECT_EQ(run.exit, 130) << run.output << slurp(path("out"));
  EXPECT_EQ(slurp(path("out")), "\neadem: interrupted; no trace was written\n") << "text came out: prefill was over";
  EXPECT_FALSE(fs::exists(path("t")));
}

TEST(Cli, AuditReportsAndExitsGood) {
  const TemporaryFolder folder;
  const std::string report = (folder.path() / "report.json").string();
  EXPECT_RUN(eadem("audit builtin:tiny --tokens 40 --json " + report), 0, "the same bits in every form");
  const auto json = nlohmann::json::parse(slurp(report));
  EXPECT_EQ(json["properties"].size(), 10u);
  for (const auto& property : json["properties"]) {
    EXPECT_GT(property["compared"], 0) << property["name"];
    EXPECT_EQ(property["differing"], 0) << property["name"];
  }
  EXPECT_EQ(json["accuracy"].size(), 2u);
  EXPECT_LT(json["accuracy"][0]["relative_rms"], 1e-5);
}

// The model in the program goes on from its prompt, without a chat template, and passes the audit.
TEST(Cli, ThePoetWrites) {
  const Finished run = eadem("generate builtin:poet -p 'Shall I compare thee' -n 64 --json");
  EXPECT_EQ(run.exit, 0) << run.output;
  const auto json = nlohmann::json::parse(run.output);
  EXPECT_EQ(json["prompt_tokens"], 20);  // its bytes
  EXPECT_EQ(json["emitted"], 64);
  // Verse: letters, spaces and line ends above all.
  const auto text = json["text"].get<std::string>();
  EXPECT_GT(std::count_if(text.begin(), text.end(), [](char c) { return std::islower(c) || c == ' ' || c == '\n'; }),
            48)
      << text;
  EXPECT_EQ(
      nlohmann::json::parse(eadem("generate builtin:poet --raw -p 'Shall I compare thee' -n 64 --json").output)["text"],
      text);
  EXPECT_RUN(eadem("generate builtin:poet -p x --system y"), 2, "--system");
  EXPECT_RUN(eadem("audit builtin:poet --tokens 60"), 0, "the same bits in every form");
}

// The committed traces hold on this CPU under every target; tests/golden/VERIFIED lists those on which they did.
TEST(Golden, TracesHoldUnderEveryTarget) {
  const std::string folder = EADEM_SOURCE_DIR "/tests/golden/traces/";
  const std::string model = shell(EADEM_SOURCE_DIR "/scripts/get-model 2>/dev/null").output;
  for (const kernels::Target target : kernels::available_targets()) {
    const std::string environment = fmt::format("EADEM_TARGET={}", kernels::name_of(target));
    EXPECT_RUN(eadem("verify " + folder + "tiny.trace", environment), 0, "same");
    EXPECT_RUN(eadem("verify --threads 3 " + folder + "tiny-f32.trace", environment), 0, "same");
    EXPECT_RUN(eadem("verify " + folder + "poet.trace", environment), 0, "same");
    if (model.find(".gguf") == std::string::npos) {
      fmt::print("SmolLM2 is not here: its trace was not verified under {}\n", kernels::name_of(target));
      continue;
    }
    EXPECT_RUN(eadem("verify " + folder + "smollm2.trace --model " + model.substr(0, model.find('\n')), environment), 0,
               "same");
  }
}

}  // namespace
}  // namespace eadem
