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
  const Arrays condition(operands.begin(), split), body(split, split + loop.body_constants);
  Arrays carries(split + loop.body_constants, operands.end());
  // The body takes the carries over, so that the next ones may take their memory.
  const auto with_constants = [](Arrays constants, Arrays rest) {
    constants.insert(constants.end(), std::make_move_iterator(rest.begin()), std::make_move_iterator(rest.end()));
    return constants;
  };
  while (run_program(*loop.condition, with_constants(condition, carries))[0].item<bool>())
    carries = run_program(*loop.body, with_constants(body, std::move(carries)));
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
  std::shared_ptr<const ForwardProgram> step;
  for (bool grown = true; grown;) {
    grown = false;
    step = forward_program(body, present);
    for (std::size_t c = 0; c < carries; ++c)
      if (step->outputs[c] && !present[constants + c]) present[constants + c] = grown = true;
  }
  // body': constants, their tangents, carries, theirs -> carries, theirs. The condition ignores tangents.
  std::vector<std::size_t> order;
  Arrays operands;
  const Traced traced = trace("jvp of while_loop", step->program->input_types(), [&](const Arrays& arguments) {
    const Arrays results = replay(*step->program, arguments);
    Arrays outputs(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(carries));
    std::size_t tangent = carries;
    for (std::size_t c = 0; c < carries; ++c)
      if (present[constants + c]) outputs.push_back(step->outputs[c] ? results[tangent++] : zeros_like(results[c]));
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
  for (const Array& capture : step->captures) {
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
  Arrays results = apply_all(prim::while_loop, operands, &attributes);
  next = carries;
  for (std::size_t c = 0; c < carries; ++c)
    if (present[constants + c]) j.add_canonical(results[next++], c);
  results.resize(carries);
  static_cast<ProgramJvp&>(j).set_results(std::move(results));
}

// The loop over a batch: one loop, whose carries have the batch axis where an iteration gives them one. Where the
// condition has it, too, the loop goes on while it holds for any row, and rows for which it does not keep their carry,
// bit for bit.
class BatchedLoop {
 public:
  explicit BatchedLoop(Batch& b)
      : b_(b),
        loop_(b.as<WhileAttribute>()),
        of_condition_(static_cast<std::size_t>(loop_.condition_constants)),
        of_body_(static_cast<std::size_t>(loop_.body_constants)),
        carries_(loop_.body->outputs.size()) {
    for (std::size_t c = 0; c < carries_; ++c) carried_.push_back(b.batched(of_condition_ + of_body_ + c));
    find_batched_carries();
  }

  void run() {
    Arrays carries;
    for (std::size_t c = 0; c < carries_; ++c) {
      const std::size_t i = of_condition_ + of_body_ + c;
      carries.push_back(carried_[c] ? b_.with_axis(i) : b_.in(i));
    }
    Arrays results = by_row_ ? run_by_row(std::move(carries)) : run_together(carries);
    for (std::size_t c = 0; c < carries_; ++c)
      if (!carried_[c]) results[c] = with_batch_axis(results[c], b_.size());
    b_.set(std::move(results));
  }

 private:
  std::vector<bool> flags(std::size_t first, std::size_t count) const {
    std::vector<bool> all;
    for (std::size_t i = first; i < first + count; ++i) all.push_back(b_.batched(i));
    all.insert(all.end(), carried_.begin(), carried_.end());
    return all;
  }
  Arrays constants(std::size_t first, std::size_t count) const {
    Arrays all;
    for (std::size_t i = first; i < first + count; ++i) all.push_back(b_.in(i));
    return all;
  }
  Types carry_types() const {
    Types types = loop_.body->output_types();
    for (std::size_t c = 0; c < carries_; ++c)
      if (carried_[c]) types[c].shape.insert(0, b_.size());
    return types;
  }
  Types types(std::size_t first, std::size_t count) const {
    Types all;
    for (std::size_t i = first; i < first + count; ++i) all.push_back(b_.in(i).type());
    const Types carries = carry_types();
    all.insert(all.end(), carries.begin(), carries.end());
    return all;
  }
  Batched batched_condition(std::span<const Array> inputs) const {
    return batch(*loop_.condition, inputs, flags(0, of_condition_), b_.size());
  }
  Arrays batched_body(std::span<const Array> inputs) const {
    Batched result = batch(*loop_.body, inputs, flags(of_condition_, of_body_), b_.size());
    for (std::size_t c = 0; c < carries_; ++c)
      if (carried_[c] && !result.batched[c]) result.outputs[c] = with_batch_axis(result.outputs[c], b_.size());
    return std::move(result.outputs);
  }

  void find_batched_carries() {
    for (bool grown = true; grown;) {
      grown = false;
      const auto grow = [&](std::size_t c) {
        grown = grown || !carried_[c];
        carried_[c] = true;
      };
      trace("vmap of while_loop", types(of_condition_, of_body_), [&](const Arrays& arguments) {
        const std::vector<bool> now = flags(of_condition_, of_body_);
        const Batched result = batch(*loop_.body, arguments, now, b_.size());
        for (std::size_t c = 0; c < carries_; ++c)
          if (result.batched[c]) grow(c);
        return Arrays();
      });
      if (grown) continue;
      trace("vmap of while_loop", types(0, of_condition_), [&](const Arrays& arguments) {
        by_row_ = batched_condition(arguments).batched[0];
        return Arrays();
      });
      for (std::size_t c = 0; by_row_ && c < carries_; ++c) grow(c);
    }
  }

  Arrays run_together(const Arrays& carries) const {
    const Traced condition = trace("vmap of while_loop", types(0, of_condition_),
                                   [&](const Arrays& arguments) { return batched_condition(arguments).outputs; });
    const Traced body = trace("vmap of while_loop", types(of_condition_, of_body_),
                              [&](const Arrays& arguments) { return batched_body(arguments); });
    Arrays operands = constants(0, of_condition_);
    const auto add = [&](const Arrays& more) { operands.insert(operands.end(), more.begin(), more.end()); };
    add(condition.captures);
    add(constants(of_condition_, of_body_));
    add(body.captures);
    add(carries);
    const WhileAttribute attributes{
        with_captures_as_constants(condition.program, of_condition_, condition.captures.size()),
        with_captures_as_constants(body.program, of_body_, body.captures.size()),
        static_cast<std::int64_t>(of_condition_ + condition.captures.size()),
        static_cast<std::int64_t>(of_body_ + body.captures.size())};
    return apply_all(prim::while_loop, operands, &attributes);
  }

  // One more carry says for which rows the condition holds.
  Arrays run_by_row(Arrays carries) const {
    const std::size_t count = of_condition_ + of_body_;
    Arrays inputs = constants(0, of_condition_);
    inputs.insert(inputs.end(), carries.begin(), carries.end());
    carries.push_back(batched_condition(inputs).outputs[0]);
    Types all = carry_types();
    all.push_back(carries.back().type());
    const Traced condition =
        trace("vmap of while_loop", all, [](const Arrays& arguments) { return Arrays{any(arguments.back(), {0})}; });
    const Arrays fixed = constants(0, count);
    for (std::size_t i = fixed.size(); i-- > 0;) all.insert(all.begin(), fixed[i].type());
    const Traced body = trace("vmap of while_loop", all, [&](const Arrays& arguments) {
      const auto first = arguments.begin(), old = first + static_cast<std::ptrdiff_t>(count);
      Arrays next = batched_body(Arrays(first + static_cast<std::ptrdiff_t>(of_condition_), arguments.end() - 1));
      for (std::size_t c = 0; c < carries_; ++c) {
        Shape row = Shape::filled(next[c].rank(), 1);
        row[0] = b_.size();
        next[c] = where(broadcast_to(reshape(arguments.back(), row), next[c].shape()), next[c],
                        old[static_cast<std::ptrdiff_t>(c)]);
      }
      Arrays tested(first, first + static_cast<std::ptrdiff_t>(of_condition_));
      tested.insert(tested.end(), next.begin(), next.end());
      next.push_back(batched_condition(tested).outputs[0]);
      return next;
    });
    Arrays operands = fixed;
    operands.insert(operands.end(), body.captures.begin(), body.captures.end());
    operands.insert(operands.end(), carries.begin(), carries.end());
    const WhileAttribute attributes{condition.program,
                                    with_captures_as_constants(body.program, count, body.captures.size()), 0,
                                    static_cast<std::int64_t>(count + body.captures.size())};
    Arrays results = apply_all(prim::while_loop, operands, &attributes);
    results.pop_back();
    return results;
  }

  Batch& b_;
  const WhileAttribute& loop_;
  std::size_t of_condition_, of_body_, carries_;
  std::vector<bool> carried_;  // which carries have the batch axis
  bool by_row_ = false;
};

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
    .batch = [](Batch& b) { BatchedLoop(b).run(); },
    .samples = [](SampleSink&) {},
    .promote = Promote::keep};

}  // namespace eadem
