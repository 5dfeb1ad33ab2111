#include "session/profile.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"

namespace weft {
namespace {

struct Cost {
  double bytes = 0, multiplies = 0;
};

// Bytes that an operation of a pass must read, and its multiplications. Bytes count one reading: products of a prompt
// may read their weights once for each group of tokens. The products of the layers share a row, `matmul`.
Cost cost_of(std::string_view stage, const Session& session, uint32_t tokens) {
  const Model& model = session.model();
  Cost cost;
  const auto add = [&](const Matrix& matrix, double readings, double times) {
    if (!matrix.view.buffer) return;
    cost.bytes += readings * static_cast<double>(matrix.bytes());
    cost.multiplies += times * matrix.rows * matrix.cols;
  };
  for (const Layer& layer : model.weights.layers) {
    const double used = double{1} * model.config.experts.used * tokens;  // each token has its own
    if (stage == "matmul")
      for (const Linear* linear : layer.linears()) add(linear->base, 1, tokens);
    if (const auto* experts = std::get_if<Experts>(&layer.mlp); experts && stage == "matmul_expert")
      for (const Matrix* matrix : {&experts->gate_up, &experts->down}) add(*matrix, used, used);
  }
  if (stage == "project" && !session.has_partial_head()) add(model.weights.output_table().matrix(), 1, 1);
  if (stage == "attend") cost.bytes = session.cache_bytes_at(session.ids().size());
  return cost;
}

}  // namespace

namespace {

// Throws if the passes of a model cannot be timed; returns when all of its layers are loaded.
void need_timestamps(const Model& model) {
  if (!model.device->caps().timestamps)
    throw Error(Code::unsupported, "the device has no timestamps", model.device->caps().name);
  model.weights.wait();
}

}  // namespace

PassProfile profile_pass(Session& session, uint32_t tokens, uint32_t repeat) {
  const Model& model = session.model();
  if (session.ids().empty()) throw Error(Code::invalid_argument, "the session has no prompt", "profile");
  if (tokens == 0) throw Error(Code::invalid_argument, "it is 0, expected at least 1", "tokens");
  if (session.ids().size() >= session.context())
    throw Error(Code::context_full, "the session's context is full, and the token after it must have room", "context",
                "create the session with a larger context");
  need_timestamps(model);
  tokens = static_cast<uint32_t>(std::min<size_t>({tokens, model.device->plan().chunk_tokens, session.ids().size()}));
  std::vector<PassTimes> runs = session.time_passes(tokens, std::max(repeat, 1u) + 1);
  runs.erase(runs.begin());  // it warms up
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.submitted < b.submitted; });
  const PassTimes& median = runs[runs.size() / 2];
  PassProfile profile = {
      tokens, static_cast<uint32_t>(session.ids().size()) - tokens, {}, median.gaps, median.submitted};
  for (const Timestamps::Stage& stage : median.stages) {
    const Cost cost = cost_of(stage.name, session, tokens);
    profile.stages.push_back({stage.name, stage.seconds, stage.dispatches, cost.bytes, cost.multiplies});
  }
  return profile;
}

PassProfile profile_after(Session& session, uint32_t position, uint32_t repeat) {
  if (position > session.context() - 2)
    throw Error(Code::context_full,
                "the token at position " + std::to_string(position) + " and one more do not fit in a context of " +
                    std::to_string(session.context()),
                "position");
  if (session.model().config.layer_kind.sees_source)
    throw Error(Code::unsupported, "an encoder-decoder's token sees its input too", "model");
  need_timestamps(session.model());
  session.set_blank_context(position);
  try {
    PassProfile profile = profile_pass(session, 1, repeat);
    session.reset();
    return profile;
  } catch (...) {  // nothing of the zeros may pass for a computed context
    session.reset();
    throw;
  }
}

}  // namespace weft
