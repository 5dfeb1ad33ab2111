#include "model/weights_loader.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/weights_layout.h"

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

}  // namespace

WeightsLoader::WeightsLoader(std::shared_ptr<Device> device, std::shared_ptr<const ModelFile> file,
                             const Config& config, const DeviceFormats& formats, std::shared_ptr<WeightsReport> report,
                             std::string prefix)
    : device_(std::move(device)),
      file_(std::move(file)),
      config_(config),
      wanted_(formats),
      report_(std::move(report)),
      prefix_(std::move(prefix)),
      uploader_(device_),
      parts_(*file_, config_) {}

bool WeightsLoader::check(WeightsLoader* encoder) {
  parts_.check(encoder ? &encoder->parts_ : nullptr);
  choose_vocabulary();
  layer_buffer_bytes_ =
      layer_buffer_bytes(device_->plan(), config_, parts_, vocabulary_, wanted_, file_->path.string());
  check_split(encoder != nullptr);
  return !layer_buffer_bytes_ && !encoder && !config_.layer_kind.sees_all;
}

void WeightsLoader::check_split(bool has_encoder) const {
  if (!wanted_.split) return;
  const char* const hint = "load it on one device";
  if (has_encoder || config_.layer_kind.sees_all)
    throw Error(Code::unsupported, "the vocabulary of the family '" + config_.family + "' is not split between devices",
                file_->path.string(), hint);
  if (config_.head)
    throw Error(Code::unsupported, config_.head->refusal() + ": the vocabulary is not split between devices",
                file_->path.string(), hint);
  if (layer_buffer_bytes_)
    throw Error(Code::unsupported, "layers are not streamed if the vocabulary is split between devices",
                file_->path.string(), "give a larger budget, or load it on one device");
}

// A Hugging Face folder may say that its tables are not tied, a GGUF file does not.
void WeightsLoader::choose_vocabulary() {
  const Parts::Vocabulary stored = parts_.find_vocabulary();
  const auto release_rows = [&](uint64_t rows) {
    file_->check_length();
    for (const TensorView* table : {stored.embedding, stored.output})
      if (!table->rows) file_->release(rows_of(*table, 0, rows).bytes);
  };
  vocabulary_ = choose_tables(stored, wanted_.tie && config_.tied != false, release_rows);
  weights_.untied_by_tensors = config_.tied == true && vocabulary_.output;
  if (vocabulary_.left_out) config_.tied = true;  // one table stored twice, whatever the folder says
}

void WeightsLoader::load_vocabulary() {
  const auto& [embedding, output, left_out, difference] = vocabulary_;
  weights_.embedding = load_table(*embedding, output ? "embedding table" : "vocabulary table", !output);
  if (output) weights_.separate_output = load_table(*output, "output table", true);
  if (left_out) report_left_out();
  if (config_.layer_input > 0) load_layer_inputs();
}

// The second copy of a tied table.
void WeightsLoader::report_left_out() {
  const auto& [embedding, output, left_out, difference] = vocabulary_;
  Rounding rounding = report_->tensors.back().rounding;  // of the first
  if (vocabulary_.tied_by_rounding()) {
    weights_.tie = {embedding->name, left_out->name, difference.relative};
    rounding = {rounding.largest_error + difference.largest, difference.largest_value};
  }
  report_->add(*left_out, name(weights_.embedding->matrix().format), 0, "vocabulary table", rounding);
  report_->advance(stored_bytes(*left_out).size());
}

std::shared_ptr<const Basis> WeightsLoader::basis(const TensorView& table) const {
  return std::make_shared<const Basis>(wanted_.states ? basis_for(*wanted_.states, table) : Basis(config_.width));
}

// projected: hidden states are projected on it; else it is only gathered from.
std::unique_ptr<Table> WeightsLoader::load_table(const TensorView& tensor, const std::string& buffer, bool projected) {
  file_->check_length();
  const Format format = table_format(wanted_, tensor, projected);
  const std::shared_ptr<const Basis> basis = projected && !is_plain(wanted_) ? this->basis(tensor) : nullptr;
  if (!wanted_.rows.empty()) return load_rows(tensor, format, basis, buffer);
  Rounding rounding;
  std::unique_ptr<Table> table;
  uint64_t bytes = 0;
  if (!wanted_.split) {
    table = load_part(device_, tensor, format, basis, buffer, rounding);
    bytes = table->buffer().bytes();
  } else {
    const std::vector<uint32_t> bounds = wanted_.split->bounds(config_.vocab);
    weights_.shards.reserve(bounds.size());  // they stay where they are
    for (size_t i = 0; i + 1 < bounds.size(); ++i) {
      const uint64_t first = bounds[i], count = bounds[i + 1] - first;
      const TensorView part = rows_of(tensor, first, count);
      const std::shared_ptr<Device>& device = i == 0 ? device_ : wanted_.split->others[i - 1];
      auto loaded = load_part(device, part, format, basis, buffer, rounding);
      bytes += loaded->buffer().bytes();
      if (i == 0) {
        table = std::move(loaded);
      } else if (weights_.shards.size() < i) {
        weights_.shards.push_back({device, bounds[i], std::move(loaded), nullptr});
      } else {
        weights_.shards[i - 1].separate_output = std::move(loaded);
      }
    }
  }
  report_->add(tensor, name(format), bytes, buffer, rounding);
  return table;
}

// All of a table, or a device's part.
std::unique_ptr<Table> WeightsLoader::load_part(const std::shared_ptr<Device>& device, const TensorView& part,
                                                Format format, std::shared_ptr<const Basis> basis,
                                                const std::string& buffer, Rounding& rounding, Memory memory) {
  const uint64_t total = Matrix{format,
                                static_cast<uint32_t>(part.shape[0]),
                                static_cast<uint32_t>(part.shape[1]),
                                {},
                                basis ? Layout::planes : Layout::values}
                             .bytes();
  const double scale = static_cast<double>(part.bytes.size()) / static_cast<double>(total);
  uint64_t packed = 0, told = 0;
  const auto progress = [&](uint64_t bytes) {
    file_->check_length();
    packed += bytes;
    const uint64_t now =
        packed == total ? part.bytes.size() : static_cast<uint64_t>(scale * static_cast<double>(packed));
    report_->advance(now - told);
    told = now;
    file_->release(part.bytes.first(now));
  };
  Uploader uploader(device);
  return std::make_unique<Table>(device, uploader, std::span(&part, 1), format, std::move(basis), buffer, progress,
                                 &rounding, memory);
}

// Loads only the wanted rows.
std::unique_ptr<Table> WeightsLoader::load_rows(const TensorView& tensor, Format format,
                                                std::shared_ptr<const Basis> basis, const std::string& buffer,
                                                Memory memory) {
  std::vector<TensorView> rows;
  for (const uint32_t row : wanted_.rows) {
    if (row >= tensor.shape[0])
      throw Error(Code::bad_file,
                  "the tokenizer has an id " + std::to_string(row) + ", the tensor '" + tensor.name + "' " +
                      std::to_string(tensor.shape[0]) + " rows",
                  file_->path.string());
    rows.push_back(rows_of(tensor, row, 1));
  }
  auto table = std::make_unique<Table>(
      device_, uploader_, rows, format, std::move(basis), buffer, [](uint64_t) {}, nullptr, memory);
  report_->add(tensor, name(format), table->buffer().bytes(), buffer, {});
  report_->advance(stored_bytes(tensor).size());
  return table;
}

void WeightsLoader::load_body(bool later) {
  if (config_.has_position_table()) load_positions();
  if (config_.layer_kind.positions == Positions::bucketed) load_score_biases();
  if (config_.layer_kind.embedding_norm)
    load_norm(weights_.embedding_norm, parts_.norm_parts("token_embd_norm", -1), "embedding norm", 1);
  if (config_.bands > 0) {
    weights_.sound = std::make_unique<SoundInput>();
    SoundInput& own = *weights_.sound;
    upload(-1, parts_.sound_input(own), allocate(own.buffer, "sound input", -1, parts_.sound_input(own)));
  }
  weights_.layers.reserve(config_.layers);
  for (uint32_t index = 0; index < config_.layers; ++index) {
    Layer& layer = weights_.layers.emplace_back(config_, index);
    const int number = static_cast<int>(index);
    due_.push_back(
        {&layer, allocate(layer.buffer, "layer " + std::to_string(index), number, parts_.layer(layer, number))});
  }
  load_attention_norms();
  for (uint32_t layer = 0; layer < config_.layers && !later; ++layer) load_layer(layer);
  if (layer_buffer_bytes_) begin_stream();
  load_norm(weights_.final_norm, parts_.final_norm_parts(), "final norm", config_.logit_scale);
}

void WeightsLoader::load_layer(uint32_t index) {
  const Due& due = due_[index];
  upload(static_cast<int>(index), parts_.layer(*due.layer, static_cast<int>(index)), due.roundings);
}

void WeightsLoader::load_ends() {
  if (parts_.has_masked_head()) {
    weights_.masked_head = std::make_unique<MaskedHead>();
    MaskedHead& head = *weights_.masked_head;
    const std::vector<Rounding*> roundings = allocate(head.buffer, "masked-token head", -1, parts_.masked_head(head));
    upload(-1, parts_.masked_head(head), roundings);
  }
  if (config_.backbone > 0) {
    weights_.assistant = std::make_unique<AssistantEnds>();
    AssistantEnds& ends = *weights_.assistant;
    upload(-1, parts_.assistant_ends(ends), allocate(ends.buffer, "drafter's ends", -1, parts_.assistant_ends(ends)));
  }
  if (config_.head) load_head();
  const TensorView* const bias = parts_.logit_bias();
  if (!bias) return;
  // It is 0 in all known models: then nothing is added.
  const std::vector<float> values = floats_of({{bias}}, 1);
  const bool any = std::ranges::any_of(values, [](float value) { return value != 0; });
  if (any) upload_floats(weights_.logit_bias, "logit bias", values);
  report_->add_floats(*bias, any ? values.size() : 0, "logit bias");
}

void WeightsLoader::load_head() {
  const OutputHead& head = *config_.head;
  head.check_device(device_->plan(), config_.vocab, file_->path.string());
  weights_.head = std::make_unique<HeadWeights>();
  HeadWeights& own = *weights_.head;
  upload(-1, parts_.head(own), allocate(own.buffer, head.buffer_name(), -1, parts_.head(own)));
  const HeadConstants constants = head.constants(config_.vocab);
  if (constants.words.empty()) return;
  own.constants = Buffer(device_, constants.name, constants.words.size() * 4, Memory::device);
  uploader_.upload(own.constants, std::span<const uint32_t>(constants.words));
}

void WeightsLoader::load_layer_inputs() {
  weights_.layer_inputs = std::make_unique<LayerInputs>();
  LayerInputs& own = *weights_.layer_inputs;
  const bool has_table = config_.has_layer_input_table();
  if (has_table) load_layer_input_table(own.table);
  upload(-1, parts_.layer_inputs(own), allocate(own.buffer, "layer inputs", -1, parts_.layer_inputs(own)));
  // The half of the factor sqrt(1/2) that is not the table's.
  load_norm(own.norm, parts_.layer_input_norm(), "layer inputs' norm", has_table ? std::sqrt(0.5f) : 1);
}

// The table stays in the host's memory: a token reads one row of it.
void WeightsLoader::load_layer_input_table(std::unique_ptr<Table>& table) {
  const char* const name = "per-layer embeddings";
  const TensorView& tensor = parts_.layer_input_table();
  const Format format = layer_input_format(wanted_.tables, tensor);
  file_->check_length();
  if (!wanted_.rows.empty()) {
    table = load_rows(tensor, format, nullptr, name, Memory::upload);
  } else {
    Rounding rounding;
    table = load_part(device_, tensor, format, nullptr, name, rounding, Memory::upload);
    report_->add(tensor, weft::name(format), table->bytes(), name, rounding);
  }
}

void WeightsLoader::load_image(ImageEnds& ends) {
  parts_.check_image(ends);
  load_body(false);
  const std::vector<Rounding*> roundings = allocate(ends.buffer, "image ends", -1, parts_.image_ends(ends));
  upload(-1, parts_.image_ends(ends), roundings);
  for (PatchMerger& own : ends.mergers) {
    const std::string name = own.number < 0 ? "merger" : "merger " + std::to_string(own.number);
    const std::vector<Rounding*> rounded = allocate(own.buffer, name, own.number, parts_.merger(own, ends));
    upload(own.number, parts_.merger(own, ends), rounded);
  }
  if (ends.mergers.empty()) return;
  const TensorView& positions = parts_.position_square(ends);
  ends.positions = floats_of({{&positions}}, 1);
  report_->add_floats(positions, 0, "the host's memory");
}

// scale: multiplies the norm's output.
void WeightsLoader::load_norm(Buffer& buffer, const std::vector<Floats>& parts, const char* name, float scale) {
  upload_floats(buffer, name, floats_of(parts, scale));
  for (const Floats& part : parts)
    if (part.tensor) report_->add_floats(*part.tensor, part.count(), buffer.name());
}

void WeightsLoader::load_attention_norms() {
  std::vector<float> values;
  for (uint32_t index = 0; index < config_.layers; ++index) {
    const std::vector<float> own = floats_of(parts_.attention_norm_parts(static_cast<int>(index)), 1);
    values.insert(values.end(), own.begin(), own.end());
    values.resize(align_up(values.size() * 4, kViewAlignment) / 4);
  }
  upload_floats(weights_.attention_norms, "attention norms", values);
  for (uint32_t index = 0; index < config_.layers; ++index)
    for (const Floats& part : parts_.attention_norm_parts(static_cast<int>(index)))
      if (part.tensor) report_->add_floats(*part.tensor, part.count(), weights_.attention_norms.name());
}

void WeightsLoader::load_positions() {
  const uint64_t bytes = uint64_t{config_.context} * config_.width * 4, limit = device_->plan().slice_bytes;
  if (bytes > limit)
    throw Error(Code::unsupported,
                "the position table has " + std::to_string(bytes) + " bytes, a binding of this device reaches " +
                    std::to_string(limit),
                file_->path.string());
  const char* const name = "position table";
  if (config_.layer_kind.positions == Positions::sinusoidal)
    return upload_floats(weights_.positions, name, sinusoids(config_.context, config_.width));
  const bool learned = config_.layer_kind.positions == Positions::learned;
  std::vector<float> rows(learned ? 0 : size_t{config_.context} * config_.width);
  if (learned) {
    rows = floats_of({{&parts_.position_table()}}, 1);
    rows.erase(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(parts_.first_position() * config_.width));
  }
  if (const TensorView* types = parts_.token_types()) {
    // Weft reads only texts of the first type: that type's row is added to each position's row.
    const std::vector<float> type = floats_of({{types}}, 1);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] += type[i % config_.width];
    report_->add_floats(*types, 0, prefix_ + name);
  }
  upload_floats(weights_.positions, name, rows);
  if (learned) report_->add_floats(parts_.position_table(), rows.size(), weights_.positions.name());
}

void WeightsLoader::load_score_biases() {
  const TensorView& table = parts_.score_table();
  const std::vector<float> biases =
      biases_by_distance(config_.buckets, floats_of({{&table}}, 1), config_.heads.heads, config_.layer_kind.sees_all);
  upload_floats(weights_.score_biases, "score biases", biases);
  report_->add_floats(table, biases.size(), weights_.score_biases.name());
}

// Gives the pieces of a layer, or of the network (index -1), one buffer. The sizes come from
// tensors that the file really holds. Returns where to note the rounding of each of the matrices' sources.
std::vector<Rounding*> WeightsLoader::allocate(Buffer& buffer, const std::string& name, int index,
                                               const Pieces& pieces) {
  const Parts::Sources sources = parts_.sources_of(pieces.matrices, index, Parts::AsStored::yes);
  const uint64_t bytes = set_offsets(pieces, sources, wanted_.matrices);
  buffer = Buffer(device_, prefix_ + name, bytes, layer_buffer_bytes_ ? Memory::upload : Memory::device);
  std::vector<Rounding*> roundings;
  auto source = sources.begin();
  for (const MatrixSource& linear : pieces.matrices) {
    const Matrix& matrix = linear.matrix;
    for (uint32_t copy = 0; copy < linear.copies(); ++copy, ++source) {
      uint64_t first = 0;
      for (size_t i = 0; i < linear.parts.size(); ++i) {
        const uint64_t rows = linear.parts[i].rows;
        const Format format = matrix.first_rows > 0 && first >= matrix.first_rows ? matrix.second : matrix.format;
        TensorReport& entry =
            report_->add(*(*source)[i], weft::name(format), packed_bytes(format, rows, linear.cols), buffer.name());
        entry.shape = {rows, linear.cols};  // however it is stored
        roundings.push_back(&entry.rounding);
        first += rows;
      }
    }
  }
  for (const VectorSource& vector : pieces.vectors)
    for (const Floats& part : vector.parts) {
      if (part.tensor) report_->add(*part.tensor, "f32", part.count() * 4, buffer.name());
      if (part.factor) report_->add(*part.factor, "f32", 0, buffer.name());
    }
  set_buffer(pieces, buffer);
  parts_.forget();
  return roundings;
}

void WeightsLoader::set_buffer(const Pieces& pieces, const Buffer& buffer) {
  for (const MatrixSource& linear : pieces.matrices) linear.matrix.view.buffer = &buffer;
  for (const VectorSource& vector : pieces.vectors) vector.view.buffer = &buffer;
}

// Packs and uploads pieces that have been allocated.
void WeightsLoader::upload(int index, const Pieces& pieces, std::span<Rounding* const> roundings) {
  const Parts::Sources sources = parts_.sources_of(pieces.matrices, index, Parts::AsStored::no);
  auto source = sources.begin();
  for (const MatrixSource& linear : pieces.matrices)
    for (uint32_t copy = 0; copy < linear.copies(); ++copy, ++source) {
      Matrix one = linear.matrix;
      one.view = linear.matrix.view.part(copy * one.bytes(), one.bytes());
      upload_one(one, *source, roundings.first(source->size()));
      roundings = roundings.subspan(source->size());
    }
  for (const VectorSource& vector : pieces.vectors) {
    file_->check_length();
    const std::vector<float> values = floats_of(vector.parts, 1);
    uploader_.upload(vector.view, std::span<const float>(values));
    for (const Floats& part : vector.parts)
      for (const TensorView* tensor : {part.tensor, part.factor})
        if (tensor) report_->advance(stored_bytes(*tensor).size());
  }
  parts_.forget();
}

void WeightsLoader::upload_one(const Matrix& matrix, const std::vector<const TensorView*>& sources,
                               std::span<Rounding* const> to_note) {
  std::vector<Rounding> roundings(sources.size());
  std::vector<std::vector<std::byte>> bytes(sources.size());
  std::vector<TensorView> copies;
  std::vector<const TensorView*> parts;
  if (std::ranges::any_of(sources, [](const TensorView* source) { return source->rows != nullptr; }))
    file_->check_length();
  for (size_t i = 0; i < sources.size(); ++i) copies.push_back(file_->read(*sources[i], bytes[i]));
  for (const TensorView& copy : copies) parts.push_back(&copy);
  size_t from = 0;
  for (const Matrix& run : matrix.runs()) {
    size_t to = from;
    for (uint64_t rows = 0; rows < run.rows; ++to) rows += parts[to]->shape[0];
    upload_matrix(
        uploader_, run, std::span(parts).subspan(from, to - from), [](uint64_t) {},
        std::span(roundings).subspan(from, to - from));
    from = to;
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    *to_note[i] = roundings[i];
    report_->advance(stored_bytes(*sources[i]).size());
    if (sources[i]->rows) file_->release(stored_bytes(*sources[i]));
  }
}

void WeightsLoader::upload_floats(Buffer& buffer, const char* name, std::span<const float> values) {
  file_->check_length();
  buffer = Buffer(device_, prefix_ + name, values.size_bytes(), Memory::device);
  uploader_.upload(buffer, values);
}

// The parts' numbers, one part after the other, times scale.
std::vector<float> WeightsLoader::floats_of(const std::vector<Floats>& parts, float scale) const {
  std::vector<float> values;
  for (const Floats& part : parts) {
    const size_t first = values.size();
    values.resize(first + part.count());
    if (!part.tensor) {
      std::fill(values.begin() + static_cast<ptrdiff_t>(first), values.end(), part.offset * scale);
      continue;
    }
    const std::span<float> own = std::span(values).subspan(first);
    std::vector<std::byte> bytes;
    to_float(file_->read(*part.tensor, bytes), 0, own);
    for (float& value : own) value = (value + part.offset) * scale;
    if (part.map == Map::minus_exp)
      for (float& value : own) value = -std::exp(value);
    if (!part.factor) continue;
    std::vector<float> factors(own.size());
    to_float(file_->read(*part.factor, bytes), 0, factors);
    for (size_t i = 0; i < own.size(); ++i) own[i] *= factors[i];
  }
  return values;
}

// The layers have been packed in the host's memory: from now on their views are in the layer buffers.
void WeightsLoader::begin_stream() {
  weights_.stream = std::make_unique<Stream>();
  for (Buffer& buffer : weights_.stream->buffers)
    buffer = Buffer(device_, "layer buffer", layer_buffer_bytes_, Memory::device);
  for (uint32_t index = 0; index < config_.layers; ++index)
    set_buffer(parts_.layer(weights_.layers[index], static_cast<int>(index)), weights_.stream->buffer(index));
}

}  // namespace weft
