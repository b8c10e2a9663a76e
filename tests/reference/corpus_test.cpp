// Runs the graphs of tests/reference/*.tw on the interpreter: outputs come in pairs, computed and wanted.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/text.h"
#include "ir/reference/interpreter.h"
#include "ir/reference/scalar.h"
#include "ir/text.h"

namespace tilewright {
namespace {

std::vector<std::string> corpus_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("tests/reference")) {
    if (entry.path().extension() == ".tw") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string read_file(const std::string& path) {
  std::ifstream stream(path);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::string element_text(const Scalar& value) {
  return is_float(value.dtype) || is_float8(value.dtype) ? cat(value.f) : cat(value.i);
}

bool same_element(const TensorRef& a, const TensorRef& b, int64_t index) {
  int64_t width = dtype_bytes(a.dtype);
  const char* x = static_cast<const char*>(a.data) + index * width;
  const char* y = static_cast<const char*>(b.data) + index * width;
  if (std::equal(x, x + width, y)) return true;
  Scalar s = load_scalar(a.dtype, x), t = load_scalar(b.dtype, y);
  return s.f != s.f && t.f != t.f;
}

void expect_same(const TensorRef& got, const TensorRef& want) {
  ASSERT_EQ(got.dtype, want.dtype);
  ASSERT_EQ(got.sizes, want.sizes);
  for (int64_t i = 0; i < got.elements(); ++i) {
    if (same_element(got, want, i)) continue;
    int64_t width = dtype_bytes(got.dtype);
    ADD_FAILURE() << "element " << i << " is "
                  << element_text(load_scalar(got.dtype, static_cast<char*>(got.data) + i * width))
                  << ", wanted "
                  << element_text(load_scalar(want.dtype, static_cast<char*>(want.data) + i * width));
  }
}

class Corpus : public testing::TestWithParam<std::string> {};

TEST_P(Corpus, Agrees) {
  Result<std::vector<Graph>> graphs = parse_graphs(read_file(GetParam()));
  ASSERT_TRUE(graphs.is_ok()) << graphs.status().message();
  ASSERT_FALSE(graphs->empty());
  for (const Graph& graph : *graphs) {
    SCOPED_TRACE(cat(GetParam(), ": @", graph.name));
    Result<std::vector<OwnedTensor>> outputs = interpret(graph, {}, {});
    if (!outputs.is_ok()) {
      ADD_FAILURE() << outputs.status().to_string();
      continue;
    }
    ASSERT_EQ(outputs->size() % 2, 0u);
    ASSERT_FALSE(outputs->empty());
    for (size_t i = 0; i < outputs->size(); i += 2) {
      SCOPED_TRACE(cat("output ", i));
      expect_same((*outputs)[i].ref, (*outputs)[i + 1].ref);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Reference, Corpus, testing::ValuesIn(corpus_files()),
                         [](const auto& info) { return std::filesystem::path(info.param).stem().string(); });

}  // namespace
}  // namespace tilewright
