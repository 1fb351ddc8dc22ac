#pragma once

#include <functional>
#include <optional>

#include "eadem/array/rules.h"
#include "eadem/transforms/control.h"
#include "eadem/transforms/program_transforms.h"

namespace eadem {

/// How a scan's operands and its body's outputs are given out.
struct ScanLayout {
  explicit ScanLayout(const ScanAttribute& scan)
      : constants(static_cast<std::size_t>(scan.constants)),
        carries(static_cast<std::size_t>(scan.carries)),
        slices(scan.body->inputs.size() - constants - carries),
        ys(scan.body->outputs.size() - carries) {}
  std::size_t constants, carries, slices, ys;
};

/// Iteration `step` of the scan reads this slice.
inline std::int64_t slice_index(const ScanAttribute& scan, std::int64_t step) {
  return scan.reverse ? scan.length - 1 - step : step;
}

/// Element `index` of what is stacked along axis 0.
Array step_of(const Array& stacked, std::int64_t index);

/// The scan's results, by the loop written out: an iteration's slices first, then the body, then, in the end, the ys
/// stacked.
Arrays scan_as_loop(const ScanAttribute& scan, const Arrays& operands,
                    const std::function<Arrays(const Arrays&)>& body);

/// The scan of these operands. A final carry that is a value from outside of it (handed on from the start, a constant)
/// or that another carry is, too, is given as that value, as it is in the loop written out: it has one accumulator.
Arrays apply_scan(const ScanAttribute& scan, const Arrays& operands);

/// The operands of a scan whose body was traced and captured arrays from outside: these become constants, in `scan`
/// too.
Arrays with_captures(ScanAttribute& scan, const Arrays& operands, const Arrays& captures);

/// What each iteration of a round gave, stacked over the rounds, as it lies in memory over all iterations; `backwards`
/// where the last iteration of a round has the first slice.
Array interleaved(Arrays pieces, bool backwards);

/// The program applied to these inputs: its equations or, where there are loops among them, one equation, since loops
/// written out in loops written out would be many.
Arrays replay_or_call(const ProgramRef& program, const Arrays& inputs);

// The rules of prim::scan.
Arrays scan_run_saving(const Equation&, std::span<const Array> operands, const std::vector<bool>& active,
                       Arrays& saved);
void scan_vjp(Vjp&);
void scan_jvp(Jvp&);
void scan_batch(Batch&);

}  // namespace eadem
