// make prove: every elementary function over every argument of f32 (2^32), bf16 and f16 (2^16 each) against MPFR at 200
// bits, behind the filter of filter.h; pow and atan2 over a stratified sample. Writes docs/accuracy-elementary.md,
// where rows of earlier runs are kept. Exit 0: all right; 1: a result is not correctly rounded; 2: wrong usage or no
// file.

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

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
  std::string first;  // the first wrong argument and result, in hexadecimal
};

/// The sources that decide the bits, as 8 hexadecimal digits: says which code a row of the table was made with.
std::string code_hash() {
  const std::filesystem::path folder = EADEM_SOURCE_DIR "/src/eadem/numerics";
  std::uint32_t hash = 2166136261u;
  for (const char* name : {"double_double.h", "elementary.cpp", "elementary2.cpp", "elementary_core.h",
                           "elementary_functions.h", "elementary_tables.h", "rounding.h"}) {
    std::ifstream file(folder / name, std::ios::binary);
    for (char c; file.get(c);) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  }
  return fmt::format("{:08x}", hash);
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

/// Runs one(i, asked, complaint) -> right for i in [0, count) on several threads.
template <class One>
Row sweep(const std::string& title, std::uint64_t count, int threads, One&& one) {
  constexpr std::uint64_t kChunk = 1 << 18;
  const bool terminal = isatty(STDERR_FILENO) != 0;
  std::atomic<std::uint64_t> next{0}, asked{0}, wrong{0};
  std::mutex mutex;
  Row row;
  const auto begin = std::chrono::steady_clock::now();
  const auto work = [&] {
    for (;;) {
      const std::uint64_t from = next.fetch_add(kChunk), to = std::min(count, from + kChunk);
      if (from >= count) break;
      std::uint64_t asked_here = 0, wrong_here = 0;
      for (std::uint64_t i = from; i < to; ++i) {
        std::string complaint;
        bool oracle = false;
        if (!one(i, oracle, complaint)) {
          if (wrong_here++ == 0) {
            const std::lock_guard lock(mutex);
            if (row.first.empty()) row.first = complaint;
          }
        }
        asked_here += oracle;
      }
      asked += asked_here, wrong += wrong_here;
      if (terminal && (from / kChunk) % 64 == 0) {
        fmt::print(stderr, "\r{} {:.1f} %  ", title, 100.0 * static_cast<double>(from) / static_cast<double>(count));
      }
    }
    mpfr_free_cache();
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < threads; ++t) pool.emplace_back(work);
  work();
  for (auto& t : pool) t.join();
  if (terminal) fmt::print(stderr, "\r\033[K");
  row.inputs = count, row.asked = asked, row.misrounded = wrong;
  row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return row;
}

template <class F, class T>
Row prove_one(F f, std::type_identity<T>, const std::string& title, int threads) {
  return sweep(title, std::uint64_t{1} << (8 * sizeof(T)), threads,
               [&](std::uint64_t i, bool& asked, std::string& why) {
                 const T x = from_bits<T>(i), y = f(x);
                 const Verdict v = check<F::kFunction>(x, y);
                 asked = v.asked_oracle;
                 if (!v.right) why = fmt::format("f({:#x}) = {:#x}", i, to_bits(y));
                 return v.right;
               });
}

template <class F>
Row prove_pairs(F f, const std::string& title, int threads) {
  return sweep(title, std::uint64_t{1} << 27, threads, [&](std::uint64_t i, bool& asked, std::string& why) {
    const auto [x, y] = F::kFunction == Function2::pow ? pow_arguments(i) : atan2_arguments(i);
    const float z = f(x, y);
    const Verdict v = check2(F::kFunction, x, y, z);
    asked = v.asked_oracle;
    if (!v.right) why = fmt::format("f({:#x}, {:#x}) = {:#x}", to_bits(x), to_bits(y), to_bits(z));
    return v.right;
  });
}

using Key = std::pair<std::string, std::string>;

std::vector<Key> all_rows() {
  std::vector<Key> rows;
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (int i = 0; i < numerics::kFunctionCount; ++i) {
      rows.emplace_back(numerics::name_of(static_cast<Function>(i)), dtype);
    }
  }
  rows.emplace_back("pow", "f32");
  rows.emplace_back("atan2", "f32");
  return rows;
}

/// The cells after function and dtype, of every row of an earlier table that was run.
std::map<Key, std::string> read_table(const std::string& path) {
  std::map<Key, std::string> table;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream cells(line);
    std::string bar, function, dtype, rest;
    if (cells >> bar >> function >> bar >> dtype && std::getline(cells, rest) && rest.find("not run") == rest.npos) {
      table[{function, dtype}] = rest;
    }
  }
  return table;
}

bool write_table(const std::string& path, const std::map<Key, std::string>& table, const std::string& code) {
  const std::string draft = path + ".part";
  {
    std::ofstream file(draft);
    file
        << "# Elementary functions: the exhaustive proof\n\n"
           "Made by `scripts/prove` (`make prove`); not to be edited by hand. Every result of the function that users\n"
           "call is compared with the exact value rounded once: glibc's double function widened by 2^-48 decides, and\n"
           "where it cannot, MPFR at 200 bits. f32 covers all 2^32 arguments, bf16 and f16 all 2^16; pow and atan2 "
           "are\n"
           "a stratified sample of 2^27 pairs. *code* is a hash of the sources that decide the bits; that of the\n"
        << "current ones is `" << code << "`. f64 is within 1 ulp by tests/prove/elementary_test.cpp.\n\n"
        << "| function | dtype | inputs checked | sent to MPFR | misrounded | seconds | code |\n"
           "|---|---|---|---|---|---|---|\n";
    for (const Key& key : all_rows()) {
      const auto row = table.find(key);
      file << "| " << key.first << " | " << key.second
           << (row == table.end() ? std::string(" | not run | | | | |") : row->second) << '\n';
    }
    if (!file.flush()) return false;
  }
  std::error_code error;
  std::filesystem::rename(draft, path, error);
  return !error;
}

int run(const Options& options) {
  const std::string code = code_hash();
  auto table = read_table(options.table);
  const auto wanted = [](const std::vector<std::string>& list, const std::string& name) {
    return list.empty() || std::find(list.begin(), list.end(), name) != list.end();
  };
  bool right = true, any = false;
  fmt::print("{:<24} {:<5} {:>11} {:>11} {:>10} {:>8}\n", "function", "dtype", "inputs", "MPFR", "misrounded",
             "seconds");
  for (const Key& key : all_rows()) {
    if (!wanted(options.functions, key.first) || !wanted(options.dtypes, key.second)) continue;
    any = true;
    Row row;
    const std::string title = key.first + " " + key.second;
    if (key.first == "pow")
      row = prove_pairs(numerics::pow, title, options.threads);
    else if (key.first == "atan2")
      row = prove_pairs(numerics::atan2, title, options.threads);
    for (int i = 0; i < numerics::kFunctionCount; ++i) {
      if (numerics::name_of(static_cast<Function>(i)) != key.first) continue;
      numerics::visit(static_cast<Function>(i), [&](auto f) {
        if (key.second == "f32")
          row = prove_one(f, std::type_identity<float>{}, title, options.threads);
        else if (key.second == "bf16")
          row = prove_one(f, std::type_identity<bfloat16>{}, title, options.threads);
        else
          row = prove_one(f, std::type_identity<float16>{}, title, options.threads);
      });
    }
    right = right && row.misrounded == 0;
    fmt::print("{:<24} {:<5} {:>11} {:>11} {:>10} {:>8.1f} {}\n", key.first, key.second, row.inputs, row.asked,
               row.misrounded, row.seconds, row.first);
    std::fflush(stdout);
    table[key] =
        fmt::format(" | {} | {} | {} | {:.1f} | {} |", row.inputs, row.asked, row.misrounded, row.seconds, code);
    if (!write_table(options.table, table, code)) {
      fmt::print(stderr, "prove: cannot write {}\n", options.table);
      return 2;
    }
  }
  if (!any) {
    fmt::print(stderr,
               "prove: no such function or dtype (functions are named as in numerics/elementary.h; f32 bf16 f16)\n");
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
