#include "session/vocab_head_setup.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "session/sampling.h"
#include "session/soft.h"

namespace weft {
namespace {

// Error probability that `fast` allows after the first bits of a row's rest are read. The bounds are then computed as
// for `sure`, and have to allow for far less than S deviations.
constexpr double kFastProbability = 1e-4;

}  // namespace

// True if `automatic` has no other head to try than `full`.
bool VocabHeadSetup::only_full() const { return model_.weights.logit_bias || masks_all_rows(); }

bool VocabHeadSetup::masks_all_rows() const {
  return !model_.weights.shards.empty() || model_.config.head || !has_basis();
}

bool VocabHeadSetup::has_basis() const { return model_.weights.output_table().matrix().layout == Layout::planes; }

void VocabHeadSetup::prepare_grammar() {
  if (!masks_all_rows()) return need_buffers();
  if (!mask_) mask_ = Buffer(model_.device, "mask", uint64_t{model_.config.vocab} * 4, Memory::shared);
}

// Makes the buffers of a partial head.
void VocabHeadSetup::need_buffers() {
  if (buffers_) return;
  model_.need_plain_head("head");
  if (model_.weights.logit_bias)
    throw Error(Code::unsupported, "the model adds a bias to each logit", "head", "only the head full can");
  if (!has_basis())
    throw Error(Code::unsupported, "the vocabulary table has the file's bits, which only the head full reads", "head",
                "load the model without the vocabulary type native");
  buffers_ = std::make_unique<PartialHeadBuffers>(model_.device, model_.weights.output_table(),
                                                  !model_.weights.shards.empty());
  step_.state.head() = {};
}

VocabHeadSetup::Prepared VocabHeadSetup::prepare(VocabHead head) {
  if (head.keep) check_ids(*head.keep, model_.config.vocab);
  if (head.automatic && only_full()) {
    head.automatic = false;
    head.mode = VocabHead::Mode::full;
  }
  if (head.keep) model_.weights.need_all_rows("head");
  if (head.mode != VocabHead::Mode::full || head.keep) need_buffers();
  Prepared prepared = {std::move(head), {}, {}};
  if (!prepared.head.automatic) return prepared;
  prepared.tried = {VocabHead::Mode::full, prepared.head.mode};
  if (prepared.head.mode == VocabHead::Mode::fast)
    prepared.tried.insert(prepared.tried.begin() + 1, VocabHead::Mode::sure);
  prepared.trials.emplace(prepared.tried.size());
  return prepared;
}

void VocabHeadSetup::set(Prepared prepared) noexcept {
  head_ = std::move(prepared.head);
  tried_ = std::move(prepared.tried);
  trials_ = std::move(prepared.trials);
}

// Sets the parts of the tail and of the device's parameters that depend on the mode.
void VocabHeadSetup::set_mode(Tail& tail, VocabHead::Mode mode) {
  // Log-probabilities take every row that may be chosen.
  const abi::SampleParams& params = *step_.params.as<abi::SampleParams>();
  tail.steps.estimates = mode != VocabHead::Mode::full && !tail.logprobs;
  // Devices with a part of the rows know neither the mass of all rows nor the noise, which depends on a row's number.
  if (!model_.weights.shards.empty() && (params.cut_rank == 0 || params.cut_mass != 0 || params.cut_noise != 0))
    tail.steps.estimates = false;
  partial_ = tail.steps.estimates || tail.steps.listed;
  tail.partial = partial_ ? buffers_.get() : nullptr;
  write_spreads(mode);
  tail.steps.nucleus = tail.steps.estimates && params.cut_mass != 0;
}

Tail VocabHeadSetup::use_tried(Tail tail) {
  set_mode(tail, tried_[trials_->head()]);
  return tail;
}

void VocabHeadSetup::begin(Tail& tail, std::span<const uint32_t> ids) {
  const uint32_t vocab = model_.config.vocab;
  kept_.clear();
  kept_ids_.clear();
  tail.steps.listed = head_.keep.has_value();
  set_mode(tail, trials_ ? VocabHead::Mode::full : head_.mode);
  if (head_.keep) {
    kept_ids_ = *head_.keep;
    if (head_.keep_prompt) {
      std::ranges::copy_if(ids, std::back_inserter(kept_ids_), [](uint32_t id) { return !is_soft(id); });
      std::sort(kept_ids_.begin(), kept_ids_.end());
      kept_ids_.erase(std::unique(kept_ids_.begin(), kept_ids_.end()), kept_ids_.end());
    }
    write_kept();
    kept_.resize((size_t{vocab} + 31) / 32);
    for (const uint32_t id : kept_ids_) kept_[id / 32] |= 1u << (id % 32);
  }
  set_positions(head_.keep ? kept_ids_.size() : model_.weights.output_table().rows());
}

// Projects every row, and then adds the mask.
Tail VocabHeadSetup::mask_all_rows(Tail tail, const TokenSet& allowed) {
  for (uint32_t id = 0; id < model_.config.vocab; ++id)
    mask_.as<float>()[id] = allowed.contains(id) ? 0 : -std::numeric_limits<float>::infinity();
  tail.mask = &mask_;
  tail.partial = nullptr;
  tail.steps = {};
  partial_ = false;
  return tail;
}

Tail VocabHeadSetup::allow(Tail tail, const TokenSet& allowed, size_t position) {
  if (masks_all_rows()) return mask_all_rows(tail, allowed);
  partial_ = true;
  tail.partial = buffers_.get();
  const auto refuse = [&] {
    throw Error(Code::invalid_argument,
                "after token " + std::to_string(position) + " the keep-list has none of the " +
                    std::to_string(allowed.count) + " tokens that the grammar allows",
                "head", "keep more tokens");
  };
  if (allowed.count > TokenSet::kMaxListed) {
    if (!kept_.empty() && std::ranges::none_of(kept_ids_, [&](uint32_t id) { return allowed.contains(id); })) refuse();
    write_mask(allowed.bits);
    tail.steps.masked = true;
    if (tail.steps.listed) write_kept();  // a short list may have been there since
    set_positions(tail.steps.listed ? kept_ids_.size() : model_.config.vocab);
    return tail;
  }
  // Few tokens: only their rows are read.
  const auto kept = [&](uint32_t id) { return kept_.empty() || (kept_[id / 32] >> (id % 32) & 1) != 0; };
  uint32_t* const listed = buffers_->allowed_rows.as<uint32_t>();
  uint32_t* const end = std::copy_if(allowed.ids.begin(), allowed.ids.end(), listed, kept);
  if (end == listed) refuse();
  tail.steps = {.estimates = false, .listed = true, .masked = false};
  set_positions(static_cast<uint64_t>(end - listed));
  return tail;
}

Tail VocabHeadSetup::allow_draft(Tail tail) {
  partial_ = true;
  tail.partial = buffers_.get();
  tail.steps.masked = true;
  set_positions(model_.config.vocab);
  return tail;
}

const PartialHeadBuffers* VocabHeadSetup::mask_kept() {
  if (kept_.empty()) return nullptr;
  write_mask(kept_);
  return buffers_.get();
}

RowsRead VocabHeadSetup::counts(const abi::RingEntry& entry) const {
  if (!partial_) {
    const OutputHead* const own = model_.config.head.get();
    const bool counted = own && own->rows_read(model_.config.vocab) > 0;
    return {HEAD_ALL, positions_, {}, counted ? entry.exact : model_.config.vocab, !own};
  }
  return {ENTRY_MODE(entry.flags), positions_, {entry.refined[0], entry.refined[1], entry.refined[2]}, entry.exact};
}

// How far a logit can be above an estimate, for the rows that the next tokens' choice depends on.
void VocabHeadSetup::write_spreads(VocabHead::Mode mode) {
  abi::SampleParams& params = *step_.params.as<abi::SampleParams>();
  params.leading_spread = params.rest_spread = 1;
  params.least_mode = HEAD_TWO_BITS;
  if (mode != VocabHead::Mode::sure && mode != VocabHead::Mode::fast) return;
  const uint32_t dimensions = model_.weights.output_table().matrix().basis->rest() * BLOCK;
  // Rows that the choice depends on: as many as its rank, and those that rounding could put in their place, hardly ever
  // more than 63; of each device's rows as many. If top-p asks for mass, all rows that are likelier than the token.
  // Each is estimated up to three times.
  const double devices = 1.0 + static_cast<double>(model_.weights.shards.size());
  const double rows = params.cut_mass != 0 ? model_.config.vocab : devices * (params.cut_rank + 63.0);
  const double probability = mode == VocabHead::Mode::sure ? head_.probability : kFastProbability;
  params.least_mode = HEAD_SIGNS;
  params.rest_spread = static_cast<float>(sure_spread(probability / (rows * ESTIMATES), dimensions));
  if (mode != VocabHead::Mode::fast || dimensions == 0) return;
  params.least_mode = HEAD_LEADING;
  params.leading_spread =
      static_cast<float>(std::min(head_.deviations / std::sqrt(static_cast<double>(dimensions)), 1.0));
}

void VocabHeadSetup::set_positions(uint64_t positions) {
  positions_ = positions;
  step_.state.head().positions = static_cast<uint32_t>(positions);
}

void VocabHeadSetup::write_kept() {
  std::memcpy(buffers_->allowed_rows.data(), kept_ids_.data(), kept_ids_.size() * 4);
}

void VocabHeadSetup::write_mask(std::span<const uint32_t> bits) {
  uint32_t* const mask = buffers_->allowed_rows.as<uint32_t>() + model_.config.vocab;
  const size_t words = (size_t{model_.config.vocab} + 31) / 32, given = std::min(words, bits.size());
  std::copy_n(bits.begin(), given, mask);
  std::fill(mask + given, mask + words, 0u);  // rows that no token has
}

}  // namespace weft
