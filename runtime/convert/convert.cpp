#include "convert/convert.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "base/file.h"
#include "base/quote.h"
#include "convert/huggingface.h"
#include "convert/medusa.h"
#include "convert/rounding/rounding.h"
#include "convert/tensor_writer.h"
#include "format/byte_reader.h"
#include "format/gguf.h"
#include "format/importance.h"
#include "model/tied_tables.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr char kEmbedding[] = "token_embd.weight", kOutput[] = "output.weight";
constexpr uint32_t kQuantizationVersion = 2;  // ggml's GGML_QNT_VERSION: of which time the blocks are

// Facts of the whole model that decide each tensor's type.
struct Whole {
  uint64_t layers = 0;
  bool tied = true;

  explicit Whole(const std::vector<ConvertTensor>& tensors) {
    for (const ConvertTensor& tensor : tensors) {
      if (const auto layer = layer_of(tensor.name)) layers = std::max(layers, *layer + 1);
      if (tensor.name == kOutput) tied = false;
    }
  }
};

// True for matrices that llama.cpp wants as floats, whatever the file is: tensor_allows_quantization of its
// llama-quant.cpp.
bool stays_float(std::string_view name) {
  static constexpr std::string_view kParts[] = {
      "_norm.weight", "ffn_gate_inp", "attn_rel_b.", "shortconv.conv.", "ssm_conv1d.", "position_embd",
      // Gemma 3n
      "altup", "laurel", "per_layer_model_proj",
      // RWKV
      "time_mix_first.", "time_mix_w0.", "time_mix_w1.", "time_mix_w2.", "time_mix_v0.", "time_mix_v1.", "time_mix_v2.",
      "time_mix_a0.", "time_mix_a1.", "time_mix_a2.", "time_mix_g1.", "time_mix_g2.", "time_mix_decay_w1.",
      "time_mix_decay_w2.", "time_mix_lerp_fused."};
  return name.starts_with("token_types.") ||
         std::ranges::any_of(kParts, [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

DType type_of(const ConvertTensor& tensor, const ConvertOptions& options, const Whole& whole) {
  const std::vector<uint64_t>& shape = tensor.shape;
  if (shape.size() < 2 || stays_float(tensor.name) || !tensor.name.ends_with(".weight")) return DType::f32;
  if (tensor.name == "mm.input_projection.weight") return DType::f16;  // stored transposed, which blocks cannot be
  return fitting_type(matrix_type(options.type, options.vocab_type, tensor.name, whole.layers, whole.tied),
                      shape.back());
}

// A value of version 1, with its 32-bit lengths, as version 3 has it. The parser has vouched for the bytes.
std::string widened(uint32_t type, ByteReader& reader) {
  const auto raw = [&](uint64_t bytes) {
    const auto taken = reader.take(bytes, "a value");
    return std::string(reinterpret_cast<const char*>(taken.data()), taken.size());
  };
  if (type == kGgufString) {
    const uint64_t length = reader.number<uint32_t>("a value");
    return le(length) + raw(length);
  }
  if (type == kGgufArray) {
    const auto element = reader.number<uint32_t>("a value");
    const uint64_t count = reader.number<uint32_t>("a value");
    std::string value = le(element) + le(count);
    for (uint64_t i = 0; i < count; ++i) value += widened(element, reader);
    return value;
  }
  static constexpr uint64_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};  // by GgufValueType
  return raw(bytes[type]);
}

// A GGUF file's keys as they are, but those that say what its tensors' types are.
void copy_keys(GgufWriter& writer, const ModelFile& model) {
  const std::string place = model.path.string();
  const GgufContents contents = parse_gguf(model.files.at(0).bytes(), place);
  for (const GgufKey& key : contents.keys) {
    if (key.name == "general.file_type" || key.name == "general.quantization_version" ||
        key.name == "general.alignment" || key.name.starts_with("split."))
      continue;
    ByteReader reader(key.value, place);
    if (contents.version == 1)
      writer.key(key.name, key.type, widened(key.type, reader));
    else
      writer.key(key.name, key.type, {reinterpret_cast<const char*>(key.value.data()), key.value.size()});
  }
}

// A GGUF file's tensors as they are. If its two vocabulary tables are one (model/tied_tables.h), that one, under the
// name that a shared table has: two that were rounded to one type would no longer be recognised.
std::vector<ConvertTensor> tensors_of(const ModelFile& model) {
  const TensorView *const embedding = model.find(kEmbedding), *const output = model.find(kOutput);
  const bool two = embedding && output && embedding->shape.size() == 2 && embedding->shape == output->shape;
  const VocabularyTables tables = two ? choose_tables({embedding, output}, true, [](uint64_t) {}) : VocabularyTables();
  std::vector<ConvertTensor> tensors;
  for (const TensorView& tensor : model.tensors) {
    if (tables.left_out && &tensor == output) continue;
    const bool shared = tables.left_out && &tensor == embedding;
    tensors.push_back({{shared ? tables.embedding : &tensor}, tensor.name});
  }
  return tensors;
}

// The importance matrix of a file, which must be this model's; without a path an empty one. If the new file has one
// vocabulary table (tensors_of), the factors of output.weight are for that one.
Importance importance_for(const fs::path& path, const std::vector<ConvertTensor>& tensors) {
  if (path.empty()) return {};
  Importance importance = read_importance(path);
  std::unordered_map<std::string_view, const ConvertTensor*> by_name;
  for (const ConvertTensor& tensor : tensors) by_name.emplace(tensor.name, &tensor);
  const bool shared = !by_name.contains(kOutput);
  if (const auto embedding = by_name.find(kEmbedding); shared && embedding != by_name.end())
    by_name.emplace(kOutput, embedding->second);
  for (const auto& [name, own] : importance.tensors) {
    const std::string place = path.string() + ", tensor " + printable(name);
    const char* const hint = "an importance matrix fits the model that it was measured with, and no other";
    const auto at = by_name.find(name);
    if (at == by_name.end()) throw Error(Code::invalid_argument, "the model has no such tensor", place, hint);
    const ConvertTensor& tensor = *at->second;
    const uint64_t matrices = tensor.shape.size() > 2 ? tensor.shape[0] : 1, wanted = matrices * tensor.columns();
    if (own.factors.size() != wanted && own.factors.size() != tensor.columns())
      throw Error(Code::invalid_argument,
                  "it has numbers for " + std::to_string(own.factors.size()) + " columns, the model's tensor has " +
                      std::to_string(wanted),
                  place, hint);
  }
  if (!shared) return importance;
  if (auto logits = importance.tensors.extract(kOutput)) {
    logits.key() = kEmbedding;
    importance.tensors.insert(std::move(logits));
  }
  return importance;
}

void check_out(const fs::path& out, bool replace) {
  std::error_code ignored;
  if (fs::is_directory(out, ignored)) throw Error(Code::invalid_argument, "this is a folder", out.string());
  if (fs::exists(out, ignored) && !fs::is_regular_file(out, ignored))
    throw Error(Code::invalid_argument, "this is no regular file", out.string());
  if (!replace && fs::exists(fs::symlink_status(out, ignored)))
    throw Error(Code::invalid_argument, "the file is there already", out.string(),
                "choose another name, or ask for it to be replaced");
}

}  // namespace

std::vector<ConvertedTensor> convert(const fs::path& in, const fs::path& out, const ConvertOptions& options,
                                     const std::function<void(float)>& progress) {
  check_out(out, options.replace);
  const bool heads = is_safetensors(in);
  const ModelFile model = heads ? open_medusa(in) : open_model(in);
  const bool gguf = model.kind == ModelFile::Kind::gguf;
  std::vector<ConvertTensor> tensors;
  ConvertSource folder;
  GgufWriter writer;
  if (gguf) {
    tensors = tensors_of(model);
    copy_keys(writer, model);
  } else {
    folder = heads ? gguf_of_medusa(model) : gguf_of_folder(model);
    tensors = folder.tensors;
    add_keys(writer, folder.keys);
  }
  writer.key("general.file_type", info(options.type).number);
  if (options.type != FileType::f16 || options.vocab_type.value_or(options.type) != FileType::f16)
    writer.key("general.quantization_version", kQuantizationVersion);
  const Importance importance = importance_for(options.importance, tensors);
  const Whole whole(tensors);
  std::vector<ConvertedTensor> result;
  uint64_t total = 0;
  for (const ConvertTensor& tensor : tensors) {
    const DType type = type_of(tensor, options, whole);
    const uint64_t bytes = bytes_for(type, tensor.shape);
    const bool copied = std::ranges::all_of(tensor.sources, [&](auto* source) { return is_copied(*source, type); });
    const bool weighted = is_rounded_by_search(type) && !copied && importance.find(tensor.name);
    result.push_back({tensor.name, tensor.shape, type_name(*tensor.sources[0]), type, bytes, weighted, {}});
    writer.tensor(tensor.name, tensor.shape, ggml_type(type), bytes);
    total += bytes + writer.padding(bytes);
  }
  AtomicFile file(out);
  const std::string header = writer.header();
  file.write(std::as_bytes(std::span(header)));
  TensorWriter data(file, total, progress);
  for (size_t i = 0; i < tensors.size(); ++i) {
    try {
      const Importance::Tensor* const own = importance.find(tensors[i].name);
      result[i].rounding = data.write(tensors[i], result[i].to, own ? own->factors : std::span<const float>(),
                                      writer.padding(result[i].bytes));
    } catch (const Error& error) {
      if (error.code() != Code::unsupported) throw;
      throw Error(error.code(), error.sentence(),
                  in.string() + ", " + error.place());  // so far only the tensor is named
    }
  }
  file.commit();
  return result;
}

}  // namespace weft
