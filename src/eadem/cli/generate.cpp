#include "eadem/text/generate.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "eadem/base/parallel.h"
#include "eadem/cli/commands.h"
#include "eadem/cli/terminal.h"
#include "eadem/io/output.h"
#include "eadem/io/sha256.h"
#include "eadem/io/trace.h"
#include "eadem/kernels/target.h"
#include "eadem/numerics/version.h"
#include "eadem/text/chat_template.h"
#include "eadem/text/loaded_model.h"

// generate, and verify, which runs a trace's generation again.

namespace eadem::cli {
namespace {

struct GenerateCommand {
  std::string model, system, dtype = "bf16", trace;
  std::optional<std::string> prompt;
  text::GenerateOptions options;
  std::int64_t max_tokens = 256;
  std::optional<double> temperature;
  bool max_tokens_given = false, from_stdin = false, raw = false, no_mmap = false, json = false, ignore_end = false;
};

io::Access access_of(bool no_mmap) {
  return no_mmap ? io::Access::read : io::Access::map;
}

std::string digest_of(std::span<const float> logits) {
  return io::sha256(std::as_bytes(logits));
}

std::vector<std::int32_t> prompt_tokens(const text::Tokenizer& tokenizer, const GenerateCommand& command,
                                        const std::string& prompt) {
  // A model without a chat template was not taught to converse.
  const bool chats = !tokenizer.chat_template().empty();
  if (!chats && !command.system.empty())
    fail<ValueError>("--system: {} has no chat template, it continues the prompt", command.model);
  if (command.raw || !chats) return tokenizer.encode(prompt, {.add_special = true, .parse_special = command.raw});
  std::vector<text::Message> messages;
  if (!command.system.empty()) messages.push_back({"system", command.system});
  messages.push_back({"user", prompt});
  const auto shape = text::ChatTemplate::recognise(tokenizer.chat_template(), tokenizer.source());
  return tokenizer.encode(shape.render(messages), false);
}

io::TraceHeader header_of(const GenerateCommand& command, const std::vector<std::int32_t>& prompt) {
  const text::SamplerSettings& s = command.options.sampling;
  return {
      .numerics = std::string(numerics::kVersion),
      .model = command.model,
      .model_sha256 = text::model_sha256(command.model),
      .settings = {.dtype = command.dtype,
                   .prompt = {prompt.begin(), prompt.end()},
                   .max_tokens = command.options.max_tokens,
                   .temperature = s.temperature,
                   .top_k = s.top_k,
                   .top_p = s.top_p,
                   .min_p = s.min_p,
                   .repetition_penalty = s.repetition_penalty,
                   .seed = command.options.seed},
      .machine = {
          .cpu = cpu_name(), .target = std::string(kernels::name_of(kernels::active_target())), .threads = threads()}};
}

void report(const GenerateCommand& command, const text::GenerateStatistics& s, const std::string& text,
            const std::vector<std::int32_t>& ids) {
  const auto rate = [](std::int64_t count, double seconds) {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0.0;
  };
  const double prefill = rate(s.prompt_tokens - 1, s.prefill_seconds), decode = rate(s.emitted, s.decode_seconds);
  if (command.json) {
    using Json = nlohmann::ordered_json;
    const Json json{{"text", text},
                    {"ids", ids},
                    {"prompt_tokens", s.prompt_tokens},
                    {"emitted", s.emitted},
                    {"prefill_tokens_per_s", prefill},
                    {"decode_tokens_per_s", decode},
                    {"runs", s.runs},
                    {"drafted", s.drafted},
                    {"accepted", s.accepted}};
    io::write_output(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return;
  }
  io::write_output("\n");
  fmt::print(stderr, "[{} prompt tokens, {:.0f}/s; {} emitted, {:.1f}/s", s.prompt_tokens, prefill, s.emitted, decode);
  if (s.drafted > 0) fmt::print(stderr, "; {} of {} guesses kept", s.accepted, s.drafted);
  fmt::print(stderr, "]\n");
}

int generate(GenerateCommand command) {
  const std::string prompt = given_or_piped(command.prompt, command.from_stdin, "--prompt");
  ProgressLine progress;
  progress.show("loading " + command.model);
  const text::LoadedModel loaded =
      text::load_model(command.model, compute_dtype(command.dtype), access_of(command.no_mmap));
  const std::vector<std::int32_t> tokens = prompt_tokens(loaded.tokenizer, command, prompt);
  command.options.sampling.temperature = command.temperature.value_or(loaded.temperature);
  // Unless asked for a number, as many as the context has room for.
  const std::int64_t room = loaded.model.config().context - static_cast<std::int64_t>(tokens.size());
  command.options.max_tokens =
      command.max_tokens_given ? command.max_tokens : std::clamp<std::int64_t>(room, 0, command.max_tokens);

  const InterruptScope interrupt;
  std::unique_ptr<io::TraceWriter> trace;
  if (!command.trace.empty()) trace = std::make_unique<io::TraceWriter>(command.trace, header_of(command, tokens));
  text::StreamDecoder decoder(loaded.tokenizer);
  std::string text;
  std::vector<std::int32_t> ids;
  const auto show = [&](const std::string& piece) {
    text += piece;
    progress.clear();
    if (command.json || piece.empty()) return;
    try {
      io::write_output(piece);
    } catch (const io::ClosedPipeError&) {
      if (trace) throw FileError("standard output: the reader has gone; no trace was written");
      throw;
    }
  };
  const std::vector<std::vector<std::int32_t>> prompts{tokens};
  text::GenerateStatistics statistics;
  try {
    statistics = text::generate(loaded.model, prompts, command.options, [&](const text::Emission& e) {
      if (trace) trace->add({e.token, digest_of(e.logits)});
      ids.push_back(e.token);
      const bool ends = !command.ignore_end && loaded.tokenizer.ends_generation(e.token);
      if (!ends) show(decoder.push(e.token));
      return !ends;
    });
  } catch (const Interrupted&) {
    progress.clear();
  }
  show(decoder.finish());
  if (interrupt.interrupted()) {
    fmt::print(stderr, "\neadem: interrupted{}\n", trace ? "; no trace was written" : "");
    return kInterrupted;
  }
  if (trace) trace->finish();
  report(command, statistics, text, ids);
  return kGood;
}

struct VerifyCommand {
  std::string trace, model;
  bool no_mmap = false, json = false;
};

text::GenerateOptions options_of(const io::TraceSettings& s) {
  return {.max_tokens = s.max_tokens,
          .sampling = {.temperature = s.temperature,
                       .top_k = s.top_k,
                       .top_p = s.top_p,
                       .min_p = s.min_p,
                       .repetition_penalty = s.repetition_penalty},
          .seed = s.seed};
}

std::vector<std::int32_t> tokens_of(const io::Trace& trace, const std::string& path, std::int64_t vocabulary) {
  std::vector<std::int32_t> tokens;
  for (const std::int64_t token : trace.header.settings.prompt) {
    if (token < 0 || token >= vocabulary)
      fail<FileError>("{}: prompt token {} is outside the model's vocabulary of {}", path, token, vocabulary);
    tokens.push_back(static_cast<std::int32_t>(token));
  }
  return tokens;
}

int verify(const VerifyCommand& command) {
  const io::Trace trace = io::read_trace(command.trace);
  const std::string model = command.model.empty() ? trace.header.model : command.model;
  if (trace.header.numerics != numerics::kVersion)
    fail<FileError>("{}: was made under numerics {}, this is {}", command.trace, trace.header.numerics,
                    numerics::kVersion);
  if (const std::string digest = text::model_sha256(model); digest != trace.header.model_sha256)
    fail<FileError>("{}: was made with the model {}, {} is {}", command.trace, trace.header.model_sha256, model,
                    digest);
  ProgressLine progress;
  const text::LoadedModel loaded =
      text::load_model(model, compute_dtype(trace.header.settings.dtype), access_of(command.no_mmap));
  io::Trace again{trace.header, {}};
  const std::vector<std::vector<std::int32_t>> prompts{
      tokens_of(trace, command.trace, loaded.model.config().vocabulary)};
  if (static_cast<std::int64_t>(trace.steps.size()) > trace.header.settings.max_tokens)
    fail<FileError>("{}: has {} steps, more than its max_tokens of {}", command.trace, trace.steps.size(),
                    trace.header.settings.max_tokens);
  if (!trace.steps.empty())
    text::generate(loaded.model, prompts, options_of(trace.header.settings), [&](const text::Emission& e) {
      progress.show(fmt::format("step {} of {}", e.step + 1, trace.steps.size()));
      const auto step = static_cast<std::size_t>(e.step);
      again.steps.push_back({e.token, digest_of(e.logits)});
      return again.steps.back() == trace.steps[step] && step + 1 < trace.steps.size();
    });
  progress.clear();
  // After the first step that differs there is nothing to compare.
  io::Trace recorded = trace;
  recorded.steps.resize(again.steps.size());
  const std::optional<io::TraceDifference> difference = io::diff(recorded, again);
  if (command.json) {
    nlohmann::ordered_json json{{"same", !difference}, {"steps", trace.steps.size()}};
    if (difference)
      json["first"] = {{"step", difference->step.value_or(-1)},
                       {"field", difference->field},
                       {"recorded", difference->left},
                       {"recomputed", difference->right}};
    write_verdict(json.dump(2) + "\n");
  } else if (!difference) {
    write_verdict(fmt::format("same: {} steps, tokens and logits\n", again.steps.size()));
  } else {
    write_verdict(fmt::format("differs at step {}: {} was {}, now {}\n", difference->step.value_or(-1),
                              difference->field, difference->left, difference->right));
  }
  return difference ? kDiffers : kGood;
}

struct DiffCommand {
  std::string left, right;
  bool json = false;
};

int diff_traces(const DiffCommand& command) {
  const std::optional<io::TraceDifference> d = io::diff(io::read_trace(command.left), io::read_trace(command.right));
  if (command.json) {
    nlohmann::ordered_json json{{"same", !d}};
    if (d)
      json["first"] = {{"step", d->step.value_or(-1)}, {"field", d->field}, {"left", d->left}, {"right", d->right}};
    write_verdict(json.dump(2) + "\n");
  } else {
    const std::string where = d && d->step ? fmt::format(" at step {}", *d->step) : "";
    write_verdict(d ? fmt::format("differs{}: {}: {} and {}\n", where, d->field, d->left, d->right) : "same\n");
  }
  return d ? kDiffers : kGood;
}

}  // namespace

void add_generate(CLI::App& app, Body& run) {
  const auto c = std::make_shared<GenerateCommand>();
  CLI::App* command = app.add_subcommand("generate", "Generate text; the same text every time, everywhere");
  command->footer("Example: eadem generate model.gguf --prompt \"Why is the sky blue?\" --trace sky.trace");
  command->add_option("MODEL", c->model, "GGUF file, Hugging Face folder, builtin:poet or builtin:tiny")->required();
  CLI::Option* prompt =
      command->add_option("--prompt,-p", c->prompt, "What the user says (default: standard input, if piped)");
  prompt->excludes(command->add_flag("--stdin", c->from_stdin, "Read the prompt from standard input"));
  command->add_option("--system", c->system, "The system message (default: the model's own)");
  command->add_flag("--raw", c->raw,
                    "Continue the prompt as it is, without the chat template (a model that has none always does)");
  command->add_option("--max-tokens,-n", c->max_tokens, "Tokens to emit at most (default: 256)")
      ->check(CLI::NonNegativeNumber)
      ->each([c](const std::string&) { c->max_tokens_given = true; });
  command->add_option("--dtype", c->dtype, "Compute dtype: bf16 (default), f32 or f64");
  text::SamplerSettings& s = c->options.sampling;
  command->add_option("--temperature", c->temperature, "0 takes the likeliest token (default; of builtin:poet 0.5)");
  command->add_option("--top-k", s.top_k, "Keep the k likeliest tokens (0: all)");
  command->add_option("--top-p", s.top_p, "Keep the likeliest tokens up to this probability (1: all)");
  command->add_option("--min-p", s.min_p, "Keep tokens at least this likely compared with the likeliest (0: all)");
  command->add_option("--repetition-penalty", s.repetition_penalty, "Divides the logits of tokens seen (1: off)");
  command->add_option("--seed", c->options.seed, "Seed of the draws");
  command->add_option("--speculate", c->options.speculate,
                      "Guess up to this many tokens by prompt look-up; moves no bit");
  command->add_option("--chunk", c->options.prefill_chunk, "Prompt tokens run at once; moves no bit");
  command->add_option("--trace", c->trace, "Write a trace that `eadem verify` can check to this file");
  command->add_flag("--ignore-end", c->ignore_end, "Go on after the end token");
  command->add_flag("--no-mmap", c->no_mmap, "Read the model file instead of mapping it");
  command->add_flag("--json", c->json, "Print text, ids and speeds as JSON at the end");
  command->callback([=, &run] { run = [c] { return generate(*c); }; });
}

void add_verify(CLI::App& app, Body& run) {
  const auto c = std::make_shared<VerifyCommand>();
  CLI::App* command = app.add_subcommand("verify", "Run a trace's generation again and compare every step");
  command->footer("Example: eadem verify sky.trace --model model.gguf");
  command->add_option("TRACE", c->trace, "A file that `eadem generate --trace` wrote")->required();
  command->add_option("--model", c->model, "Where the model is now (default: as the trace names it)");
  command->add_flag("--no-mmap", c->no_mmap, "Read the model file instead of mapping it");
  command->add_flag("--json", c->json, "Print JSON");
  command->callback([=, &run] { run = [c] { return verify(*c); }; });
}

void add_diff(CLI::App& app, Body& run) {
  const auto c = std::make_shared<DiffCommand>();
  CLI::App* command = app.add_subcommand("diff", "Compare two traces");
  command->footer("Example: eadem diff a.trace b.trace");
  command->add_option("LEFT", c->left, "A trace")->required();
  command->add_option("RIGHT", c->right, "Another trace")->required();
  command->add_flag("--json", c->json, "Print JSON");
  command->callback([=, &run] { run = [c] { return diff_traces(*c); }; });
}

}  // namespace eadem::cli
