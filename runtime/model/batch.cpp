#include "model/batch.h"

#include <algorithm>
#include <bit>

namespace weft {
namespace {

// Products take a power of two of tokens, or whole groups.
uint32_t rows_for(const Model& model, size_t members) {
  const uint32_t count = static_cast<uint32_t>(members), group = model.device->plan().block_tokens;
  return count <= group ? std::min(std::bit_ceil(count), group) : static_cast<uint32_t>(align_up(count, group));
}

}  // namespace

Batch::Batch(const Model& model, std::span<const Member> members, Policy policy, std::vector<Duty*> duties)
    : rows_(rows_for(model, members.size())),
      activations_(model, rows_, rows_),
      step_(model, rows_, 1),
      pool_(model.device),
      queue_(model, policy, std::move(duties)) {
  abi::StepState& state = *step_.state.as<abi::StepState>();
  state.end = static_cast<uint32_t>(members.size());
  state.context = rows_;
  std::vector<Activations> rows;
  for (uint32_t i = 0; i < members.size(); ++i) rows.push_back(activations_.row(i));
  Pass pass = {model, activations_, step_, members.front().cache, rows_};
  std::vector<Tail> tails;
  for (size_t i = 0; i < members.size(); ++i) {
    pass.members.push_back({model, rows[i], members[i].step, members[i].cache, 1});
    tails.push_back(members[i].tail);
  }
  body_ = record_body(pool_, pass);
  end_ = record_end(pool_, pass, [&](Recorder& r) { record_tail(r, pass, tails); });
}

Batch::~Batch() = default;  // the fences wait before the pool goes: they are declared after it

}  // namespace weft
