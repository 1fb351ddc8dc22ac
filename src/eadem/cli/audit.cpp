#include "eadem/audit/audit.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "eadem/base/parallel.h"
#include "eadem/cli/commands.h"
#include "eadem/cli/terminal.h"
#include "eadem/io/atomic_file.h"
#include "eadem/io/output.h"
#include "eadem/kernels/target.h"
#include "eadem/numerics/version.h"
#include "eadem/text/generate.h"
#include "eadem/text/loaded_model.h"

extern char** environ;

namespace eadem::cli {
namespace {

using Json = nlohmann::ordered_json;

struct AuditOptions {
  std::string model, dtype = "bf16", json;
  std::int64_t tokens = 0;  // 0: the model's default
  bool no_accuracy = false, no_mmap = false;
};

// A folder for exchange with fresh processes, gone with its scope.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "eadem-audit-XXXXXX").string();
    if (!mkdtemp(name.data())) fail<FileError>("{}: cannot make a temporary folder", name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// Runs `eadem evaluate` in a fresh process and reads what it wrote.
audit::Evaluation evaluate_elsewhere(const AuditOptions& options, const std::vector<std::int32_t>& tokens,
                                     const audit::Evaluation& like, int poison) {
  const TemporaryFolder folder;
  std::string list;
  for (const std::int32_t token : tokens) list += std::to_string(token) + "\n";
  io::AtomicFile file(folder / "tokens");
  file.write(list);
  file.commit();
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::string> words{self,
                                 "evaluate",
                                 options.model,
                                 "--dtype",
                                 options.dtype,
                                 "--tokens-file",
                                 folder / "tokens",
                                 "--out",
                                 folder / "out",
                                 "--threads",
                                 std::to_string(threads())};
  if (options.no_mmap) words.emplace_back("--no-mmap");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::vector<std::string> variables{fmt::format("EADEM_TARGET={}", kernels::name_of(kernels::active_target()))};
  if (poison >= 0) variables.push_back(fmt::format("EADEM_POISON={}", poison));
  for (char** each = environ; *each; ++each)
    if (std::string_view(*each).rfind("EADEM_", 0) != 0) variables.emplace_back(*each);
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  pid_t process = 0;
  if (const int error = posix_spawn(&process, self.c_str(), nullptr, nullptr, arguments.data(), environment.data()))
    io::fail_errno(self, "start", error);
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != kGood)
    fail<Error>("[audit] the fresh process failed (status {})", status);
  return audit::read_evaluation(folder / "out", like);
}

// Any text will do; this one repeats itself, so that prompt look-up has something to find.
constexpr std::string_view kAuditText =
    "The same seed, the same words: the sea sees the same seed, and the sea says the same words. One and one are two; "
    "two and two are four; four and four are eight, 8 + 8 = 16. In the beginning was the sum, and the sum was exact, "
    "and the order of the sum was the order of its indices. The same seed, the same words: the sea sees the same seed, "
    "and the sea says the same words again and again. Naïve café, 東京, Ωμέγα; x := (a + b) * c - d / e; 3.14159. ";

std::vector<std::int32_t> audit_tokens(const text::LoadedModel& loaded, std::int64_t count) {
  std::vector<std::int32_t> tokens = loaded.tokenizer.encode(kAuditText);
  const std::size_t period = tokens.size();
  while (static_cast<std::int64_t>(tokens.size()) < count) tokens.push_back(tokens[tokens.size() - period]);
  tokens.resize(static_cast<std::size_t>(count));
  return tokens;
}

constexpr std::int64_t kGenerated = 48;

// What a built-in model has room for, beside the tokens that are generated after them.
std::int64_t default_tokens(const AuditOptions& options, const text::LoadedModel& loaded) {
  if (!options.model.starts_with("builtin:")) return 160;
  return std::min<std::int64_t>(loaded.model.config().context - kGenerated, 1100);
}

audit::Subject subject_of(const text::LoadedModel& loaded, const AuditOptions& options) {
  audit::Subject subject;
  subject.vocabulary = loaded.model.config().vocabulary;
  subject.evaluate = [&](const std::vector<std::int32_t>& tokens, const audit::Form& form) {
    return audit::evaluate(loaded.model, tokens, form);
  };
  subject.evaluate_elsewhere = [&](const std::vector<std::int32_t>& tokens, const audit::Evaluation& like, int poison) {
    return evaluate_elsewhere(options, tokens, like, poison);
  };
  subject.generate = [&](const std::vector<std::int32_t>& tokens, bool speculative) {
    const std::int64_t room = loaded.model.config().context - static_cast<std::int64_t>(tokens.size());
    std::vector<float> logits;
    const std::vector<std::vector<std::int32_t>> prompts{tokens};
    const text::GenerateStatistics statistics =
        text::generate(loaded.model, prompts,
                       {.max_tokens = std::min(room, kGenerated), .sampling = {}, .speculate = speculative ? 8 : 0},
                       [&](const text::Emission& e) {
                         logits.insert(logits.end(), e.logits.begin(), e.logits.end());
                         return true;
                       });
    const std::int64_t rows = static_cast<std::int64_t>(logits.size()) / subject.vocabulary;
    return audit::Subject::Generation{Array::from(logits, {rows, subject.vocabulary}), statistics.drafted};
  };
  return subject;
}

std::vector<audit::Accuracy> accuracies(const AuditOptions& options, const std::vector<std::int32_t>& tokens,
                                        ProgressLine& progress) {
  const io::Access access = options.no_mmap ? io::Access::read : io::Access::map;
  progress.show("accuracy: FP64");
  const Array reference = audit::evaluate(text::load_model(options.model, DType::f64, access).model, tokens).logits;
  std::vector<audit::Accuracy> results;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const text::LoadedModel loaded = text::load_model(options.model, dtype, access);
    progress.show(fmt::format("accuracy: {}", dtype));
    const Array logits = audit::evaluate(loaded.model, tokens).logits;
    progress.show(fmt::format("accuracy: {} rounded only where the program says", dtype));
    const ModeScope scope(Mode::ideal);
    const Array ideal = audit::evaluate(loaded.model, tokens).logits;
    results.push_back(audit::accuracy(std::string(name_of(dtype)), logits, ideal, reference));
  }
  return results;
}

Json as_json(const audit::PropertyResult& p) {
  Json json{{"name", p.name},   {"compared", p.compared}, {"differing", p.differing}, {"skipped", p.skipped},
            {"first", nullptr}, {"form", p.first_form},   {"seconds", p.seconds}};
  if (p.first)
    json["first"] = {{"layer", p.first->layer},
                     {"tensor", p.first->tensor},
                     {"index", p.first->index},
                     {"expected", p.first->expected},
                     {"got", p.first->got}};
  return json;
}

Json as_json(const audit::Accuracy& a) {
  return {{"dtype", a.dtype},
          {"max_abs", a.max_abs},
          {"relative_rms", a.relative_rms},
          {"ratio", a.ratio},
          {"positions", a.positions},
          {"top1_agree", a.top1_agree},
          {"flips_explained_by_margin", a.explained}};
}

std::string verdict_table(const std::vector<audit::PropertyResult>& properties) {
  std::vector<std::vector<std::string>> rows{{"property", ">compared", ">differing", ">seconds", "first difference"}};
  for (const audit::PropertyResult& p : properties) {
    std::string note;
    if (p.first)
      note = fmt::format("{}: {}", p.first_form, audit::describe(*p.first));
    else if (p.differing)
      note = p.first_form;
    else if (!p.skipped.empty())
      note = "skipped " + p.skipped;
    rows.push_back(
        {p.name, std::to_string(p.compared), std::to_string(p.differing), fmt::format("{:.1f}", p.seconds), note});
  }
  return table(rows);
}

std::string accuracy_table(const std::vector<audit::Accuracy>& accuracies) {
  std::vector<std::vector<std::string>> rows{
      {"against FP64", ">max abs", ">relative RMS", ">R", ">top-1 agrees", "flips explained by the margin"}};
  for (const audit::Accuracy& a : accuracies)
    rows.push_back({a.dtype, fmt::format("{:.3g}", a.max_abs), fmt::format("{:.3g}", a.relative_rms),
                    fmt::format("{:.3f}", a.ratio), fmt::format("{}/{}", a.top1_agree, a.positions),
                    fmt::format("{}/{}", a.explained, a.positions - a.top1_agree)});
  return table(rows);
}

int audit_model(const AuditOptions& options) {
  ProgressLine progress;
  const DType dtype = compute_dtype(options.dtype);
  progress.show("loading " + options.model);
  const text::LoadedModel loaded =
      text::load_model(options.model, dtype, options.no_mmap ? io::Access::read : io::Access::map);
  const std::int64_t count = options.tokens > 0 ? options.tokens : default_tokens(options, loaded);
  if (count > loaded.model.config().context)
    fail<ValueError>("--tokens {} exceeds the model's context of {}", count, loaded.model.config().context);
  const std::vector<std::int32_t> tokens = audit_tokens(loaded, count);
  const bool large = loaded.file_bytes > (std::int64_t{16} << 20);
  const std::vector<audit::PropertyResult> properties =
      audit::audit(subject_of(loaded, options), tokens, {.scalar_tokens = large ? 16 : 0},
                   [&](const std::string& property, const std::string& form) {
                     progress.show(fmt::format("{}: {}", property, form));
                   });
  std::vector<audit::Accuracy> accuracy;
  if (!options.no_accuracy) {
    const auto few = static_cast<std::ptrdiff_t>(std::min<std::int64_t>(count, 64));
    accuracy = accuracies(options, {tokens.begin(), tokens.begin() + few}, progress);
  }
  progress.clear();
  std::int64_t differing = 0;
  for (const audit::PropertyResult& p : properties) differing += p.differing;
  std::string text =
      fmt::format("Audit of {} in {}: {} tokens, numerics {}, {}, {} threads\n\n", options.model, options.dtype, count,
                  numerics::kVersion, kernels::name_of(kernels::active_target()), threads());
  text += verdict_table(properties);
  if (!accuracy.empty()) text += "\n" + accuracy_table(accuracy);
  text += differing == 0 ? "\nVerdict: the same bits in every form.\n"
                         : fmt::format("\nVerdict: {} elements differ.\n", differing);
  if (!options.json.empty()) {
    Json json{{"numerics", numerics::kVersion},
              {"machine",
               {{"cpu", cpu_name()}, {"target", kernels::name_of(kernels::active_target())}, {"threads", threads()}}},
              {"model", options.model},
              {"dtype", options.dtype},
              {"tokens", count},
              {"properties", Json::array()},
              {"accuracy", Json::array()}};
    for (const auto& each : properties) json["properties"].push_back(as_json(each));
    for (const auto& each : accuracy) json["accuracy"].push_back(as_json(each));
    io::AtomicFile file(options.json);
    file.write(json.dump(2) + "\n");
    file.commit();
  }
  write_verdict(text);
  return differing == 0 ? kGood : kDiffers;
}

struct EvaluateOptions {
  std::string model, dtype = "bf16", tokens_file, out;
  bool no_mmap = false;
};

int evaluate(const EvaluateOptions& options) {
  std::ifstream file(options.tokens_file);
  if (!file) fail<FileError>("{}: cannot be opened", options.tokens_file);
  std::vector<std::int32_t> tokens;
  for (std::int32_t token; file >> token;) tokens.push_back(token);
  if (!file.eof()) fail<FileError>("{}: must hold token ids separated by white space", options.tokens_file);
  const text::LoadedModel loaded = text::load_model(options.model, compute_dtype(options.dtype),
                                                    options.no_mmap ? io::Access::read : io::Access::map);
  audit::write_evaluation(audit::evaluate(loaded.model, tokens), options.out);
  return kGood;
}

}  // namespace

void add_audit(CLI::App& app, Body& run) {
  const auto options = std::make_shared<AuditOptions>();
  CLI::App* command = app.add_subcommand("audit", "Prove that no form of running a model moves a bit");
  command->footer("Example: eadem audit builtin:tiny --json report.json");
  command->add_option("MODEL", options->model, "GGUF file, Hugging Face folder, builtin:poet or builtin:tiny")
      ->required();
  command->add_option("--dtype", options->dtype, "Compute dtype: bf16 (default), f32 or f64");
  command
      ->add_option("--tokens", options->tokens,
                   "Tokens to run (default: 160; of a built-in model 1100, or what its context has room for)")
      ->check(CLI::Range(2, 1 << 20));
  command->add_option("--json", options->json, "Write the report to this file as JSON");
  command->add_flag("--no-accuracy", options->no_accuracy, "Leave out the comparison with FP64");
  command->add_flag("--no-mmap", options->no_mmap, "Read the model file instead of mapping it");
  command->callback([=, &run] { run = [options] { return audit_model(*options); }; });
}

void add_evaluate(CLI::App& app, Body& run) {
  const auto options = std::make_shared<EvaluateOptions>();
  CLI::App* command =
      app.add_subcommand("evaluate", "Write all logits and cache entries of a token sequence to a file");
  command->footer(
      "Example: eadem evaluate builtin:tiny --tokens-file ids.txt --out logits.bin\n"
      "The file holds, by layer, keys and values [kv_heads, tokens, head_size] in the compute dtype, then\n"
      "logits [tokens, vocabulary] in f32 (f64 under --dtype f64), little-endian, without a header.");
  command->add_option("MODEL", options->model, "GGUF file, Hugging Face folder, builtin:poet or builtin:tiny")
      ->required();
  command->add_option("--tokens-file", options->tokens_file, "Token ids, separated by white space")->required();
  command->add_option("--out", options->out, "The file to write")->required();
  command->add_option("--dtype", options->dtype, "Compute dtype: bf16 (default), f32 or f64");
  command->add_flag("--no-mmap", options->no_mmap, "Read the model file instead of mapping it");
  command->callback([=, &run] { run = [options] { return evaluate(*options); }; });
}

}  // namespace eadem::cli
