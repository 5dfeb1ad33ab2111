#include "model/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "model/model.h"
#include "model/parts.h"

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
  Loader(std::shared_ptr<Device> device, std::shared_ptr<const ModelFile> file, const Config& config,
         const DeviceFormats& formats, const std::function<void(float)>& progress)
      : device_(std::move(device)),
        file_(std::move(file)),
        config_(config),
        wanted_(formats),
        progress_(progress),
        uploader_(device_),
        parts_(*file_, config_) {
    for (const TensorView& tensor : file_->tensors) total_bytes_ += tensor.bytes.size();
    if (!config.encoder) return;
    encoder_model_ = std::make_shared<Model>(Model{device_, *config.encoder, {}});
    encoder_.reset(new Loader(*this, *config.encoder));
  }
  Loader(const Loader&) = delete;  // the parts refer to the config
  Loader& operator=(const Loader&) = delete;

  // later: bring_layer() is called for each layer then, in order, unless left() says that there is none.
  Weights load(bool later) {
    parts_.check(encoder_ ? &encoder_->parts_ : nullptr);
    plan_memory();
    later_ = later && !slot_bytes_ && !encoder_ && !config_.block.sees_all;
    load_vocabulary();
    load_body();
    if (parts_.has_masked_head()) load_masked_head();
    if (const TensorView* bias = parts_.logit_bias()) load_logit_bias(*bias);
    if (encoder_) load_encoder();
    if (!later_ && progress_) progress_(1);
    return std::move(weights_);
  }

  bool left() const { return later_; }
  uint32_t vocab() const { return config_.vocab; }

  void bring_layer(uint32_t index) {
    const Due& due = due_[index];
    const int number = static_cast<int>(index);
    const std::vector<Linear> matrices = parts_.linears(*due.layer, number);
    bring(number, matrices, parts_.vectors(*due.layer, number, matrices), due.roundings);
  }

 private:
  // Of the encoder in the decoder's file.
  Loader(Loader& decoder, const Config& config)
      : device_(decoder.device_),
        file_(decoder.file_),
        config_(config),
        wanted_(decoder.wanted_),
        uploader_(device_),
        parts_(*file_, config_),
        decoder_(&decoder) {}

  // All but the vocabulary.
  void load_body() {
    if (config_.has_position_table()) load_positions();
    if (config_.block.positions == Positions::bucketed) load_score_biases();
    if (config_.block.embedding_norm)
      load_norm(weights_.embedding_norm, parts_.norm_parts("token_embd_norm", -1), "embedding norm", 1);
    for (uint32_t layer = 0; layer < config_.layers; ++layer) allocate_layer(static_cast<int>(layer));
    for (uint32_t layer = 0; layer < config_.layers && !later_; ++layer) bring_layer(layer);
    if (slot_bytes_) begin_stream();
    load_norm(weights_.final_norm, parts_.final_norm_parts(), "final norm", config_.logit_scale);
  }

  void load_encoder() {
    encoder_model_->config.vocab = config_.vocab;
    encoder_->load_body();
    encoder_model_->weights = std::move(encoder_->weights_);
    encoder_model_->weights.embedding = weights_.embedding;
    weights_.encoder = encoder_model_;
  }

  TensorReport& report(const TensorView& tensor, const char* device_type, uint64_t bytes, const std::string& buffer,
                       const Rounding& rounding = {}) {
    std::deque<TensorReport>& tensors = decoder_ ? decoder_->weights_.tensors : weights_.tensors;
    return tensors.emplace_back(
        TensorReport{tensor.name, tensor.shape, name(tensor.dtype), device_type, bytes, buffer, rounding});
  }

  // Of a buffer, as `weft inspect` names it.
  std::string title(const std::string& name) const { return (decoder_ ? "encoder " : "") + name; }

  // Of a matrix made of these parts, unless one is wanted: the finest that one of them asks for.
  static Format format_of(std::span<const TensorView* const> parts, std::optional<Format> wanted) {
    if (wanted) return *wanted;
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
    if (progress_) progress_(total_bytes_ ? static_cast<float>(done_bytes_) / static_cast<float>(total_bytes_) : 1.0f);
  }

  void load_vocabulary() {
    const auto [embedding, output] = parts_.find_vocabulary();
    const bool same = output && parts_.same_bytes(*output, *embedding);
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
    file_->check_length();
    const double scale = static_cast<double>(tensor.bytes.size());
    const TensorView* const part = &tensor;
    const Format format = format_of({&part, 1}, wanted_.tables);
    uint64_t packed = 0, told = 0;
    const uint64_t total = Matrix{format, config_.vocab, config_.width, {}, Layout::planes}.bytes();
    Rounding rounding;
    const auto progress = [&](uint64_t bytes) {
      file_->check_length();
      packed += bytes;
      const uint64_t now = static_cast<uint64_t>(scale * static_cast<double>(packed) / static_cast<double>(total));
      advance(now - told);
      told = now;
      file_->release(tensor.bytes.first(now));
    };
    auto table = std::make_unique<Table>(device_, uploader_, tensor, format, buffer, progress, &rounding);
    report(tensor, name(format), packed_bytes(format, tensor.shape[0], tensor.shape[1]), buffer, rounding);
    return table;
  }

  // scale: of what the norm gives.
  void load_norm(Buffer& buffer, const std::vector<Floats>& parts, const char* name, float scale) {
    buffer = Buffer(device_, title(name), ops::weight_floats(config_.norm()) * 4, Memory::device);
    report_floats(parts, buffer.name());
    upload_floats(parts, buffer, scale);
  }

  // A network that knows types of tokens reads texts of the first type only, so that a position's row is their sum.
  std::vector<float> learned_positions() {
    const TensorView& table = parts_.position_table();
    std::vector<float> rows(element_count(table.shape)), type(config_.width);
    to_float(table, 0, rows);
    rows.erase(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(parts_.first_position() * config_.width));
    if (const TensorView* types = parts_.token_types()) {
      to_float(*types, 0, type);
      for (size_t i = 0; i < rows.size(); ++i) rows[i] += type[i % type.size()];
      report(*types, "f32", 0, title("position table"));
      advance(types->bytes.size());
    }
    report(table, "f32", rows.size() * 4, title("position table"));
    advance(table.bytes.size());
    return rows;
  }

  void load_positions() {
    const uint64_t bytes = uint64_t{config_.context} * config_.width * 4, limit = device_->plan().slice_bytes;
    if (bytes > limit)
      throw Error(Code::unsupported,
                  "the position table has " + std::to_string(bytes) + " bytes, a binding of this device reaches " +
                      std::to_string(limit),
                  file_->path.string());
    weights_.positions = Buffer(device_, title("position table"), bytes, Memory::device);
    const std::vector<float> rows =
        config_.block.positions == Positions::learned ? learned_positions() : sinusoids(config_.context, config_.width);
    uploader_.upload(weights_.positions, std::span<const float>(rows));
  }

  void load_score_biases() {
    const TensorView& table = parts_.score_table();
    std::vector<float> learned(element_count(table.shape));
    to_float(table, 0, learned);
    const std::vector<float> biases =
        biases_by_distance(config_.buckets, learned, config_.heads.heads, config_.block.sees_all);
    weights_.score_biases = Buffer(device_, title("score biases"), biases.size() * 4, Memory::device);
    uploader_.upload(weights_.score_biases, std::span<const float>(biases));
    report(table, "f32", biases.size() * 4, weights_.score_biases.name());
    advance(table.bytes.size());
  }

  void allocate_layer(int index) {
    LayerWeights& layer = weights_.layers.emplace_back();
    const std::vector<Linear> matrices = parts_.linears(layer, index);
    due_.push_back({&layer, allocate(layer.buffer, title("layer " + std::to_string(index)), index, matrices,
                                     parts_.vectors(layer, index, matrices))});
  }

  // What the weights take on the device, and whether the layers have to be streamed for that.
  void plan_memory() {
    const uint64_t budget = device_->plan().memory_budget;
    if (!budget) return;
    const auto [embedding, output] = parts_.find_vocabulary();
    uint64_t tables = 0, layers = 0, largest = 0;
    for (const TensorView* const table : {embedding, output})
      if (table && (table == embedding || !parts_.same_bytes(*table, *embedding)))
        tables +=
            Matrix{format_of({&table, 1}, wanted_.tables), config_.vocab, config_.width, {}, Layout::planes}.bytes();
    for (int index = 0; index < static_cast<int>(config_.layers); ++index) {
      LayerWeights layer;
      const std::vector<Linear> matrices = parts_.linears(layer, index);
      const uint64_t bytes = place(matrices, parts_.vectors(layer, index, matrices),
                                   parts_.sources_of(matrices, index, Parts::AsStored::yes));
      parts_.forget();
      layers += bytes;
      largest = std::max(largest, bytes);
    }
    if (tables + layers <= budget / 4 * 3) return;
    if (config_.block.sees_all || config_.encoder)
      throw Error(Code::unsupported,
                  "the weights of " + std::to_string(tables + layers) +
                      " bytes take more than three quarters of the memory budget of " + std::to_string(budget),
                  file_->path.string(), "an encoder's are not streamed: give a larger budget");
    if (tables + 2 * largest > budget)
      throw Error(Code::out_of_memory,
                  "the memory budget is " + std::to_string(budget) + " bytes, the vocabulary takes " +
                      std::to_string(tables) + " and two layers " + std::to_string(2 * largest),
                  file_->path.string(), "sessions need some more than that; fewer bits (--type) need less");
    slot_bytes_ = largest;
  }

  // The layers have been packed in the host's memory: from now on their views are in the slots.
  void begin_stream() {
    weights_.stream = std::make_unique<Stream>();
    Stream& stream = *weights_.stream;
    for (Buffer& slot : stream.slots) slot = Buffer(device_, "layer slot", slot_bytes_, Memory::device);
    for (uint32_t index = 0; index < config_.layers; ++index) {
      LayerWeights& layer = weights_.layers[index];
      const std::vector<Linear> matrices = parts_.linears(layer, static_cast<int>(index));
      for (const Linear& linear : matrices) linear.matrix.view.buffer = &stream.slot(index);
      for (const Vector& vector : parts_.vectors(layer, static_cast<int>(index), matrices))
        vector.view.buffer = &stream.slot(index);
    }
    run_once(device_, "first layer", [&](Recorder& recorder) { weights_.fetch(recorder, 0); });
  }

  // Of all known models it is 0: then nothing is added.
  void load_logit_bias(const TensorView& bias) {
    std::vector<float> values(config_.vocab);
    to_float(bias, 0, values);
    if (std::ranges::any_of(values, [](float value) { return value != 0; })) {
      weights_.logit_bias = Buffer(device_, "logit bias", values.size() * 4, Memory::device);
      uploader_.upload(weights_.logit_bias, std::span<const float>(values));
    }
    report(bias, "f32", weights_.logit_bias.bytes(), "logit bias");
    advance(bias.bytes.size());
  }

  void load_masked_head() {
    weights_.masked_head = std::make_unique<MaskedHead>();
    MaskedHead& head = *weights_.masked_head;
    const std::vector<Linear> matrices = parts_.masked_matrices(head);
    const std::vector<Rounding*> roundings =
        allocate(head.buffer, "masked-token head", -1, matrices, parts_.masked_vectors(head));
    bring(-1, matrices, parts_.masked_vectors(head), roundings);
  }

  // Gives matrices and vectors their formats and their places in one buffer; returns its bytes.
  uint64_t place(const std::vector<Linear>& matrices, const std::vector<Vector>& floats,
                 const Parts::Sources& sources) {
    auto source = sources.begin();
    for (const Linear& linear : matrices) {
      std::vector<const TensorView*> all;
      for (uint32_t copy = 0; copy < linear.copies(); ++copy, ++source)
        all.insert(all.end(), source->begin(), source->end());
      linear.matrix.format = linear.format ? *linear.format : format_of(all, wanted_.matrices);
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

  // Gives matrices and vectors of a layer, or of the network (index -1), one buffer. The file's own tensors have
  // vouched for the sizes before anything is allocated by them. Returns where to note what becomes of the matrices'
  // sources.
  std::vector<Rounding*> allocate(Buffer& buffer, const std::string& title, int index,
                                  const std::vector<Linear>& matrices, const std::vector<Vector>& floats) {
    const Parts::Sources sources = parts_.sources_of(matrices, index, Parts::AsStored::yes);
    const uint64_t bytes = place(matrices, floats, sources);
    buffer = Buffer(device_, title, bytes, slot_bytes_ ? Memory::upload : Memory::device);
    std::vector<Rounding*> roundings;
    auto source = sources.begin();
    for (const Linear& linear : matrices) {
      linear.matrix.view.buffer = &buffer;
      for (uint32_t copy = 0; copy < linear.copies(); ++copy, ++source)
        for (size_t i = 0; i < linear.parts.size(); ++i) {
          const Format format = linear.matrix.format;
          const uint64_t rows = linear.parts[i].rows;
          TensorReport& entry =
              report(*(*source)[i], name(format), packed_bytes(format, rows, linear.cols), buffer.name());
          entry.shape = {rows, linear.cols};  // however it is stored
          roundings.push_back(&entry.rounding);
        }
    }
    for (const Vector& vector : floats) {
      vector.view.buffer = &buffer;
      report_floats(vector.parts, buffer.name());
    }
    parts_.forget();
    return roundings;
  }

  // Packs and uploads what has been allocated.
  void bring(int index, const std::vector<Linear>& matrices, const std::vector<Vector>& floats,
             std::span<Rounding* const> roundings) {
    const Parts::Sources sources = parts_.sources_of(matrices, index, Parts::AsStored::no);
    auto source = sources.begin();
    for (const Linear& linear : matrices)
      for (uint32_t copy = 0; copy < linear.copies(); ++copy, ++source) {
        Matrix one = linear.matrix;
        one.view = linear.matrix.view.part(copy * one.bytes(), one.bytes());
        bring_matrix(one, *source, roundings.first(source->size()));
        roundings = roundings.subspan(source->size());
      }
    for (const Vector& vector : floats) upload_floats(vector.parts, vector.view);
    parts_.forget();
  }

  void bring_matrix(const Matrix& matrix, const std::vector<const TensorView*>& parts,
                    std::span<Rounding* const> to_note) {
    file_->check_length();
    std::vector<Rounding> roundings(parts.size());
    const auto packed = [&](uint64_t) { file_->check_length(); };
    upload_matrix(uploader_, matrix, parts, packed, roundings);
    for (size_t i = 0; i < parts.size(); ++i) {
      *to_note[i] = roundings[i];
      advance(parts[i]->bytes.size());
      file_->release(parts[i]->bytes);
    }
  }

  static uint64_t count_of(const std::vector<Floats>& parts) {
    uint64_t count = 0;
    for (const Floats& part : parts) count += part.count();
    return count;
  }

  void report_floats(const std::vector<Floats>& parts, const std::string& buffer) {
    for (const Floats& part : parts)
      if (part.tensor) report(*part.tensor, "f32", part.count() * 4, buffer);
  }

  void upload_floats(const std::vector<Floats>& parts, const View& to, float scale = 1) {
    file_->check_length();
    std::vector<float> values(to.bytes / 4);
    std::span<float> rest = values;
    for (const Floats& part : parts) {
      const std::span<float> own = rest.first(part.count());
      rest = rest.subspan(own.size());
      if (!part.tensor) continue;
      to_float(*part.tensor, 0, own);
      for (float& value : own) value = (value + part.offset) * scale;
      advance(part.tensor->bytes.size());
    }
    uploader_.upload(to, std::span<const float>(values));
  }

  std::shared_ptr<Device> device_;
  std::shared_ptr<const ModelFile> file_;
  Config config_;
  DeviceFormats wanted_;
  std::function<void(float)> progress_;  // may be none
  Uploader uploader_;
  Parts parts_;
  Weights weights_;
  uint64_t total_bytes_ = 0, done_bytes_ = 0;
  uint64_t slot_bytes_ = 0;  // of the largest layer, where they are streamed
  struct Due {               // a layer that is allocated; weights_ may have been moved away since
    LayerWeights* layer;
    std::vector<Rounding*> roundings;
  };
  std::vector<Due> due_;
  bool later_ = false;         // the layers are brought when load() has returned
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
  Parts parts(file, config);
  Config half = config.encoder ? *config.encoder : Config();
  Parts encoder(file, half);
  parts.check(config.encoder ? &encoder : nullptr);
}

std::string Weights::type() const {
  std::string text;
  for (const Format format : kFormats)
    if (std::ranges::any_of(tensors, [&](const TensorReport& tensor) { return tensor.device_type == name(format); }))
      text += (text.empty() ? "" : "+") + std::string(name(format));
  return text;
}

Weights load_weights(const std::shared_ptr<Device>& device, const ModelFile& file, Config& config,
                     const DeviceFormats& formats, const std::function<void(float)>& progress) {
  Loader loader(device, {std::shared_ptr<void>(), &file}, config, formats, progress);
  Weights weights = loader.load(false);
  config.vocab = loader.vocab();
  return weights;
}

Weights begin_weights(const std::shared_ptr<Device>& device, std::shared_ptr<const ModelFile> file, Config& config,
                      const DeviceFormats& formats, const std::function<void(float)>& progress) {
  const auto loader = std::make_shared<Loader>(device, std::move(file), config, formats, progress);
  Weights weights = loader->load(true);
  config.vocab = loader->vocab();
  if (loader->left())
    weights.arrival =
        std::make_unique<Arrival>(config.layers, [loader](uint32_t layer) { loader->bring_layer(layer); });
  return weights;
}

}  // namespace weft
