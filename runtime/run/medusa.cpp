#include "run/medusa.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "model/tensors.h"
#include "model/weights_layout.h"
#include "run/record_pass.h"

namespace weft {
namespace {

constexpr char kArchitecture[] = "medusa";
constexpr size_t kMostRanges = 16;  // each is a dispatch
constexpr uint32_t kMostLayers = 8;

[[noreturn]] void refuse(const ModelFile& file, const std::string& sentence, const std::string& hint = {}) {
  throw Error(Code::bad_file, sentence, file.path.string(), hint);
}

uint32_t number(const ModelFile& file, const char* key) {
  const JsonValue* found = file.metadata.find(key);
  if (found == nullptr || !found->is_number_unsigned() || found->get<uint64_t>() > UINT32_MAX)
    refuse(file, std::string("it has no number '") + key + "'");
  return found->get<uint32_t>();
}

// The heads that the file has for a model of this width.
MedusaHeads::Shape checked_shape(const ModelFile& file, uint32_t width) {
  const JsonValue* architecture = file.metadata.find("general.architecture");
  if (file.kind != ModelFile::Kind::gguf || architecture == nullptr || *architecture != kArchitecture)
    refuse(file, "it has no Medusa heads", "docs/formats.md says what a file of them is");
  const uint32_t own = number(file, "medusa.embedding_length"), count = number(file, "medusa.head_count");
  const uint32_t layers = file.metadata.find("medusa.layer_count") ? number(file, "medusa.layer_count") : 1;
  const auto limit = [&](uint32_t value, uint32_t most, const char* what) {
    if (value == 0 || value > most)
      refuse(file, "it has " + std::to_string(value) + what + ", expected 1 to " + std::to_string(most));
  };
  limit(count, kMostMedusaHeads, " heads");
  limit(layers, kMostLayers, " layers");
  if (own != width)
    throw Error(Code::invalid_argument,
                "its heads are of a model of width " + std::to_string(own) + ", the session's model has " +
                    std::to_string(width),
                file.path.string(), "heads belong to the model that they were trained for");
  const bool tables = file.find("medusa.0.output.weight") != nullptr;
  if (file.tensors.size() != size_t{count} * (2 * layers + (tables ? 1 : 0)))
    refuse(file, "it has " + std::to_string(file.tensors.size()) +
                     " tensors, expected a weight and a bias for each of " + std::to_string(count) + " heads" +
                     (layers > 1 ? " and each layer" : "") + (tables ? ", and a vocabulary matrix" : ""));
  return {count, layers, tables};
}

// A head's tensor: of its first layer "weight" and "bias", of another one "1.weight", ...
const TensorView* need(const ModelFile& file, uint32_t head, const std::string& what,
                       const std::vector<uint64_t>& shape) {
  const std::string name = "medusa." + std::to_string(head) + "." + what;
  const TensorView* const tensor = file.find(name);
  if (!tensor) refuse(file, "the tensor '" + name + "' is missing");
  if (tensor->shape != shape)
    refuse(file, "tensor '" + name + "' has the shape " + text_of(tensor->shape) + ", expected " + text_of(shape));
  return tensor;
}

// A tensor's numbers, all of which are finite.
std::vector<float> floats_of(const ModelFile& file, const TensorView& tensor) {
  std::vector<std::byte> bytes;
  std::vector<float> values(element_count(tensor.shape));
  to_float(file.read(tensor, bytes), 0, values);
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
    refuse(file, "tensor '" + tensor.name + "' has a number that is not finite");
  return values;
}

// States that are projected at once come in whole groups (ops::project).
uint32_t whole_groups(uint32_t count, const Plan& plan) {
  return static_cast<uint32_t>(align_up(count, std::min(count, plan.block_tokens)));
}

}  // namespace

MedusaHeads::MedusaHeads(const Model& model, const ModelFile& file)
    : model_(model),
      device_(model.device),
      shape_(checked_shape(file, model.config.width)),
      stride_(stride_of(model.config.width)),
      rows_(whole_groups(shape_.heads, device_->plan())),
      pool_(device_) {
  model.weights.need_all_rows("medusa");
  file.check_length();
  for (uint32_t layer = 0; layer < shape_.layers; ++layer) layers_.push_back(load_layer(file, layer));
  for (uint32_t head = 0; shape_.own_tables && head < shape_.heads; ++head) load_table(file, head);
  read_ranges(file);
  const auto scratch = [&](const char* name, uint64_t rows, uint64_t row_bytes) {
    return Buffer(device_, name, rows * row_bytes, Memory::device);
  };
  branches_ = scratch("medusa branches", shape_.heads, uint64_t{stride_} * 4);
  states_ = scratch("medusa states", rows_, uint64_t{stride_} * 4);
  rotated_ = scratch("medusa rotated", rows_, uint64_t{stride_} * 4);
  logits_ = scratch("medusa logits", rows_, uint64_t{stride_of(model.config.vocab)} * 4);
  greedy_ = Buffer(device_, "medusa sampling", sizeof(abi::SampleParams), Memory::shared);
  *greedy_.as<abi::SampleParams>() = {};
  candidate_stride_ = static_cast<uint32_t>(
      align_up(ops::candidate_count(model.config.vocab), kViewAlignment / sizeof(abi::Candidate)));
  candidates_ = scratch("medusa candidates", shape_.heads, uint64_t{candidate_stride_} * sizeof(abi::Candidate));
  guesses_ = Buffer(device_, "medusa guesses", size_t{shape_.heads} * kRanks * sizeof(abi::Guess), Memory::readback);
  // The products read the padding after a row's columns, and the rows after the heads'.
  run_once(device_, "clear medusa", [&](Recorder& recorder) {
    recorder.fill(states_, 0);
    recorder.fill(rotated_, 0);
    recorder.fill(logits_, std::bit_cast<uint32_t>(-std::numeric_limits<float>::infinity()));
  });
}

MedusaHeads::Layer MedusaHeads::load_layer(const ModelFile& file, uint32_t number) const {
  const uint32_t width = model_.config.width, count = shape_.heads;
  const std::string prefix = number == 0 ? "" : std::to_string(number) + ".";
  const uint32_t padding =
      stride_ - width;  // rows of zeros after each head's, of the head's type: it may be a native format's
  const std::vector<std::byte> zeros(size_t{padding} * width * sizeof(float));
  std::vector<float> biases(size_t{count} * stride_);
  std::vector<TensorView> copies, paddings;
  std::vector<std::vector<std::byte>> bytes(count);
  for (uint32_t head = 0; head < count; ++head) {
    const TensorView& weight = *need(file, head, prefix + "weight", {width, width});
    floats_of(file, weight);
    copies.push_back(file.read(weight, bytes[head]));
    const uint64_t blocks = uint64_t{padding} * (width / block_elements(weight.dtype));
    paddings.push_back(
        {"zeros", weight.dtype, {padding, width}, std::span(zeros).first(blocks * block_bytes(weight.dtype))});
    std::ranges::copy(floats_of(file, *need(file, head, prefix + "bias", {width})), &biases[size_t{head} * stride_]);
  }
  std::vector<const TensorView*> sources, parts;
  for (uint32_t head = 0; head < count; ++head) {
    sources.push_back(&copies[head]);
    parts.push_back(&copies[head]);
    if (padding > 0) parts.push_back(&paddings[head]);
  }
  Layer layer;
  layer.weights = {format_of(std::nullopt, sources), count * stride_, width};
  layer.matrix = Buffer(device_, "medusa heads", layer.weights.bytes(), Memory::device);
  layer.bias = Buffer(device_, "medusa biases", biases.size() * 4, Memory::device);
  layer.weights.view = layer.matrix;
  Uploader uploader(device_);
  upload_matrix(uploader, layer.weights, parts, [](uint64_t) {});
  uploader.upload(layer.bias, std::span<const float>(biases));
  return layer;
}

void MedusaHeads::load_table(const ModelFile& file, uint32_t head) {
  const uint32_t vocab = model_.config.vocab, width = model_.config.width;
  const TensorView& tensor = *need(file, head, "output.weight", {vocab, width});
  floats_of(file, tensor);
  std::vector<std::byte> bytes;
  const TensorView copy = file.read(tensor, bytes);
  const TensorView* const sources[] = {&copy};
  Matrix table = {format_of(std::nullopt, sources), vocab, width};
  table_buffers_.emplace_back(device_, "medusa table", table.bytes(), Memory::device);
  table.view = table_buffers_.back();
  Uploader uploader(device_);
  upload_matrix(uploader, table, sources, [](uint64_t) {});
  tables_.push_back(table);
}

void MedusaHeads::read_ranges(const ModelFile& file) {
  const JsonValue* found = file.metadata.find("medusa.rows");
  if (found == nullptr) return;
  if (shape_.own_tables) refuse(file, "'medusa.rows' is of the model's table, and the heads have their own");
  const auto is_number = [](const JsonValue& one) {
    return one.is_number_unsigned() && one.get<uint64_t>() <= UINT32_MAX;
  };
  if (!found->is_array() || found->size() % 2 != 0 || found->empty() || found->size() > 2 * kMostRanges ||
      !std::ranges::all_of(found->items(), is_number))
    refuse(file, "'medusa.rows' is no list of pairs of numbers");
  const uint32_t vocab = model_.config.vocab;
  for (uint64_t i = 0, end = 0; i < found->size(); i += 2) {
    const auto first = (*found)[i].get<uint64_t>(), count = (*found)[i + 1].get<uint64_t>();
    if (first < end || first % TILE_ROWS != 0 || count == 0 || first + count > vocab)
      refuse(file, "'medusa.rows' has " + std::to_string(count) + " rows from " + std::to_string(first) +
                       " on, expected rows from a multiple of 64 on, in order, of the table's " +
                       std::to_string(vocab));
    ranges_.push_back({static_cast<uint32_t>(first), static_cast<uint32_t>(count)});
    end = first + count;
  }
}

const CommandBuffer& MedusaHeads::commands(const View& hidden, const View& state) {
  const Place place = {hidden.buffer->handle(), hidden.offset};
  if (const auto found = recorded_.find(place); found != recorded_.end()) return found->second;
  const auto record = [&](Recorder& r) { this->record(r, hidden, state); };
  return recorded_.emplace(place, record_commands(pool_, "medusa", record)).first->second;
}

void MedusaHeads::record(Recorder& r, const View& hidden, const View& state) const {
  const Matrix& table = model_.weights.output_table().matrix();
  const uint32_t width = model_.config.width, count = shape_.heads;
  const uint64_t bytes = uint64_t{stride_} * 4;
  const auto with_bias = [](const Layer& layer) {
    Matrix weights = layer.weights;
    weights.view = layer.matrix;
    weights.bias = layer.bias;
    return weights;
  };
  ops::matmul(r, with_bias(layers_[0]), state, hidden, branches_, 1, ops::Output::write);
  ops::residual(r, hidden, branches_, states_, width, count);
  for (uint32_t layer = 1; layer < shape_.layers; ++layer)  // each head has an input of its own from here on
    for (uint32_t head = 0; head < count; ++head) {
      const View x = View(states_).part(head * bytes, bytes), y = View(branches_).part(head * bytes, bytes);
      Matrix own = with_bias(layers_[layer]);
      own.rows = stride_;
      own.view = own.view.part(head * own.bytes(), own.bytes());
      own.bias = own.bias.part(head * bytes, bytes);
      ops::matmul(r, own, state, x, y, 1, ops::Output::write);
      ops::residual(r, x, y, x, width, 1);
    }
  const uint32_t vocab = model_.config.vocab;
  const auto row_of = [&](const Buffer& rows, uint32_t head, uint64_t row_bytes) {
    return View(rows).part(head * row_bytes, row_bytes);
  };
  const uint64_t logit_bytes = uint64_t{stride_of(vocab)} * 4,
                 candidate_bytes = uint64_t{candidate_stride_} * sizeof(abi::Candidate);
  if (shape_.own_tables) {
    for (uint32_t head = 0; head < count; ++head) {
      Matrix own = tables_[head];
      own.view = table_buffers_[head];
      ops::matmul(r, own, state, row_of(states_, head, bytes), row_of(logits_, head, logit_bytes), 1,
                  ops::Output::write);
    }
  } else {
    ops::rotate(r, table, states_, rotated_, rows_);
    ops::project(r, table, rotated_, logits_, rows_, ranges_);
  }
  for (uint32_t head = 0; head < count; ++head)
    ops::sample(r, state, greedy_, row_of(logits_, head, logit_bytes), row_of(candidates_, head, candidate_bytes),
                {vocab});
  ops::best(r, logits_, vocab, candidates_, candidate_stride_, guesses_, count, kRanks);
}

}  // namespace weft
