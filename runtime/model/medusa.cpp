#include "model/medusa.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/tensors.h"
#include "model/weights_layout.h"

namespace weft {
namespace {

constexpr char kArchitecture[] = "medusa";
constexpr size_t kMostRanges = 16;  // each is a dispatch

[[noreturn]] void refuse(const ModelFile& file, const std::string& sentence, const std::string& hint = {}) {
  throw Error(Code::bad_file, sentence, file.path.string(), hint);
}

uint32_t number(const ModelFile& file, const char* key) {
  const JsonValue* found = file.metadata.find(key);
  if (found == nullptr || !found->is_number_unsigned() || found->get<uint64_t>() > UINT32_MAX)
    refuse(file, std::string("it has no number '") + key + "'");
  return found->get<uint32_t>();
}

// How many heads the file has for a model of this width.
uint32_t checked_count(const ModelFile& file, uint32_t width) {
  const JsonValue* architecture = file.metadata.find("general.architecture");
  if (file.kind != ModelFile::Kind::gguf || architecture == nullptr || *architecture != kArchitecture)
    refuse(file, "it has no Medusa heads", "docs/formats.md says what a file of them is");
  const uint32_t own = number(file, "medusa.embedding_length"), count = number(file, "medusa.head_count");
  if (count == 0 || count > kMostMedusaHeads)
    refuse(file, "it has " + std::to_string(count) + " heads, expected 1 to " + std::to_string(kMostMedusaHeads));
  if (own != width)
    throw Error(Code::invalid_argument,
                "its heads are of a model of width " + std::to_string(own) + ", the session's model has " +
                    std::to_string(width),
                file.path.string(), "heads belong to the model that they were trained for");
  if (file.tensors.size() != 2 * size_t{count})
    refuse(file, "it has " + std::to_string(file.tensors.size()) +
                     " tensors, expected a weight and a bias for each of " + std::to_string(count) + " heads");
  return count;
}

const TensorView* need(const ModelFile& file, uint32_t head, const char* what, const std::vector<uint64_t>& shape) {
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
      count_(checked_count(file, model.config.width)),
      stride_(stride_of(model.config.width)),
      rows_(whole_groups(count_, device_->plan())),
      pool_(device_) {
  model.weights.need_all_rows("medusa");
  load(file);
  read_ranges(file);
  const auto scratch = [&](const char* name, uint64_t rows, uint64_t row_bytes) {
    return Buffer(device_, name, rows * row_bytes, Memory::device);
  };
  branches_ = scratch("medusa branches", count_, uint64_t{stride_} * 4);
  states_ = scratch("medusa states", rows_, uint64_t{stride_} * 4);
  rotated_ = scratch("medusa rotated", rows_, uint64_t{stride_} * 4);
  best_count_ = ops::best_count(device_->plan(), model.weights.output_table().matrix(), ranges_);
  candidates_ = scratch("medusa candidates", rows_, uint64_t{best_count_} * sizeof(abi::Candidate));
  guesses_ = Buffer(device_, "medusa guesses", count_ * sizeof(abi::Guess), Memory::readback);
  // The products read the padding after a row's columns, and the rows after the heads'.
  run_once(device_, "clear medusa", [&](Recorder& recorder) {
    recorder.fill(states_, 0);
    recorder.fill(rotated_, 0);
  });
}

void MedusaHeads::load(const ModelFile& file) {
  file.check_length();
  const uint32_t width = model_.config.width;
  const std::vector<float> zeros(size_t{stride_ - width} * width);
  const TensorView padding = {"zeros", DType::f32, {stride_ - width, width}, std::as_bytes(std::span(zeros))};
  std::vector<float> biases(size_t{count_} * stride_);
  std::vector<TensorView> copies;
  std::vector<std::vector<std::byte>> bytes(count_);
  for (uint32_t head = 0; head < count_; ++head) {
    const TensorView& weight = *need(file, head, "weight", {width, width});
    floats_of(file, weight);
    copies.push_back(file.read(weight, bytes[head]));
    std::ranges::copy(floats_of(file, *need(file, head, "bias", {width})), &biases[size_t{head} * stride_]);
  }
  std::vector<const TensorView*> sources, parts;
  for (const TensorView& copy : copies) {
    sources.push_back(&copy);
    parts.push_back(&copy);
    if (stride_ > width) parts.push_back(&padding);
  }
  weights_ = {format_of(std::nullopt, sources), count_ * stride_, width};
  matrix_ = Buffer(device_, "medusa heads", weights_.bytes(), Memory::device);
  weights_.view = matrix_;
  Uploader uploader(device_);
  upload_matrix(uploader, weights_, parts, [](uint64_t) {});
  bias_ = Buffer(device_, "medusa biases", biases.size() * 4, Memory::device);
  uploader.upload(bias_, std::span<const float>(biases));
  weights_.bias = bias_;
}

void MedusaHeads::read_ranges(const ModelFile& file) {
  const JsonValue* found = file.metadata.find("medusa.rows");
  if (found == nullptr) return;
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
  Recorder dry_run(*device_);  // asks for every kernel before the recording waits for one
  record(dry_run, hidden, state);
  Recorder recorder(pool_, "medusa");
  record(recorder, hidden, state);
  return recorded_.emplace(place, recorder.finish(true)).first->second;
}

void MedusaHeads::record(Recorder& r, const View& hidden, const View& state) const {
  const Matrix& table = model_.weights.output_table().matrix();
  ops::matmul(r, weights_, state, hidden, branches_, 1, ops::Output::write);
  ops::residual(r, hidden, branches_, states_, model_.config.width, count_);
  ops::rotate(r, table, states_, rotated_, rows_);
  ops::project_best(r, table, rotated_, candidates_, best_count_, rows_, ranges_);
  ops::best(r, candidates_, best_count_, best_count_, guesses_, count_);
}

}  // namespace weft
