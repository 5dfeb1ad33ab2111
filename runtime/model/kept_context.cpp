#include "model/kept_context.h"

#include <algorithm>
#include <utility>

#include "model/model.h"

namespace weft {

KeptContext::KeptContext(const Model& model, uint32_t context, const ops::CacheFormat& format, const StatePlace& place)
    : model_(model),
      state_(model, context, most_pass_tokens(model.config, model.device->plan()), format, place),
      recurrent_(std::ranges::any_of(state_.layers, is_recurrent)) {
  if (!recurrent_) return;
  uint64_t bytes = 0;
  for (const View& part : recurrent_parts(1)) bytes += align_up(part.bytes, kViewAlignment);
  checkpoint_memory_ = Buffer(model.device, "checkpoints", kMostCheckpoints * bytes, Memory::device);
}

void KeptContext::will_write(size_t end) {
  extent_.written = std::max(extent_.written, end);
  extent_.recurrent_written = std::max(extent_.recurrent_written, end);
}

void KeptContext::forget() {
  extent_ = {};
  checkpoints_.clear();
}

// recurrent: asks the recurrent states, else the others.
bool KeptContext::can_truncate(size_t tokens, bool recurrent, size_t written) const {
  return tokens == 0 || std::ranges::all_of(state_.layers, [&](const LayerState& layer) {
           return is_recurrent(layer) != recurrent || holds(layer, tokens, written);
         });
}

CopiedRange KeptContext::copied(size_t tokens) const {
  CopiedRange all = {0, tokens};
  for (const LayerState& layer : state_.layers) {
    const CopiedRange own = weft::copied(layer, tokens);
    all = {std::max(all.first, own.first), std::min(all.last, own.last)};
  }
  return all;
}

// The most tokens, up to `most`, that are kept in some form.
std::optional<KeptContext::Source> KeptContext::find(size_t most, bool to_copy) const {
  std::optional<Source> best;
  const auto offer = [&](size_t tokens, size_t first, size_t written, const Checkpoint* checkpoint) {
    const size_t here = std::min(tokens, most);
    if ((best && best->tokens >= here) || (here > 0 && here < first) || !can_truncate(here, true, written)) return;
    if (can_truncate(here, false, extent_.written)) best = {here, checkpoint};
  };
  if (!to_copy || can_copy(std::min(extent_.tokens, most)))
    offer(extent_.tokens, extent_.recurrent_first, extent_.recurrent_written, nullptr);
  for (const Checkpoint& one : checkpoints_) offer(one.tokens, one.first, one.written, &one);
  return best;
}

void KeptContext::truncate(size_t most) {
  const std::optional<Source> source = find(std::min(most, extent_.tokens), false);
  if (!source || source->tokens == 0) return forget();
  if (source->checkpoint) {
    extent_.tokens = 0;  // until all of it is there
    const std::vector<View> from = views_of(*source->checkpoint), to = recurrent_parts(source->checkpoint->source);
    run_once(model_.device, "go back", [&](Recorder& r) {
      for (size_t i = 0; i < to.size(); ++i) r.copy(from[i], to[i]);
    });
    extent_.recurrent_written = source->checkpoint->written;
    extent_.recurrent_first = source->checkpoint->first;
  }
  extent_.tokens = source->tokens;
  // Later checkpoints are of another text from here on.
  std::erase_if(checkpoints_, [&](Checkpoint& checkpoint) {
    if (checkpoint.tokens <= extent_.tokens) return false;
    checkpoint.tokens = extent_.tokens;
    return checkpoint.tokens < checkpoint.first || !can_truncate(checkpoint.tokens, true, checkpoint.written);
  });
}

void KeptContext::add_checkpoint(size_t tokens) {
  if (!recurrent_ || !can_copy(tokens)) return;
  const CopiedRange range = copied(tokens);
  const auto same = [&](const Checkpoint& checkpoint) { return checkpoint.tokens == range.last; };
  std::erase_if(checkpoints_, same);
  // The first one, which other conversations are likely to share, stays.
  if (checkpoints_.size() == kMostCheckpoints) checkpoints_.erase(checkpoints_.begin() + 1);
  Checkpoint made = {range.last, extent_.recurrent_written, range.first, tokens, 0};
  const auto taken = [&](const Checkpoint& checkpoint) { return checkpoint.slot == made.slot; };
  while (std::ranges::any_of(checkpoints_, taken)) ++made.slot;
  const std::vector<View> from = recurrent_parts(tokens), to = views_of(made);
  run_once(model_.device, "checkpoint", [&](Recorder& r) {
    for (size_t i = 0; i < to.size(); ++i) r.copy(from[i], to[i]);
  });
  const auto after = [&](const Checkpoint& checkpoint) { return checkpoint.tokens > made.tokens; };
  checkpoints_.insert(std::ranges::find_if(checkpoints_, after), made);
}

size_t KeptContext::next_checkpoint(std::span<const uint32_t> ids, std::span<const uint32_t> ends) const {
  if (!recurrent_) return ids.size();
  std::vector<size_t> places;
  // The checkpoint at the end of the prompt does for what is near to it.
  for (size_t i = 0; i + 1 + kMostTakenBack < ids.size(); ++i)
    if (std::ranges::find(ends, ids[i]) != ends.end()) places.push_back(i + 1);
  constexpr size_t kWanted = 3;
  if (places.size() > kWanted) places.erase(places.begin() + 1, places.end() - (kWanted - 1));
  const auto next = std::ranges::upper_bound(places, extent_.tokens);
  return next == places.end() ? ids.size() : *next;
}

void KeptContext::copy_prefix(const KeptContext& from, size_t most) {
  const std::optional<Source> source = from.find(most, true);
  if (!source || source->tokens <= extent_.tokens) return;
  Extent extent = from.extent_;
  extent.tokens = source->tokens;
  std::vector<View> sources, targets;
  for (size_t i = 0; i < state_.layers.size(); ++i) {
    if (is_recurrent(state_.layers[i])) continue;
    for (const View& part : parts_of(from.state_.layers[i], extent.tokens, extent.written)) sources.push_back(part);
    for (const View& part : parts_of(state_.layers[i], extent.tokens, extent.written)) targets.push_back(part);
  }
  const Checkpoint* const checkpoint = source->checkpoint;
  const size_t copied_tokens = checkpoint ? checkpoint->source : source->tokens;
  for (const View& part : checkpoint ? from.views_of(*checkpoint) : from.recurrent_parts(copied_tokens))
    sources.push_back(part);
  for (const View& part : recurrent_parts(copied_tokens)) targets.push_back(part);
  const CopiedRange range = copied(copied_tokens);
  extent.tokens = std::min<size_t>(extent.tokens, range.last);
  extent.recurrent_first = range.first;
  if (checkpoint) extent.recurrent_written = checkpoint->written;
  extent_.tokens = 0;  // until all of it is there
  run_once(model_.device, "copy prefix", [&](Recorder& r) {
    for (size_t i = 0; i < sources.size(); ++i) r.copy(sources[i], targets[i]);
  });
  extent_ = extent;
  add_checkpoint(extent_.tokens);
}

KeptContext::Extent KeptContext::extent_to_save() const {
  return recurrent_ && !can_copy(extent_.tokens) ? Extent() : extent_;
}

std::vector<View> KeptContext::parts(const Extent& extent) const {
  std::vector<View> all;
  for (const LayerState& layer : state_.layers)
    for (const View& part : parts_of(layer, extent.tokens, extent.written)) all.push_back(part);
  return all;
}

void KeptContext::loaded(const Extent& extent) {
  const CopiedRange range = copied(extent.tokens);
  extent_ = extent;
  extent_.tokens = range.last;
  extent_.recurrent_first = range.first;
  checkpoints_.clear();
}

std::vector<View> KeptContext::recurrent_parts(size_t tokens) const {
  std::vector<View> parts;
  for (const LayerState& layer : state_.layers)
    if (is_recurrent(layer))
      for (const View& part : parts_of(layer, tokens, tokens)) parts.push_back(part);
  return parts;
}

std::vector<View> KeptContext::views_of(const Checkpoint& checkpoint) const {
  std::vector<View> views;
  uint64_t at = checkpoint.slot * (checkpoint_memory_.bytes() / kMostCheckpoints);
  for (const View& part : recurrent_parts(checkpoint.source)) {
    views.push_back(View(checkpoint_memory_).part(at, part.bytes));
    at += align_up(part.bytes, kViewAlignment);
  }
  return views;
}

}  // namespace weft
