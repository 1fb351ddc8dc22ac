#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace eadem::cli {

/// What a command's body returns, and what the process exits with.
inline constexpr int kGood = 0, kDiffers = 1, kBad = 2, kInterrupted = 130;

/// A command adds itself to the app; its body is left in `run`, called after parsing.
using Body = std::function<int()>;
void add_info(CLI::App& app, Body& run);
void add_inspect(CLI::App& app, Body& run);
void add_tokenize(CLI::App& app, Body& run);
void add_generate(CLI::App& app, Body& run);
void add_verify(CLI::App& app, Body& run);
void add_diff(CLI::App& app, Body& run);
void add_audit(CLI::App& app, Body& run);
void add_evaluate(CLI::App& app, Body& run);
void add_reproduce(CLI::App& app, Body& run);
void add_tabulate(CLI::App& app, Body& run);

}  // namespace eadem::cli
