// Checks gradients: the joint graph against central differences and written values, the pair against the
// joint graph.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/text.h"
#include "ir/autodiff.h"
#include "ir/parser.h"
#include "ir/reference/scalar.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "tests/text/actions.h"
#include "tests/text/engines.h"
#include "tests/text/values.h"

namespace tilewright::text_tests {

namespace {

constexpr int64_t kMaxElements = 400;  // of one input, all of which are moved one by one
constexpr double kStep = 1e-5;
constexpr double kTolerance = 2e-6;        // of the differences, relative to the largest gradient
constexpr double kNarrowTolerance = 2e-4;  // of f32 against f64

using Tensors = std::vector<OwnedTensor>;

Result<Tensors> run(const Graph& graph, const std::vector<TensorRef>& inputs, const Bindings& bindings) {
  InterpreterOptions options;
  options.custom_call = run_test_custom_call;
  Bindings own;  // a backward graph may not know every symbol
  for (const Symbol& symbol : graph.symbols) {
    auto found = bindings.find(symbol.name);
    if (found != bindings.end()) own.insert(*found);
  }
  return interpret(graph, inputs, own, options);
}

double element(const TensorRef& tensor, int64_t index) {
  const char* at = static_cast<const char*>(tensor.data) + index * dtype_bytes(tensor.dtype);
  return load_scalar(tensor.dtype, at).f;
}

double& f64_element(const TensorRef& tensor, int64_t index) {
  return static_cast<double*>(tensor.data)[index];
}

bool same_bytes(const TensorRef& a, const TensorRef& b) {
  if (a.dtype != b.dtype || a.sizes != b.sizes) return false;
  if (!is_float(a.dtype)) return std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes())) == 0;
  for (int64_t i = 0; i < a.elements(); ++i) {
    double x = element(a, i), y = element(b, i);
    if (!(x == y || (std::isnan(x) && std::isnan(y)))) return false;
  }
  return true;
}

double largest(const TensorRef& tensor) {
  double most = 0;
  for (int64_t i = 0; i < tensor.elements(); ++i) most = std::max(most, std::fabs(element(tensor, i)));
  return most;
}

// Verified, and the same after printing and parsing.
Status check_graph(const Graph& graph, const char* what) {
  Status verified = verify(graph);
  if (!verified.is_ok()) return verified.because(cat("verifying the ", what, ":\n", print(graph)));
  std::string text = print(graph);
  Result<Graph> again = parse_graph(text);
  if (!again.is_ok()) return again.status().because(cat("parsing the printed ", what, ":\n", text));
  if (print(*again) != text)
    return Status::internal(cat("the ", what, " changes over print and parse:\n", text));
  return Status::ok();
}

std::string replaced(std::string text, std::string_view word, std::string_view with) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + with.size())) {
    text.replace(at, word.size(), with);
  }
  return text;
}

class GradientCheck {
 public:
  explicit GradientCheck(const Action& action) : action_(action), directive_(action.directive) {}

  Status run_all() {
    TW_ASSIGN_OR_RETURN(Graph graph, parsed(action_.test.text));
    TW_RETURN_IF_ERROR(prepare(graph));
    TW_RETURN_IF_ERROR(check_joint(graph));
    for (bool recompute : {false, true}) TW_RETURN_IF_ERROR(check_pair(graph, recompute));
    bool written = !action_.test.remarks_of("expect").empty();
    if (written) {
      TW_RETURN_IF_ERROR(check_written());
    } else {
      TW_RETURN_IF_ERROR(check_differences(graph));
    }
    TW_RETURN_IF_ERROR(check_engines(joint_, inputs_, found_));
    std::string narrow = directive_.option("narrow", "f32,bf16,f16");
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      bool agrees = !written && std::string_view(dtype) == "f32";
      if (cat(",", narrow, ",").find(cat(",", dtype, ",")) == std::string::npos) continue;
      TW_RETURN_IF_ERROR(check_narrow(dtype, agrees));
    }
    return Status::ok();
  }

 private:
  static Result<Graph> parsed(const std::string& text) {
    ParsedText parsed = parse_text(text);
    if (!parsed.diagnostics.empty()) return Status::invalid(to_string(parsed.diagnostics));
    if (parsed.graphs.size() != 1) return Status::invalid("gradient takes exactly one graph");
    return std::move(parsed.graphs[0]);
  }

  double option(std::string_view name, double fallback) const {
    std::string text = directive_.option(name);
    return text.empty() ? fallback : std::strtod(text.c_str(), nullptr);
  }

  // Options of the directive; order=2 differentiates the gradient itself.
  Status prepare(Graph& graph) {
    std::string wrt = directive_.option("wrt"), outputs = directive_.option("outputs");
    options_ = {};
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      std::string name = graph.value_name(graph.inputs[i].value).substr(1);
      if (cat(",", wrt, ",").find(cat(",", name, ",")) != std::string::npos)
        options_.inputs.push_back(static_cast<int>(i));
    }
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      if (cat(",", outputs, ",").find(cat(",", i, ",")) != std::string::npos)
        options_.outputs.push_back(static_cast<int>(i));
    }
    if (directive_.option("order") == "2") {
      TW_ASSIGN_OR_RETURN(graph, joint_gradient(graph, options_, false));
      options_ = {};
    }
    return Status::ok();
  }

  Result<Inputs> inputs_for(const Graph& joint) const {
    TW_ASSIGN_OR_RETURN(Draw draw, parse_draw(directive_.option("range"), {}));
    uint64_t seed = std::strtoull(directive_.option("seed", "1").c_str(), nullptr, 10);
    return make_inputs(joint, action_.test, seed, draw);
  }

  Status check_joint(const Graph& graph) {
    TW_ASSIGN_OR_RETURN(joint_, joint_gradient(graph, options_, false));
    TW_RETURN_IF_ERROR(check_graph(joint_, "joint graph"));
    TW_ASSIGN_OR_RETURN(inputs_, inputs_for(joint_));
    Result<Tensors> found = run(joint_, inputs_.refs(), inputs_.bindings);
    if (!found.is_ok()) return found.status().because(cat("running the joint graph:\n", print(joint_)));
    found_ = std::move(*found);
    first_gradient_ = graph.outputs.size();
    return Status::ok();
  }

  Status check_pair(const Graph& graph, bool recompute) const {
    GradientOptions options = options_;
    options.recompute = recompute;
    TW_ASSIGN_OR_RETURN(GradientPair pair, gradient_pair(graph, options));
    TW_RETURN_IF_ERROR(check_graph(pair.forward, "forward"));
    TW_RETURN_IF_ERROR(check_graph(pair.backward, "backward"));
    size_t outputs = graph.outputs.size();
    std::string saved = directive_.option(recompute ? "saved_recompute" : "saved");
    if (!saved.empty() && saved != cat(pair.forward.outputs.size() - outputs)) {
      return Status::internal(cat("found ", pair.forward.outputs.size() - outputs, " saved values, expected ",
                                  saved, ":\n", print(pair.forward), print(pair.backward)));
    }
    std::vector<TensorRef> all = inputs_.refs(),
                           refs(all.begin(), all.begin() + static_cast<int64_t>(graph.inputs.size()));
    TW_ASSIGN_OR_RETURN(Tensors forward, run(pair.forward, refs, inputs_.bindings));
    std::vector<TensorRef> backward_inputs;
    for (size_t i = outputs; i < forward.size(); ++i) backward_inputs.push_back(forward[i].ref);
    backward_inputs.insert(backward_inputs.end(), all.begin() + static_cast<int64_t>(graph.inputs.size()),
                           all.end());
    Result<Tensors> gradients = run(pair.backward, backward_inputs, {});
    if (!gradients.is_ok())
      return gradients.status().because(cat("running the backward:\n", print(pair.backward)));
    for (size_t i = 0; i < gradients->size(); ++i) {
      if (same_bytes((*gradients)[i].ref, found_[first_gradient_ + i].ref)) continue;
      return Status::internal(cat("gradient ", i, " of the pair differs from the joint graph\n",
                                  print(pair.forward), print(pair.backward), print(joint_)));
    }
    return Status::ok();
  }

  // The sum of all outputs times their cotangents.
  Result<double> objective(const Graph& graph, const std::vector<TensorRef>& inputs) const {
    std::vector<TensorRef> own(inputs.begin(), inputs.begin() + static_cast<int64_t>(graph.inputs.size()));
    TW_ASSIGN_OR_RETURN(Tensors outputs, run(graph, own, inputs_.bindings));
    double sum = 0;
    size_t next = graph.inputs.size();
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!is_float(outputs[i].ref.dtype)) continue;
      int number = static_cast<int>(i);
      if (!options_.outputs.empty() &&
          std::find(options_.outputs.begin(), options_.outputs.end(), number) == options_.outputs.end()) {
        continue;
      }
      const TensorRef& cotangent = inputs[next++];
      for (int64_t k = 0; k < cotangent.elements(); ++k)
        sum += element(outputs[i].ref, k) * element(cotangent, k);
    }
    return sum;
  }

  Status check_differences(const Graph& graph) const {
    std::vector<TensorRef> refs = inputs_.refs();
    size_t gradient = first_gradient_;
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      bool chosen = options_.inputs.empty() || std::find(options_.inputs.begin(), options_.inputs.end(),
                                                         static_cast<int>(i)) != options_.inputs.end();
      if (!chosen || !is_float(refs[i].dtype)) continue;
      TW_RETURN_IF_ERROR(check_input(graph, refs, i, found_[gradient++].ref));
    }
    return Status::ok();
  }

  Status check_input(const Graph& graph, const std::vector<TensorRef>& refs, size_t input,
                     const TensorRef& gradient) const {
    std::string name = graph.value_name(graph.inputs[input].value);
    if (refs[input].dtype != DType::F64) return Status::invalid(cat(name, " must be f64 for differences"));
    if (gradient.elements() > kMaxElements)
      return Status::invalid(cat(name, " is too large for differences"));
    double scale = 1 + largest(gradient);
    double allowed = scale * option("tolerance", kTolerance);
    for (int64_t k = 0; k < gradient.elements(); ++k) {
      double& x = f64_element(refs[input], k);
      double before = x, step = option("step", kStep) * (1 + std::fabs(x));
      x = before + step;
      TW_ASSIGN_OR_RETURN(double above, objective(graph, refs));
      x = before - step;
      TW_ASSIGN_OR_RETURN(double below, objective(graph, refs));
      x = before;
      double slope = (above - below) / (2 * step), found = f64_element(gradient, k);
      if (std::fabs(slope - found) <= allowed) continue;
      return Status::internal(cat("gradient of ", name, " at flat index ", k, ": found ", found,
                                  ", differences give ", slope, " (x = ", before, ")\n", print(joint_)));
    }
    return Status::ok();
  }

  Status check_written() const {
    for (const Remark& remark : action_.test.remarks_of("expect")) {
      size_t equals = std::min(remark.text.find('='), remark.text.size());
      std::string name(trim(std::string_view(remark.text).substr(0, equals)));
      auto output = std::find_if(joint_.outputs.begin(), joint_.outputs.end(),
                                 [&](const Output& candidate) { return candidate.name == name; });
      if (output == joint_.outputs.end())
        return Status::invalid(cat("line ", remark.line, ": `", name, "` is no output"));
      const TensorRef& found = found_[static_cast<size_t>(output - joint_.outputs.begin())].ref;
      TW_ASSIGN_OR_RETURN(OwnedTensor want,
                          tensor_of_literal(trim(std::string_view(remark.text).substr(equals + 1)),
                                            found.dtype, found.sizes));
      std::string text = difference(found, want.ref, 8);
      if (!text.empty())
        return Status::internal(cat("line ", remark.line, ": ", name, text, "\n", print(joint_)));
    }
    return Status::ok();
  }

  // Every engine that can runs the joint graph to the same gradients.
  static Status check_engines(const Graph& joint, const Inputs& inputs, const Tensors& expected) {
    const std::vector<TensorRef> refs = inputs.refs();
    Comparison comparison(joint, refs, inputs.bindings, run_test_custom_call);
    for (const Engine& engine : engines()) {
      if (engine.name == "reference" || engine.name == "reparsed") continue;
      Result<Tensors> found = engine.run(joint, refs, inputs.bindings);
      if (!found.is_ok() && found.status().code() == Code::Unimplemented) continue;
      if (!found.is_ok())
        return found.status().because(cat("running the joint graph on ", engine.name, "\n", print(joint)));
      for (size_t i = 0; i < expected.size(); ++i) {
        std::string text = comparison.difference(i, (*found)[i].ref, expected[i].ref);
        if (!text.empty()) {
          return Status::internal(
              cat(engine.name, " against reference: output ", i, text, "\n", print(joint)));
        }
      }
    }
    return Status::ok();
  }

  // The same graph in another float type builds, verifies and runs; f32 also agrees.
  Status check_narrow(std::string_view dtype, bool compare) {
    TW_ASSIGN_OR_RETURN(Graph graph, parsed(replaced(action_.test.text, "f64", dtype)));
    GradientOptions wide_options = options_;
    Status status = prepare(graph);
    if (!status.is_ok()) return status.because(cat("in ", dtype));
    Result<Graph> joint = joint_gradient(graph, options_, false);
    options_ = wide_options;
    if (!joint.is_ok()) return joint.status().because(cat("in ", dtype));
    TW_RETURN_IF_ERROR(check_graph(*joint, "joint graph in another type"));
    TW_ASSIGN_OR_RETURN(Inputs inputs, inputs_for(*joint));
    TW_ASSIGN_OR_RETURN(Tensors found, run(*joint, inputs.refs(), inputs.bindings));
    if (dtype == "f32") TW_RETURN_IF_ERROR(check_engines(*joint, inputs, found));
    for (size_t i = first_gradient_; compare && i < found.size(); ++i) {
      double allowed = kNarrowTolerance * (1 + largest(found_[i].ref));
      for (int64_t k = 0; k < found[i].ref.elements(); ++k) {
        double a = element(found[i].ref, k), b = element(found_[i].ref, k);
        if (std::fabs(a - b) <= allowed) continue;
        return Status::internal(cat("gradient ", i - first_gradient_, " at flat index ", k, ": ", dtype,
                                    " gives ", a, ", f64 gives ", b));
      }
    }
    return Status::ok();
  }

  const Action& action_;
  const Directive& directive_;
  GradientOptions options_;
  Graph joint_;
  Inputs inputs_;
  Tensors found_;
  size_t first_gradient_ = 0;
};

void collect_ops(const Graph& graph, std::set<Op>& ops) {
  for (const Node& node : graph.nodes()) {
    ops.insert(node.op);
    for (const RegionRef& region : node.regions) collect_ops(*region, ops);
  }
}

}  // namespace

Outcome run_gradient(const Action& action) {
  Status status = GradientCheck(action).run_all();
  std::vector<Remark> expected = action.test.remarks_of("expect-error");
  if (expected.empty()) return status.is_ok() ? Outcome{} : Outcome::fail(status.to_string());
  if (status.to_string().find(expected[0].text) != std::string::npos && !status.is_ok()) return {};
  return Outcome::fail(cat("found ", status.to_string(), ", expected the error: ", expected[0].text));
}

int check_gradient_coverage(const std::string& folder) {
  std::set<Op> covered;
  for (const std::string& path : find_files(folder, true)) {
    Result<TestFile> file = TestFile::read(path);
    if (!file.is_ok()) continue;
    for (const TestCase& test : file->cases()) {
      bool checked = std::any_of(test.runs.begin(), test.runs.end(),
                                 [](const Directive& directive) { return directive.name == "gradient"; });
      if (!checked) continue;
      for (const Graph& graph : parse_text(test.text).graphs) collect_ops(graph, covered);
    }
  }
  int missing = 0;
  for (const OpInfo& info : all_ops()) {
    if (info.gradient == GradientKind::Zero || covered.count(info.op)) continue;
    std::printf("FAIL %s has a gradient, but no case in %s\n", info.name, folder.c_str());
    ++missing;
  }
  std::printf("%d ops with a gradient have no case\n", missing);
  return missing == 0 ? 0 : 1;
}

}  // namespace tilewright::text_tests
