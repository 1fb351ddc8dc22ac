#include "eadem/runtime/execute.h"

#include <array>
#include <optional>

#include "eadem/base/float_environment.h"
#include "eadem/kernels/move/copy.h"
#include "eadem/runtime/context.h"
#include "eadem/runtime/rows.h"
#include "eadem/runtime/tiles.h"

namespace eadem {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;  // clang 14 does not deduce aggregates

// Tiles and rows have few operands: no allocation on the way to a kernel.
constexpr std::size_t kMaxTileOperands = 4;

Signature signature_of(const Launch& launch, std::array<TensorType, kMaxTileOperands>& types) {
  for (std::size_t i = 0; i < launch.operands.size(); ++i) types[i] = launch.operands[i].type();
  return {{types.data(), launch.operands.size()}, launch.attributes};
}

}  // namespace

void execute(const Primitive& primitive, const Launch& launch, const kernels::Epilogue* epilogue) {
  const FloatEnvironment environment;
  std::array<TensorType, kMaxTileOperands> types;
  std::visit(Overloaded{[&](const View& form) {
                          if (const std::optional<TensorView> window = form.view(launch))
                            kernels::copy(*window, launch.results[0]);
                          else
                            primitive.reference(launch);
                        },
                        [&](const Tile& form) {
                          if (launch.results[0].elements() == 0) return;  // what is picked runs (targets_ran())
                          run_tile(form.pick(signature_of(launch, types)), launch);
                        },
                        [&](const Row& form) { run_rows(form.pick(signature_of(launch, types)), launch); },
                        [&](const Kernel& form) {
                          Context context(epilogue);
                          form.run(launch, context);
                        },
                        [&](const Control&) { fail<ValueError>("[{}] runs on arrays only", primitive.name); }},
             primitive.run);
}

void execute_reference(const Primitive& primitive, const Launch& launch) {
  const FloatEnvironment environment;
  primitive.reference(launch);
}

}  // namespace eadem
