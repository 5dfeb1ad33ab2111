#include "vocab/heads/softmaxes.h"

#include <bit>

#include "base/error.h"

namespace weft {

SoftmaxHead::SoftmaxHead(const JsonObject& values, const HeadModel& model, uint32_t count)
    : width_(model.width), count_(count) {
  const auto refuse_with = [&](const char* what) {
    throw Error(Code::unsupported, std::string("not supported: several softmaxes with ") + what, values.place());
  };
  if (model.scales_logits) refuse_with("a cap or scale of the logits");
  if (model.has_encoder) refuse_with("an encoder");
  if (model.width % 64 != 0) refuse_with("a width that is no multiple of 64");
}

uint32_t SoftmaxHead::padded() const { return std::bit_ceil(count_); }

void SoftmaxHead::check_device(const Plan& plan, uint32_t vocab, const std::string& file) const {
  const uint64_t bytes = uint64_t{padded()} * stride_of(vocab) * 4;
  if (bytes > plan.slice_bytes)
    throw Error(Code::unsupported,
                "the logits of " + std::to_string(count_) + " softmaxes take " + std::to_string(bytes) +
                    " bytes, a binding of this device reaches " + std::to_string(plan.slice_bytes),
                file);
}

// The priors are few and decide between softmaxes: never rounded to less than f16.
std::vector<HeadMatrix> SoftmaxHead::matrices() const {
  return {{"softmax_states", uint64_t{own()} * width_, width_, biased()},
          {"softmax_priors", own(), width_, false, Format::f16}};
}

HeadConstants SoftmaxHead::constants(uint32_t vocab) const {
  HeadConstants bounds = {"softmax bounds", {}, {"log_sum", "mix"}};
  for (uint32_t k = 0; k < count_; ++k) bounds.words.insert(bounds.words.end(), {first_row(k), end_row(k, vocab)});
  return bounds;
}

std::array<uint64_t, 6> SoftmaxHead::scratch_sizes(uint32_t vocab) const {
  const uint64_t rows = padded(), row = stride_of(width_) * uint64_t{4};
  return {rows * row,
          rows * row,
          rows * stride_of(vocab) * 4,
          uint64_t{stride_of(padded())} * 4,
          align_up(ops::log_sum_bytes(vocab, padded()), kViewAlignment),
          align_up(cluster_bytes(), kViewAlignment)};
}

uint64_t SoftmaxHead::scratch_bytes(uint32_t vocab) const {
  uint64_t bytes = 0;
  for (const uint64_t size : scratch_sizes(vocab)) bytes += size;
  return bytes;
}

SoftmaxHead::Scratch SoftmaxHead::scratch(const HeadRow& row) const {
  Scratch scratch;
  const std::array<uint64_t, 6> sizes = scratch_sizes(row.vocab);
  View* const views[] = {&scratch.states, &scratch.rotated, &scratch.logits,
                         &scratch.priors, &scratch.sums,    &scratch.clusters};
  uint64_t first = 0;
  for (size_t i = 0; i < sizes.size(); first += sizes[i++]) *views[i] = row.scratch.part(first, sizes[i]);
  return scratch;
}

ops::MixViews SoftmaxHead::views(const HeadRow& row, const Scratch& scratch) const {
  return {
      scratch.logits,  row.weights.constants, scratch.sums, scratch.priors, row.logits.part(0, uint64_t{row.vocab} * 4),
      scratch.clusters};
}

void SoftmaxHead::record_priors(const HeadRow& row, const Scratch& scratch) const {
  ops::matmul(row.recorder, row.weights.matrices[1], row.state, row.h, scratch.priors, 1, ops::Output::write);
}

}  // namespace weft
