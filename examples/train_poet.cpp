// Trains a small Llama on bytes of Shakespeare's poems (data/poems.txt). Without an argument: 200 steps of a very small
// one on every target of this CPU (scalar, and eager, their first 50), whose loss and parameters must have the
// committed bits. With a folder: the model that ships as builtin:poet, in FOLDER/poet.gguf, with its loss curve in
// FOLDER/loss.svg; stopped, it goes on from FOLDER/checkpoint.safetensors.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "eadem/base/parallel.h"
#include "eadem/io/atomic_file.h"
#include "eadem/io/mapped_file.h"
#include "eadem/kernels/target.h"
#include "eadem/models/load.h"
#include "eadem/train/checkpoint.h"
#include "eadem/train/curve.h"
#include "eadem/train/optimizers.h"
#include "eadem/transforms/compile.h"
#include "examples/poet_file.h"

using namespace eadem;

namespace {

struct Run {
  poet::Config config;
  std::int64_t batch, steps, warmup, horizon, cooldown;  // horizon: the cosine's length
  double rate;
  std::int64_t every;  // steps between looks at the text held out, and between checkpoints
};
constexpr Run kShort{{32, 2, 4, 2, 64, 32}, 8, 200, 20, 200, 0, 1e-2, 100};
constexpr Run kFull{{128, 6, 4, 2, 352, 512}, 4, 2400, 50, 2400, 200, 2e-3, 100};
constexpr std::int64_t kHeldOut = 14340;  // bytes at the end of the text: A Lover's Complaint

using State = train::OptimizerState<poet::Model>;

// All that a run has come to, as a tree.
struct Progress {
  poet::Model model;
  State state;
  Array losses;    // f32[steps]: of each batch
  Array held_out;  // f32[steps / every]
  static void fields(auto& m, auto f) {
    f("model", m.model), f("state", m.state), f("losses", m.losses), f("held_out", m.held_out);
  }
};

Array read_text(const std::string& path) {
  const auto file = io::MappedFile::open(path);
  Array text = Array::allocate({DType::u8, {static_cast<std::int64_t>(file->bytes().size())}});
  std::memcpy(text.view().data, file->bytes().data(), file->bytes().size());
  return text;
}

// The mean loss in nats a byte of sequences u8[batch, length + 1].
Array loss_of(const poet::Model& model, const Array& bytes) {
  const std::int64_t length = bytes.shape()[1] - 1;
  const Array logits = model(convert(slice_axis(bytes, 1, {0, length}), DType::i32));
  return mean(cross_entropy(logits, convert(slice_axis(bytes, 1, {1, length + 1}), DType::i32)));
}

// A step's sequences, at places of the text that are a function of the step.
Array batch_of(const Array& text, const Array& step, const Run& run) {
  const Array key = fold_in(random_key(1), convert(step, DType::u32));
  const Array bits = convert(random_bits(key, {run.batch, 1}), DType::i64);
  const auto places = static_cast<double>(text.elements() - run.config.context);
  return take(text, remainder(bits, full({}, places, DType::i64)) + arange(run.config.context + 1), 0);
}

enum class Form { compiled, eager };

// Trains to the end; calls after(progress, step) after each step.
Progress trained(const Run& run, const Array& text, Progress progress, const train::AdamW& optimizer, Form form,
                 auto after) {
  const Array seen = slice_axis(text, 0, {0, text.elements() - kHeldOut});
  const std::int64_t length = run.config.context + 1, rows = kHeldOut / length;
  const Array unseen = reshape(slice_axis(text, 0, {seen.elements(), seen.elements() + rows * length}), {rows, length});
  const auto step = [&](const poet::Model& model, const State& state, const Array& all) {
    const Array bytes = batch_of(all, state.step, run);
    const auto [loss, gradient] = value_and_grad([&](const poet::Model& m) { return loss_of(m, bytes); })(model);
    return std::pair(optimizer.update(model, train::clip_by_global_norm(gradient, 1), state), loss);
  };
  const auto compiled = compile(step);
  const auto evaluate = compile(loss_of);
  for (std::int64_t i = progress.state.step.item<std::int64_t>(); i < run.steps; ++i) {
    const auto [next, loss] = form == Form::compiled ? compiled(progress.model, progress.state, seen)
                                                     : step(progress.model, progress.state, seen);
    std::tie(progress.model, progress.state) = next;
    const Array at = full({}, static_cast<double>(i), DType::i64);
    progress.losses = dynamic_update_slice(progress.losses, reshape(loss, {1}), reshape(at, {1}));
    if ((i + 1) % run.every == 0)
      progress.held_out = dynamic_update_slice(progress.held_out, reshape(evaluate(progress.model, unseen), {1}),
                                               full({1}, static_cast<double>(i / run.every), DType::i64));
    after(progress, i + 1);
  }
  return progress;
}

// Warm-up and cosine; from there to nothing, in a line, in the last `cooldown` steps.
train::Schedule rate_of(const Run& run) {
  const train::Schedule cosine = train::warmup_cosine_schedule(run.rate, run.rate / 20, run.warmup, run.horizon);
  if (run.cooldown == 0) return cosine;
  return [run, cosine](const Array& step) {
    const Array left = (static_cast<double>(run.steps) - convert(step, DType::f64)) / static_cast<double>(run.cooldown);
    return cosine(step) * minimum(left, ones({}, DType::f64));
  };
}

train::AdamW optimizer_of(const Run& run) {
  return {.rate = rate_of(run), .b2 = 0.99, .decay = 0.1};
}

Progress started(const Run& run, const train::AdamW& optimizer) {
  Rngs rngs(0);
  const poet::Model model(run.config, rngs);
  return {model, optimizer.init(model), zeros({run.steps}), zeros({run.steps / run.every})};
}

// A bar on a terminal.
class Bar {
 public:
  explicit Bar(std::int64_t steps) : steps_(steps) {}
  ~Bar() {
    if (terminal_) fmt::print(stderr, "\n");
  }
  void show(std::int64_t step, float loss) {
    if (!terminal_) return;
    const auto done = static_cast<std::size_t>(step * 40 / steps_);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    if (first_ < 0) first_ = step - 1;
    const double left = seconds / static_cast<double>(step - first_) * static_cast<double>(steps_ - step);
    fmt::print(stderr, "\r[{:#<{}}{:.<{}}] {}/{} loss {:.4f}, {:.0f} s left ", "", done, "", 40 - done, step, steps_,
               loss, left);
  }

 private:
  std::int64_t steps_, first_ = -1;
  bool terminal_ = ::isatty(2) != 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

float last_of(const Array& values, std::int64_t count) {
  return values.data<float>()[static_cast<std::size_t>(count - 1)];
}

// The short run: these are its bits. A form is looked at after 50 steps, and most of them at the end, too.
constexpr std::int64_t kEarly = 50;
constexpr std::string_view kEarlyDigest = "610890a49aa68234f91fa0bc645dc5eee63995fdfd3179d7475e52c3026b5c35";
constexpr std::string_view kDigest = "68641c2c10bc876dd19ed94ca146de78d54c03292ca45ecf058c449ad6fcb389";
constexpr float kHeldOutLoss = 2.3014326F;

bool as_committed(std::string_view what, std::int64_t step, const std::string& digest, std::string_view expected) {
  const bool same = digest == expected;
  fmt::print("{:<32} step {:>3}: parameters {:.12}.. {}\n", what, step, digest,
             same ? "as committed" : fmt::format("DIFFER: {}", digest));
  return same;
}

struct Enough {};

// Whether the model, written to a file and loaded by the models that `eadem` runs, says what it said: by bits where the
// file keeps its matrices in f32; rounded to eight bits, its logits move by under two hundredths.
bool file_says_the_same(const poet::Model& model, const Array& text) {
  const Array bytes = convert(reshape(slice_axis(text, 0, {0, kShort.config.context}), {1, -1}), DType::i64);
  const Array want = model(bytes);
  const auto logits_of = [&](io::GgmlType matrices) {
    const std::filesystem::path path = std::filesystem::temp_directory_path() / fmt::format("poet-{}.gguf", ::getpid());
    poet::write_gguf(path, kShort.config, model, matrices);
    const models::Llama loaded = models::load_gguf(io::GgufFile::open(path, io::Access::read), DType::f32);
    std::filesystem::remove(path);
    nn::KvCache cache = loaded.make_cache(1);
    return loaded.logits(loaded.hidden(bytes, {{0}, {kShort.config.context}}, cache));
  };
  const Array exact = logits_of(io::GgmlType::f32), rounded = logits_of(io::GgmlType::q8_0), d = rounded - want;
  const bool same = all(reshape(exact, want.shape()) == want).item<bool>();
  const float error = (sum(d * d) / sum(want * want)).item<float>();
  fmt::print("its file in f32: {} logits; in eight bits: relative error {:.4f}\n", same ? "the same" : "OTHER",
             std::sqrt(error));
  return same && error < 0.02F * 0.02F;
}

int train_short(const Array& text) {
  const train::AdamW optimizer = optimizer_of(kShort);
  const Progress start = started(kShort, optimizer);
  bool good = true;
  const auto check = [&](kernels::Target target, int thread_count, Form form, bool to_the_end) {
    kernels::set_target(target);
    set_threads(thread_count);
    const std::string what =
        fmt::format("{}, {}, {} thread{}", kernels::name_of(target), form == Form::eager ? "eager" : "compiled",
                    thread_count, thread_count == 1 ? "" : "s");
    try {
      const Progress end = trained(kShort, text, start, optimizer, form, [&](const Progress& p, std::int64_t step) {
        if (step != kEarly) return;
        good = as_committed(what, step, train::sha256(p.model), kEarlyDigest) && good;
        if (!to_the_end) throw Enough();
      });
      const float loss = last_of(end.held_out, end.held_out.elements());
      good = as_committed(what, kShort.steps, train::sha256(end.model), kDigest) && loss == kHeldOutLoss && good;
      if (target == kernels::available_targets().back()) good = file_says_the_same(end.model, text) && good;
      fmt::print("{:<32} loss {:.4f} nats a byte, {} on the text held out\n", what, last_of(end.losses, kShort.steps),
                 loss);
    } catch (const Enough&) {
    }
  };
  int thread_count = 0;
  for (const kernels::Target target : kernels::available_targets())
    check(target, ++thread_count, Form::compiled, target != kernels::Target::scalar);  // scalar is slow
  check(kernels::available_targets().back(), 7, Form::eager, false);
  return good ? 0 : 1;
}

void write_curve(const std::filesystem::path& path, const Run& run, const Progress& progress, std::int64_t done) {
  std::vector<train::Curve> curves{{"training batches", {}, {}}, {"held out", {}, {}}};
  for (std::int64_t i = 0; i < done; ++i) {
    curves[0].x.push_back(static_cast<double>(i + 1));
    curves[0].y.push_back(double{last_of(progress.losses, i + 1)});
    if ((i + 1) % run.every != 0) continue;
    curves[1].x.push_back(static_cast<double>(i + 1));
    curves[1].y.push_back(double{last_of(progress.held_out, (i + 1) / run.every)});
  }
  io::AtomicFile file(path);
  file.write(train::chart_svg("builtin:poet", "step", "nats a byte", curves));
  file.commit();
}

int train_full(const Array& text, const std::filesystem::path& folder) {
  const train::AdamW optimizer = optimizer_of(kFull);
  const std::filesystem::path checkpoint = folder / "checkpoint.safetensors";
  Progress progress = started(kFull, optimizer);
  if (std::filesystem::exists(checkpoint)) progress = train::load(checkpoint, progress);
  const auto report = [&](const Progress& p, std::int64_t step) {
    write_curve(folder / "loss.svg", kFull, p, step);
    poet::write_gguf(folder / "poet.gguf", kFull.config, p.model);
    fmt::print("step {}: loss {:.4f}, held out {:.4f}\n", step, last_of(p.losses, step),
               last_of(p.held_out, step / kFull.every));
    std::fflush(stdout);
  };
  if (const std::int64_t done = progress.state.step.item<std::int64_t>(); done > 0) report(progress, done);
  {
    Bar bar(kFull.steps);
    progress = trained(kFull, text, progress, optimizer, Form::compiled, [&](const Progress& p, std::int64_t step) {
      bar.show(step, last_of(p.losses, step));
      if (step % kFull.every != 0) return;
      train::save(checkpoint, p);
      report(p, step);
    });
  }
  fmt::print("parameters {}\n", train::sha256(progress.model));
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const Array text = read_text("examples/data/poems.txt");
    return count > 1 ? train_full(text, arguments[1]) : train_short(text);
  } catch (const Error& error) {
    fmt::print(stderr, "train_poet: {}\n", error.what());
    return 2;
  }
}
