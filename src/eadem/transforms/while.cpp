// while_loop: a body until a condition fails. Forward mode only: how often it runs is not known before, so there is
// nothing to go back over (numerics.md section 6).

#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"
#include "eadem/transforms/control.h"
#include "eadem/transforms/executable.h"
#include "eadem/transforms/program_transforms.h"

namespace eadem {
namespace {

Types infer(const Signature& s) {
  const WhileAttribute& loop = s.as<WhileAttribute>();
  const Types condition = loop.condition->input_types(), body = loop.body->input_types(),
              carries = loop.body->output_types();
  const auto fits = [&](const Types& types, std::int64_t constants) {
    return constants >= 0 && types.size() == static_cast<std::size_t>(constants) + carries.size() &&
           std::equal(carries.begin(), carries.end(), types.end() - static_cast<std::ptrdiff_t>(carries.size()));
  };
  if (!fits(body, loop.body_constants))
    fail<TypeError>("[while_loop] the carry must keep its types: the body takes ({}) and gives ({})", print_types(body),
                    print_types(carries));
  if (!fits(condition, loop.condition_constants) ||
      loop.condition->output_types() != Types{TensorType{DType::boolean, {}}})
    fail<TypeError>("[while_loop] the condition must take the carry ({}) and give bool[]; it takes ({}) and gives ({})",
                    print_types(carries), print_types(condition), print_types(loop.condition->output_types()));
  Types operands(condition.begin(), condition.begin() + loop.condition_constants);
  operands.insert(operands.end(), body.begin(), body.end());
  if (!std::equal(operands.begin(), operands.end(), s.operands.begin(), s.operands.end()))
    fail<TypeError>("[while_loop] operands must be ({}), got ({})", print_types(operands), print_types(s.operands));
  return carries;
}

Arrays run(std::span<const Array> operands, const void* attributes) {
  const WhileAttribute& loop = *static_cast<const WhileAttribute*>(attributes);
  const auto split = operands.begin() + loop.condition_constants;
  Arrays condition(operands.begin(), split), body(split, operands.end());
  const auto carry = [](Arrays& inputs, std::size_t constants, const Arrays& carries) {
    inputs.resize(constants);
    inputs.insert(inputs.end(), carries.begin(), carries.end());
  };
  Arrays carries(body.begin() + loop.body_constants, body.end());
  const auto holds = [&] {
    carry(condition, static_cast<std::size_t>(loop.condition_constants), carries);
    return run_program(*loop.condition, condition)[0].item<bool>();
  };
  while (holds()) {
    carry(body, static_cast<std::size_t>(loop.body_constants), carries);
    carries = run_program(*loop.body, body);
  }
  return carries;
}

// Tangents ride in the carry; one that is absent before the loop and appears inside starts as zeros.
void jvp(Jvp& j) {
  const WhileAttribute& loop = j.as<WhileAttribute>();
  const Program& body = *loop.body;
  const auto first = static_cast<std::size_t>(loop.condition_constants);
  const auto constants = static_cast<std::size_t>(loop.body_constants);
  const std::size_t carries = body.outputs.size();
  std::vector<bool> present(body.inputs.size());
  for (std::size_t i = 0; i < present.size(); ++i) present[i] = j.has(first + i);
  const auto types_with_tangents = [&] {
    Types types = body.input_types();
    for (std::size_t i = 0; i < present.size(); ++i)
      if (present[i]) types.push_back(body.type(body.inputs[i]));
    return types;
  };
  const auto step = [&](const Arrays& arguments) {
    std::vector<std::optional<Array>> tangents(present.size());
    std::size_t next = present.size();
    for (std::size_t i = 0; i < present.size(); ++i)
      if (present[i]) tangents[i] = arguments[next++];
    return forward(body, std::span(arguments).first(present.size()), tangents);
  };
  for (bool grown = true; grown;) {
    grown = false;
    trace("jvp of while_loop", types_with_tangents(), [&](const Arrays& arguments) {
      const Tangents result = step(arguments);
      for (std::size_t c = 0; c < carries; ++c)
        if (result.tangents[c] && !present[constants + c]) present[constants + c] = grown = true;
      return Arrays();
    });
  }
  // body': constants, their tangents, carries, theirs -> carries, theirs. The condition ignores tangents.
  std::vector<std::size_t> order;
  Arrays operands;
  const Traced traced = trace("jvp of while_loop", types_with_tangents(), [&](const Arrays& arguments) {
    const Tangents result = step(arguments);
    Arrays outputs = result.outputs;
    for (std::size_t c = 0; c < carries; ++c)
      if (present[constants + c])
        outputs.push_back(result.tangents[c] ? *result.tangents[c] : zeros_like(result.outputs[c]));
    return outputs;
  });
  std::vector<std::size_t> tangent_input(present.size());
  std::size_t next = present.size();
  for (std::size_t i = 0; i < present.size(); ++i)
    if (present[i]) tangent_input[i] = next++;
  const auto add_range = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      order.push_back(i);
      operands.push_back(j.in(first + i));
    }
    for (std::size_t i = from; i < to; ++i) {
      if (!present[i]) continue;
      order.push_back(tangent_input[i]);
      operands.push_back(j.tangent(first + i));
    }
  };
  add_range(0, constants);
  for (const Array& capture : traced.captures) {
    order.push_back(next++);
    operands.push_back(capture);
  }
  WhileAttribute attributes{nullptr, nullptr, loop.condition_constants, static_cast<std::int64_t>(operands.size())};
  add_range(constants, present.size());
  attributes.body = std::make_shared<const Program>(with_inputs(*traced.program, order));
  Types condition = loop.condition->input_types();
  for (std::size_t c = 0; c < carries; ++c)
    if (present[constants + c]) condition.push_back(body.type(body.outputs[c]));
  const std::size_t own = loop.condition->inputs.size();
  attributes.condition = trace("jvp of while_loop", condition, [&](const Arrays& arguments) {
                           return replay(*loop.condition, std::span(arguments).first(own));
                         }).program;
  for (std::size_t i = first; i-- > 0;) operands.insert(operands.begin(), j.in(i));
  const Arrays results = apply_all(prim::while_loop, operands, &attributes);
  next = carries;
  for (std::size_t c = 0; c < carries; ++c)
    if (present[constants + c]) j.add_canonical(results[next++], c);
}

}  // namespace

constinit const Primitive prim::while_loop{
    .name = "while_loop",
    .summary = "A body repeated while a condition holds.",
    .attributes = &kAttributesOf<WhileAttribute>,
    .infer = infer,
    .reference = [](const Launch&) { fail<ValueError>("[while_loop] runs on arrays only"); },
    .run = Control{run},
    .vjp =
        [](Vjp&) {
          fail<ValueError>(
              "[grad] while_loop has no reverse mode, as its number of iterations is not known; use scan or fori_loop, "
              "or forward mode (jvp)");
        },
    .jvp = jvp,
    .samples = [](SampleSink&) {},
    .promote = Promote::keep};

}  // namespace eadem
