#include "model/weights.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>

#include "base/error.h"

namespace weft {
namespace {

std::string text_of(std::span<const uint64_t> shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ")";
}

class Loader {
 public:
  Loader(std::shared_ptr<Device> device, const ModelFile& file, Config& config, Format format,
         const std::function<void(float)>& progress)
      : device_(std::move(device)),
        file_(file),
        config_(config),
        format_(format),
        progress_(progress),
        uploader_(device_) {
    for (const TensorView& tensor : file.tensors) total_bytes_ += tensor.bytes.size();
  }

  Weights load() {
    load_vocabulary();
    for (uint32_t layer = 0; layer < config_.layers; ++layer) load_layer(static_cast<int>(layer));
    const TensorView& norm = need("output_norm", -1, {config_.width});
    weights_.final_norm = Buffer(device_, "final norm", config_.width * 4ull, Memory::device);
    upload_floats(norm, weights_.final_norm, "final norm");
    refuse_leftovers();
    progress_(1);
    return std::move(weights_);
  }

 private:
  const TensorView* find(std::string_view role, int layer) {
    const TensorView* tensor = file_.find(tensor_name(file_.kind, role, layer));
    if (tensor) used_.insert(tensor->name);
    return tensor;
  }

  const TensorView& need(std::string_view role, int layer, const std::vector<uint64_t>& shape) {
    const TensorView* tensor = find(role, layer);
    if (!tensor)
      throw Error(Code::bad_file, "the tensor '" + tensor_name(file_.kind, role, layer) + "' is missing",
                  file_.path.string());
    if (tensor->shape != shape)
      throw Error(
          Code::bad_file,
          "tensor '" + tensor->name + "' has the shape " + text_of(tensor->shape) + ", expected " + text_of(shape),
          file_.path.string());
    return *tensor;
  }

  // A Llama-like network with something more (biases, other norms) would run and talk nonsense: refuse it instead.
  void refuse_leftovers() const {
    for (const TensorView& tensor : file_.tensors) {
      const bool known = used_.contains(tensor.name) || tensor.name.ends_with("rotary_emb.inv_freq");
      if (!known)
        throw Error(Code::unsupported, "tensor '" + tensor.name + "' is no part of a Llama network",
                    file_.path.string());
    }
  }

  void report(const TensorView& tensor, const char* device_type, uint64_t bytes, const std::string& buffer,
              const Rounding& rounding) {
    weights_.tensors.push_back({tensor.name, tensor.shape, name(tensor.dtype), device_type, bytes, buffer, rounding});
  }

  void advance(uint64_t source_bytes) {
    done_bytes_ += source_bytes;
    progress_(total_bytes_ ? static_cast<float>(done_bytes_) / static_cast<float>(total_bytes_) : 1.0f);
  }

  void load_vocabulary() {
    // Files name the shared matrix by either of its uses, or store it twice.
    const TensorView* embedding = find("token_embd", -1);
    const TensorView* output = find("output", -1);
    if (config_.tied == false && !(embedding && output)) need(embedding ? "output" : "token_embd", -1, {});
    if (!embedding) std::swap(embedding, output);
    if (!embedding) need("token_embd", -1, {});
    if (config_.tied == true) output = nullptr;  // Transformers then takes the embedding whatever else is stored
    if (embedding->shape.size() != 2 || embedding->shape[1] != config_.width || embedding->shape[0] == 0 ||
        embedding->shape[0] >= 1u << 30)
      throw Error(Code::bad_file,
                  "tensor '" + embedding->name + "' has the shape " + text_of(embedding->shape) + ", expected (rows, " +
                      std::to_string(config_.width) + ")",
                  file_.path.string());
    config_.vocab = static_cast<uint32_t>(embedding->shape[0]);
    if (output) need("output", -1, {config_.vocab, config_.width});
    const bool same = output && output->dtype == embedding->dtype && output->bytes.size() == embedding->bytes.size() &&
                      std::memcmp(output->bytes.data(), embedding->bytes.data(), output->bytes.size()) == 0;
    const bool tied = !output || same;
    weights_.embedding = load_table(*embedding, tied ? "vocabulary table" : "embedding table");
    if (!tied) weights_.separate_output = load_table(*output, "output table");
    if (same) {
      // Byte for byte the same: no second copy.
      report(*output, name(format_), 0, "vocabulary table", weights_.tensors.back().rounding);
      advance(output->bytes.size());
    }
  }

  std::unique_ptr<Table> load_table(const TensorView& tensor, const std::string& buffer) {
    const double scale = static_cast<double>(tensor.bytes.size());
    uint64_t packed = 0, told = 0;
    const uint64_t total = Matrix{format_, config_.vocab, config_.width, {}}.bytes();
    Rounding rounding;
    const auto progress = [&](uint64_t bytes) {
      packed += bytes;
      const uint64_t now = static_cast<uint64_t>(scale * static_cast<double>(packed) / static_cast<double>(total));
      advance(now - told);
      told = now;
    };
    auto table = std::make_unique<Table>(device_, uploader_, tensor, format_, buffer, progress, &rounding);
    report(tensor, name(format_), packed_bytes(format_, tensor.shape[0], tensor.shape[1]), buffer, rounding);
    return table;
  }

  struct Part {
    const char* role;
    uint64_t rows;
  };

  // Lays the matrix out behind what the buffer holds so far.
  Matrix plan_matrix(uint32_t rows, uint32_t cols, uint64_t& offset) const {
    Matrix matrix = {format_, rows, cols, {}};
    matrix.view.offset = offset;
    matrix.view.bytes = matrix.bytes();
    offset = align_up(offset + matrix.bytes(), kViewAlignment);
    return matrix;
  }

  void load_matrix(Matrix& matrix, const Buffer& buffer, int layer, std::initializer_list<Part> parts) {
    matrix.view.buffer = &buffer;
    std::vector<const TensorView*> tensors;
    for (const Part& part : parts) {
      const TensorView& tensor = need(part.role, layer, {part.rows, matrix.cols});
      tensors.push_back(&tensor);
    }
    std::vector<Rounding> roundings(tensors.size());
    upload_matrix(
        uploader_, matrix, tensors, [](uint64_t) {}, roundings);
    for (size_t i = 0; i < tensors.size(); ++i) {
      report(*tensors[i], name(format_), packed_bytes(format_, tensors[i]->shape[0], matrix.cols), buffer.name(),
             roundings[i]);
      advance(tensors[i]->bytes.size());
    }
  }

  void load_layer(int index) {
    const uint32_t width = config_.width, q = config_.query_dim(), kv = config_.kv_dim(), ffn = config_.ffn;
    // The file's own tensors vouch for the sizes before anything is allocated by them.
    for (const char* norm : {"attn_norm", "ffn_norm"}) need(norm, index, {width});
    for (const auto& [role, rows, cols] :
         {std::tuple("attn_q", q, width), std::tuple("attn_k", kv, width), std::tuple("attn_v", kv, width),
          std::tuple("attn_output", width, q), std::tuple("ffn_gate", ffn, width), std::tuple("ffn_up", ffn, width),
          std::tuple("ffn_down", width, ffn)})
      need(role, index, {rows, cols});
    weights_.layers.emplace_back();
    LayerWeights& layer = weights_.layers.back();
    uint64_t bytes = 0;
    layer.qkv = plan_matrix(q + 2 * kv, width, bytes);
    layer.out = plan_matrix(width, q, bytes);
    layer.gate_up = plan_matrix(2 * ffn, width, bytes);
    layer.down = plan_matrix(width, ffn, bytes);
    const uint64_t norm_bytes = width * 4ull, attention_norm = bytes;
    const uint64_t ffn_norm = align_up(attention_norm + norm_bytes, kViewAlignment);
    layer.buffer = Buffer(device_, "layer " + std::to_string(index), ffn_norm + norm_bytes, Memory::device);
    layer.attention_norm = View(layer.buffer, attention_norm, norm_bytes);
    layer.ffn_norm = View(layer.buffer, ffn_norm, norm_bytes);

    upload_floats(need("attn_norm", index, {width}), layer.attention_norm, layer.buffer.name());
    load_matrix(layer.qkv, layer.buffer, index, {{"attn_q", q}, {"attn_k", kv}, {"attn_v", kv}});
    load_matrix(layer.out, layer.buffer, index, {{"attn_output", width}});
    upload_floats(need("ffn_norm", index, {width}), layer.ffn_norm, layer.buffer.name());
    load_matrix(layer.gate_up, layer.buffer, index, {{"ffn_gate", ffn}, {"ffn_up", ffn}});
    load_matrix(layer.down, layer.buffer, index, {{"ffn_down", width}});
  }

  void upload_floats(const TensorView& tensor, const View& to, const std::string& buffer) {
    std::vector<float> values(to.bytes / 4);
    to_float(tensor, 0, values);
    uploader_.upload(to, std::span<const float>(values));
    report(tensor, "f32", to.bytes, buffer, {});
    advance(tensor.bytes.size());
  }

  std::shared_ptr<Device> device_;
  const ModelFile& file_;
  Config& config_;
  Format format_;
  const std::function<void(float)>& progress_;
  Uploader uploader_;
  Weights weights_;
  std::set<std::string> used_;
  uint64_t total_bytes_ = 0, done_bytes_ = 0;
};

}  // namespace

uint64_t Weights::vocab_bytes() const {
  return embedding->buffer().bytes() + (separate_output ? separate_output->buffer().bytes() : 0);
}

uint64_t Weights::layer_bytes() const {
  uint64_t bytes = final_norm.bytes();
  for (const LayerWeights& layer : layers) bytes += layer.buffer.bytes();
  return bytes;
}

Weights load_weights(const std::shared_ptr<Device>& device, const ModelFile& file, Config& config, Format format,
                     const std::function<void(float)>& progress) {
  return Loader(device, file, config, format, progress).load();
}

}  // namespace weft
