#include <fmt/format.h>

#include <cstdio>
#include <new>

#include "eadem/base/error.h"
#include "eadem/base/memory.h"
#include "eadem/base/parallel.h"
#include "eadem/cli/commands.h"
#include "eadem/cli/terminal.h"
#include "eadem/io/output.h"
#include "eadem/kernels/target.h"

int main(int argc, char** argv) {
  using namespace eadem;
  io::ignore_closed_pipes();
  CLI::App app{"Eadem: a deep-learning engine whose answer never moves, and the auditor that proves it."};
  app.name("eadem");
  app.footer(
      "Exit codes: 0 good, 1 differs, 2 bad usage or input, 130 interrupted.\n"
      "Example: eadem generate builtin:poet --prompt \"Shall I compare thee\" --max-tokens 64");
  app.require_subcommand(1);
  app.set_version_flag("--version", EADEM_VERSION);
  int thread_count = cli::default_threads();
  app.add_option("--threads", thread_count, "Threads to use (default: all cores); moves no bit")
      ->check(CLI::Range(1, 1024));
  app.fallthrough();
  cli::Body body;
  for (const auto add : {cli::add_info, cli::add_inspect, cli::add_tokenize, cli::add_generate, cli::add_verify,
                         cli::add_diff, cli::add_audit, cli::add_evaluate, cli::add_reproduce, cli::add_tabulate})
    add(app, body);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? cli::kGood : cli::kBad;
  }
  try {
    set_threads(thread_count);
    kernels::active_target();  // what the environment asks for in vain is an error now, not in the midst of things
    poison();
    return body();
  } catch (const io::ClosedPipeError&) {
    return cli::kGood;  // the reader has seen enough
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "eadem: out of memory\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "eadem: {}\n", error.what());
  }
  return cli::kBad;
}
