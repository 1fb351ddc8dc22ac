// The forward rule of scan: an iteration's tangents beside its values. Iterations that find the same tangents present
// are one scan; the first ones, until then, are written out.

#include <map>

#include "eadem/ops/ops.h"
#include "eadem/transforms/scan.h"

namespace eadem {
namespace {

// One iteration with tangents: inputs are the body's and then the tangents that are present, outputs the body's and
// then the tangents of those outputs that have one.
struct ForwardStep {
  Traced traced;
  std::vector<bool> outputs;
};

ForwardStep forward_step(const Program& body, const std::vector<bool>& present) {
  Types types = body.input_types();
  for (std::size_t i = 0; i < present.size(); ++i)
    if (present[i]) types.push_back(body.type(body.inputs[i]));
  ForwardStep step;
  step.traced = trace("jvp of scan", types, [&](const Arrays& arguments) {
    std::vector<std::optional<Array>> tangents(body.inputs.size());
    std::size_t next = body.inputs.size();
    for (std::size_t i = 0; i < present.size(); ++i)
      if (present[i]) tangents[i] = arguments[next++];
    const Tangents result = forward(body, std::span(arguments).first(body.inputs.size()), tangents);
    Arrays outputs = result.outputs;
    for (const std::optional<Array>& tangent : result.tangents) {
      step.outputs.push_back(tangent.has_value());
      if (tangent) outputs.push_back(*tangent);
    }
    return outputs;
  });
  return step;
}

Array slice_at(const Array& stacked, std::int64_t index) {
  return squeeze(slice_axis(stacked, 0, {index, index + 1}), 0);
}

}  // namespace

void scan_jvp(Jvp& j) {
  const ScanAttribute& scan = j.as<ScanAttribute>();
  const Program& body = *scan.body;
  const ScanLayout layout(scan);
  const std::size_t first_slice = layout.constants + layout.carries;
  std::vector<bool> present(j.operands());
  Arrays values;
  std::vector<std::optional<Array>> tangents(j.operands());
  for (std::size_t i = 0; i < j.operands(); ++i) {
    present[i] = j.has(i);
    values.push_back(j.in(i));
    if (present[i]) tangents[i] = j.tangent(i);
  }
  // Tangents of ys, in pieces of consecutive iterations; a piece without any is zeros.
  std::vector<Arrays> pieces(layout.ys);
  std::vector<bool> reached(layout.ys, false);
  const auto take = [&](const ForwardStep& step, const Arrays& results, std::int64_t count) {
    std::size_t next = body.outputs.size();
    for (std::size_t c = 0; c < layout.carries; ++c) {
      values[layout.constants + c] = results[c];
      tangents[layout.constants + c].reset();
      if (step.outputs[c]) tangents[layout.constants + c] = results[next++];
      present[layout.constants + c] = step.outputs[c];
    }
    for (std::size_t y = 0; y < layout.ys; ++y) {
      TensorType type = body.type(body.outputs[layout.carries + y]);
      type.shape.insert(0, count);
      const bool has = step.outputs[layout.carries + y];
      pieces[y].push_back(has ? reshape(results[next++], type.shape) : zeros(type.shape, type.dtype));
      reached[y] = reached[y] || has;
    }
  };
  for (std::int64_t begin = 0; begin < scan.length;) {
    const ForwardStep step = forward_step(body, present);
    bool steady = scan.length - begin > 1;
    for (std::size_t c = 0; c < layout.carries; ++c)
      steady = steady && step.outputs[c] == present[layout.constants + c];
    const std::int64_t count = steady ? scan.length - begin : 1;
    const auto part = [&](const Array& stacked) {
      return scan.reverse ? slice_axis(stacked, 0, {scan.length - begin - count, scan.length - begin})
                          : slice_axis(stacked, 0, {begin, begin + count});
    };
    if (!steady) {
      Arrays inputs;
      const std::int64_t index = slice_index(scan, begin);
      for (std::size_t i = 0; i < values.size(); ++i)
        inputs.push_back(i < first_slice ? values[i] : slice_at(values[i], index));
      for (std::size_t i = 0; i < values.size(); ++i)
        if (present[i]) inputs.push_back(i < first_slice ? *tangents[i] : slice_at(*tangents[i], index));
      inputs.insert(inputs.end(), step.traced.captures.begin(), step.traced.captures.end());
      take(step, replay(*step.traced.program, inputs), 1);
    } else {
      // constants, their tangents, captures; carries, theirs; slices, theirs. The body's inputs and outputs likewise.
      Arrays operands;
      std::vector<std::size_t> order;
      std::vector<std::size_t> tangent_input(values.size());
      std::size_t next = body.inputs.size();
      for (std::size_t i = 0; i < values.size(); ++i)
        if (present[i]) tangent_input[i] = next++;
      ScanAttribute attributes{nullptr, count, 0, 0, scan.reverse};
      const auto add_range = [&](std::size_t from, std::size_t to, bool slices) {
        for (std::size_t i = from; i < to; ++i) {
          operands.push_back(slices ? part(values[i]) : values[i]);
          order.push_back(i);
        }
        for (std::size_t i = from; i < to; ++i) {
          if (!present[i]) continue;
          operands.push_back(slices ? part(*tangents[i]) : *tangents[i]);
          order.push_back(tangent_input[i]);
        }
      };
      add_range(0, layout.constants, false);
      for (const Array& capture : step.traced.captures) {
        operands.push_back(capture);
        order.push_back(next++);
      }
      attributes.constants = static_cast<std::int64_t>(operands.size());
      add_range(layout.constants, first_slice, false);
      attributes.carries = static_cast<std::int64_t>(operands.size()) - attributes.constants;
      add_range(first_slice, values.size(), true);
      Program program = with_inputs(*step.traced.program, order);
      // Outputs: carries, their tangents, ys, theirs; `position` finds each of the step's again.
      std::vector<std::size_t> kinds[4];
      std::size_t tangent = body.outputs.size();
      for (std::size_t i = 0; i < body.outputs.size(); ++i) {
        kinds[i < layout.carries ? 0 : 2].push_back(i);
        if (step.outputs[i]) kinds[i < layout.carries ? 1 : 3].push_back(tangent++);
      }
      std::vector<ValueId> outputs;
      std::vector<std::size_t> position(program.outputs.size());
      for (const std::vector<std::size_t>& kind : kinds)
        for (const std::size_t i : kind) {
          position[i] = outputs.size();
          outputs.push_back(program.outputs[i]);
        }
      program.outputs = outputs;
      attributes.body = std::make_shared<const Program>(std::move(program));
      const Arrays all = apply_all(prim::scan, operands, &attributes);
      Arrays results;
      for (const std::size_t i : position) results.push_back(all[i]);
      take(step, results, count);
    }
    begin += count;
  }
  for (std::size_t c = 0; c < layout.carries; ++c)
    if (tangents[layout.constants + c]) j.add_canonical(*tangents[layout.constants + c], c);
  for (std::size_t y = 0; y < layout.ys; ++y) {
    if (!reached[y]) continue;
    if (scan.reverse) std::reverse(pieces[y].begin(), pieces[y].end());
    j.add_canonical(pieces[y].size() == 1 ? pieces[y][0] : concatenate(pieces[y], 0), layout.carries + y);
  }
}

}  // namespace eadem
