// Programs that stand for their equations: remat, which trades memory for work, and custom_vjp, whose reverse rule is
// the user's.

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
  return run_program(*static_cast<const Attribute*>(attributes)->body, operands);
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

void remat_batch(Batch& b) {
  Types types;
  std::vector<bool> batched;
  Arrays operands = operands_of(b);
  for (std::size_t i = 0; i < b.operands(); ++i) {
    types.push_back(b.in(i).type());
    batched.push_back(b.batched(i));
  }
  const Traced body = batched_program("remat", *b.as<RematAttribute>().body, types, batched, b.size());
  operands.insert(operands.end(), body.captures.begin(), body.captures.end());
  const RematAttribute attributes{body.program};
  b.set(apply_all(prim::remat, operands, &attributes));
}

void remat_jvp(Jvp& j) {
  const Program& body = *j.as<RematAttribute>().body;
  std::vector<std::optional<Array>> tangents(j.operands());
  for (std::size_t i = 0; i < j.operands(); ++i)
    if (j.has(i)) tangents[i] = j.tangent(i);
  const Tangents result = forward(body, operands_of(j), tangents);
  for (std::size_t r = 0; r < j.results(); ++r)
    if (result.tangents[r]) j.add_canonical(*result.tangents[r], r);
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

void custom_vjp_rule(Vjp& g) {
  Arrays inputs = g.saved();
  for (std::size_t r = 0; r < g.results(); ++r) inputs.push_back(g.ct(r));
  const Arrays contributions = replay(*g.as<CustomVjpAttribute>().backward, inputs);
  for (std::size_t i = 0; i < g.operands(); ++i)
    if (g.wants(i)) g.add(i, contributions[i]);
}

}  // namespace

constinit const Primitive prim::remat{
    .name = "remat",
    .summary = "A program whose values are computed again for its gradient.",
    .attributes = &kAttributesOf<RematAttribute>,
    .infer = [](const Signature& s) { return infer_body<RematAttribute>("remat", s); },
    .reference = [](const Launch&) { fail<ValueError>("[remat] runs on arrays only"); },
    .run = Control{run_body<RematAttribute>},
    .vjp = [](Vjp& g) { reverse_inlined(g, *g.as<RematAttribute>().body, operands_of(g)); },
    .jvp = remat_jvp,
    .batch = remat_batch,
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
    .run_saving = custom_run_saving,
    .samples = [](SampleSink&) {},
    .promote = Promote::keep};

}  // namespace eadem
