#include <bit>
#include <limits>

#include "ops/support.h"

#include "scatter_rows.spv.h"

namespace weft::ops {

void scatter_rows(Recorder& recorder, const View& state, const View& lists, const View& listed, const View& logits,
                  uint32_t rows) {
  require_bytes(lists, uint64_t{LIST_WORDS(rows)} * 4, "scatter_rows", "lists");
  require_bytes(listed, uint64_t{rows} * 4, "scatter_rows", "listed");
  require_bytes(logits, uint64_t{rows} * 4, "scatter_rows", "logits");
  recorder.fill(logits.part(0, uint64_t{rows} * 4), std::bit_cast<uint32_t>(-std::numeric_limits<float>::infinity()));
  recorder.dispatch(shaders::scatter_rows, {},
                    shaders::ScatterRows::Bindings{.state = state, .lists = lists, .listed = listed, .logits = logits},
                    abi::ScatterRowsPush{rows}, {ceil_div(rows, 64)});
}

}  // namespace weft::ops
