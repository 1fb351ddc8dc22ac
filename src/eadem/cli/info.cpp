#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "eadem/base/parallel.h"
#include "eadem/cli/commands.h"
#include "eadem/cli/terminal.h"
#include "eadem/io/output.h"
#include "eadem/kernels/peak.h"
#include "eadem/kernels/target.h"
#include "eadem/numerics/version.h"
#include "eadem/ops/catalog.h"

namespace eadem::cli {
namespace {

struct InfoOptions {
  bool measure = false, json = false;
};

int info(const InfoOptions& options) {
  std::vector<std::string> targets;
  for (const kernels::Target target : kernels::available_targets()) targets.emplace_back(kernels::name_of(target));
  nlohmann::ordered_json report = {{"eadem", EADEM_VERSION},
                                   {"numerics", numerics::kVersion},
                                   {"cpu", cpu_name()},
                                   {"targets", targets},
                                   {"active_target", kernels::name_of(kernels::active_target())},
                                   {"threads", threads()},
                                   {"primitives", catalog().size()}};
  if (options.measure) {
    report["fma_gflops"] = kernels::measure_fma_rate() * 1e-9;
    for (const std::size_t mib : {1, 16, 90, 512})
      report["read_gb_per_s"][fmt::format("{} MiB", mib)] = kernels::measure_read_bandwidth(mib << 20) * 1e-9;
  }
  if (options.json) {
    io::write_output(report.dump(2) + "\n");
    return kGood;
  }
  std::string text = fmt::format("eadem         {}\nnumerics      {}\nCPU           {}\ntargets       {}\n",
                                 EADEM_VERSION, numerics::kVersion, cpu_name(), fmt::join(targets, " "));
  text += fmt::format("active        {}\nthreads       {}\nprimitives    {}\n",
                      kernels::name_of(kernels::active_target()), threads(), catalog().size());
  if (options.measure) {
    text += fmt::format("f32 FMA       {:.1f} GFLOP/s\n", report["fma_gflops"].get<double>());
    for (const auto& [size, rate] : report["read_gb_per_s"].items())
      text += fmt::format("read {:<8} {:.1f} GB/s\n", size, rate.get<double>());
  }
  io::write_output(text);
  return kGood;
}

}  // namespace

void add_info(CLI::App& app, Body& run) {
  const auto options = std::make_shared<InfoOptions>();
  CLI::App* command = app.add_subcommand("info", "Show numerics version, CPU, targets and threads");
  command->footer("Example: eadem info --measure");
  command->add_flag("--measure", options->measure, "Measure peak FMA rate and read bandwidth (a few seconds)");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([=, &run] { run = [options] { return info(*options); }; });
}

}  // namespace eadem::cli
