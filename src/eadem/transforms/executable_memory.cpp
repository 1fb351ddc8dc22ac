// What a run will hold: the memory of values as Executable::run gives and takes it, gone through beforehand.

#include <algorithm>

#include "eadem/transforms/executable.h"
#include "eadem/transforms/program_transforms.h"

namespace eadem {
namespace {

// Windows are worked out on an address that nothing reads.
TensorView somewhere(const TensorType& type) {
  return contiguous_view(reinterpret_cast<void*>(std::uintptr_t{1} << 32), type.dtype, type.shape);
}

// Blocks of memory by number, and how many values hold each.
class Memory {
 public:
  /// What the caller holds, too: it is never taken over, and costs nothing.
  std::size_t lent() { return add(0, 2); }
  std::size_t allocate(std::int64_t bytes) {
    live_ += bytes;
    peak_ = std::max(peak_, live_);
    return add(bytes, 1);
  }
  void hold(std::size_t block) { ++blocks_[block].holders; }
  void release(std::size_t block) {
    if (--blocks_[block].holders == 0) live_ -= blocks_[block].bytes;
  }
  bool is_unique(std::size_t block) const { return blocks_[block].holders == 1; }
  std::int64_t peak() const { return peak_; }

 private:
  struct Block {
    std::int64_t bytes;
    int holders;
  };
  std::size_t add(std::int64_t bytes, int holders) {
    blocks_.push_back({bytes, holders});
    return blocks_.size() - 1;
  }
  std::vector<Block> blocks_;
  std::int64_t live_ = 0, peak_ = 0;
};

struct Held {
  std::size_t block;
  TensorView view;
  bool known = true;  // whether the view has the strides that it will have
};

}  // namespace

std::int64_t Executable::planned_peak_bytes() const {
  return most_bytes(true);
}

std::int64_t Executable::most_bytes(bool contiguous_inputs) const {
  Memory memory;
  std::vector<std::optional<Held>> values(program_.types.size());
  for (const ValueId id : program_.inputs)
    values[at(id)] = {memory.lent(), somewhere(program_.type(id)), contiguous_inputs};
  for (const auto& [id, array] : constants_) values[at(id)] = {memory.lent(), array.view()};
  for (const Step& step : steps_) {
    const Equation& first =
        program_.equations[step.equations[0]];  // the only one but for chains, with or without a product, and regions
    if (step.region || step.chain || is_chain(step)) {
      const std::vector<std::optional<ValueId>> from = donors(step, [&](ValueId id) -> const TensorView* {
        const std::optional<Held>& x = values[at(id)];
        return x && x->known && memory.is_unique(x->block) ? &x->view : nullptr;
      });
      for (std::size_t r = 0; r < step.results.size(); ++r) {
        const TensorType& type = program_.type(step.results[r]);
        std::optional<Held>& result = values[at(step.results[r])];
        result = from[r] ? *values[at(*from[r])] : Held{memory.allocate(bytes_of(type)), somewhere(type)};
        if (from[r]) memory.hold(result->block);
      }
      if (step.chain && !product_place(step))
        memory.release(memory.allocate(bytes_of(program_.type(first.results[0]))));
    } else if (const View* form = std::get_if<View>(&first.primitive->run)) {
      std::vector<TensorView> operands;
      for (const ValueId id : first.operands) operands.push_back(values[at(id)]->view);
      const TensorView none = somewhere(program_.type(first.results[0]));
      const auto [block, view, known] = *values[at(first.operands[0])];
      const auto window = form->view({operands, {&none, 1}, first.attributes.get()});
      if (window && known) {
        values[at(first.results[0])] = {block, *window};
        memory.hold(block);
      } else {
        const TensorType& type = program_.type(first.operands[0]);
        operands[0] = somewhere(type);
        values[at(first.results[0])] = {memory.allocate(bytes_of(type)),
                                        form->view({operands, {&none, 1}, first.attributes.get()}).value()};
      }
    } else if (std::holds_alternative<Control>(first.primitive->run)) {
      // What goes on from one iteration to the next, or out, and what the bodies take beside it.
      for (const ValueId id : first.results)
        values[at(id)] = {memory.allocate(bytes_of(program_.type(id))), somewhere(program_.type(id)), false};
      std::int64_t most = 0;
      for (const ProgramRef& body : first.primitive->attributes->programs(first.attributes.get()))
        most = std::max(most, executable_of(*body).most_bytes(false));
      memory.release(memory.allocate(most));
    } else {
      for (const ValueId id : first.results)
        values[at(id)] = {memory.allocate(bytes_of(program_.type(id))), somewhere(program_.type(id))};
    }
    for (const ValueId id : step.released) {
      if (!values[at(id)]) continue;
      memory.release(values[at(id)]->block);
      values[at(id)].reset();
    }
  }
  return memory.peak();
}

}  // namespace eadem
