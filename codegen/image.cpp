// Bytes of an image: a flat sequence of little-endian numbers and length-prefixed strings.
#include "codegen/image.h"

#include <cstring>
#include <map>
#include <unordered_map>

#include "base/text.h"
#include "ir/hash.h"
#include "ir/inference.h"
#include "ir/text.h"

namespace tilewright {

namespace {

constexpr uint64_t kImageFormat = 3;
constexpr uint64_t kMaxCount = uint64_t{1} << 24;  // more launches or kernels than this is a torn file
constexpr int kMaxNesting = 64;

class Writer {
 public:
  void number(int64_t value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void text(std::string_view value) {
    number(static_cast<int64_t>(value.size()));
    bytes_.append(value);
  }
  void dim(const Dim& value) {
    // Constants, the common case, need no parsing when read.
    if (value.is_constant()) {
      number(0);
      number(value.constant());
    } else {
      number(1);
      text(value.to_string());
    }
  }
  void dims(const std::vector<Dim>& values) {
    number(static_cast<int64_t>(values.size()));
    for (const Dim& value : values) dim(value);
  }
  void type(const TensorType& value) {
    number(static_cast<int64_t>(value.dtype));
    dims(value.shape);
  }
  void indices(const std::vector<uint32_t>& values) {
    number(static_cast<int64_t>(values.size()));
    for (uint32_t value : values) number(value);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads what Writer wrote.  The first fault sticks; everything after it reads as zero.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool failed() const { return failed_; }
  void fail() { failed_ = true; }
  int64_t number() {
    int64_t value = 0;
    if (failed_ || bytes_.size() - at_ < sizeof value) {
      failed_ = true;
      return 0;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string text() {
    uint64_t size = static_cast<uint64_t>(number());
    if (failed_ || size > bytes_.size() - at_) {
      failed_ = true;
      return {};
    }
    std::string value(bytes_.substr(at_, size));
    at_ += size;
    return value;
  }
  // A count of elements that each take at least one number.
  size_t count() {
    uint64_t value = static_cast<uint64_t>(number());
    if (value > kMaxCount || value * sizeof(int64_t) > bytes_.size() - at_) failed_ = true;
    return failed_ ? 0 : value;
  }
  template <class Enum>
  Enum enumerator(int64_t end) {
    int64_t value = number();
    if (value < 0 || value >= end) failed_ = true;
    return static_cast<Enum>(failed_ ? 0 : value);
  }
  uint32_t index(size_t end) {
    uint64_t value = static_cast<uint64_t>(number());
    if (value >= end) failed_ = true;
    return failed_ ? 0 : static_cast<uint32_t>(value);
  }
  Dim dim() {
    if (number() == 0) return Dim(number());
    Result<Dim> value = parse_dim(text());
    if (!value.is_ok()) failed_ = true;
    return value.is_ok() ? *value : Dim(0);
  }
  std::vector<Dim> dims() {
    std::vector<Dim> values(count());
    for (Dim& value : values) value = dim();
    return values;
  }
  TensorType type() {
    TensorType value;
    value.dtype = enumerator<DType>(kDTypeCount);
    value.shape = dims();
    return value;
  }
  std::vector<uint32_t> indices() {
    std::vector<uint32_t> values(count());
    for (uint32_t& value : values) value = static_cast<uint32_t>(number());
    return values;
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
  bool failed_ = false;
};

// The large constants of a graph, in node order, regions included.
void collect_constants(const Graph& graph, std::vector<ConstantRef>& constants) {
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::Constant) {
      ConstantRef constant = AttributeReader(node.op, node.attributes).get_constant("value");
      if (constant->bytes > kInlineConstantBytes) constants.push_back(std::move(constant));
    }
    for (const RegionRef& region : node.regions) collect_constants(*region, constants);
  }
}

void write_symbols(Writer& out, const std::vector<Symbol>& symbols) {
  out.number(static_cast<int64_t>(symbols.size()));
  for (const Symbol& symbol : symbols) {
    out.text(symbol.name);
    out.number(symbol.min);
    out.number(symbol.max);
    out.number(symbol.hint.has_value());
    out.number(symbol.hint.value_or(0));
  }
}

std::vector<Symbol> read_symbols(Reader& in) {
  std::vector<Symbol> symbols(in.count());
  for (Symbol& symbol : symbols) {
    symbol.name = in.text();
    symbol.min = in.number();
    symbol.max = in.number();
    bool hinted = in.number() != 0;
    int64_t hint = in.number();
    if (hinted) symbol.hint = hint;
  }
  return symbols;
}

void write_kernel(Writer& out, const KernelEntry& entry, const KernelArtifact& artifact) {
  out.text(tile::print(entry.kernel));
  out.text(entry.description);
  out.indices(entry.nodes);
  out.number(entry.flops);
  out.number(entry.bytes);
  out.number(static_cast<int64_t>(artifact.key.high));
  out.number(static_cast<int64_t>(artifact.key.low));
  out.text(artifact.entry);
  out.text(artifact.object);
  out.number(artifact.scratch_bytes);
  out.number(artifact.threads_per_block);
  out.number(artifact.shared_bytes);
}

void read_kernel(Reader& in, Image& image) {
  KernelEntry entry;
  Result<tile::Kernel> kernel = tile::parse_kernel(in.text());
  if (!kernel.is_ok()) {
    in.fail();
    return;
  }
  entry.kernel = std::move(kernel).value();
  entry.description = in.text();
  entry.nodes = in.indices();
  entry.flops = in.number();
  entry.bytes = in.number();
  KernelArtifact artifact;
  artifact.key.high = static_cast<uint64_t>(in.number());
  artifact.key.low = static_cast<uint64_t>(in.number());
  artifact.entry = in.text();
  artifact.object = in.text();
  artifact.scratch_bytes = in.number();
  const int64_t threads = in.number();
  artifact.threads_per_block = static_cast<int32_t>(threads);
  if (threads != artifact.threads_per_block || threads < 0) in.fail();
  artifact.shared_bytes = in.number();
  image.program.kernels.push_back(std::move(entry));
  image.kernels.push_back(std::move(artifact));
}

void write_buffer(Writer& out, const Buffer& buffer, const std::unordered_map<const void*, size_t>& large) {
  out.number(static_cast<int64_t>(buffer.kind));
  out.number(buffer.index);
  out.type(buffer.type);
  out.text(buffer.name);
  if (buffer.kind != BufferKind::Constant) return;
  const Constant& constant = *buffer.constant;
  auto found = large.find(constant.data);
  // A large one that the graph does not have was made by an expansion (weights of a resize, say).
  const bool shared = constant.bytes > kInlineConstantBytes && found != large.end();
  out.number(shared ? static_cast<int64_t>(found->second) : -1);
  out.type(constant.type);
  out.number(constant.splat);
  if (!shared) {
    out.text(std::string_view(static_cast<const char*>(constant.data), static_cast<size_t>(constant.bytes)));
  }
}

Buffer read_buffer(Reader& in, const std::vector<ConstantRef>& large) {
  Buffer buffer;
  buffer.kind = in.enumerator<BufferKind>(4);
  buffer.index = static_cast<int>(in.number());
  buffer.type = in.type();
  buffer.name = in.text();
  if (buffer.kind != BufferKind::Constant) return buffer;
  int64_t position = in.number();
  TensorType type = in.type();
  bool splat = in.number() != 0;
  if (position >= 0) {
    if (position >= static_cast<int64_t>(large.size()) || !(large[position]->type == type)) {
      in.fail();
      return buffer;
    }
    buffer.constant = large[position];
    return buffer;
  }
  std::string bytes = in.text();
  Result<ConstantRef> constant =
      make_constant(std::move(type), splat, bytes.data(), static_cast<int64_t>(bytes.size()));
  if (!constant.is_ok()) {
    in.fail();
    return buffer;
  }
  buffer.constant = *constant;
  return buffer;
}

void write_launches(Writer& out, const std::vector<Launch>& launches) {
  out.number(static_cast<int64_t>(launches.size()));
  for (const Launch& launch : launches) {
    out.number(static_cast<int64_t>(launch.kind));
    out.number(launch.kernel);
    out.number(static_cast<int64_t>(launch.buffers.size()));
    for (const BufferUse& use : launch.buffers) {
      out.number(use.buffer.index);
      out.dim(use.offset);
    }
    out.dims(launch.scalars);
    out.text(launch.builtin);
    out.text(launch.node ? print(*launch.node) : std::string());
    out.number(launch.reason);
    out.dim(launch.count);
    out.number(static_cast<int64_t>(launch.advances.size()));
    for (const auto& [buffer, step] : launch.advances) {
      out.number(buffer.index);
      out.dim(step);
    }
    out.indices(launch.nodes);
    write_launches(out, launch.body);
  }
}

std::vector<Launch> read_launches(Reader& in, const Program& program, int depth) {
  if (depth > kMaxNesting) in.fail();
  std::vector<Launch> launches(in.count());
  for (Launch& launch : launches) {
    launch.kind = in.enumerator<LaunchKind>(5);
    launch.kernel = static_cast<int>(in.number());
    launch.buffers.resize(in.count());
    for (BufferUse& use : launch.buffers) {
      use.buffer.index = in.index(program.buffers.size());
      use.offset = in.dim();
    }
    launch.scalars = in.dims();
    launch.builtin = in.text();
    std::string node = in.text();
    launch.reason = static_cast<int>(in.number());
    launch.count = in.dim();
    launch.advances.resize(in.count());
    for (auto& [buffer, step] : launch.advances) {
      buffer.index = in.index(program.buffers.size());
      step = in.dim();
    }
    launch.nodes = in.indices();
    launch.body = read_launches(in, program, depth + 1);
    if (in.failed()) return launches;
    bool kernel = launch.kind == LaunchKind::Kernel;
    if (kernel && (launch.kernel < 0 || launch.kernel >= static_cast<int>(program.kernels.size()))) in.fail();
    if (launch.reason >= static_cast<int>(program.fallbacks.size())) in.fail();
    if (node.empty()) continue;
    Result<Graph> parsed = parse_graph(node);
    if (!parsed.is_ok()) {
      in.fail();
      return launches;
    }
    launch.node = std::make_shared<const Graph>(std::move(parsed).value());
  }
  return launches;
}

void add_skeleton(Hasher& hasher, std::string_view kind, std::string_view options,
                  std::string_view target_identity, std::string_view limits_text, std::string_view build_id) {
  hasher.add(kind).add(kImageFormat).add(options).add(target_identity).add(limits_text).add(build_id);
}

}  // namespace

Hash128 graph_key(const Graph& graph, std::string_view options, std::string_view target_identity,
                  std::string_view limits_text, std::string_view build_id) {
  Hasher hasher;
  add_skeleton(hasher, "graph", options, target_identity, limits_text, build_id);
  hasher.add(hash_graph(graph));
  return hasher.finish();
}

Hash128 kernel_key(const tile::Kernel& kernel, std::string_view options, std::string_view target_identity,
                   std::string_view limits_text, std::string_view build_id) {
  Hasher hasher;
  add_skeleton(hasher, "kernel", options, target_identity, limits_text, build_id);
  hasher.add(tile::canonical_text(kernel));
  return hasher.finish();
}

Result<std::string> serialize_image(const Image& image, const Graph& graph) {
  std::vector<ConstantRef> constants;
  collect_constants(graph, constants);
  std::unordered_map<const void*, size_t> large;
  for (size_t i = 0; i < constants.size(); ++i) large.try_emplace(constants[i]->data, i);
  const Program& program = image.program;
  Writer out;
  out.number(kImageFormat);
  out.text(program.name);
  write_symbols(out, program.symbols);
  out.number(static_cast<int64_t>(program.buffers.size()));
  for (const Buffer& buffer : program.buffers) write_buffer(out, buffer, large);
  out.number(static_cast<int64_t>(program.kernels.size()));
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    write_kernel(out, program.kernels[i], i < image.kernels.size() ? image.kernels[i] : KernelArtifact{});
  }
  out.number(static_cast<int64_t>(program.fallbacks.size()));
  for (const Fallback& fallback : program.fallbacks) {
    out.number(fallback.node);
    out.number(op_info(fallback.op).id);
    out.number(static_cast<int64_t>(fallback.reason));
    out.text(fallback.sentence);
  }
  out.number(static_cast<int64_t>(program.sites.size()));
  for (const ErrorSite& site : program.sites) {
    out.number(op_info(site.op).id);
    out.text(site.node);
    out.text(site.message);
    out.dim(site.bound);
  }
  write_launches(out, program.launches);
  out.number(static_cast<int64_t>(program.node_names.size()));
  for (const std::string& name : program.node_names) out.text(name);
  out.text(image.blob);
  return out.take();
}

Result<Image> deserialize_image(std::string_view bytes, const Graph& graph) {
  std::vector<ConstantRef> constants;
  collect_constants(graph, constants);
  Reader in(bytes);
  Image image;
  Program& program = image.program;
  if (static_cast<uint64_t>(in.number()) != kImageFormat)
    return Status(Code::DataLoss, "image has another format");
  program.name = in.text();
  program.symbols = read_symbols(in);
  program.buffers.resize(in.count());
  for (Buffer& buffer : program.buffers) buffer = read_buffer(in, constants);
  for (size_t left = in.count(); left > 0 && !in.failed(); --left) read_kernel(in, image);
  program.fallbacks.resize(in.count());
  auto read_op = [&] {
    std::optional<Op> op = op_from_id(static_cast<int>(in.number()));
    if (!op) in.fail();
    return op.value_or(Op::Constant);
  };
  for (Fallback& fallback : program.fallbacks) {
    fallback.node = static_cast<uint32_t>(in.number());
    fallback.op = read_op();
    fallback.reason = in.enumerator<FallbackReason>(7);
    fallback.sentence = in.text();
  }
  program.sites.resize(in.count());
  for (ErrorSite& site : program.sites) {
    site.op = read_op();
    site.node = in.text();
    site.message = in.text();
    site.bound = in.dim();
  }
  program.launches = read_launches(in, program, 0);
  program.node_names.resize(in.count());
  for (std::string& name : program.node_names) name = in.text();
  image.blob = in.text();
  if (in.failed()) return Status(Code::DataLoss, "image is torn or foreign");
  return image;
}

}  // namespace tilewright
