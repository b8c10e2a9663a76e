// Runs every composite by its reference kernel and by its expansion, and compares.
#include <gtest/gtest.h>

#include <set>

#include "base/text.h"
#include "ir/expansion.h"
#include "ir/reference/compare.h"
#include "ir/verifier.h"
#include "tests/composites/call.h"

namespace tilewright::composites_test {
namespace {

constexpr const char* kFolder = "tests/composites/";

void run(const Case& c, const Variant& variant) {
  SCOPED_TRACE(cat("line ", c.line, ": ", c.text, "\n  T=", dtype_name(variant.t), " N=", variant.n));
  auto graph = build(c, variant);
  ASSERT_TRUE(graph.is_ok()) << graph.status().to_string();
  auto expanded = expand_composites(*graph, [](Op) { return true; });
  ASSERT_TRUE(expanded.is_ok()) << expanded.status().to_string();
  Status verified = verify(*expanded);
  ASSERT_TRUE(verified.is_ok()) << verified.to_string();
  for (const Node& node : expanded->nodes()) ASSERT_FALSE(node.info().composite) << op_name(node.op);
  Bindings bindings = bindings_of(c, variant);
  std::vector<OwnedTensor> owned = draw_inputs(c, variant);
  std::vector<TensorRef> inputs;
  for (const OwnedTensor& tensor : owned) inputs.push_back(tensor.ref);
  auto want = interpret(*graph, inputs, bindings), got = interpret(*expanded, inputs, bindings);
  ASSERT_TRUE(want.is_ok()) << want.status().to_string();
  ASSERT_TRUE(got.is_ok()) << got.status().to_string();
  ASSERT_EQ(want->size(), got->size());
  Comparison comparison(*graph, inputs, bindings);
  for (size_t i = 0; i < want->size(); ++i) {
    const TensorRef &a = (*got)[i].ref, &b = (*want)[i].ref;
    EXPECT_EQ(comparison.difference(i, a, b), "") << "result " << i;
  }
}

TEST(Composites, ExpansionsAgreeWithReferenceKernels) {
  for (const Case& c : read_cases(cat(kFolder, "cases.txt"))) {
    bool symbolic = c.text.find('N') != std::string::npos;
    int64_t turn = 0;
    for (DType t : dtypes_of(c)) {
      for (int64_t n : symbolic ? std::vector<int64_t>{1, 3, 6} : std::vector<int64_t>{3}) {
        run(c, {t, turn++ % 2 ? DType::I32 : DType::I64, n});
      }
    }
  }
}

TEST(Composites, EveryRowHasACase) {
  std::set<Op> covered;
  for (const Case& c : read_cases(cat(kFolder, "cases.txt"))) covered.insert(c.op);
  for (const OpInfo& info : all_ops()) {
    EXPECT_TRUE(!info.composite || covered.contains(info.op)) << info.name << " has no line in cases.txt";
  }
}

TEST(Composites, BadArgumentsAreRejectedWithTheirReason) {
  for (const Case& c : read_cases(cat(kFolder, "rejected.txt"))) {
    SCOPED_TRACE(cat("line ", c.line, ": ", c.text));
    auto graph = build(c, {});
    ASSERT_FALSE(graph.is_ok());
    std::string message = graph.status().to_string();
    EXPECT_NE(message.find(c.last), std::string::npos) << message;
    EXPECT_NE(message.find(op_name(c.op)), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace tilewright::composites_test
