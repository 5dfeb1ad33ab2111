#include "ops/support.h"

#include "add.spv.h"

namespace weft::ops {

void add(Recorder& recorder, const View& x, const View& y, uint32_t count) {
  require_bytes(x, uint64_t{count} * 4, "add", "x");
  require_bytes(y, uint64_t{count} * 4, "add", "y");
  recorder.dispatch(shaders::add, {}, shaders::Add::Bindings{.x = x, .y = y}, abi::AddPush{count},
                    {ceil_div(count, 64)});
}

}  // namespace weft::ops
