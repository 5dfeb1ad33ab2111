#include "model/image_encoder.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "model/weights_loader.h"

namespace weft {
namespace {

uint32_t whole_chunks(const Device& device, uint32_t tokens) {
  return static_cast<uint32_t>(align_up(tokens, device.plan().chunk_tokens));
}

// Rows of `columns` floats for the CPU to write. The padding after a row's columns is zero.
Buffer rows_to_write(const std::shared_ptr<Device>& device, const char* name, uint32_t rows, uint32_t columns) {
  Buffer buffer(device, name, uint64_t{rows} * stride_of(columns) * 4, Memory::shared);
  std::memset(buffer.data(), 0, buffer.bytes());
  return buffer;
}

Buffer rows_to_read(const std::shared_ptr<Device>& device, const char* name, uint32_t rows, uint32_t columns) {
  return Buffer(device, name, uint64_t{rows} * stride_of(columns) * 4, Memory::readback);
}

}  // namespace

uint64_t ImageModel::bytes() const { return network.weights.layer_bytes() + ends.buffer.bytes(); }

std::unique_ptr<const ImageModel> load_image_model(const std::shared_ptr<Device>& device, const ModelFile& file,
                                                   const DeviceFormats& formats) {
  auto model = std::make_unique<ImageModel>();
  model->config = read_image_config(file);
  const ImageConfig& c = model->config;
  model->ends.pixels = 3 * c.patch * c.patch;
  model->ends.joined = c.pooled ? c.network.width : c.network.width * c.shuffle * c.shuffle;
  model->ends.rows = c.text_width;
  const auto report = std::make_shared<WeightsReport>(file, nullptr);
  const std::shared_ptr<const ModelFile> borrowed(std::shared_ptr<void>(), &file);
  WeightsLoader loader(device, borrowed, c.network, formats, report, "image ");
  loader.load_image(model->ends);
  model->network.device = device;
  model->network.config = c.network;
  model->network.weights = loader.take();
  return model;
}

ImageEncoder::ImageEncoder(const ImageModel& model)
    : model_(model),
      tokens_(whole_chunks(*model.network.device, model.network.config.context)),
      rows_(whole_chunks(*model.network.device, model.config.rows_per_tile())),
      activations_(model.network, tokens_),
      cache_(model.network, model.network.config.context, tokens_),
      step_(model.network, model.network.config.context, 1),
      pixels_(rows_to_write(model.network.device, "pixels", tokens_, model.ends.pixels)),
      states_(rows_to_read(model.network.device, "patch states", tokens_, model.network.config.width)),
      joined_(rows_to_write(model.network.device, "joined patches", rows_, model.ends.joined)),
      normed_(
          rows_to_write(model.network.device, "normed patches", model.config.pooled ? rows_ : 1, model.ends.joined)),
      result_(rows_to_read(model.network.device, "image rows", rows_, model.ends.rows)),
      pool_(model.network.device),
      queue_(model.network, Policy::throughput) {
  const Model& network = model.network;
  abi::StepState& state = *step_.state.as<abi::StepState>();
  state.pos = 0;
  state.end = state.context = network.config.context;
  const Pass pass = {network, activations_, step_, cache_, tokens_};
  Recorder first(pool_, "patches");
  record_embed(first);
  body_.push_back(first.finish());
  for (uint32_t layer = 0; layer < network.config.layers; ++layer) {
    Recorder r(pool_, "image layer " + std::to_string(layer));
    record_layer(r, pass, layer);
    body_.push_back(r.finish());
  }
  end_ = record_end(pool_, pass, [&](Recorder& r) {
    ops::norm(r, network.config.norm(), step_.state, activations_.x, network.weights.final_norm, states_, tokens_,
              false);
  });
}

// A convolution whose patches do not overlap is a product with each patch's pixels.
void ImageEncoder::record_embed(Recorder& r) const {
  const Model& network = model_.network;
  ops::matmul(r, model_.ends.patches, step_.state, pixels_, activations_.x, tokens_, ops::Output::write);
  ops::add_positions(r, step_.state, network.weights.positions, activations_.x, network.config.width, tokens_);
}

std::vector<float> ImageEncoder::encode(std::span<const float> patches) {
  const uint32_t count = model_.network.config.context, columns = model_.ends.pixels, width = model_.ends.rows;
  if (patches.size() != size_t{count} * columns)
    throw Error(Code::invalid_argument, "they are not those of a tile", "patches");
  for (uint32_t i = 0; i < count; ++i)
    std::copy_n(&patches[size_t{i} * columns], columns, pixels_.as<float>() + size_t{i} * stride_of(columns));
  queue_.submit(tokens_, body_, end_);
  queue_.drain();
  const bool pooled = model_.config.pooled;
  pooled ? pool_neighbours() : join_neighbours();
  run_once(model_.network.device, "image rows", [&](Recorder& r) {
    const ops::NormShape norm = {model_.network.config.width, model_.network.config.epsilon, ops::NormKind::rms};
    if (pooled) ops::norm(r, norm, step_.state, joined_, model_.ends.soft_norm, normed_, rows_, false);
    ops::matmul(r, model_.ends.projection, step_.state, pooled ? normed_ : joined_, result_, rows_, ops::Output::write);
  });
  std::vector<float> rows;
  for (uint32_t i = 0; i < model_.config.rows_per_tile(); ++i) {
    const float* row = result_.as<float>() + size_t{i} * stride_of(width);
    rows.insert(rows.end(), row, row + width);
  }
  return rows;
}

// A row is the states of shuffle x shuffle patches, row by row.
void ImageEncoder::join_neighbours() {
  const uint32_t side = model_.config.side, shuffle = model_.config.shuffle, width = model_.network.config.width;
  for (uint32_t y = 0; y < side; ++y)
    for (uint32_t x = 0; x < side; ++x) {
      const uint32_t row = y / shuffle * (side / shuffle) + x / shuffle, place = y % shuffle * shuffle + x % shuffle;
      std::copy_n(states_.as<float>() + (size_t{y} * side + x) * stride_of(width), width,
                  joined_.as<float>() + size_t{row} * stride_of(model_.ends.joined) + size_t{place} * width);
    }
}

// A row is the mean of the states of shuffle x shuffle patches.
void ImageEncoder::pool_neighbours() {
  const uint32_t side = model_.config.side, pool = model_.config.shuffle, width = model_.network.config.width;
  const float share = 1.0f / static_cast<float>(pool * pool);
  std::memset(joined_.data(), 0, joined_.bytes());
  for (uint32_t y = 0; y < side; ++y)
    for (uint32_t x = 0; x < side; ++x) {
      const float* state = states_.as<float>() + (size_t{y} * side + x) * stride_of(width);
      float* row = joined_.as<float>() + (size_t{y / pool} * (side / pool) + x / pool) * stride_of(width);
      for (uint32_t i = 0; i < width; ++i) row[i] += share * state[i];
    }
}

uint64_t ImageEncoder::bytes() const {
  uint64_t sum = activations_.bytes() + cache_.bytes() + step_.bytes();
  for (const Buffer* buffer : {&pixels_, &states_, &joined_, &normed_, &result_}) sum += buffer->bytes();
  return sum;
}

}  // namespace weft
