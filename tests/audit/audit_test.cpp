#include "eadem/audit/audit.h"

#include <gtest/gtest.h>

#include "eadem/base/memory.h"
#include "eadem/base/parallel.h"
#include "eadem/kernels/quantized/task.h"
#include "eadem/kernels/target.h"
#include "eadem/kernels/tuner.h"
#include "eadem/models/load.h"
#include "eadem/ops/catalog.h"
#include "eadem/runtime/execute.h"
#include "tests/support/planted.h"

// The auditor finds nothing in a sound model, and names each fault that is planted in one.

namespace eadem {
namespace {

std::vector<std::int32_t> tokens(int count) {
  std::vector<std::int32_t> result;
  for (int i = 0; i < count; ++i) result.push_back((i * i * 7 + 3 * i + 1) % 320);
  return result;
}

audit::Subject subject(const models::Llama& model) {
  audit::Subject s;
  s.vocabulary = model.config().vocabulary;
  s.evaluate = [&model](const std::vector<std::int32_t>& t, const audit::Form& form) {
    return audit::evaluate(model, t, form);
  };
  return s;
}

std::vector<std::string> differing(const std::vector<audit::PropertyResult>& results) {
  std::vector<std::string> names;
  for (const audit::PropertyResult& each : results) {
    EXPECT_EQ(each.differing > 0, each.first.has_value()) << each.name;
    if (each.differing > 0) names.push_back(each.name);
  }
  return names;
}

class Audit : public ::testing::Test {
 protected:
  // Runs the audit with one primitive replaced by a copy of its record whose kernel is `run`.
  std::vector<audit::PropertyResult> with_fault(const Primitive& primitive, void (*run)(const Launch&, Context&)) {
    Primitive faulty = primitive;
    faulty.run = Kernel{run};
    const ReplacementScope scope(primitive, faulty);
    return audit::audit(subject(model_), tokens(40), {}, {});
  }
  const audit::PropertyResult& named(const std::vector<audit::PropertyResult>& results, const std::string& name) {
    for (const auto& each : results)
      if (each.name == name) return each;
    throw std::runtime_error("no property " + name);
  }
  const models::Llama model_ = models::builtin_tiny(DType::bf16);
};

TEST_F(Audit, FindsNothingInASoundModel) {
  const auto results = audit::audit(subject(model_), tokens(150), {}, {});
  EXPECT_EQ(differing(results), std::vector<std::string>{});
  EXPECT_EQ(results.size(), 10u);
  for (const audit::PropertyResult& each : results) {
    // This subject lives in one process, and candidates for instructions that this CPU lacks are named as not run.
    const bool elsewhere = each.name == "fresh process";
    EXPECT_EQ(each.compared > 0, !elsewhere) << each.name;
    if (each.name != "tuner candidates") {
      EXPECT_EQ(each.skipped.empty(), !elsewhere) << each.name;
    }
  }
}

TEST_F(Audit, LookUpThatGuessedNothingIsSkippedAndNotCompared) {
  audit::Subject s = subject(model_);
  std::int64_t drafted = 0;
  s.generate = [&](const std::vector<std::int32_t>&, bool speculative) {
    return audit::Subject::Generation{Array::from(std::vector<float>(320), {1, 320}), speculative ? drafted : 0};
  };
  const std::vector<audit::PropertyResult> idle = audit::audit(s, tokens(12), {}, {});
  EXPECT_NE(named(idle, "speculation").skipped.find("look-up"), std::string::npos);
  drafted = 1;
  const std::vector<audit::PropertyResult> busy = audit::audit(s, tokens(12), {}, {});
  EXPECT_EQ(named(busy, "speculation").skipped, "");
  EXPECT_EQ(named(busy, "speculation").compared, named(idle, "speculation").compared + 320);
}

TEST_F(Audit, NamesAnOrderThatDependsOnThreads) {
  const auto results = with_fault(prim::multiply, [](const Launch& launch, Context&) {
    execute(prim::multiply, launch);
    if (threads() == 3) launch.results[0].as<std::uint16_t>()[0] ^= 1;
  });
  EXPECT_EQ(differing(results), std::vector<std::string>{"threads"});
  const audit::PropertyResult& result = named(results, "threads");
  EXPECT_EQ(result.first_form, "3 threads");
  // The product of gate and up in layer 0 moves the residual, first seen in the keys of layer 1.
  EXPECT_EQ(result.first->layer, 1);
}

TEST_F(Audit, NamesAnAttentionThatDependsOnTheChunk) {
  const auto results = with_fault(prim::paged_attention, [](const Launch& launch, Context&) {
    execute(prim::paged_attention, launch);
    // As a softmax would whose maximum is taken over the queries of the chunk.
    if (launch.operands[0].shape[2] == 7) launch.results[0].as<std::uint16_t>()[0] ^= 1;
  });
  EXPECT_EQ(differing(results), std::vector<std::string>{"prefill in chunks"});
  EXPECT_EQ(named(results, "prefill in chunks").first_form, "chunks of 7");
}

TEST_F(Audit, NamesMemoryThatWasNeverWritten) {
  const auto results = with_fault(prim::silu, [](const Launch& launch, Context&) {
    const std::uint16_t before = launch.results[0].as<std::uint16_t>()[5];
    execute(prim::silu, launch);
    launch.results[0].as<std::uint16_t>()[5] = before & 0x3fff;
  });
  const auto names = differing(results);
  EXPECT_NE(std::find(names.begin(), names.end(), "repeat"), names.end());
}

TEST_F(Audit, NamesScratchThatWasNeverWritten) {
  const auto results = with_fault(prim::silu, [](const Launch& launch, Context&) {
    static thread_local Scratch memory;
    const std::byte unwritten = memory.take(64)[1];
    execute(prim::silu, launch);
    launch.results[0].as<std::uint16_t>()[5] ^= std::to_integer<std::uint16_t>(unwritten & std::byte{0x3f});
  });
  const auto names = differing(results);
  EXPECT_NE(std::find(names.begin(), names.end(), "repeat"), names.end());
}

TEST_F(Audit, NamesATargetWithAnotherExp) {
  const auto results = with_fault(prim::silu, [](const Launch& launch, Context&) {
    execute(prim::silu, launch);
    if (kernels::active_target() == kernels::Target::scalar) launch.results[0].as<std::uint16_t>()[3] ^= 1;
  });
  EXPECT_EQ(differing(results), std::vector<std::string>{"targets"});
  EXPECT_EQ(named(results, "targets").first_form, "scalar");
}

// A model of quantized weights has candidates, too: all of this CPU's are compared, and a wrong one is named.
TEST(AuditOfQuantizedWeights, ComparesTheirCandidatesAndNamesAWrongOne) {
  struct Planted : eadem::testing::PlantedCandidate {
    static void run(const void* raw) {
      const auto& request = *static_cast<const kernels::quantized::Request*>(raw);
      const bool strips = request.x.shape[0] > kernels::quantized::kDecodeRows;
      run_plan(request, kernels::quantized::plan_of(kernels::active_target(), strips, false));
      request.y.as<std::uint16_t>()[0] ^= 1;
    }
  };
  kernels::quantized_tuner().add({"planted-wrong-bit", &Planted::admits, &Planted::run});
  const models::Llama poet =
      models::load_gguf(io::GgufFile::parse(io::MappedFile::copy_of("poet", models::builtin_poet_file())), DType::bf16);
  audit::Subject s = subject(poet);
  const auto candidates_of = [&] {
    const std::vector<audit::PropertyResult> results =
        audit::audit(s, {70, 111, 114, 32, 116, 104, 101, 32, 10}, {}, {});
    EXPECT_EQ(results.back().name, "tuner candidates");
    return results.back();
  };
  const audit::PropertyResult sound = candidates_of();
  EXPECT_GT(sound.compared, 0);
  EXPECT_EQ(sound.differing, 0);
  EXPECT_EQ(sound.skipped.find("quantized/fma"), std::string::npos) << sound.skipped;
  Planted::on() = true;
  const audit::PropertyResult wrong = candidates_of();
  Planted::on() = false;
  EXPECT_GT(wrong.differing, 0);
  EXPECT_EQ(wrong.first_form, "quantized/planted-wrong-bit");
}

TEST(Accuracy, OfLogitsThatAreOffByAStatedAmount) {
  const Array reference = Array::from(std::vector<double>{1, 2, 3, 4, 4.1, 1}, {2, 3});
  const Array ideal = Array::from(std::vector<float>{1, 2, 3.5F, 4, 4.1F, 1}, {2, 3});
  const Array logits = Array::from(std::vector<float>{1, 2, 4, 4.25F, 4.1F, 1}, {2, 3});
  const audit::Accuracy a = audit::accuracy("f32", logits, ideal, reference);
  EXPECT_EQ(a.max_abs, 1);
  EXPECT_EQ(a.positions, 2);
  EXPECT_EQ(a.top1_agree, 1);
  EXPECT_EQ(a.explained, 1);  // 4.1 - 4 is within twice the error of that position
  EXPECT_NEAR(a.ratio, std::sqrt(1 + 0.0625) / 0.5, 1e-6);
}

}  // namespace
}  // namespace eadem
