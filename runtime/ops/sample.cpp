#include "ops/support.h"

#include "sample.spv.h"

namespace weft::ops {

uint32_t candidate_count(uint32_t rows) { return ceil_div(rows, SAMPLE_ROWS); }

void sample(Recorder& recorder, const View& state, const View& params, const View& scores, const View& candidates,
            const Selectable& from) {
  require_bytes(scores, uint64_t{from.rows} * 4, "sample", "scores");
  require_bytes(candidates, candidate_count(from.rows) * sizeof(abi::Candidate), "sample", "candidates");
  recorder.dispatch(
      shaders::sample, shaders::Sample::Constants{.listed = from.lists != nullptr},
      shaders::Sample::Bindings{
          .state = state, .params = params, .scores = scores, .candidates = candidates, .lists = from.lists},
      abi::SamplePush{from.rows}, {candidate_count(from.rows)});
}

}  // namespace weft::ops
