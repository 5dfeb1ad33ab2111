#include "model/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "model/model.h"
#include "model/tensors.h"

namespace weft {
namespace {

// (positions, width): sines, then cosines, of a position's angles, as fairseq and tensor2tensor arrange them. fairseq
// counts positions from 2.
std::vector<float> sinusoids(uint32_t positions, uint32_t width) {
  const uint32_t half = width / 2;
  constexpr double kFirst = 2, kLongest = 10000;
  std::vector<float> rows(size_t{positions} * width);
  for (uint32_t position = 0; position < positions; ++position)
    for (uint32_t i = 0; i < half; ++i) {
      const double angle =
          (position + kFirst) * std::pow(kLongest, -static_cast<double>(i) / std::max(half - 1.0, 1.0));
      rows[size_t{position} * width + i] = static_cast<float>(std::sin(angle));
      rows[size_t{position} * width + half + i] = static_cast<float>(std::cos(angle));
    }
  return rows;
}

// The format that comes closest to a type: exactly, but for Q4_K, whose scales are rounded (q8 would round the numbers
// more), and the types that have no such format (format/packed_row.h).
Format closest_format(DType type) {
  switch (type) {
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return Format::f16;
    case DType::q4_0:
    case DType::q4_1:
    case DType::q4_k:
      return Format::q4;
    case DType::q8_0:
    case DType::q5_0:
    case DType::q5_1:
    case DType::q2_k:
    case DType::q3_k:
    case DType::q5_k:
    case DType::q6_k:
      break;
  }
  return Format::q8;
}

class Loader {
 public:
  Loader(std::shared_ptr<Device> device, const ModelFile& file, Config& config, std::optional<Format> format,
         const std::function<void(float)>& progress)
      : device_(std::move(device)),
        file_(file),
        config_(config),
        wanted_(format),
        progress_(progress),
        uploader_(device_),
        tensors_(file, config) {
    for (const TensorView& tensor : file.tensors) total_bytes_ += tensor.bytes.size();
    if (!config.encoder) return;
    encoder_model_ = std::make_shared<Model>(Model{device_, *config.encoder, {}});
    encoder_.reset(new Loader(*this, encoder_model_->config));
  }

  Weights load() {
    check();
    plan_memory();
    load_vocabulary();
    load_body();
    if (has_masked_head()) load_masked_head();
    if (const TensorView* bias = logit_bias()) load_logit_bias(*bias);
    if (encoder_) load_encoder();
    progress_(1);
    return std::move(weights_);
  }

  // The whole file, before anything is uploaded: every tensor is there in its shape, and none is left over.
  void check() {
    const Vocabulary vocabulary = find_vocabulary();
    check_body();
    if (encoder_) {
      check_copies(*vocabulary.embedding);
      encoder_->check_body();
      tensors_.add_used(encoder_->tensors_);
    }
    if (config_.start_token >= config_.vocab)
      throw Error(Code::bad_file,
                  "the decoder starts from token " + std::to_string(config_.start_token) + ", the vocabulary has " +
                      std::to_string(config_.vocab),
                  file_.path.string());
    logit_bias();
    if (has_masked_head()) {
      MaskedHead head;
      masked_vectors(head);
      tensors_.need_matrix("mlm_dense", -1, config_.width, config_.width);
    }
    tensors_.refuse_leftovers();
  }

 private:
  // Of the encoder in the decoder's file.
  Loader(Loader& decoder, Config& config)
      : device_(decoder.device_),
        file_(decoder.file_),
        config_(config),
        wanted_(decoder.wanted_),
        progress_(decoder.progress_),
        uploader_(device_),
        tensors_(file_, config),
        decoder_(&decoder) {}

  void check_body() {
    if (config_.block.positions == Positions::learned) position_table(), token_types();
    if (config_.block.embedding_norm) norm_parts("token_embd_norm", -1);
    for (uint32_t index = 0; index < config_.layers; ++index) {
      LayerWeights layer;
      const int number = static_cast<int>(index);
      const std::vector<Linear> matrices = linears(layer, number);
      vectors(layer, number, matrices);
      for (const Linear& linear : matrices)
        for (uint32_t copy = 0; copy < linear.copies(); ++copy)
          for (const Part& part : linear.parts)
            linear.experts ? tensors_.expert(part.role, number, copy, linear.experts, part.rows, linear.cols)
                           : tensors_.need_matrix(part.role, number, part.rows, linear.cols);
      tensors_.forget();
    }
    final_norm_parts();
    if (config_.block.positions == Positions::bucketed) score_table();
  }

  // All but the vocabulary.
  void load_body() {
    if (config_.has_position_table()) load_positions();
    if (config_.block.positions == Positions::bucketed) load_score_biases();
    if (config_.block.embedding_norm)
      load_norm(weights_.embedding_norm, norm_parts("token_embd_norm", -1), "embedding norm", 1);
    for (uint32_t layer = 0; layer < config_.layers; ++layer) load_layer(static_cast<int>(layer));
    if (slot_bytes_) begin_stream();
    load_norm(weights_.final_norm, final_norm_parts(), "final norm", config_.logit_scale);
  }

  void load_encoder() {
    encoder_model_->config.vocab = config_.vocab;
    encoder_->load_body();
    encoder_model_->weights = std::move(encoder_->weights_);
    encoder_model_->weights.embedding = weights_.embedding;
    weights_.encoder = encoder_model_;
  }

  void report(const TensorView& tensor, const char* device_type, uint64_t bytes, const std::string& buffer,
              const Rounding& rounding) {
    std::vector<TensorReport>& tensors = decoder_ ? decoder_->weights_.tensors : weights_.tensors;
    tensors.push_back({tensor.name, tensor.shape, name(tensor.dtype), device_type, bytes, buffer, rounding});
  }

  // Of a buffer, as `weft inspect` names it.
  std::string title(const std::string& name) const { return (decoder_ ? "encoder " : "") + name; }

  // Of a matrix made of these parts: the finest that one of them asks for.
  Format format_of(std::span<const TensorView* const> parts) const {
    if (wanted_) return *wanted_;
    Format finest = Format::q4;
    for (const TensorView* part : parts) {
      const Format own = closest_format(part->dtype);
      if (own == Format::f16 || finest == Format::q4) finest = own;
    }
    return finest;
  }

  void advance(uint64_t source_bytes) {
    if (decoder_) return decoder_->advance(source_bytes);
    done_bytes_ += source_bytes;
    progress_(total_bytes_ ? static_cast<float>(done_bytes_) / static_cast<float>(total_bytes_) : 1.0f);
  }

  struct Vocabulary {
    const TensorView *embedding, *output;  // no output: the embedding is that too
  };

  static bool same_bytes(const TensorView& a, const TensorView& b) {
    return a.dtype == b.dtype && a.bytes.size() == b.bytes.size() &&
           std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0;
  }

  // Files may hold the one table of an encoder-decoder under its halves' names too.
  void check_copies(const TensorView& table) const {
    for (const TensorView& tensor : file_.tensors)
      if (tensor.name.ends_with("coder.embed_tokens.weight") && !same_bytes(tensor, table))
        throw Error(Code::unsupported, "tensor '" + tensor.name + "' is another table than '" + table.name + "'",
                    file_.path.string(), "Weft's encoder-decoders have one table for both halves");
  }

  // Sets config.vocab.
  Vocabulary find_vocabulary() {
    // Files name the shared matrix by either of its uses, or store it twice.
    const TensorView* embedding = tensors_.find("token_embd", -1);
    const TensorView* output = tensors_.find("output", -1);
    if (config_.tied == false && !(embedding && output)) tensors_.need(embedding ? "output" : "token_embd", -1, {});
    if (!embedding) std::swap(embedding, output);
    if (!embedding) tensors_.need("token_embd", -1, {});
    if (config_.tied == true) output = nullptr;  // Transformers then takes the embedding whatever else is stored
    if (embedding->shape.size() != 2 || embedding->shape[1] != config_.width || embedding->shape[0] == 0 ||
        embedding->shape[0] >= 1u << 30)
      throw Error(Code::bad_file,
                  "tensor '" + embedding->name + "' has the shape " + text_of(embedding->shape) + ", expected (rows, " +
                      std::to_string(config_.width) + ")",
                  file_.path.string());
    config_.vocab = static_cast<uint32_t>(embedding->shape[0]);
    if (output) tensors_.need("output", -1, {config_.vocab, config_.width});
    return {embedding, output};
  }

  void load_vocabulary() {
    const auto [embedding, output] = find_vocabulary();
    const bool same = output && same_bytes(*output, *embedding);
    const bool tied = !output || same;
    weights_.embedding = load_table(*embedding, tied ? "vocabulary table" : "embedding table");
    if (!tied) weights_.separate_output = load_table(*output, "output table");
    if (same) {
      // Byte for byte the same: no second copy.
      report(*output, name(weights_.embedding->matrix().format), 0, "vocabulary table",
             weights_.tensors.back().rounding);
      advance(output->bytes.size());
    }
  }

  std::unique_ptr<Table> load_table(const TensorView& tensor, const std::string& buffer) {
    const double scale = static_cast<double>(tensor.bytes.size());
    const TensorView* const part = &tensor;
    const Format format = format_of({&part, 1});
    uint64_t packed = 0, told = 0;
    const uint64_t total = Matrix{format, config_.vocab, config_.width, {}, Layout::planes}.bytes();
    Rounding rounding;
    const auto progress = [&](uint64_t bytes) {
      packed += bytes;
      const uint64_t now = static_cast<uint64_t>(scale * static_cast<double>(packed) / static_cast<double>(total));
      advance(now - told);
      told = now;
      file_.release(tensor.bytes.first(now));
    };
    auto table = std::make_unique<Table>(device_, uploader_, tensor, format, buffer, progress, &rounding);
    report(tensor, name(format), packed_bytes(format, tensor.shape[0], tensor.shape[1]), buffer, rounding);
    return table;
  }

  // Floats of a vector on the device: a tensor of the file, or a part of several behind one another.
  struct Floats {
    const TensorView* tensor;
    float offset = 0;    // added
    uint64_t zeros = 0;  // without a tensor: so many of them

    uint64_t count() const { return tensor ? element_count(tensor->shape) : zeros; }
  };

  std::vector<Floats> norm_parts(std::string_view role, int layer) {
    std::vector<Floats> parts = {{&tensors_.need(role, layer, {config_.width}), config_.norm_offset}};
    if (config_.block.norm != ops::NormKind::layer) return parts;
    if (config_.block.norm_bias)
      parts.push_back({&tensors_.need(role, layer, {config_.width}, "bias")});
    else
      parts.push_back({nullptr, 0, config_.width});
    return parts;
  }

  // Where norms come after, the last one is the last layer's.
  std::vector<Floats> final_norm_parts() {
    if (!config_.block.norm_after) return norm_parts("output_norm", -1);
    return norm_parts("layer_output_norm", static_cast<int>(config_.layers) - 1);
  }

  // scale: of what the norm gives.
  void load_norm(Buffer& buffer, const std::vector<Floats>& parts, const char* name, float scale) {
    buffer = Buffer(device_, title(name), ops::weight_floats(config_.norm()) * 4, Memory::device);
    upload_floats(parts, buffer, buffer.name(), scale);
  }

  const TensorView& position_table() {
    return tensors_.need("position_embd", -1, {config_.context + first_position(), config_.width});
  }

  uint64_t first_position() const {
    return file_.kind == ModelFile::Kind::huggingface ? config_.traits->first_position : 0;
  }

  const TensorView* token_types() {
    const TensorView* types = tensors_.find("token_types", -1);
    if (types && (types->shape.size() != 2 || types->shape[0] == 0 || types->shape[1] != config_.width))
      throw Error(Code::bad_file,
                  "tensor '" + types->name + "' has the shape " + text_of(types->shape) + ", expected (types, " +
                      std::to_string(config_.width) + ")",
                  file_.path.string());
    return types;
  }

  // A network that knows types of tokens reads texts of the first type only, so that a position's row is their sum.
  std::vector<float> learned_positions() {
    const TensorView& table = position_table();
    std::vector<float> rows(element_count(table.shape)), type(config_.width);
    to_float(table, 0, rows);
    rows.erase(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(first_position() * config_.width));
    if (const TensorView* types = token_types()) {
      to_float(*types, 0, type);
      for (size_t i = 0; i < rows.size(); ++i) rows[i] += type[i % type.size()];
      report(*types, "f32", 0, title("position table"), {});
      advance(types->bytes.size());
    }
    report(table, "f32", rows.size() * 4, title("position table"), {});
    advance(table.bytes.size());
    return rows;
  }

  void load_positions() {
    const uint64_t bytes = uint64_t{config_.context} * config_.width * 4, limit = device_->plan().slice_bytes;
    if (bytes > limit)
      throw Error(Code::unsupported,
                  "the position table has " + std::to_string(bytes) + " bytes, a binding of this device reaches " +
                      std::to_string(limit),
                  file_.path.string());
    weights_.positions = Buffer(device_, title("position table"), bytes, Memory::device);
    const std::vector<float> rows =
        config_.block.positions == Positions::learned ? learned_positions() : sinusoids(config_.context, config_.width);
    uploader_.upload(weights_.positions, std::span<const float>(rows));
  }

  // The first layer's, and all layers add it.
  const TensorView& score_table() {
    return tensors_.need("attn_rel_b", 0, {config_.buckets.count, config_.heads.heads});
  }

  void load_score_biases() {
    const TensorView& table = score_table();
    std::vector<float> learned(element_count(table.shape));
    to_float(table, 0, learned);
    const std::vector<float> biases =
        biases_by_distance(config_.buckets, learned, config_.heads.heads, config_.block.sees_all);
    weights_.score_biases = Buffer(device_, title("score biases"), biases.size() * 4, Memory::device);
    uploader_.upload(weights_.score_biases, std::span<const float>(biases));
    report(table, "f32", biases.size() * 4, weights_.score_biases.name(), {});
    advance(table.bytes.size());
  }

  struct Part {
    const char* role;
    uint64_t rows;
  };
  // A matrix of a layer and its bias: what they are made of.
  struct Linear {
    Matrix& matrix;
    uint64_t cols;
    std::vector<Part> parts;
    bool biased;
    uint32_t experts = 0;               // so many of them, one behind the other; 0: it is no expert's
    std::optional<Format> format = {};  // if not the layers'

    uint32_t copies() const { return std::max(experts, 1u); }
  };
  struct Vector {
    View& view;
    std::vector<Floats> parts;
  };

  std::vector<Linear> linears(LayerWeights& layer, int index) {
    const Block& block = config_.block;
    const uint64_t width = config_.width, q = config_.query_dim(), kv = config_.kv_dim(), ffn = config_.ffn;
    // Some families store q, k and v, or gate and up, as one.
    std::vector<Part> qkv = {{"attn_q", q}, {"attn_k", kv}, {"attn_v", kv}}, inner = {{"ffn_up", ffn}};
    if (tensors_.find("attn_qkv", index)) qkv = {{"attn_qkv", q + 2 * kv}};
    std::vector<Linear> all = {{layer.qkv, width, qkv, block.qkv_bias},
                               {layer.out, q, {{"attn_output", width}}, block.out_bias}};
    if (const uint32_t count = config_.experts.count) {
      // The router is small, and a choice hangs on it: never rounded to less than f16.
      all.push_back({layer.router, width, {{"ffn_gate_inp", count}}, false, 0, Format::f16});
      all.push_back({layer.gate_up, width, {{"ffn_gate_exps", ffn}, {"ffn_up_exps", ffn}}, false, count});
      all.push_back({layer.down, ffn, {{"ffn_down_exps", width}}, false, count});
      return all;
    }
    if (block.gated) {
      const TensorView *gate = tensors_.find("ffn_gate", index), *up = tensors_.find("ffn_up", index);
      const bool one = !gate && up && up->shape != std::vector<uint64_t>{ffn, width};
      inner = one ? std::vector<Part>{{"ffn_up", 2 * ffn}} : std::vector<Part>{{"ffn_gate", ffn}, {"ffn_up", ffn}};
    }
    all.push_back({layer.gate_up, width, inner, block.ffn_bias});
    all.push_back({layer.down, ffn, {{"ffn_down", width}}, block.ffn_bias});
    if (block.sees_source) {
      all.push_back({layer.cross_q, width, {{"cross_attn_q", q}}, block.qkv_bias});
      all.push_back({layer.cross_kv, width, {{"cross_attn_k", kv}, {"cross_attn_v", kv}}, block.qkv_bias});
      all.push_back({layer.cross_out, q, {{"cross_attn_o", width}}, block.out_bias});
    }
    return all;
  }

  std::vector<Vector> vectors(LayerWeights& layer, int index, const std::vector<Linear>& matrices) {
    const bool after = config_.block.norm_after, last = index + 1 == static_cast<int>(config_.layers);
    std::vector<Vector> all = {
        {layer.attention_norm, norm_parts(after ? "attn_output_norm" : "attn_norm", index)},
    };
    // Where norms come after, the last layer's last one is the network's.
    const bool own = after ? !last : !config_.block.shared_norm;
    if (own) all.push_back({layer.ffn_norm, norm_parts(after ? "layer_output_norm" : "ffn_norm", index)});
    if (config_.block.sees_source) all.push_back({layer.cross_norm, norm_parts("cross_attn_norm", index)});
    if (config_.block.norm_branches) {
      all.push_back({layer.attention_branch_norm, norm_parts("post_attention_norm", index)});
      all.push_back({layer.ffn_branch_norm, norm_parts("post_ffw_norm", index)});
    }
    if (config_.block.norm_heads) {
      const std::vector<uint64_t> shape = {config_.heads.head_dim};
      all.push_back({layer.head_norms,
                     {{&tensors_.need("attn_q_norm", index, shape), config_.norm_offset},
                      {&tensors_.need("attn_k_norm", index, shape), config_.norm_offset}}});
    }
    for (const Linear& linear : matrices) {
      if (!linear.biased) continue;
      Vector bias = {linear.matrix.bias, {}};
      for (const Part& part : linear.parts) bias.parts.push_back({&tensors_.bias(part.role, index, part.rows)});
      all.push_back(std::move(bias));
    }
    return all;
  }

  void load_layer(int index) {
    weights_.layers.emplace_back();
    LayerWeights& layer = weights_.layers.back();
    const std::vector<Linear> matrices = linears(layer, index);
    load_group(layer.buffer, title("layer " + std::to_string(index)), index, matrices, vectors(layer, index, matrices));
  }

  // What the weights take on the device, and whether the layers have to be streamed for that.
  void plan_memory() {
    const uint64_t budget = device_->plan().memory_budget;
    if (!budget) return;
    const auto [embedding, output] = find_vocabulary();
    uint64_t tables = 0, layers = 0, largest = 0;
    for (const TensorView* const table : {embedding, output})
      if (table && (table == embedding || !same_bytes(*table, *embedding)))
        tables += Matrix{format_of({&table, 1}), config_.vocab, config_.width, {}, Layout::planes}.bytes();
    for (int index = 0; index < static_cast<int>(config_.layers); ++index) {
      LayerWeights layer;
      const std::vector<Linear> matrices = linears(layer, index);
      const uint64_t bytes =
          place(matrices, vectors(layer, index, matrices), sources_of(matrices, index, AsStored::yes));
      tensors_.forget();
      layers += bytes;
      largest = std::max(largest, bytes);
    }
    if (tables + layers <= budget / 4 * 3) return;
    if (config_.block.sees_all || config_.encoder)
      throw Error(Code::unsupported,
                  "the weights of " + std::to_string(tables + layers) +
                      " bytes take more than three quarters of the memory budget of " + std::to_string(budget),
                  file_.path.string(), "an encoder's are not streamed: give a larger budget");
    if (tables + 2 * largest > budget)
      throw Error(Code::out_of_memory,
                  "the memory budget is " + std::to_string(budget) + " bytes, the vocabulary takes " +
                      std::to_string(tables) + " and two layers " + std::to_string(2 * largest),
                  file_.path.string(), "sessions need some more than that; fewer bits (--type) need less");
    slot_bytes_ = largest;
  }

  // The layers have been packed in the host's memory: from now on their views are in the slots.
  void begin_stream() {
    weights_.stream = std::make_unique<Stream>();
    Stream& stream = *weights_.stream;
    for (Buffer& slot : stream.slots) slot = Buffer(device_, "layer slot", slot_bytes_, Memory::device);
    for (uint32_t index = 0; index < config_.layers; ++index) {
      LayerWeights& layer = weights_.layers[index];
      const std::vector<Linear> matrices = linears(layer, static_cast<int>(index));
      for (const Linear& linear : matrices) linear.matrix.view.buffer = &stream.slot(index);
      for (const Vector& vector : vectors(layer, static_cast<int>(index), matrices))
        vector.view.buffer = &stream.slot(index);
    }
    run_once(device_, "first layer", [&](Recorder& recorder) { weights_.fetch(recorder, 0); });
  }

  // BART's.
  const TensorView* logit_bias() {
    const TensorView* bias = config_.encoder ? tensors_.find_named("final_logits_bias") : nullptr;
    const std::vector<uint64_t> shape = {1, config_.vocab};
    if (bias && bias->shape != shape)
      throw Error(Code::bad_file,
                  "tensor '" + bias->name + "' has the shape " + text_of(bias->shape) + ", expected " + text_of(shape),
                  file_.path.string());
    return bias;
  }

  // Of all known models it is 0: then nothing is added.
  void load_logit_bias(const TensorView& bias) {
    std::vector<float> values(config_.vocab);
    to_float(bias, 0, values);
    if (std::ranges::any_of(values, [](float value) { return value != 0; })) {
      weights_.logit_bias = Buffer(device_, "logit bias", values.size() * 4, Memory::device);
      uploader_.upload(weights_.logit_bias, std::span<const float>(values));
    }
    report(bias, "f32", weights_.logit_bias.bytes(), "logit bias", {});
    advance(bias.bytes.size());
  }

  bool has_masked_head() { return config_.block.sees_all && tensors_.find("mlm_dense", -1); }

  std::vector<Vector> masked_vectors(MaskedHead& head) {
    // Files hold the bias under either name, or both; then the projection's own is the one Transformers adds.
    const bool own = tensors_.find("output", -1, "bias") != nullptr;
    tensors_.find("mlm", -1, "bias");
    return {{head.transform.bias, {{&tensors_.bias("mlm_dense", -1, config_.width)}}},
            {head.norm, norm_parts("mlm_norm", -1)},
            {head.bias, {{&tensors_.bias(own ? "output" : "mlm", -1, config_.vocab)}}}};
  }

  void load_masked_head() {
    weights_.masked_head = std::make_unique<MaskedHead>();
    MaskedHead& head = *weights_.masked_head;
    const uint64_t width = config_.width;
    const std::vector<Linear> matrices = {{head.transform, width, {{"mlm_dense", width}}, true}};
    load_group(head.buffer, "masked-token head", -1, matrices, masked_vectors(head));
  }

  using Sources = std::vector<std::vector<const TensorView*>>;  // of every linear's copies
  enum class AsStored { yes, no };  // yes: matrices that are turned or sorted when loaded are not yet

  Sources sources_of(const std::vector<Linear>& matrices, int index, AsStored as_stored) {
    Sources sources;
    for (const Linear& linear : matrices)
      for (uint32_t copy = 0; copy < linear.copies(); ++copy) {
        sources.emplace_back();
        for (const Part& part : linear.parts)
          sources.back().push_back(
              linear.experts ? &tensors_.expert(part.role, index, copy, linear.experts, part.rows, linear.cols)
              : as_stored == AsStored::yes ? &tensors_.need_matrix(part.role, index, part.rows, linear.cols)
                                           : &tensors_.matrix(part.role, index, part.rows, linear.cols));
      }
    return sources;
  }

  // Gives matrices and vectors their formats and their places in one buffer; returns its bytes.
  uint64_t place(const std::vector<Linear>& matrices, const std::vector<Vector>& floats, const Sources& sources) {
    auto source = sources.begin();
    for (const Linear& linear : matrices) {
      std::vector<const TensorView*> all;
      for (uint32_t copy = 0; copy < linear.copies(); ++copy, ++source)
        all.insert(all.end(), source->begin(), source->end());
      linear.matrix.format = linear.format ? *linear.format : format_of(all);
    }
    uint64_t bytes = 0;
    const auto put = [&](View& view, uint64_t size) {
      view = View();
      view.offset = bytes;
      view.bytes = size;
      bytes = align_up(bytes + size, kViewAlignment);
    };
    for (const Linear& linear : matrices) {
      uint64_t rows = 0;
      for (const Part& part : linear.parts) rows += part.rows;
      linear.matrix = {linear.matrix.format, static_cast<uint32_t>(rows), static_cast<uint32_t>(linear.cols), {}};
      put(linear.matrix.view, linear.copies() * linear.matrix.bytes());
    }
    for (const Vector& vector : floats) put(vector.view, count_of(vector.parts) * 4);
    return bytes;
  }

  // Matrices and vectors of a layer, or of the network (index -1), in one buffer. The file's own tensors have vouched
  // for the sizes before anything is allocated by them.
  void load_group(Buffer& buffer, const std::string& name, int index, const std::vector<Linear>& matrices,
                  const std::vector<Vector>& floats) {
    const Sources sources = sources_of(matrices, index, AsStored::no);
    const uint64_t bytes = place(matrices, floats, sources);
    buffer = Buffer(device_, name, bytes, slot_bytes_ ? Memory::upload : Memory::device);
    size_t source = 0;
    for (const Linear& linear : matrices) {
      linear.matrix.view.buffer = &buffer;
      for (uint32_t copy = 0; copy < linear.copies(); ++copy) {
        Matrix one = linear.matrix;
        one.view = linear.matrix.view.part(copy * one.bytes(), one.bytes());
        load_matrix(one, sources[source++]);
      }
    }
    for (const Vector& vector : floats) {
      vector.view.buffer = &buffer;
      upload_floats(vector.parts, vector.view, name);
    }
    tensors_.forget();
  }

  void load_matrix(const Matrix& matrix, const std::vector<const TensorView*>& parts) {
    std::vector<Rounding> roundings(parts.size());
    upload_matrix(
        uploader_, matrix, parts, [](uint64_t) {}, roundings);
    for (size_t i = 0; i < parts.size(); ++i) {
      report(*parts[i], name(matrix.format), packed_bytes(matrix.format, parts[i]->shape[0], matrix.cols),
             matrix.view.buffer->name(), roundings[i]);
      advance(parts[i]->bytes.size());
      file_.release(parts[i]->bytes);
    }
  }

  static uint64_t count_of(const std::vector<Floats>& parts) {
    uint64_t count = 0;
    for (const Floats& part : parts) count += part.count();
    return count;
  }

  void upload_floats(const std::vector<Floats>& parts, const View& to, const std::string& buffer, float scale = 1) {
    std::vector<float> values(to.bytes / 4);
    std::span<float> rest = values;
    for (const Floats& part : parts) {
      const std::span<float> own = rest.first(part.count());
      rest = rest.subspan(own.size());
      if (!part.tensor) continue;
      to_float(*part.tensor, 0, own);
      for (float& value : own) value = (value + part.offset) * scale;
      report(*part.tensor, "f32", own.size_bytes(), buffer, {});
      advance(part.tensor->bytes.size());
    }
    uploader_.upload(to, std::span<const float>(values));
  }

  std::shared_ptr<Device> device_;
  const ModelFile& file_;
  Config& config_;
  std::optional<Format> wanted_;
  const std::function<void(float)>& progress_;
  Uploader uploader_;
  Tensors tensors_;
  Weights weights_;
  uint64_t total_bytes_ = 0, done_bytes_ = 0;
  uint64_t slot_bytes_ = 0;    // of the largest layer, where they are streamed
  Loader* decoder_ = nullptr;  // of an encoder; then that one's progress and reports count
  std::unique_ptr<Loader> encoder_;
  std::shared_ptr<Model> encoder_model_;
};

}  // namespace

uint64_t Weights::vocab_bytes() const {
  return embedding->buffer().bytes() + (separate_output ? separate_output->buffer().bytes() : 0);
}

uint64_t Weights::layer_bytes() const {
  uint64_t bytes =
      final_norm.bytes() + embedding_norm.bytes() + positions.bytes() + score_biases.bytes() + logit_bias.bytes();
  if (masked_head) bytes += masked_head->buffer.bytes();
  if (encoder) bytes += encoder->weights.layer_bytes();
  for (const LayerWeights& layer : layers) bytes += layer.buffer.bytes();
  return bytes;
}

uint64_t Weights::streamed_bytes() const {
  uint64_t bytes = 0;
  for (const LayerWeights& layer : layers) bytes += stream ? layer.buffer.bytes() : 0;
  return bytes;
}

uint64_t Weights::device_bytes() const {
  return vocab_bytes() + layer_bytes() - streamed_bytes() + (stream ? 2 * stream->slots[0].bytes() : 0);
}

void check_weights(const ModelFile& file, Config& config) {
  const std::function<void(float)> progress;
  Loader(nullptr, file, config, Format::f16, progress).check();
}

std::string Weights::type() const {
  std::string text;
  for (const Format format : kFormats)
    if (std::ranges::any_of(tensors, [&](const TensorReport& tensor) { return tensor.device_type == name(format); }))
      text += (text.empty() ? "" : "+") + std::string(name(format));
  return text;
}

Weights load_weights(const std::shared_ptr<Device>& device, const ModelFile& file, Config& config,
                     std::optional<Format> format, const std::function<void(float)>& progress) {
  return Loader(device, file, config, format, progress).load();
}

}  // namespace weft
