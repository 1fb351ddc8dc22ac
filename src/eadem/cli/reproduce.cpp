#include "eadem/audit/reproduce.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "eadem/base/parallel.h"
#include "eadem/cli/commands.h"
#include "eadem/cli/terminal.h"
#include "eadem/io/output.h"
#include "eadem/kernels/target.h"
#include "eadem/numerics/version.h"

namespace eadem::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ReproduceOptions {
  bool json = false;
};

Json header(std::string_view report) {
  return {{"report", report},
          {"numerics", numerics::kVersion},
          {"machine",
           {{"cpu", cpu_name()}, {"target", kernels::name_of(kernels::active_target())}, {"threads", threads()}}}};
}

std::string flax_as_json(const audit::FlaxReport& report) {
  Json json = header("flax-4629");
  json["reported"] = {{"cpu_largest_difference", 4.8e-7}, {"gpu_got", 8.185}, {"gpu_want", 7.165}};
  json["constructors"] = {{"compared", report.parameters_compared}, {"differing", report.parameters_differing}};
  json["comparisons"] = Json::array();
  for (const audit::FlaxComparison& c : report.comparisons)
    json["comparisons"].push_back({{"dtype", name_of(c.dtype)},
                                   {"depth", c.depth},
                                   {"quantity", c.quantity},
                                   {"forms", c.forms},
                                   {"compared", c.compared},
                                   {"differing", c.differing},
                                   {"magnitude", c.magnitude},
                                   {"largest", c.largest},
                                   {"first", c.first}});
  Json refusals = Json::array();
  for (const kernels::Refusal& r : report.refusals)
    refusals.push_back({{"candidate", r.candidate},
                        {"problem", r.problem},
                        {"element", r.difference.element},
                        {"got", r.difference.got},
                        {"want", r.difference.want},
                        {"xla_distance", audit::xla_distance(r.difference.got, r.difference.want)}});
  json["tuner"] = {{"planted", report.planted},
                   {"refused", report.planted_refused()},
                   {"compared", report.tuned_compared},
                   {"differing", report.tuned_differing},
                   {"refusals", std::move(refusals)}};
  json["holds"] = report.holds();
  return json.dump(2) + "\n";
}

std::string flax_as_text(const audit::FlaxReport& report) {
  std::string text = fmt::format(
      "flax issue 4629: layers made by vmap and run by scan, against a loop. Numerics {}, {}.\n\n"
      "Reported (Flax NNX on XLA): up to 4.8e-07 on CPU; on GPU the autotuner accepts a kernel that says 8.185 where\n"
      "7.165 is right. Eadem, every form against the loop on one thread:\n\n",
      numerics::kVersion, kernels::name_of(kernels::active_target()));
  std::vector<std::vector<std::string>> rows{{"dtype", ">depth", "quantity", ">forms", ">compared", ">differing",
                                              ">largest |loop|", ">|scan - loop|", "first"}};
  for (const audit::FlaxComparison& c : report.comparisons)
    rows.push_back({std::string(name_of(c.dtype)), std::to_string(c.depth), c.quantity, std::to_string(c.forms),
                    std::to_string(c.compared), std::to_string(c.differing), fmt::format("{:.3g}", c.magnitude),
                    fmt::format("{:.3g}", c.largest), c.first});
  text += table(rows);
  text += fmt::format("\nConstructors under vmap against calls: {} of {} parameters differ.\n",
                      report.parameters_differing, report.parameters_compared);
  text += fmt::format("Tuner with {} among its candidates: {} of {} elements differ; it is {}.\n", report.planted,
                      report.tuned_differing, report.tuned_compared, report.planted_refused() ? "refused" : "ADMITTED");
  for (const kernels::Refusal& r : report.refusals) {
    const double distance = audit::xla_distance(r.difference.got, r.difference.want);
    text += fmt::format("  {} at {}: {:.6g} where {:.6g} is right; XLA's distance {:.3f} {} it\n", r.candidate,
                        r.difference.element, r.difference.got, r.difference.want, distance,
                        distance < 0.1 ? "would admit" : "would refuse");
  }
  text += report.holds() ? "\nVerdict: the same bits in every form.\n" : "\nVerdict: the report reproduces here.\n";
  return text;
}

int reproduce_flax(const ReproduceOptions& options) {
  ProgressLine progress;
  const audit::FlaxReport report = audit::reproduce_flax_4629([&](const std::string& what) { progress.show(what); });
  progress.clear();
  write_verdict(options.json ? flax_as_json(report) : flax_as_text(report));
  return report.holds() ? kGood : kDiffers;
}

std::string te_as_json(const audit::TeReport& report) {
  Json json = header("te-1451");
  json["reported"] = {{"dtype", "f32"}, {"parameters", 541184}, {"bytes", 4 * 541184}};
  json["table"] = Json::parse(report.table.json());
  json["modules"] = Json::array();
  for (const audit::TeModule& m : report.modules)
    json["modules"].push_back({{"module", m.module},
                               {"param_dtype", name_of(m.dtype)},
                               {"dtype", m.compute ? Json(name_of(*m.compute)) : Json()},
                               {"parameters", m.parameters},
                               {"ignored", m.ignored},
                               {"result", fmt::format("{}", m.result)},
                               {"honoured", m.honoured}});
  json["holds"] = report.holds();
  return json.dump(2) + "\n";
}

std::string te_as_text(const audit::TeReport& report) {
  std::string text = fmt::format(
      "Transformer Engine issue 1451: LayerNormDenseGeneral(128), then MultiHeadAttention(head_dim 128, 8 heads), "
      "both\n"
      "with dtype bf16, called with ones bf16[8,16,128].\n\n"
      "Reported: all 7 parameters f32; 541,184 parameters, 2.2 MB. Eadem:\n\n{}\n",
      report.table.text());
  std::vector<std::vector<std::string>> rows{
      {"module", "parameters'", "dtype", ">parameters", ">stored in it", ">ignored", "result of bf16[2,3,16]"}};
  std::int64_t others = 0;
  for (const audit::TeModule& m : report.modules) {
    if (m.compute && m.honoured && m.ignored == 0) {
      ++others;
      continue;
    }
    rows.push_back({m.module, std::string(name_of(m.dtype)), std::string(m.compute ? name_of(*m.compute) : "-"),
                    std::to_string(m.parameters), std::to_string(m.parameters - m.ignored), std::to_string(m.ignored),
                    fmt::format("{}{}", m.result, m.honoured ? "" : " (wrong)")});
  }
  text += table(rows);
  text += fmt::format("\nWith the dtype of the computation given too: {} more, all stored and computed as asked.\n",
                      others);
  text += report.holds() ? "\nVerdict: every dtype is honoured.\n" : "\nVerdict: the report reproduces here.\n";
  return text;
}

int reproduce_te(const ReproduceOptions& options) {
  const audit::TeReport report = audit::reproduce_te_1451();
  write_verdict(options.json ? te_as_json(report) : te_as_text(report));
  return report.holds() ? kGood : kDiffers;
}

}  // namespace

void add_reproduce(CLI::App& app, Body& run) {
  const auto options = std::make_shared<ReproduceOptions>();
  CLI::App* command = app.add_subcommand("reproduce", "Run the protocol of a public report of numbers that moved");
  command->footer("Example: eadem reproduce flax-4629");
  command->require_subcommand(1);
  command->add_flag("--json", options->json, "Print JSON");
  CLI::App* flax = command->add_subcommand("flax-4629", "Layers made by vmap and run by scan, against a loop");
  flax->fallthrough();
  flax->callback([=, &run] { run = [options] { return reproduce_flax(*options); }; });
  CLI::App* te = command->add_subcommand("te-1451", "Modules whose dtype was ignored: parameters, table, result");
  te->fallthrough();
  te->callback([=, &run] { run = [options] { return reproduce_te(*options); }; });
}

}  // namespace eadem::cli
