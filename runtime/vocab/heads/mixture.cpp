// A mixture of softmaxes over all rows, each of a state of its own (Yang et al. 2018, "Breaking the Softmax
// Bottleneck"). Softmax k has the state tanh(W_k h + b_k), and all rows. The table is read once for all states.
#include <bit>

#include "vocab/heads/softmaxes.h"

namespace weft {
namespace {

class Mixture : public SoftmaxHead {
 public:
  using SoftmaxHead::SoftmaxHead;
  std::string kind() const override { return "mixture"; }
  void record(const HeadRow& row) const override;

 protected:
  bool biased() const override { return true; }
};

void Mixture::record(const HeadRow& row) const {
  Recorder& r = row.recorder;
  const Scratch scratch = this->scratch(row);
  const ops::MixViews views = this->views(row, scratch);
  const uint32_t padded = std::bit_ceil(count_);
  record_priors(row, scratch);
  ops::matmul(r, states(row), row.state, row.h, scratch.rotated, 1, ops::Output::write);
  ops::activate(r, ops::Activation::tanh, false, row.state, scratch.rotated, scratch.states, count_ * width_, 1);
  ops::rotate(r, row.table, scratch.states, scratch.rotated, padded);
  ops::project(r, row.table, scratch.rotated, scratch.logits, padded);
  ops::log_sum(r, scratch.logits, views.bounds, scratch.sums, row.vocab, 0, count_);
  ops::mix(r, views, row.vocab, count_, ops::FirstPrior::given);
}

}  // namespace

std::shared_ptr<const OutputHead> read_mixture(const JsonObject& values, const std::string& prefix,
                                               const HeadModel& model) {
  const uint32_t count = values.integer(prefix + "softmax.count", 2, MAX_SOFTMAXES);
  return std::make_shared<Mixture>(values, model, count);
}

}  // namespace weft
