// Rows of soft tokens in a context: prompts with them, and pictures.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "session/session.h"

namespace weft {

void Session::prompt_parts(std::span<const PromptPart> parts) {
  if (on_device().source)
    throw Error(Code::unsupported, "the family '" + model_.config.family + "' reads its prompt with an encoder",
                "prompt", "only decoders take rows");
  const SoftContext all = join_parts(parts, model_.config.vocab, model_.config.width, model_.config.deepstack);
  if (!all.rows.empty() && model_.config.layer_input > 0)
    throw Error(Code::unsupported, "the model's layers have embeddings of their own, which rows lack", "prompt");
  require(!all.ids.empty(), "prompt", "it has no token");
  check_ids(all.ids, UINT32_MAX, context_ - 1);
  const uint64_t bytes = all.rows.size() / soft_width() * stride_of(model_.config.width) * sizeof(float),
                 most = model_.device->plan().slice_bytes;
  if (bytes > most)
    throw Error(
        Code::unsupported,
        "the rows have " + std::to_string(bytes) + " bytes, a binding of this device reaches " + std::to_string(most),
        "rows", "use fewer rows");
  check_pictures(all.ids);
  check_grids(model_.config, all.ids, all.pictures);
  set_context(all.ids, all.rows, all.pictures);
}

// A pass computes a picture as a whole, in caches that have room for it.
void Session::check_pictures(std::span<const uint32_t> ids) const {
  const Config& c = model_.config;
  size_t most = most_pass_tokens(c, model_.device->plan());
  for (uint32_t layer = 0; layer < c.layers; ++layer)
    if (const uint32_t window = c.picture_token ? c.attention_of(layer).window : 0)
      most = std::min<size_t>(most, window);
  size_t at = 0;
  while (const std::optional<TokenRange> picture = next_picture(c, ids, at)) {
    at = picture->end;
    if (picture->end - picture->begin > most)
      throw Error(Code::unsupported,
                  "a picture of " + std::to_string(picture->end - picture->begin) + " tokens, the most are " +
                      std::to_string(most),
                  "rows");
    if (!model_.weights.shards.empty())
      throw Error(Code::unsupported, "pictures of this family with a table on several devices", "rows");
  }
}

// Has the rows of the context's soft tokens written to the device before the next pass.
void Session::set_soft(std::span<const float> rows, std::span<const PlacedPicture> pictures) {
  if (std::ranges::equal(pictures_, pictures) && rows.size() == soft_.size() &&
      (rows.empty() || std::memcmp(rows.data(), soft_.data(), rows.size_bytes()) == 0))
    return;  // of the same bits: 0 and -0 differ
  std::vector<PlacedPicture> new_pictures(pictures.begin(),
                                          pictures.end());  // copies may fail: nothing is changed then
  std::vector<float> new_rows(rows.begin(), rows.end());
  pictures_ = std::move(new_pictures);
  soft_ = std::move(new_rows);
  if (on_device_) on_device_->soft_written = false;
}

// Nothing may be in flight.
void Session::write_soft() {
  OnDevice& d = on_device();
  if (d.soft_written) return;
  const size_t width = model_.config.width, stride = stride_of(model_.config.width),
               count = soft_.size() / soft_width();
  const size_t layers = pictures_.empty() ? 0 : model_.config.deepstack;
  Buffer rows;
  if (count > 0) {
    std::vector<float> padded((1 + layers) * count * stride);  // the rows of all tokens, then those of each layer
    for (size_t layer = 0; layer <= layers; ++layer)
      for (size_t row = 0; row < count; ++row)
        std::copy_n(&soft_[row * soft_width() + layer * width], width, &padded[(layer * count + row) * stride]);
    rows = Buffer(model_.device, "soft rows", padded.size() * sizeof(float), Memory::device);
    Uploader(model_.device).upload(rows, std::span<const float>(padded));
  }
  std::swap(d.soft_rows, rows);  // before the recording, which keeps the buffer's address
  try {
    std::vector<View> deepstack;
    for (size_t layer = 1; layer <= layers; ++layer) deepstack.push_back(soft_part(layer));
    d.schedule.set_soft_rows(count > 0 ? soft_part(0) : View(), std::move(deepstack));
  } catch (...) {
    std::swap(d.soft_rows, rows);
    throw;
  }
  d.soft_written = true;
}

// The rows on the device that tokens begin with (layer 0), or that are added after the layer-th layer.
View Session::soft_part(size_t layer) const {
  const uint64_t bytes = soft_.size() / soft_width() * stride_of(model_.config.width) * sizeof(float);
  return View(on_device().soft_rows).part(layer * bytes, bytes);
}

// Writes the angles of the tokens' positions, if the device has those of other pictures. Nothing may be in flight.
void Session::write_positions() {
  OnDevice& d = on_device();
  if (d.placed == pictures_) return;
  const size_t first = same_grids(d.placed, pictures_, context_);
  const Rope& rope = model_.config.ropes.front();
  const std::vector<float> rows = rope.rows(context_, positions_of(pictures_, first, context_));
  const uint64_t row = rope.frequencies.size() * 2 * sizeof(float);
  Uploader(model_.device)
      .upload(View(d.step.rope_tables.front()).part(first * row, rows.size() * sizeof(float)),
              std::as_bytes(std::span(rows)));
  d.placed = pictures_;
}

// The next picture that is not computed.
std::optional<TokenRange> Session::pending_picture() const {
  return soft_.empty() ? std::nullopt : next_picture(model_.config, ids_, cached());
}

void Session::need_no_picture(const char* what) const {
  if (!soft_.empty() && next_picture(model_.config, ids_, 0))
    throw Error(Code::unsupported, "the context has a picture whose tokens see each other", what);
}

// Computes a picture whose first token comes next.
void Session::run_picture(const TokenRange& picture) {
  OnDevice& d = on_device();
  const auto count = static_cast<uint32_t>(picture.end - picture.begin);
  require(picture.begin == cached(), "picture", "a part of it is computed");
  d.kept.will_write(picture.end);
  d.schedule.wait_all();
  d.step.state.end_at(picture.end);
  d.schedule.submit_picture(count);
  d.schedule.wait_all();
  // The last token of a context is computed again, for its hidden state.
  const size_t done = std::min(picture.end, ids_.size() - 1);
  d.step.state.begin(done, ids_.size());
  d.kept.set_tokens(done);
}

}  // namespace weft
