// A name on a value, by which the policies of remat choose what to keep.

#include "eadem/ops/checkpoint_name.h"

#include "eadem/ops/catalog.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"

namespace eadem {
namespace ops {
namespace {

Types infer_checkpoint_name(const Signature& s) {
  require_operands("checkpoint_name", s, 1);
  require_checkpoint_name("checkpoint_name", s.as<CheckpointNameAttribute>().name);
  return {s.operands[0]};
}

std::optional<TensorView> whole(const Launch& launch) {
  return launch.operands[0];
}

void batch_checkpoint_name(Batch& b) {
  b.set(checkpoint_name(b.in(), b.as<CheckpointNameAttribute>().name));
}

}  // namespace
}  // namespace ops

constinit const Primitive prim::checkpoint_name{
    .name = "checkpoint_name",
    .summary = "x itself, under a name that the policies of remat know.",
    .attributes = &kAttributesOf<CheckpointNameAttribute>,
    .infer = ops::infer_checkpoint_name,
    .reference = ops::reference_of_view<ops::whole>,
    .run = View{ops::whole},
    .vjp = [](Vjp& g) { g.add_canonical(0, g.ct()); },
    .jvp = ops::moved_jvp,
    .batch = ops::batch_checkpoint_name,
    .samples =
        [](SampleSink& sink) {
          sink.add({{DType::f32, {3, 4}, Fill::edges}}, CheckpointNameAttribute{"hidden"});
          sink.add({{DType::i16, {}, Fill::wide}}, CheckpointNameAttribute{"n"});
        }};

void require_checkpoint_name(std::string_view who, std::string_view name) {
  if (name.empty() || name.find_first_of(" \n\t\r,=@%[]{}") != std::string_view::npos)
    fail<ValueError>("[{}] a name must not be empty or hold spaces, commas, '=', '@', '%' or brackets, got '{}'", who,
                     name);
}

Array checkpoint_name(const Array& x, const std::string& name) {
  return apply(prim::checkpoint_name, {x}, CheckpointNameAttribute{name});
}

}  // namespace eadem
