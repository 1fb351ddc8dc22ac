// How a region runs: panel after panel.

#include "eadem/transforms/executable_region.h"

#include "eadem/base/memory.h"
#include "eadem/base/parallel.h"
#include "eadem/runtime/execute.h"
#include "eadem/transforms/program_transforms.h"

namespace eadem {
namespace {

// What is made of a panel stays in a core's second-level cache. (Measured: half of it costs a tenth, the double
// nothing.)
constexpr std::int64_t kPanelBytes = 1 << 19;

constexpr std::int64_t aligned(std::int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// Leading axes in panels: one index of the axes before `axis`, at most `each` of it, and all of those after it.
class Cut {
 public:
  Cut(const Shape& lead, std::int64_t rows) : lead_(lead), axis_(lead.rank() - 1) {
    while (axis_ > 0 && after_ * lead[axis_] < rows) after_ *= lead[axis_--];
    const std::int64_t most = std::clamp<std::int64_t>(rows / after_, 1, lead[axis_]);
    parts_ = (lead[axis_] + most - 1) / most;
    each_ = (lead[axis_] + parts_ - 1) / parts_;
    parts_ = (lead[axis_] + each_ - 1) / each_;
    panels_ = lead.elements() / (after_ * lead[axis_]) * parts_;
  }
  std::int64_t panels() const { return panels_; }
  std::int64_t most_rows() const { return each_ * after_; }

  /// Goes to panel i.
  void at(std::int64_t i) {
    start_ = i % parts_ * each_;
    count_ = std::min(each_, lead_[axis_] - start_);
    i /= parts_;
    for (int axis = axis_; axis-- > 0; i /= lead_[axis]) index_[axis] = i % lead_[axis];
  }
  /// The panel's part of a view that has the leading axes as these axes of its own.
  TensorView part(TensorView view, const Shape& axes) const {
    std::int64_t offset = 0;
    for (int axis = 0; axis <= axis_; ++axis) {
      const auto own = static_cast<int>(axes[axis]);
      if (own < 0) continue;
      offset += (axis < axis_ ? index_[axis] : start_) * view.strides[own];
      view.shape[own] = axis < axis_ ? 1 : count_;
    }
    view.data += offset * static_cast<std::int64_t>(size_of(view.dtype));
    return view;
  }
  /// The panel's own part of a value of this type, in a slot.
  TensorView in_slot(std::byte* slot, const TensorType& type) const {
    Shape shape = type.shape;
    for (int axis = 0; axis <= axis_; ++axis) shape[axis] = axis < axis_ ? 1 : count_;
    return contiguous_view(slot, type.dtype, shape);
  }

 private:
  const Shape& lead_;
  int axis_;
  std::int64_t after_ = 1, each_, parts_, panels_;
  Shape index_ = Shape::filled(lead_.rank(), 0);
  std::int64_t start_ = 0, count_ = 0;
};

// How many rows a panel should have: as many panels for each thread as for the others.
std::int64_t panel_rows(const Executable::Region& region) {
  const std::int64_t rows = region.lead.elements();
  const std::int64_t most = std::max<std::int64_t>(1, kPanelBytes / std::max<std::int64_t>(1, region.row_bytes));
  const std::int64_t turns = (rows + most * threads() - 1) / (most * threads());
  return (rows + turns * threads() - 1) / (turns * threads());
}

}  // namespace

bool Executable::Region::is_cut_alike(ValueId operand) const {
  for (const Part& part : parts)
    for (const Place& place : part.operands)
      for (int axis = 0; place.id == operand && axis < lead.rank(); ++axis)
        if (place.axes[axis] != axis) return false;
  return true;
}

std::shared_ptr<Executable::Region> Executable::region_of(std::vector<Step> steps, const Shape& lead,
                                                          const std::vector<bool>& outside) const {
  auto region = std::make_shared<Region>();
  region->lead = lead;
  std::vector<std::size_t> last_use(program_.types.size(), 0);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    for (const ValueId id : steps[s].operands) last_use[at(id)] = s;
    for (const ValueId id : steps[s].results) last_use[at(id)] = s;  // its own memory, even where nobody reads it
  }
  std::vector<std::ptrdiff_t> slot_of(program_.types.size(), -1);
  std::vector<ValueId> holders;  // by slot: the last value in it
  const auto row_bytes = [&](ValueId id) { return bytes_of(program_.type(id)) / lead.elements(); };
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const Step& step = steps[s];
    const Equation& equation = program_.equations[step.equations[0]];
    Region::Part part;
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      Region::Place place{step.operands[i], slot_of[at(step.operands[i])], {}};
      for (int axis = 0; axis < lead.rank(); ++axis)
        place.axes.push_back(is_chain(step) ? axis : axis_of(program_, equation, i, axis));
      part.operands.push_back(place);
    }
    for (const ValueId id : step.results) {
      region->row_bytes += row_bytes(id);
      if (!outside[at(id)]) {
        // A slot whose value is read no more: before this step, or by it when it writes as it reads.
        const auto free = std::find_if(holders.begin(), holders.end(), [&](ValueId holder) {
          const bool dies_here = is_chain(step) && last_use[at(holder)] == s &&
                                 program_.type(holder) == program_.type(id) && is_read_before(step, holder, id);
          return row_bytes(holder) == row_bytes(id) && (last_use[at(holder)] < s || dies_here);
        });
        slot_of[at(id)] = free - holders.begin();
        if (free == holders.end()) {
          holders.push_back(id);
          region->slots.push_back(row_bytes(id));
        }
        holders[at(static_cast<ValueId>(slot_of[at(id)]))] = id;
      }
      part.results.push_back({id, slot_of[at(id)], {}});
    }
    for (int axis = 0; axis < lead.rank(); ++axis)
      for (Region::Place& place : part.results) place.axes.push_back(axis);
    part.step = step;
    region->parts.push_back(std::move(part));
  }
  return region;
}

void Executable::run_region(const Step& step, Values& values) const {
  const Region& region = *step.region;
  // Whole arrays, and for what has none its type.
  std::vector<TensorView> whole(program_.types.size());
  for (const ValueId id : step.operands) whole[at(id)] = values[at(id)]->view();
  const std::vector<TensorView> results = take_results(step, values);
  for (std::size_t r = 0; r < results.size(); ++r) whole[at(step.results[r])] = results[r];
  std::vector<std::vector<TileStep>> tiles;
  for (const Region::Part& part : region.parts)
    tiles.push_back(is_chain(part.step) ? tiles_of(part.step) : std::vector<TileStep>());

  const Cut whole_cut(region.lead, panel_rows(region));
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t bytes : region.slots)
    offsets.push_back(offsets.back() + aligned(bytes * whole_cut.most_rows()));
  parallel_for(whole_cut.panels(), 1, [&](std::int64_t begin, std::int64_t end) {
    static thread_local Scratch memory;
    std::byte* const slots = memory.take(static_cast<std::size_t>(offsets.back()));
    Cut cut = whole_cut;
    const auto views_of = [&](const std::vector<Region::Place>& places, std::vector<TensorView>& views) {
      views.clear();
      for (const Region::Place& place : places)
        views.push_back(place.slot < 0 ? cut.part(whole[at(place.id)], place.axes)
                                       : cut.in_slot(slots + offsets[static_cast<std::size_t>(place.slot)],
                                                     program_.type(place.id)));
    };
    std::vector<TensorView> from, to;
    for (std::int64_t i = begin; i < end; ++i) {
      cut.at(i);
      for (std::size_t p = 0; p < region.parts.size(); ++p) {
        const Region::Part& part = region.parts[p];
        views_of(part.operands, from);
        views_of(part.results, to);
        const Equation& equation = program_.equations[part.step.equations[0]];
        if (!tiles[p].empty())
          run_tiles(tiles[p], {from, to, nullptr});
        else
          execute(*equation.primitive, {from, to, equation.attributes.get()});
      }
    }
  });
}

}  // namespace eadem
