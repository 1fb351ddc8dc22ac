// make prove: every elementary function over every argument of f32 (2^32), bf16 and f16 (2^16 each) against MPFR at 200
// bits, behind the filter of filter.h; pow and atan2 over a stratified sample. Writes docs/accuracy-elementary.md,
// where rows of earlier runs are kept. Exit 0: all right; 1: a result is not correctly rounded; 2: wrong usage or no
// file.

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "eadem/kernels/elementwise/elementwise.h"
#include "eadem/kernels/target.h"
#include "pairs.h"

namespace eadem::prove {
namespace {

struct Options {
  std::vector<std::string> functions, dtypes;
  int threads = 1;
  std::string table = EADEM_SOURCE_DIR "/docs/accuracy-elementary.md";
};

struct Row {
  std::uint64_t inputs = 0, asked = 0, misrounded = 0;
  double seconds = 0;
  std::string path;   // the target whose kernel ran
  std::string first;  // the first wrong argument and result, in hexadecimal
};

/// A hash of the sources that decide the bits on that path, taken when this was configured.
constexpr const char* code_hash(bool scalar) {
  return scalar ? EADEM_SCALAR_CODE : EADEM_KERNEL_CODE;
}

template <class T>
T from_bits(std::uint64_t bits) {
  if constexpr (std::same_as<T, float>)
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  else
    return T{static_cast<std::uint16_t>(bits)};
}
template <class T>
std::uint64_t to_bits(T x) {
  if constexpr (std::same_as<T, float>)
    return std::bit_cast<std::uint32_t>(x);
  else
    return x.bits;
}

/// The CPU time of this process: what other processes do on the machine does not count.
double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Count {
  std::uint64_t asked = 0, wrong = 0;
  std::string first;
};

/// Runs chunk(from, to, count) over [0, inputs) on several threads.
template <class Chunk>
Row sweep(const std::string& title, std::uint64_t inputs, int threads, Chunk&& chunk) {
  constexpr std::uint64_t kChunk = 1 << 18;
  const bool terminal = isatty(STDERR_FILENO) != 0;
  std::atomic<std::uint64_t> next{0};
  std::mutex mutex;
  Row row;
  const double begin = cpu_seconds();
  kernels::clear_targets_ran();
  const auto work = [&] {
    for (;;) {
      const std::uint64_t from = next.fetch_add(kChunk), to = std::min(inputs, from + kChunk);
      if (from >= inputs) break;
      Count count;
      chunk(from, to, count);
      const std::lock_guard lock(mutex);
      row.asked += count.asked, row.misrounded += count.wrong;
      if (row.first.empty()) row.first = count.first;
      if (terminal && (from / kChunk) % 64 == 0) {
        fmt::print(stderr, "\r{} {:.1f} %  ", title, 100.0 * static_cast<double>(from) / static_cast<double>(inputs));
      }
    }
    mpfr_free_cache();
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < threads; ++t) pool.emplace_back(work);
  work();
  for (auto& t : pool) t.join();
  if (terminal) fmt::print(stderr, "\r\033[K");
  row.inputs = inputs;
  row.seconds = cpu_seconds() - begin;
  for (int t = 0; t < kernels::kTargetCount; ++t) {
    if (kernels::targets_ran() >> t & 1) row.path += std::string(name_of(static_cast<kernels::Target>(t)));
  }
  return row;
}

template <Function f, class T>
Row prove_one(std::type_identity<T>, const std::string& title, int threads) {
  const auto chunk = [](std::uint64_t from, std::uint64_t to, Count& count) {
    alignas(64) T x[kBlock], y[kBlock];
    alignas(64) float in[kBlock], out[kBlock];  // tiles hold 16-bit elements as float
    const kernels::TileFn tile = kernels::elementary(f, kDTypeOf<T>);
    for (std::uint64_t i = from; i < to; i += kBlock) {
      for (int k = 0; k < kBlock; ++k) x[k] = from_bits<T>(i + k), in[k] = numerics::widen(x[k]);
      kernels::TileArgs args;
      args.in[0] = in, args.out = out, args.count = kBlock;
      tile(args);
      for (int k = 0; k < kBlock; ++k) {
        if constexpr (std::same_as<T, float>)
          y[k] = out[k];
        else
          y[k] = numerics::round_to<T>(out[k]);
      }
      check_block<f>(x, y, kBlock, true, [&](int k, Verdict v) {
        count.asked += v.asked_oracle;
        if (!v.right && count.wrong++ == 0) count.first = fmt::format("f({:#x}) = {:#x}", i + k, to_bits(y[k]));
      });
    }
  };
  return sweep(title, std::uint64_t{1} << (8 * sizeof(T)), threads, chunk);
}

template <class F>
Row prove_pairs(F, const std::string& title, int threads) {
  return sweep(title, std::uint64_t{1} << 27, threads, [](std::uint64_t from, std::uint64_t to, Count& count) {
    float x[kBlock], y[kBlock], z[kBlock];
    const kernels::TileFn tile = kernels::elementary(F::kFunction, DType::f32);
    for (std::uint64_t i = from; i < to; i += kBlock) {
      for (int k = 0; k < kBlock; ++k) {
        std::tie(x[k], y[k]) = F::kFunction == Function2::pow ? pow_arguments(i + k) : atan2_arguments(i + k);
      }
      kernels::TileArgs args;
      args.in[0] = x, args.in[1] = y, args.out = z, args.count = kBlock;
      tile(args);
      for (int k = 0; k < kBlock; ++k) {
        const Verdict v = check2(F::kFunction, x[k], y[k], z[k]);
        count.asked += v.asked_oracle;
        if (!v.right && count.wrong++ == 0) {
          count.first = fmt::format("f({:#x}, {:#x}) = {:#x}", to_bits(x[k]), to_bits(y[k]), to_bits(z[k]));
        }
      }
    }
  });
}

struct Item {
  std::string function, dtype;
  bool operator<(const Item& o) const { return std::tie(dtype, function) < std::tie(o.dtype, o.function); }
};

std::vector<Item> all_items() {
  std::vector<Item> items;
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (int i = 0; i < numerics::kFunctionCount; ++i) {
      items.push_back({std::string(name_of(static_cast<Function>(i))), dtype});
    }
    if (dtype == std::string_view("f32")) items.push_back({"pow", dtype}), items.push_back({"atan2", dtype});
  }
  return items;
}

/// The rows that were run: path, and the cells after it.
using Table = std::map<Item, std::map<std::string, std::string>>;

Table read_table(const std::string& path) {
  Table table;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream cells(line);
    std::string bar, target, rest;
    Item item;
    if (cells >> bar >> item.function >> bar >> item.dtype >> bar >> target && std::getline(cells, rest) &&
        kernels::target_named(target)) {
      table[item][target] = rest;
    }
  }
  return table;
}

bool write_table(const std::string& path, const Table& table) {
  const std::string draft = path + ".part";
  {
    std::ofstream file(draft);
    file
        << "# Elementary functions: the exhaustive proof\n\n"
           "Made by `scripts/prove`; not to be edited by hand. Every result of the kernel that users call is compared\n"
           "with the exact value rounded once: glibc's double function widened by 2^-48 decides, and where it cannot,\n"
           "MPFR at 200 bits. f32 covers all 2^32 arguments, bf16 and f16 all 2^16; pow and atan2 are a stratified\n"
           "sample of 2^27 pairs. *target* is the instruction set whose kernel ran (`scalar` is the definition in\n"
           "numerics/), *seconds* is CPU time, *code* a hash of the sources that decide the bits.\n"
        << "Of the present sources it is `" << code_hash(true) << "` (scalar) and `" << code_hash(false)
        << "` (others).\nf64 is held to 1 ulp by tests/prove/elementary_test.cpp.\n\n"
        << "| function | dtype | target | inputs checked | sent to MPFR | misrounded | seconds | code |\n"
           "|---|---|---|---|---|---|---|---|\n";
    for (const Item& item : all_items()) {
      const auto found = table.find(item);
      const std::string head = "| " + item.function + " | " + item.dtype + " | ";
      if (found == table.end())
        file << head << "not run | | | | | |\n";
      else
        for (const auto& [target, cells] : found->second) file << head << target << cells << '\n';
    }
    if (!file.flush()) return false;
  }
  std::error_code error;
  std::filesystem::rename(draft, path, error);
  return !error;
}

Row prove(const Item& item, int threads) {
  const std::string title = item.function + " " + item.dtype;
  if (item.function == "pow") return prove_pairs(numerics::pow, title, threads);
  if (item.function == "atan2") return prove_pairs(numerics::atan2, title, threads);
  Row row;
  for (int i = 0; i < numerics::kFunctionCount; ++i) {
    if (name_of(static_cast<Function>(i)) != item.function) continue;
    numerics::visit(static_cast<Function>(i), [&](auto f) {
      constexpr Function function = decltype(f)::kFunction;
      if (item.dtype == "f32")
        row = prove_one<function>(std::type_identity<float>{}, title, threads);
      else if (item.dtype == "bf16")
        row = prove_one<function>(std::type_identity<bfloat16>{}, title, threads);
      else
        row = prove_one<function>(std::type_identity<float16>{}, title, threads);
    });
  }
  return row;
}

int run(const Options& options) {
  const auto wanted = [](const std::vector<std::string>& list, const std::string& name) {
    return list.empty() || std::find(list.begin(), list.end(), name) != list.end();
  };
  bool right = true, any = false;
  fmt::print("{:<24} {:<5} {:<8} {:>11} {:>11} {:>10} {:>8}\n", "function", "dtype", "target", "inputs", "MPFR",
             "misrounded", "seconds");
  for (const Item& item : all_items()) {
    if (!wanted(options.functions, item.function) || !wanted(options.dtypes, item.dtype)) continue;
    any = true;
    const Row row = prove(item, options.threads);
    right = right && row.misrounded == 0;
    fmt::print("{:<24} {:<5} {:<8} {:>11} {:>11} {:>10} {:>8.1f} {}\n", item.function, item.dtype, row.path, row.inputs,
               row.asked, row.misrounded, row.seconds, row.first);
    std::fflush(stdout);
    Table table = read_table(options.table);  // anew: another run may have added rows
    table[item][row.path] = fmt::format(" | {} | {} | {} | {:.1f} | {} |", row.inputs, row.asked, row.misrounded,
                                        row.seconds, code_hash(row.path == "scalar"));
    if (!write_table(options.table, table)) {
      fmt::print(stderr, "prove: cannot write {}\n", options.table);
      return 2;
    }
  }
  if (!any) {
    fmt::print(stderr,
               "prove: no such function or dtype; functions are named as in numerics/elementary.h: f32 bf16 f16\n");
    return 2;
  }
  fmt::print("{}\n", right ? "all correctly rounded" : "NOT all correctly rounded");
  return right ? 0 : 1;
}

}  // namespace
}  // namespace eadem::prove

int main(int argc, char** argv) {
  eadem::prove::Options options;
  options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  CLI::App app{"Proves the elementary functions correctly rounded over all arguments, against MPFR."};
  app.add_option("--function", options.functions, "Only these functions (repeatable)");
  app.add_option("--dtype", options.dtypes, "Only these dtypes: f32, bf16, f16 (repeatable)");
  app.add_option("--threads", options.threads, "Threads")->check(CLI::PositiveNumber);
  app.add_option("--table", options.table, "The table to write");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return eadem::prove::run(options);
}
