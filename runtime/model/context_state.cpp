#include "model/context_state.h"

#include <algorithm>

#include "base/error.h"
#include "model/model.h"

namespace weft {
namespace {

// Merge layers into few buffers: devices limit the number of allocations, and all sessions share it.
constexpr uint64_t kLargestBuffer = uint64_t{256} << 20;  // with several layers, or several sessions

std::vector<View*> arrays_in(LayerState& state) {
  return std::visit([](auto& own) { return own.arrays(); }, state);
}

}  // namespace

uint32_t most_pass_tokens(const Config& config, const Plan& plan) {
  return static_cast<uint32_t>(align_up(std::max(config.picture_rows, plan.chunk_tokens), plan.chunk_tokens));
}

std::vector<View> arrays_of(const LayerState& state) {
  LayerState copy = state;
  std::vector<View> arrays;
  for (const View* array : arrays_in(copy)) arrays.push_back(*array);
  return arrays;
}

std::vector<View> parts_of(const LayerState& state, uint64_t tokens, uint64_t written) {
  return std::visit([&](const auto& own) { return own.parts(tokens, written); }, state);
}

bool holds(const LayerState& state, uint64_t tokens, uint64_t written) {
  return std::visit([&](const auto& own) { return own.holds(tokens, written); }, state);
}

bool is_recurrent(const LayerState& state) {
  return std::visit([](const auto& own) { return own.kRecurrent; }, state);
}

CopiedRange copied(const LayerState& state, uint64_t tokens) {
  return std::visit([&](const auto& own) { return own.copied(tokens); }, state);
}

StateLayout::StateLayout(const Config& config, const StateSize& size) {
  for (const LayerConfig& layer : config.layer_configs) {
    std::visit(
        [&](const auto& mixer) {
          const auto state = mixer.state(config, size);
          scratch_bytes = std::max<uint64_t>(scratch_bytes, state.scratch_bytes);
          layers.emplace_back(state);
        },
        layer.mixer);
    for (const View& array : arrays_of(layers.back())) bytes += align_up(array.bytes, kViewAlignment);
    if (!is_recurrent(layers.back())) continue;
    for (const View& part : parts_of(layers.back(), 1, 1)) recurrent_bytes += align_up(part.bytes, kViewAlignment);
  }
}

StateBuffers::StateBuffers(const Model& model, const StateLayout& layout, uint32_t count)
    : slots(count), layers(layout.layers) {
  const auto bytes_of = [&](LayerState& layer) {
    uint64_t bytes = 0;
    for (const View* array : arrays_in(layer)) bytes += align_up(array->bytes * slots, kViewAlignment);
    return bytes;
  };
  buffers.reserve(layers.size());  // the views point to them
  for (size_t first = 0, last = 0; first < layers.size(); first = last) {
    uint64_t bytes = 0;
    for (; last < layers.size() && (last == first || bytes + bytes_of(layers[last]) <= kLargestBuffer); ++last)
      for (View* array : arrays_in(layers[last])) {
        array->bytes *= slots;
        array->offset = bytes;
        bytes += align_up(array->bytes, kViewAlignment);
      }
    if (bytes == 0) continue;  // layers that read others' states
    buffers.emplace_back(model.device, "states " + std::to_string(first), bytes, Memory::device);
    for (size_t i = first; i < last; ++i)
      for (View* array : arrays_in(layers[i])) array->buffer = &buffers.back();
  }
}

std::shared_ptr<const StateBuffers> StateGroup::buffers(const Model& model, const StateLayout& layout) {
  const uint64_t most = std::min(model.device->plan().slice_bytes, kLargestBuffer / 2);
  const bool fits = std::ranges::all_of(layout.layers, [&](const LayerState& layer) {
    return std::ranges::all_of(arrays_of(layer), [&](const View& array) { return array.bytes * sessions_ <= most; });
  });
  if (!fits) return std::make_shared<const StateBuffers>(model, layout, 1);
  std::shared_ptr<const StateBuffers> shared = buffers_.lock();
  if (!shared) buffers_ = shared = std::make_shared<const StateBuffers>(model, layout, sessions_);
  return shared;
}

ops::CacheFormat source_format(const ops::CacheFormat& format) {
  const auto finer = [](Format one) { return one == Format::q4 ? Format::q8 : one; };
  return {finer(format.keys), finer(format.values)};
}

ContextState::ContextState(const Model& model, uint32_t context, uint32_t pass_tokens, const ops::CacheFormat& format,
                           const StatePlace& place) {
  const StateLayout layout(model.config, {model.device->plan(), context, pass_tokens, format});
  buffers = place.group ? place.group->buffers(model, layout) : std::make_shared<const StateBuffers>(model, layout, 1);
  slot = buffers->slots > 1 ? place.slot : 0;
  bytes_ = layout.bytes;
  layers = buffers->layers;
  for (LayerState& layer : layers)
    for (View* array : arrays_in(layer)) {
      const uint64_t own = array->bytes / buffers->slots;
      *array = array->part(slot * own, own);
    }
  if (layout.scratch_bytes == 0) return;
  scratch_ = Buffer(model.device, "parts", layout.scratch_bytes, Memory::device);
  run_once(model.device, "clear parts", [&](Recorder& recorder) { recorder.fill(scratch_, 0); });
}

}  // namespace weft
