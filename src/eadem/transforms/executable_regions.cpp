// Which steps are joined into regions.

#include "eadem/transforms/executable_region.h"
#include "eadem/transforms/program_transforms.h"

namespace eadem {
namespace {

// A row of all values that are made in a region must leave room for other rows in a core's cache.
constexpr std::int64_t kMostRowBytes = 1 << 18;

thread_local std::int64_t least_handed_on = 1 << 20;

// A place in the order of running: behind a step of the program, and how far behind it.
using Place = std::pair<std::size_t, std::size_t>;

Place behind(Place place) {
  return {place.first, place.second + 1};
}

}  // namespace

std::int64_t set_least_region_bytes(std::int64_t bytes) {
  return std::exchange(least_handed_on, bytes);
}

int axis_of(const Program& program, const Equation& equation, std::size_t operand, int axis) {
  const auto& run = equation.primitive->run;
  if (std::holds_alternative<Tile>(run)) return axis;
  if (std::holds_alternative<Row>(run)) {
    const int rank = program.type(equation.operands[0]).shape.rank();
    if (axis + 1 >= rank) return kNoParts;
    return program.type(equation.operands[operand]).shape.rank() == rank ? axis : kWhole;
  }
  const Kernel* kernel = std::get_if<Kernel>(&run);
  if (!kernel || !kernel->axis_of) return kNoParts;
  Types types;
  for (const ValueId id : equation.operands) types.push_back(program.type(id));
  return kernel->axis_of({types, equation.attributes.get()}, operand, axis);
}

// Units are steps that will run together; they begin as one step each. A step joins the units of its operands where
// that moves no other work, so that values live no longer than they did: it comes up to the last of them, and the
// earlier ones come down if only windows lie between.
class Executable::RegionFinder {
 public:
  RegionFinder(const Executable& executable, std::vector<Step> steps)
      : executable_(executable),
        program_(executable.program_),
        steps_(std::move(steps)),
        units_(steps_.size()),
        unit_of_(steps_.size()),
        maker_(program_.types.size(), kNobody),
        users_(program_.types.size()) {
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      units_[s] = {{s}, lead_of(steps_[s]), {s, 0}};
      unit_of_[s] = s;
      for (const std::size_t i : steps_[s].equations)
        for (const ValueId id : program_.equations[i].results) maker_[at(id)] = s;
      for (const ValueId id : steps_[s].operands) users_[at(id)].push_back(s);
    }
  }

  std::vector<Step> joined() {
    for (std::size_t s = 0; s < steps_.size(); ++s)
      for (const std::size_t maker : makers_of(s)) join(maker, s);
    // Chains that found no rows to run with.
    for (std::size_t s = 0; s < steps_.size(); ++s)
      for (const std::size_t maker : makers_of(s)) pair(maker, s);
    std::vector<const Unit*> order;
    for (Unit& unit : units_) {
      std::sort(unit.steps.begin(), unit.steps.end());
      if (!unit.steps.empty()) order.push_back(&unit);
    }
    std::stable_sort(order.begin(), order.end(), [](const Unit* a, const Unit* b) { return a->place < b->place; });
    std::vector<Step> result;
    for (const Unit* unit : order) {
      if (unit->steps.size() > 1 && bytes_handed_on(*unit) >= least_handed_on)
        result.push_back(unit->pair ? product(*unit) : region(*unit));
      else
        for (const std::size_t s : unit->steps) result.push_back(steps_[s]);
    }
    return result;
  }

 private:
  static constexpr std::size_t kNobody = SIZE_MAX;
  struct Unit {
    std::vector<std::size_t> steps;  // none once it has joined another
    Shape lead;                      // the leading axes along which they have parts
    Place place;
    bool pair = false;  // a product and the chain that runs on its parts
  };

  // The units that make a step's operands, the last ones first.
  std::vector<std::size_t> makers_of(std::size_t step) const {
    std::vector<std::size_t> makers;
    for (const ValueId id : steps_[step].operands)
      if (maker_[at(id)] != kNobody) makers.push_back(unit_of_[maker_[at(id)]]);
    std::sort(makers.begin(), makers.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(units_[a].place, a) > std::pair(units_[b].place, b);
    });
    makers.erase(std::unique(makers.begin(), makers.end()), makers.end());
    return makers;
  }

  bool is_window(const Step& step) const {
    return std::holds_alternative<View>(program_.equations[step.equations[0]].primitive->run);
  }
  bool is_in(const Unit& unit, std::size_t step) const { return &units_[unit_of_[step]] == &unit; }

  Shape lead_of(const Step& step) const {
    const Equation& equation = program_.equations[step.equations[0]];
    Shape lead = program_.type(equation.results[0]).shape;
    for (int axis = 0; axis < lead.rank(); ++axis) {
      bool parts = !equation.operands.empty();
      for (std::size_t i = 0; parts && i < equation.operands.size(); ++i)
        parts = eadem::axis_of(program_, equation, i, axis) != kNoParts;
      for (const ValueId id : equation.results) {
        const Shape& shape = program_.type(id).shape;
        parts = parts && axis < shape.rank() && shape[axis] == lead[axis];
      }
      if (parts) continue;
      while (lead.rank() > axis) lead.pop_back();
    }
    return lead;
  }

  // The leading axes that both have, along which `to` reads what `from` makes.
  Shape common_lead(const Unit& from, const Unit& to) const {
    Shape lead;
    while (lead.rank() < std::min(from.lead.rank(), to.lead.rank()) && from.lead[lead.rank()] == to.lead[lead.rank()])
      lead.push_back(from.lead[lead.rank()]);
    for (const std::size_t s : to.steps)
      for (const std::size_t e : steps_[s].equations) {
        const Equation& equation = program_.equations[e];
        for (std::size_t i = 0; i < equation.operands.size(); ++i) {
          const std::size_t maker = maker_[at(equation.operands[i])];
          if (maker == kNobody || !is_in(from, maker)) continue;
          for (int axis = 0; axis < lead.rank(); ++axis)
            if (eadem::axis_of(program_, equation, i, axis) != axis)
              while (lead.rank() > axis) lead.pop_back();
        }
      }
    return lead;
  }

  std::int64_t made_bytes(const Unit& unit) const {
    std::int64_t bytes = 0;
    for (const std::size_t s : unit.steps)
      for (const ValueId id : steps_[s].results) bytes += bytes_of(program_.type(id));
    return bytes;
  }
  // What the steps of a unit make for each other.
  std::int64_t bytes_handed_on(const Unit& unit) const {
    std::int64_t bytes = 0;
    for (const std::size_t s : unit.steps)
      for (const ValueId id : steps_[s].results)
        if (std::any_of(users_[at(id)].begin(), users_[at(id)].end(), [&](std::size_t u) { return is_in(unit, u); }))
          bytes += bytes_of(program_.type(id));
    return bytes;
  }

  // Whether the unit may run at a later place: nobody else needs its results before, and only windows lie between.
  bool may_wait(const Unit& unit, const Unit& other, Place place) const {
    if (unit.place >= place) return true;
    for (const std::size_t s : unit.steps)
      for (const ValueId id : steps_[s].results)
        for (const std::size_t user : users_[at(id)])
          if (!is_in(unit, user) && !is_in(other, user) && units_[unit_of_[user]].place <= place) return false;
    for (std::size_t s = unit.place.first; s <= place.first; ++s)
      if (!is_in(unit, s) && !is_in(other, s) && !is_window(steps_[s])) return false;
    return true;
  }

  // Where both would run as one, if they may.
  std::optional<Place> place_of(const Unit& maker, const Unit& unit, std::size_t step) const {
    Place place = maker.place;
    if (unit.steps.size() > 1) {
      place = std::max(place, unit.place);
    } else {
      for (const ValueId id : steps_[step].operands)
        if (maker_[at(id)] != kNobody && !is_in(maker, maker_[at(id)]))
          place = std::max(place, behind(units_[unit_of_[maker_[at(id)]]].place));
    }
    if (!may_wait(maker, unit, place) || (unit.steps.size() > 1 && !may_wait(unit, maker, place))) return std::nullopt;
    return place;
  }
  void merge(std::size_t from, Unit& unit, const Shape& lead, Place place) {
    Unit& maker = units_[from];
    for (const std::size_t s : unit.steps) {
      maker.steps.push_back(s);
      unit_of_[s] = from;
    }
    unit.steps.clear();
    maker.lead = lead;
    maker.place = place;
  }

  void join(std::size_t from, std::size_t step) {
    Unit &maker = units_[from], &unit = units_[unit_of_[step]];
    if (&maker == &unit) return;
    const Shape lead = common_lead(maker, unit);
    const std::int64_t rows = lead.elements();
    if (lead.empty() || rows < 2 || (made_bytes(maker) + made_bytes(unit)) / rows > kMostRowBytes) return;
    if (const auto place = place_of(maker, unit, step)) merge(from, unit, lead, *place);
  }

  // A chain by itself runs on the parts of a product that it reads.
  void pair(std::size_t from, std::size_t step) {
    Unit &maker = units_[from], &unit = units_[unit_of_[step]];
    if (&maker == &unit || maker.steps.size() != 1 || unit.steps.size() != 1) return;
    if (!executable_.is_chain(steps_[step])) return;
    const Equation& equation = program_.equations[steps_[maker.steps[0]].equations[0]];
    const Kernel* kernel = std::get_if<Kernel>(&equation.primitive->run);
    Types types;
    for (const ValueId id : equation.operands) types.push_back(program_.type(id));
    if (!kernel || !kernel->hands_on || !kernel->hands_on({types, equation.attributes.get()})) return;
    const auto place = place_of(maker, unit, step);
    if (!place) return;
    merge(from, unit, {}, *place);
    maker.pair = true;
  }

  Step product(const Unit& unit) const {
    Step whole = steps_[unit.steps[0]];
    const Step& chain = steps_[unit.steps[1]];
    whole.equations.insert(whole.equations.end(), chain.equations.begin(), chain.equations.end());
    for (const ValueId id : chain.operands)
      if (id != whole.results[0]) whole.operands.push_back(id);
    whole.chain = std::make_shared<const Step>(chain);
    return whole;
  }

  Step region(const Unit& unit) const {
    std::vector<Step> parts;
    Step whole;
    std::vector<bool> outside(program_.types.size(), false);
    for (const ValueId id : program_.outputs) outside[at(id)] = true;
    for (const std::size_t s : unit.steps) {
      parts.push_back(steps_[s]);
      whole.equations.insert(whole.equations.end(), steps_[s].equations.begin(), steps_[s].equations.end());
      for (const ValueId id : steps_[s].operands)
        if ((maker_[at(id)] == kNobody || !is_in(unit, maker_[at(id)])) &&
            std::find(whole.operands.begin(), whole.operands.end(), id) == whole.operands.end())
          whole.operands.push_back(id);
    }
    for (const Step& part : parts)
      for (const ValueId id : part.results)
        for (const std::size_t user : users_[at(id)]) outside[at(id)] = outside[at(id)] || !is_in(unit, user);
    whole.region = executable_.region_of(std::move(parts), unit.lead, outside);
    return whole;
  }

  const Executable& executable_;
  const Program& program_;
  const std::vector<Step> steps_;
  std::vector<Unit> units_;
  std::vector<std::size_t> unit_of_;             // by step
  std::vector<std::size_t> maker_;               // by value: the step that makes it
  std::vector<std::vector<std::size_t>> users_;  // by value
};

void Executable::make_steps() {
  std::vector<Step> steps = chains();
  set_results(steps);
  for (const Step& step : steps) {
    statistics_.equations += step.equations.size();
    if (!is_chain(step)) continue;
    statistics_.chained += step.equations.size();
    ++statistics_.chains;
  }
  steps_ = RegionFinder(*this, std::move(steps)).joined();
  set_results(steps_);
  for (const Step& step : steps_) {
    statistics_.products += step.chain != nullptr;
    if (!step.region) continue;
    statistics_.joined += step.region->parts.size();
    ++statistics_.regions;
  }
}

}  // namespace eadem
