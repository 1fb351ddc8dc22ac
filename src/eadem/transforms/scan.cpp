// scan: a loop with a carry over slices, its body a program. Eager, traced, batched and differentiated, it has the bits
// of the loop written out.

#include "eadem/transforms/scan.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "eadem/kernels/move/copy.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"
#include "eadem/transforms/executable.h"

namespace eadem {
namespace {

Types infer(const Signature& s) {
  const ScanAttribute& scan = s.as<ScanAttribute>();
  const Program& body = *scan.body;
  if (scan.length < 0 || scan.constants < 0 || scan.carries < 0 ||
      static_cast<std::uint64_t>(scan.constants) > body.inputs.size() ||
      static_cast<std::uint64_t>(scan.carries) > body.inputs.size() - static_cast<std::size_t>(scan.constants) ||
      static_cast<std::uint64_t>(scan.carries) > body.outputs.size())
    fail<ValueError>("[scan] {} constants, {} carries and length {} do not fit a body of {} inputs and {} outputs",
                     scan.constants, scan.carries, scan.length, body.inputs.size(), body.outputs.size());
  ops::require_operands("scan", s, body.inputs.size());
  const ScanLayout layout(scan);
  Types results;
  for (std::size_t i = 0; i < layout.carries; ++i) {
    const TensorType &in = body.type(body.inputs[layout.constants + i]), &out = body.type(body.outputs[i]);
    if (in != out) fail<TypeError>("[scan] carry {} is {} before an iteration and {} after it", i, in, out);
    results.push_back(out);
  }
  for (std::size_t i = 0; i < body.inputs.size(); ++i) {
    TensorType expected = body.type(body.inputs[i]);
    if (i >= layout.constants + layout.carries) expected.shape.insert(0, scan.length);
    if (s.operands[i] != expected)
      fail<TypeError>("[scan] operand {} must be {} for a body on {}, got {}", i, expected, body.type(body.inputs[i]),
                      s.operands[i]);
  }
  for (std::size_t i = layout.carries; i < body.outputs.size(); ++i) {
    TensorType type = body.type(body.outputs[i]);
    type.shape.insert(0, scan.length);
    checked_elements("scan", type.shape);
    results.push_back(type);
  }
  return results;
}

Array slice_of(const Array& x, std::int64_t index) {
  TensorView view = x.view();
  view.data += index * view.strides[0] * static_cast<std::int64_t>(size_of(view.dtype));
  view.shape.erase(0);
  view.strides.erase(0);
  return Array(x.buffer(), view);
}

Arrays run(std::span<const Array> operands, const void* attributes) {
  const ScanAttribute& scan = *static_cast<const ScanAttribute*>(attributes);
  const Program& body = *scan.body;
  const ScanLayout layout(scan);
  const std::size_t first_slice = layout.constants + layout.carries;
  Arrays inputs(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(first_slice));
  const Array none;
  inputs.resize(operands.size(), none);
  Arrays ys(layout.ys, none);
  for (std::int64_t step = 0; step < scan.length; ++step) {
    const std::int64_t index = slice_index(scan, step);
    for (std::size_t i = first_slice; i < operands.size(); ++i) inputs[i] = slice_of(operands[i], index);
    // The carries are handed over, so that the next ones may take their memory.
    Arrays handed = inputs;
    for (std::size_t i = 0; i < layout.carries; ++i) inputs[layout.constants + i] = none;
    Arrays outputs = run_program(body, std::move(handed));
    for (std::size_t i = 0; i < layout.carries; ++i) inputs[layout.constants + i] = std::move(outputs[i]);
    for (std::size_t i = 0; i < layout.ys; ++i) {
      const Array& y = outputs[layout.carries + i];
      if (step == 0) {  // the referees' dtypes may differ from the declared ones
        TensorType type = y.type();
        type.shape.insert(0, scan.length);
        ys[i] = Array::allocate(type);
      }
      kernels::copy(y.view(), slice_of(ys[i], index).view());
    }
  }
  if (scan.length == 0)
    for (std::size_t i = 0; i < layout.ys; ++i) {
      TensorType type = body.type(body.outputs[layout.carries + i]);
      type.shape.insert(0, 0);
      ys[i] = Array::allocate(type);
    }
  Arrays results(inputs.begin() + static_cast<std::ptrdiff_t>(layout.constants),
                 inputs.begin() + static_cast<std::ptrdiff_t>(first_slice));
  results.insert(results.end(), ys.begin(), ys.end());
  return results;
}

void reference(const Launch&) {
  fail<ValueError>("[scan] runs on arrays only");
}

}  // namespace

constinit const Primitive prim::scan{
    .name = "scan",
    .summary = "A loop with a carry over slices along axis 0.",
    .attributes = &kAttributesOf<ScanAttribute>,
    .infer = infer,
    .reference = reference,
    .run = Control{run},
    .vjp = scan_vjp,
    .jvp = scan_jvp,
    .batch = scan_batch,
    .run_saving = scan_run_saving,
    .samples = [](SampleSink&) {},  // tests/transforms/ has them: a sample's attributes would need programs
    .promote = Promote::keep};

void scan_batch(Batch& b) {
  const ScanAttribute& scan = b.as<ScanAttribute>();
  const Program& body = *scan.body;
  const ScanLayout layout(scan);
  const std::size_t first_slice = layout.constants + layout.carries;
  // Carries become batched in whichever iteration; all are, from the start.
  std::vector<bool> batched(b.operands());
  Types types;
  Arrays operands;
  for (std::size_t i = 0; i < b.operands(); ++i) {
    const bool carry = i >= layout.constants && i < first_slice;
    batched[i] = carry || b.batched(i);
    TensorType type = body.type(body.inputs[i]);
    if (batched[i]) type.shape.insert(0, b.size());
    types.push_back(type);
    // A batched source of slices has the batch first and the iterations second.
    operands.push_back(carry ? b.with_axis(i) : b.batched(i) && i >= first_slice ? swap_axes(b.in(i), 0, 1) : b.in(i));
  }
  std::vector<bool> ys_batched(layout.ys);
  const Traced inner = trace("vmap of scan", types, [&](const Arrays& arguments) {
    Batched outputs = batch(body, arguments, batched, b.size());
    for (std::size_t i = 0; i < outputs.outputs.size(); ++i) {
      if (i >= layout.carries) {
        ys_batched[i - layout.carries] = outputs.batched[i];
        continue;
      }
      if (!outputs.batched[i]) outputs.outputs[i] = with_batch_axis(outputs.outputs[i], b.size());
    }
    return outputs.outputs;
  });
  ScanAttribute attributes = scan;
  attributes.body = inner.program;
  Arrays results = apply_all(prim::scan, with_captures(attributes, operands, inner.captures), &attributes);
  for (std::size_t i = 0; i < layout.ys; ++i) {
    Array& y = results[layout.carries + i];
    y = ys_batched[i] ? swap_axes(y, 0, 1) : with_batch_axis(y, b.size());
  }
  b.set(std::move(results));
}

Array step_of(const Array& stacked, std::int64_t index) {
  return squeeze(slice_axis(stacked, 0, {index, index + 1}), 0);
}

Arrays apply_scan(const ScanAttribute& scan, const Arrays& operands) {
  const Program& body = *scan.body;
  const ScanLayout layout(scan);
  Arrays results = apply_all(prim::scan, operands, &scan);
  const auto input_of = [&](std::size_t carry) {
    return static_cast<std::size_t>(std::find(body.inputs.begin(), body.inputs.end(), body.outputs[carry]) -
                                    body.inputs.begin());
  };
  const auto is_carry = [&](std::size_t input) {
    return input >= layout.constants && input < layout.constants + layout.carries;
  };
  std::map<std::pair<ValueId, std::int64_t>, std::size_t> known;  // by the value and how many iterations make it
  for (std::size_t i = 0; i < layout.carries; ++i) {
    std::size_t carry = i, input = 0;
    std::int64_t steps = scan.length;
    for (std::size_t followed = 0; steps > 0 && is_carry(input = input_of(carry)); --steps) {
      carry = input - layout.constants;
      if (++followed != layout.carries) continue;
      std::int64_t around = 1;  // by now these carries change places for ever
      for (std::size_t next = carry; input_of(next) - layout.constants != carry; ++around)
        next = input_of(next) - layout.constants;
      steps = (steps - 1) % around + 1;
    }
    if (steps == 0)
      results[i] = operands[layout.constants + carry];
    else if (input < layout.constants)
      results[i] = operands[input];
    else
      results[i] = results[known.try_emplace({body.outputs[carry], steps}, i).first->second];
  }
  return results;
}

Arrays scan_as_loop(const ScanAttribute& scan, const Arrays& operands,
                    const std::function<Arrays(const Arrays&)>& body) {
  const ScanLayout layout(scan);
  const std::size_t first_slice = layout.constants + layout.carries;
  Arrays inputs(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(first_slice));
  inputs.resize(operands.size());
  std::vector<Arrays> ys(layout.ys, Arrays(static_cast<std::size_t>(scan.length)));
  for (std::int64_t step = 0; step < scan.length; ++step) {
    const std::int64_t index = slice_index(scan, step);
    for (std::size_t i = first_slice; i < operands.size(); ++i) inputs[i] = step_of(operands[i], index);
    const Arrays outputs = body(inputs);
    std::copy_n(outputs.begin(), layout.carries, inputs.begin() + static_cast<std::ptrdiff_t>(layout.constants));
    for (std::size_t y = 0; y < layout.ys; ++y) ys[y][static_cast<std::size_t>(index)] = outputs[layout.carries + y];
  }
  Arrays results(inputs.begin() + static_cast<std::ptrdiff_t>(layout.constants),
                 inputs.begin() + static_cast<std::ptrdiff_t>(first_slice));
  for (std::size_t y = 0; y < layout.ys; ++y) {
    TensorType empty = scan.body->type(scan.body->outputs[layout.carries + y]);
    empty.shape.insert(0, 0);
    results.push_back(scan.length == 0 ? zeros(empty.shape, empty.dtype) : stack(ys[y]));
  }
  return results;
}

Arrays replay_or_call(const ProgramRef& program, const Arrays& inputs) {
  const bool has_loops =
      std::any_of(program->equations.begin(), program->equations.end(),
                  [](const Equation& equation) { return std::holds_alternative<Control>(equation.primitive->run); });
  if (!has_loops) return replay(*program, inputs);
  return apply_remat({program}, inputs);
}

ProgramRef with_captures_as_constants(const ProgramRef& traced, std::size_t constants, std::size_t captures) {
  if (captures == 0) return traced;
  std::vector<std::size_t> order(traced->inputs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::rotate(order.begin() + static_cast<std::ptrdiff_t>(constants),
              order.end() - static_cast<std::ptrdiff_t>(captures), order.end());
  return std::make_shared<const Program>(with_inputs(*traced, order));
}

Arrays with_captures(ScanAttribute& scan, const Arrays& operands, const Arrays& captures) {
  scan.body = with_captures_as_constants(scan.body, static_cast<std::size_t>(scan.constants), captures.size());
  Arrays all = operands;
  all.insert(all.begin() + static_cast<std::ptrdiff_t>(scan.constants), captures.begin(), captures.end());
  scan.constants += static_cast<std::int64_t>(captures.size());
  return all;
}

Array interleaved(Arrays pieces, bool backwards) {
  if (pieces.size() == 1) return pieces[0];
  if (backwards) std::reverse(pieces.begin(), pieces.end());
  Shape shape = pieces[0].shape();
  shape[0] *= static_cast<std::int64_t>(pieces.size());
  return reshape(stack(pieces, 1), shape);
}

}  // namespace eadem
