#include "run/image_encoder.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "model/weights_loader.h"
#include "ops/ops.h"

namespace weft {
namespace {

// Rows of `columns` floats for the CPU to write. The padding after a row's columns is zero.
Buffer rows_to_write(const std::shared_ptr<Device>& device, const char* name, uint32_t rows, uint32_t columns) {
  Buffer buffer(device, name, uint64_t{rows} * stride_of(columns) * 4, Memory::shared);
  std::memset(buffer.data(), 0, buffer.bytes());
  return buffer;
}

Buffer rows_to_read(const std::shared_ptr<Device>& device, const char* name, uint32_t rows, uint32_t columns) {
  return Buffer(device, name, uint64_t{rows} * stride_of(columns) * 4, Memory::readback);
}

// The most patches of which a binding of the device reaches the rows of every operation; rows fill whole chunks.
uint32_t most_patches(const Device& device, const Config& c) {
  const uint32_t widest = std::max(c.ffn, 3 * c.width);
  const uint64_t rows = device.plan().slice_bytes / (stride_of(widest) * 4);
  return static_cast<uint32_t>(std::min<uint64_t>(c.context, rows - rows % device.plan().chunk_tokens));
}

}  // namespace

uint64_t ImageModel::bytes() const {
  uint64_t sum = network.weights.layer_bytes() + ends.buffer.bytes();
  for (const PatchMerger& merger : ends.mergers) sum += merger.buffer.bytes();
  return sum;
}

std::unique_ptr<const ImageModel> load_image_model(const std::shared_ptr<Device>& device, const ModelFile& file,
                                                   const DeviceFormats& formats) {
  auto model = std::make_unique<ImageModel>();
  model->config = read_image_config(file);
  ImageConfig& c = model->config;
  model->ends.pixels = 3 * c.patch * c.patch;
  model->ends.joined = c.kind == ImageKind::pooled ? c.network.width : c.network.width * c.shuffle * c.shuffle;
  model->ends.rows = c.text_width;
  if (c.kind == ImageKind::merged) {
    PictureSettings& pictures = c.pictures;
    const uint64_t most = uint64_t{most_patches(*device, c.network)} * c.patch * c.patch;
    pictures.most_pixels = std::min(pictures.most_pixels, most);
    pictures.least_pixels = std::min(pictures.least_pixels, pictures.most_pixels);
    model->ends.position_side = c.position_side;
    model->ends.mergers.emplace_back();
    for (size_t i = 0; i < c.deepstack.size(); ++i)
      model->ends.mergers.emplace_back().number =
          static_cast<int>(file.kind == ModelFile::Kind::gguf ? c.deepstack[i] : i);
  }
  const auto report = std::make_shared<WeightsReport>(file, nullptr);
  const std::shared_ptr<const ModelFile> borrowed(std::shared_ptr<void>(), &file);
  WeightsLoader loader(device, borrowed, c.network, formats, report, "image ");
  loader.load_image(model->ends);
  model->network.device = device;
  model->network.config = c.network;
  model->network.weights = loader.take();
  return model;
}

// Buffers and recordings for tiles of so many patches.
struct ImageEncoder::Passes {
  Passes(const ImageModel& model, uint32_t patches, Duty* duty);
  uint64_t bytes() const;

  void record_embed(Recorder& r, const ImageModel& model) const;

  uint32_t patches, tokens, rows;  // tokens and rows: in whole chunks
  ActivationBuffers activations;
  ContextState cache;
  StepBuffers step;
  Buffer pixels;     // (tokens, pixels of a patch)
  Buffer positions;  // (tokens, width) floats without padding, if rows are merged
  Buffer states;     // (tokens, width)
  Buffer joined;     // (rows, width * neighbours), or (rows, width)
  Buffer normed;     // the same, after a norm
  Buffer inner;      // (rows, width * neighbours), of a merger
  Buffer result;     // (rows, text_width)
  CommandPool pool;
  // Up to states that become rows: one for each layer of deepstack, and one for the last states.
  std::vector<RecordedPass> stages;
  SubmissionQueue queue;
};

ImageEncoder::Passes::Passes(const ImageModel& model, uint32_t count, Duty* duty)
    : patches(count),
      tokens(whole_chunks(model.network, count)),
      rows(whole_chunks(model.network, count / (model.config.shuffle * model.config.shuffle))),
      activations(model.network, tokens),
      cache(model.network, count, tokens),
      step(model.network, count, model.config.kind == ImageKind::merged ? count : 1),
      pixels(rows_to_write(model.network.device, "pixels", tokens, model.ends.pixels)),
      positions(model.network.device, "patch positions",
                model.config.kind == ImageKind::merged ? uint64_t{count} * model.network.config.width * 4 : 4,
                Memory::shared),
      states(rows_to_read(model.network.device, "patch states", tokens, model.network.config.width)),
      joined(rows_to_write(model.network.device, "joined patches", rows, model.ends.joined)),
      normed(rows_to_write(model.network.device, "normed patches", model.config.kind == ImageKind::joined ? 1 : rows,
                           model.ends.joined)),
      inner(rows_to_write(model.network.device, "merged patches", model.config.kind == ImageKind::merged ? rows : 1,
                          model.ends.joined)),
      result(rows_to_read(model.network.device, "image rows", rows, model.ends.rows)),
      pool(model.network.device),
      queue(model.network, Policy::throughput, duty ? std::vector{duty} : std::vector<Duty*>()) {
  const Config& c = model.network.config;
  step.state.begin(0, count);
  const Pass pass = {model.network, activations, step, cache, tokens};
  Recorder first(pool, "patches");
  record_embed(first, model);
  stages.emplace_back().body.push_back(first.finish());
  for (uint32_t layer = 0; layer < c.layers; ++layer) {
    Recorder r(pool, "image layer " + std::to_string(layer));
    record_layer(r, pass, layer);
    stages.back().body.push_back(r.finish());
    if (!std::ranges::binary_search(model.config.deepstack, layer)) continue;
    const View x = activations.x;
    stages.back().end = record_end(pool, pass, [&](Recorder& end) { end.copy(x.part(0, states.bytes()), states); });
    stages.emplace_back();
  }
  stages.back().end = record_end(pool, pass, [&](Recorder& r) {
    ops::norm(r, c.norm(), step.state, activations.x, model.network.weights.final_norm, states, tokens, false);
  });
}

uint64_t ImageEncoder::Passes::bytes() const {
  uint64_t sum = activations.bytes() + cache.bytes() + step.bytes();
  for (const Buffer* buffer : {&pixels, &positions, &states, &joined, &normed, &inner, &result}) sum += buffer->bytes();
  return sum;
}

// A convolution whose patches do not overlap is a product with each patch's pixels.
void ImageEncoder::Passes::record_embed(Recorder& r, const ImageModel& model) const {
  const uint32_t width = model.network.config.width;
  const View learned = model.config.kind == ImageKind::merged ? View(positions) : View(model.network.weights.positions);
  ops::matmul(r, model.ends.patches, step.state, pixels, activations.x, tokens, ops::Output::write);
  ops::add_positions(r, step.state, learned, activations.x, width, tokens);
}

ImageEncoder::ImageEncoder(const ImageModel& model, Duty* duty) : model_(model), duty_(duty) {
  if (model.config.kind != ImageKind::merged)
    passes_ = std::make_unique<Passes>(model, model.network.config.context, duty);
}

ImageEncoder::~ImageEncoder() = default;

EncodedTile ImageEncoder::encode(const Picture& tile) {
  const ImageConfig& config = model_.config;
  const Grid grid = {tile.height / config.patch, tile.width / config.patch};
  const bool merged = config.kind == ImageKind::merged;
  const uint64_t patches = uint64_t{grid.height} * grid.width;
  const bool right = merged ? patches > 0 && patches <= config.network.context &&
                                  tile.height % config.pictures.step == 0 && tile.width % config.pictures.step == 0
                            : grid.height == config.side && grid.width == config.side;
  if (!right)
    throw Error(Code::invalid_argument,
                std::to_string(tile.width) + " x " + std::to_string(tile.height) + " pixels are no tile of the encoder",
                "picture");
  const auto count = static_cast<uint32_t>(patches);
  if (!passes_ || passes_->patches != count) {
    passes_.reset();
    passes_ = std::make_unique<Passes>(model_, count, duty_);
  }
  Passes& p = *passes_;
  const std::vector<float> values = patches_of(tile, config.pictures, config.patch);
  const uint32_t columns = model_.ends.pixels;
  for (uint32_t i = 0; i < count; ++i)
    std::copy_n(&values[size_t{i} * columns], columns, p.pixels.as<float>() + size_t{i} * stride_of(columns));
  if (merged) write_positions(grid);
  EncodedTile result = {grid.height / config.shuffle, grid.width / config.shuffle, {}, {}};
  for (size_t stage = 0; stage < p.stages.size(); ++stage) {
    p.queue.submit(p.tokens, p.stages[stage]);
    p.queue.drain();
    config.kind == ImageKind::pooled ? pool_neighbours(grid) : join_neighbours(grid);
    const bool last = stage + 1 == p.stages.size();
    const PatchMerger* const merger = merged ? &model_.ends.mergers[last ? 0 : stage + 1] : nullptr;
    const std::vector<float> rows = project(merger, result.height * result.width);
    std::vector<float>& to = last ? result.rows : result.deepstack;
    to.insert(to.end(), rows.begin(), rows.end());
  }
  return result;
}

// The first rows of what the joined or pooled states become.
std::vector<float> ImageEncoder::project(const PatchMerger* merger, uint32_t rows) {
  const Passes& p = *passes_;
  const ImageEnds& ends = model_.ends;
  const Config& c = model_.network.config;
  const View state = p.step.state;
  const auto record = [&](Recorder& r) {
    if (merger) {
      const bool norms = merger->norm.buffer;
      const ops::NormShape shape = {ends.joined, c.epsilon, ops::NormKind::layer};
      if (norms) ops::norm(r, shape, state, p.joined, merger->norm, p.normed, p.rows, false);
      ops::matmul(r, merger->up, state, norms ? p.normed : p.joined, p.inner, p.rows, ops::Output::write);
      ops::activate(r, ops::Activation::gelu, false, state, p.inner, p.inner, ends.joined, p.rows);
      return ops::matmul(r, merger->down, state, p.inner, p.result, p.rows, ops::Output::write);
    }
    const bool pooled = model_.config.kind == ImageKind::pooled;
    const ops::NormShape shape = {c.width, c.epsilon, ops::NormKind::rms};
    if (pooled) ops::norm(r, shape, state, p.joined, ends.soft_norm, p.normed, p.rows, false);
    ops::matmul(r, ends.projection, state, pooled ? p.normed : p.joined, p.result, p.rows, ops::Output::write);
  };
  const auto run = [&] { return run_once(model_.network.device, "image rows", record), true; };
  duty_ ? duty_->run(run) : run();
  std::vector<float> result;
  for (uint32_t i = 0; i < rows; ++i) {
    const float* const row = p.result.as<float>() + size_t{i} * stride_of(ends.rows);
    result.insert(result.end(), row, row + ends.rows);
  }
  return result;
}

// The learned positions of a square, stretched to the grid so that its corners are the square's; and the angles by
// which RoPE rotates patches.
void ImageEncoder::write_positions(const Grid& grid) {
  const Passes& p = *passes_;
  const uint32_t side = model_.config.position_side, width = model_.network.config.width;
  const float* const square = model_.ends.positions.data();
  const auto place = [&](uint32_t i, uint32_t count) {
    return static_cast<float>(i) * static_cast<float>(side - 1) / static_cast<float>(std::max(count - 1, 1u));
  };
  const auto at = [&](uint32_t row, uint32_t column) {
    return square + (size_t{std::min(row, side - 1)} * side + std::min(column, side - 1)) * width;
  };
  std::vector<RopePosition> places;
  float* to = p.positions.as<float>();
  for (uint32_t row = 0; row < grid.height; ++row)
    for (uint32_t column = 0; column < grid.width; ++column, to += width) {
      const float y = place(row, grid.height), x = place(column, grid.width);
      const auto top = static_cast<uint32_t>(y), left = static_cast<uint32_t>(x);
      const float down = y - static_cast<float>(top), right = x - static_cast<float>(left);
      const float *const a = at(top, left), *const b = at(top, left + 1), *const c = at(top + 1, left),
                         *const d = at(top + 1, left + 1);
      for (uint32_t i = 0; i < width; ++i)
        to[i] = (1 - down) * ((1 - right) * a[i] + right * b[i]) + down * ((1 - right) * c[i] + right * d[i]);
      places.push_back({0, row, column});
    }
  const Rope& rope = model_.network.config.ropes.front();
  const std::vector<float> angles = rope.rows(p.patches, places);
  Uploader(model_.network.device).upload(p.step.rope_tables.front(), std::span<const float>(angles));
}

// A row is the states of shuffle x shuffle patches, row by row.
void ImageEncoder::join_neighbours(const Grid& grid) {
  const Passes& p = *passes_;
  const uint32_t shuffle = model_.config.shuffle, width = model_.network.config.width;
  for (uint32_t y = 0; y < grid.height; ++y)
    for (uint32_t x = 0; x < grid.width; ++x) {
      const uint32_t row = y / shuffle * (grid.width / shuffle) + x / shuffle;
      const uint32_t place = y % shuffle * shuffle + x % shuffle;
      std::copy_n(p.states.as<float>() + (size_t{y} * grid.width + x) * stride_of(width), width,
                  p.joined.as<float>() + size_t{row} * stride_of(model_.ends.joined) + size_t{place} * width);
    }
}

// A row is the mean of the states of shuffle x shuffle patches.
void ImageEncoder::pool_neighbours(const Grid& grid) {
  const Passes& p = *passes_;
  const uint32_t pool = model_.config.shuffle, width = model_.network.config.width;
  const float share = 1.0f / static_cast<float>(pool * pool);
  std::vector<float> mean(width);  // p.joined may be a card's memory, which is slow to read
  std::memset(p.joined.data(), 0, p.joined.bytes());
  for (uint32_t y = 0; y + pool <= grid.height; y += pool)
    for (uint32_t x = 0; x + pool <= grid.width; x += pool) {
      std::ranges::fill(mean, 0.0f);
      for (uint32_t j = 0; j < pool * pool; ++j) {
        const size_t patch = size_t{y + j / pool} * grid.width + x + j % pool;
        const float* const state = p.states.as<float>() + patch * stride_of(width);
        for (uint32_t i = 0; i < width; ++i) mean[i] += share * state[i];
      }
      const size_t row = size_t{y / pool} * (grid.width / pool) + x / pool;
      std::ranges::copy(mean, p.joined.as<float>() + row * stride_of(width));
    }
}

uint64_t ImageEncoder::bytes() const { return passes_ ? passes_->bytes() : 0; }

}  // namespace weft
