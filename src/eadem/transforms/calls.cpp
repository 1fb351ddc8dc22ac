// Programs that stand for their equations: remat, which trades memory for work, and custom_vjp, whose reverse rule is
// the user's.

#include <algorithm>

#include "eadem/ops/checkpoint_name.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"
#include "eadem/transforms/control.h"
#include "eadem/transforms/executable.h"
#include "eadem/transforms/program_transforms.h"

namespace eadem {
namespace {

template <class Attribute>
Types infer_body(std::string_view name, const Signature& s) {
  const Program& body = *s.as<Attribute>().body;
  const Types expected = body.input_types();
  if (!std::equal(expected.begin(), expected.end(), s.operands.begin(), s.operands.end()))
    fail<TypeError>("[{}] the body takes ({}), got ({})", name, print_types(expected), print_types(s.operands));
  return body.output_types();
}

template <class Attribute>
Arrays run_body(std::span<const Array> operands, const void* attributes) {
  return run_program(*static_cast<const Attribute*>(attributes)->body, Arrays(operands.begin(), operands.end()));
}

Arrays operands_of(const Point& p) {
  Arrays operands;
  for (std::size_t i = 0; i < p.operands(); ++i) operands.push_back(p.in(i));
  return operands;
}

Arrays operands_of(const Batch& b) {
  Arrays operands;
  for (std::size_t i = 0; i < b.operands(); ++i) operands.push_back(b.in(i));
  return operands;
}

// The batched body; outputs that do not depend on the batch are broadcast, so that all have it.
Traced batched_program(std::string_view name, const Program& program, const Types& types,
                       const std::vector<bool>& batched, std::int64_t size) {
  return trace(fmt::format("vmap of {}", name), types,
               [&](const Arrays& arguments) { return batch_all(program, arguments, batched, size); });
}

Types infer_remat(const Signature& s) {
  const auto& remat = s.as<RematAttribute>();
  if (std::find(std::begin(kRematPolicies), std::end(kRematPolicies), remat.policy) == std::end(kRematPolicies))
    fail<ValueError>("[remat] no policy is named '{}'", remat.policy);
  for (const std::string& name : remat.names) require_checkpoint_name("remat", name);
  return infer_body<RematAttribute>("remat", s);
}

bool has_batch_axes(const Program& body, const Equation& equation) {
  if (equation.primitive == &prim::dot_general)
    return !static_cast<const ops::DotAttribute*>(equation.attributes.get())->lhs_batch.empty();
  return equation.primitive == &prim::matmul && body.type(equation.operands[0]).shape.rank() > 2 &&
         body.type(equation.operands[1]).shape.rank() > 2;
}

// Whether the policy keeps an equation's results.
bool is_saved(const RematAttribute& remat, const Equation& equation) {
  if (remat.policy == "nothing_saveable") return false;
  if (remat.policy == "everything_saveable") return true;
  if (remat.policy == "save_only_these_names") {
    if (equation.primitive != &prim::checkpoint_name) return false;
    const auto& name = static_cast<const CheckpointNameAttribute*>(equation.attributes.get())->name;
    return std::find(remat.names.begin(), remat.names.end(), name) != remat.names.end();
  }
  const Primitive* const dots[] = {&prim::matmul, &prim::linear, &prim::dot_general, &prim::quantized_linear};
  if (std::find(std::begin(dots), std::end(dots), equation.primitive) == std::end(dots)) return false;
  return remat.policy == "dots_saveable" || !has_batch_axes(*remat.body, equation);
}

std::vector<ValueId> saved_values(const RematAttribute& remat) {
  std::vector<ValueId> all;
  for (const Equation& equation : remat.body->equations)
    if (is_saved(remat, equation)) all.insert(all.end(), equation.results.begin(), equation.results.end());
  return all;
}

// The body's forward pass with, as further results, the values of saved_values; under everything_saveable also what
// equations of the body save themselves, and how many arrays that is for each.
struct SavingBody {
  ProgramRef program;
  Arrays captures;
  std::vector<std::size_t> counts;
};
std::shared_ptr<const SavingBody> saving_body(const RematAttribute& remat, const std::vector<bool>& active_operands) {
  const Program& body = *remat.body;
  std::string key = "remat " + remat.policy;
  for (const std::string& name : remat.names) key += " " + name;
  for (const bool each : active_operands) key += each ? " 1" : " 0";
  key += name_of(wide_dtype(DType::f32));
  return body.prepared.memo<SavingBody>(key, [&] {
    auto made = std::make_shared<SavingBody>();
    const bool all = remat.policy == "everything_saveable";
    const Traced traced = trace("grad of remat", body.input_types(), [&](const Arrays& arguments) {
      const std::vector<bool> active =
          all ? active_values(body, active_operands) : std::vector<bool>(body.types.size(), false);
      const Recording recording = record(body, arguments, active);
      Arrays outputs;
      for (const ValueId id : body.outputs) outputs.push_back(*recording.values[at(id)]);
      for (const ValueId id : saved_values(remat)) outputs.push_back(*recording.values[at(id)]);
      for (const Arrays& saved : recording.saved) {
        outputs.insert(outputs.end(), saved.begin(), saved.end());
        made->counts.push_back(saved.size());
      }
      return outputs;
    });
    made->program = traced.program;
    made->captures = traced.captures;
    return made;
  });
}

Arrays remat_run_saving(const Equation& equation, std::span<const Array> operands, const std::vector<bool>& active,
                        Arrays& saved) {
  const auto& remat = *static_cast<const RematAttribute*>(equation.attributes.get());
  if (saved_values(remat).empty()) return apply_all(prim::remat, operands, &remat);
  const std::shared_ptr<const SavingBody> body = saving_body(remat, active);
  Arrays all(operands.begin(), operands.end());
  all.insert(all.end(), body->captures.begin(), body->captures.end());
  const RematAttribute saving{body->program, remat.policy, remat.names};
  Arrays results = apply_all(prim::remat, all, &saving);
  const auto own = static_cast<std::ptrdiff_t>(equation.results.size());
  saved.assign(results.begin() + own, results.end());
  results.resize(equation.results.size());
  return results;
}

void remat_vjp(Vjp& g) {
  const auto& remat = g.as<RematAttribute>();
  std::vector<bool> wanted;
  for (std::size_t i = 0; i < g.operands(); ++i) wanted.push_back(g.wants(i));
  reverse_inlined(g, *remat.body, [&](const Program& body, const std::vector<bool>& active) {
    std::vector<std::optional<Array>> known(body.types.size());
    std::size_t next = 0;
    if (!g.saved().empty())
      for (const ValueId id : saved_values(remat)) known[at(id)] = g.saved()[next++];
    Recording recording = record(body, operands_of(g), active, known);
    if (next < g.saved().size()) {
      const std::vector<std::size_t>& counts = saving_body(remat, wanted)->counts;
      for (std::size_t i = 0; i < counts.size(); ++i)
        for (std::size_t k = 0; k < counts[i]; ++k) recording.saved[i].push_back(g.saved()[next++]);
    }
    return recording;
  });
}

void remat_batch(Batch& b) {
  Types types;
  std::vector<bool> batched;
  Arrays operands = operands_of(b);
  for (std::size_t i = 0; i < b.operands(); ++i) {
    types.push_back(b.in(i).type());
    batched.push_back(b.batched(i));
  }
  RematAttribute attributes = b.as<RematAttribute>();
  const Traced body = batched_program("remat", *attributes.body, types, batched, b.size());
  operands.insert(operands.end(), body.captures.begin(), body.captures.end());
  attributes.body = body.program;
  b.set(apply_all(prim::remat, operands, &attributes));
}

void remat_jvp(Jvp& j) {
  RematAttribute attributes = j.as<RematAttribute>();
  std::vector<bool> present;
  Arrays operands;
  for (std::size_t i = 0; i < j.operands(); ++i) {
    present.push_back(j.has(i));
    operands.push_back(j.in(i));
  }
  for (std::size_t i = 0; i < j.operands(); ++i)
    if (j.has(i)) operands.push_back(j.tangent(i));
  const std::shared_ptr<const ForwardProgram> step = forward_program(*attributes.body, present);
  operands.insert(operands.end(), step->captures.begin(), step->captures.end());
  attributes.body = step->program;
  Arrays results = apply_remat(attributes, operands);
  const std::size_t own = step->outputs.size();
  std::size_t next = own;
  for (std::size_t r = 0; r < own; ++r)
    if (step->outputs[r]) j.add_canonical(results[next++], r);
  results.resize(own);
  static_cast<ProgramJvp&>(j).set_results(std::move(results));
}

Types infer_custom(const Signature& s) {
  const CustomVjpAttribute& custom = s.as<CustomVjpAttribute>();
  const Types results = infer_body<CustomVjpAttribute>("custom_vjp", s);
  const Types operands(s.operands.begin(), s.operands.end()), forward = custom.forward->output_types();
  if (custom.forward->input_types() != operands || forward.size() < results.size() ||
      !std::equal(results.begin(), results.end(), forward.begin()))
    fail<TypeError>(
        "[custom_vjp] forward must take what the function takes, ({}), and give its results ({}) and then "
        "residuals; it takes ({}) and gives ({})",
        print_types(operands), print_types(results), print_types(custom.forward->input_types()), print_types(forward));
  Types given(forward.begin() + static_cast<std::ptrdiff_t>(results.size()), forward.end());
  given.insert(given.end(), results.begin(), results.end());
  if (custom.backward->input_types() != given || custom.backward->output_types() != operands)
    fail<TypeError>(
        "[custom_vjp] backward must take the residuals and a cotangent of each result, ({}), and give a "
        "cotangent of each argument, ({}); it takes ({}) and gives ({})",
        print_types(given), print_types(operands), print_types(custom.backward->input_types()),
        print_types(custom.backward->output_types()));
  for (const ProgramRef& join : custom.join) {
    const std::size_t joined = join->outputs.size();
    Types both;
    if (joined <= operands.size()) {
      both.assign(operands.end() - static_cast<std::ptrdiff_t>(joined), operands.end());
      both.insert(both.end(), operands.end() - static_cast<std::ptrdiff_t>(joined), operands.end());
    }
    if (custom.join.size() != 1 || joined > operands.size() || join->input_types() != both ||
        !std::equal(join->outputs.begin(), join->outputs.end(), both.begin(),
                    [&](ValueId id, const TensorType& type) { return join->type(id) == type; }))
      fail<TypeError>(
          "[custom_vjp] join must take two cotangents of the last operands and give one; it takes ({}) and "
          "gives ({})",
          print_types(join->input_types()), print_types(join->output_types()));
  }
  return results;
}

Arrays custom_run_saving(const Equation& equation, std::span<const Array> operands, const std::vector<bool>&,
                         Arrays& saved) {
  const auto& custom = *static_cast<const CustomVjpAttribute*>(equation.attributes.get());
  Arrays results = replay(*custom.forward, operands);
  const auto own = static_cast<std::ptrdiff_t>(equation.results.size());
  saved.assign(results.begin() + own, results.end());
  results.resize(equation.results.size());
  return results;
}

// Takes what the last operands have from other uses out of their accumulators and joins it with these contributions.
void join_with_earlier(Vjp& g, const Program& join, Arrays& contributions) {
  const std::size_t joined = join.outputs.size(), first = g.operands() - joined;
  // With nothing there is nothing to join: zeros would give the same values, but no derivatives where they tie.
  bool used_before = false;
  for (std::size_t i = first; i < g.operands(); ++i)
    used_before = used_before || (g.wants(i) && !g.operand_accumulator(i).empty());
  if (!used_before) return;
  Arrays both;
  for (std::size_t i = first; i < g.operands(); ++i) {
    const TensorType& type = g.in(i).type();
    Accumulator earlier;
    if (g.wants(i)) std::swap(earlier, g.operand_accumulator(i));
    both.push_back(earlier.empty() ? zeros(type.shape, type.dtype) : earlier.rounded(type.dtype));
  }
  both.insert(both.end(), contributions.begin() + static_cast<std::ptrdiff_t>(first), contributions.end());
  const Arrays results = replay(join, both);
  std::copy(results.begin(), results.end(), contributions.begin() + static_cast<std::ptrdiff_t>(first));
}

void custom_vjp_rule(Vjp& g) {
  Arrays inputs = g.saved();
  for (std::size_t r = 0; r < g.results(); ++r) inputs.push_back(g.ct(r));
  const auto& custom = g.as<CustomVjpAttribute>();
  Arrays contributions = replay(*custom.backward, inputs);
  if (!custom.join.empty()) join_with_earlier(g, *custom.join[0], contributions);
  for (std::size_t i = 0; i < g.operands(); ++i)
    if (g.wants(i)) g.add(i, contributions[i]);
}

// The last operands, of one value for the whole batch, repeated so that their cotangents are joined over it.
void repeat_joined(const Batch& b, const ProgramRef& join, Arrays& operands) {
  const std::size_t joined = join->outputs.size(), first = b.operands() - joined;
  std::size_t with_batch = 0;
  Types whole, repeated;
  Arrays own;
  for (std::size_t i = first; i < b.operands(); ++i) {
    with_batch += b.batched(i);
    own.push_back(b.in(i));
    whole.push_back(b.in(i).type());
    repeated.push_back(operands[i].type());
  }
  if (with_batch == joined) return;
  if (with_batch != 0)
    fail<ValueError>(
        "[vmap of custom_vjp] the arrays of an argument whose cotangents are joined must all have the batch, or none; "
        "of {} {} have it",
        joined, with_batch);
  const auto repeat = [&](const Arrays& values) {
    Arrays rows;
    for (const Array& value : values) rows.push_back(with_batch_axis(value, b.size()));
    return rows;
  };
  const auto fold = [&](const Arrays& rows) {
    Arrays all;
    for (const TensorType& type : whole) all.push_back(zeros(type.shape, type.dtype));
    all.insert(all.end(), rows.begin(), rows.end());
    const ScanAttribute scan{join, b.size(), 0, static_cast<std::int64_t>(joined), false};
    return apply_all(prim::scan, all, &scan);
  };
  CustomVjpAttribute attributes;
  attributes.body = attributes.forward = trace("vmap of custom_vjp", whole, repeat).program;
  attributes.backward = trace("vmap of custom_vjp", repeated, fold).program;
  attributes.join = {join};
  const Arrays rows = apply_all(prim::custom_vjp, own, &attributes);
  std::copy(rows.begin(), rows.end(), operands.begin() + static_cast<std::ptrdiff_t>(first));
}

// The programs over the batch. Operands without it get it, so that each has a cotangent in every row.
void custom_vjp_batch(Batch& b) {
  const auto& custom = b.as<CustomVjpAttribute>();
  const auto batched = [&](const Program& program) {
    Types types = program.input_types();
    for (TensorType& type : types) type.shape.insert(0, b.size());
    return batched_program("custom_vjp", program, types, std::vector<bool>(types.size(), true), b.size());
  };
  const Traced body = batched(*custom.body), forward = batched(*custom.forward), backward = batched(*custom.backward);
  CustomVjpAttribute attributes{body.program, forward.program, backward.program};
  bool closed = body.captures.empty() && forward.captures.empty() && backward.captures.empty();
  for (const ProgramRef& join : custom.join) {
    const Traced batched_join = batched(*join);
    attributes.join.push_back(batched_join.program);
    closed = closed && batched_join.captures.empty();
  }
  if (!closed) {
    b.set_by_slices();
    return;
  }
  Arrays operands;
  for (std::size_t i = 0; i < b.operands(); ++i) operands.push_back(b.with_axis(i));
  if (!custom.join.empty()) repeat_joined(b, custom.join[0], operands);
  b.set(apply_all(prim::custom_vjp, operands, &attributes));
}

}  // namespace

Arrays apply_remat(const RematAttribute& remat, const Arrays& operands) {
  const Program& body = *remat.body;
  Arrays results = apply_all(prim::remat, operands, &remat);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto input = std::find(body.inputs.begin(), body.inputs.end(), body.outputs[i]);
    const auto first = std::find(body.outputs.begin(), body.outputs.end(), body.outputs[i]);
    results[i] = input != body.inputs.end() ? operands[static_cast<std::size_t>(input - body.inputs.begin())]
                                            : results[static_cast<std::size_t>(first - body.outputs.begin())];
  }
  return results;
}

constinit const Primitive prim::remat{
    .name = "remat",
    .summary = "A program whose values are computed again for its gradient.",
    .attributes = &kAttributesOf<RematAttribute>,
    .infer = infer_remat,
    .reference = [](const Launch&) { fail<ValueError>("[remat] runs on arrays only"); },
    .run = Control{run_body<RematAttribute>},
    .vjp = remat_vjp,
    .jvp = remat_jvp,
    .batch = remat_batch,
    .run_saving = remat_run_saving,
    .samples = [](SampleSink&) {},
    .promote = Promote::keep};

constinit const Primitive prim::custom_vjp{
    .name = "custom_vjp",
    .summary = "A program with a reverse rule of the user's.",
    .attributes = &kAttributesOf<CustomVjpAttribute>,
    .infer = infer_custom,
    .reference = [](const Launch&) { fail<ValueError>("[custom_vjp] runs on arrays only"); },
    .run = Control{run_body<CustomVjpAttribute>},
    .vjp = custom_vjp_rule,
    .batch = custom_vjp_batch,
    .run_saving = custom_run_saving,
    .samples = [](SampleSink&) {},
    .promote = Promote::keep};

}  // namespace eadem
