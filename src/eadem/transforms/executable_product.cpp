// How a product runs the chain after it: on each part of its result, while that is in the cache.

#include "eadem/runtime/execute.h"
#include "eadem/transforms/executable.h"
#include "eadem/transforms/program_transforms.h"

namespace eadem {
namespace {

// The chain's views, [.., columns], and its tiles.
struct Chain {
  std::vector<TileStep> tiles;
  std::vector<TensorView> operands, results;

  // Rows and columns of a view: the rows lie along its last axis but one.
  static TensorView part(const TensorView& view, std::int64_t row, std::int64_t rows, std::int64_t column,
                         std::int64_t columns) {
    const int last = view.shape.rank() - 1;
    std::int64_t offset = column * view.strides[last];
    for (int axis = last - 1; axis >= 0; row /= view.shape[axis--])
      offset += row % view.shape[axis] * view.strides[axis];
    TensorView some{view.data + offset * static_cast<std::int64_t>(size_of(view.dtype)),
                    view.dtype,
                    {rows, columns},
                    {last > 0 ? view.strides[last - 1] : 0, view.strides[last]},
                    view.buffer};
    return some;
  }
  void run(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) const {
    const Shape& shape = results[0].shape;
    const std::int64_t extent = shape.rank() > 1 ? shape[shape.rank() - 2] : 1;
    std::vector<TensorView> from(operands.size()), to(results.size());
    for (std::int64_t done = 0; done < rows;) {
      const std::int64_t first = row + done, some = std::min(rows - done, extent - first % extent);
      for (std::size_t i = 0; i < operands.size(); ++i) from[i] = part(operands[i], first, some, column, columns);
      for (std::size_t i = 0; i < results.size(); ++i) to[i] = part(results[i], first, some, column, columns);
      run_tiles(tiles, {from, to, nullptr});
      done += some;
    }
  }
};

}  // namespace

std::optional<std::size_t> Executable::product_place(const Step& step) const {
  const ValueId product = program_.equations[step.equations[0]].results[0];
  for (std::size_t r = 0; r < step.results.size(); ++r)
    if (step.results[r] == product) return r;
  for (std::size_t r = 0; r < step.results.size(); ++r)
    if (program_.type(step.results[r]) == program_.type(product) && is_read_before(step, product, step.results[r]))
      return r;
  return std::nullopt;
}

void Executable::run_product(const Step& step, Values& values) const {
  const Equation& equation = program_.equations[step.equations[0]];
  const ValueId product = equation.results[0];
  std::vector<TensorView> factors;
  for (const ValueId id : equation.operands) factors.push_back(values[at(id)]->view());
  Chain chain{tiles_of(*step.chain), {}, {}};
  for (const ValueId id : step.chain->operands)
    chain.operands.push_back(id == product ? TensorView() : values[at(id)]->view());
  const std::vector<TensorView> results = take_results(step, values);
  const std::optional<std::size_t> place = product_place(step);
  const Array apart = place ? Array() : Array::allocate(program_.type(product));
  const TensorView made = place ? results[*place] : apart.view();
  for (std::size_t i = 0; i < chain.operands.size(); ++i)
    if (step.chain->operands[i] == product) chain.operands[i] = made;
  for (std::size_t r = 0; r < results.size(); ++r)
    if (step.results[r] != product) chain.results.push_back(results[r]);
  const kernels::Epilogue epilogue{
      [](const void* closure, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
        static_cast<const Chain*>(closure)->run(row, rows, column, columns);
      },
      &chain};
  execute(*equation.primitive, {factors, {&made, 1}, equation.attributes.get()}, &epilogue);
}

}  // namespace eadem
