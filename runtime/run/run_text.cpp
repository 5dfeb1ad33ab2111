#include "run/run_text.h"

#include <algorithm>
#include <cstring>

#include "run/watched_passes.h"

namespace weft {

void run_text(const Model& model, std::span<const uint32_t> ids, const TextRun& run) {
  const uint32_t chunk = model.device->plan().chunk_tokens, context = static_cast<uint32_t>(ids.size()) + 1;
  const ActivationBuffers activations(model, chunk);
  const ContextState cache(model, context, chunk);
  const StepBuffers step(model, context, context);
  Pass pass = {model, activations, step, cache, chunk};
  if (run.prepare) run.prepare(pass);
  const auto end = [&](Recorder& r) {
    if (run.end) run.end(r, pass);
  };
  WatchedPasses passes(pass, Policy::throughput, {}, {}, end);
  step.state.begin(0, ids.size());
  std::memcpy(step.history.data(), ids.data(), ids.size_bytes());
  for (size_t done = 0; done < ids.size(); done += chunk) {
    passes.run();
    run.after(done, std::min<size_t>(chunk, ids.size() - done), pass);
  }
}

}  // namespace weft
