// Calls that do not compile, one for each value of CASE, and one that does: kernel_arguments.py compiles them all.
// norm.comp has the required bindings state, x, weight and y, and optional ones; norm and add have different bindings.
#include "add.spv.h"
#include "gpu/recorder.h"
#include "norm.spv.h"
#include "shaders/abi.h"

namespace weft {

using Bindings = shaders::Norm::Bindings;
using Constants = shaders::Norm::Constants;

void record(Recorder& recorder, const Buffer& buffer, const View& view, const View* none, const abi::NormPush& push) {
  const Constants constants = {.threads = 64, .kind = NORM_RMS, .add = true, .begins_norm = false};
#if CASE == 0
  recorder.dispatch(shaders::norm, constants, Bindings{.state = view, .x = buffer, .weight = view, .y = view}, push,
                    {1});
  recorder.dispatch(shaders::norm_texel, constants,
                    Bindings{.state = view, .x = view, .weight = view, .y = view, .next_weight = none, .begun = buffer},
                    push, {1});
#elif CASE == 1  // a binding is missing
  recorder.dispatch(shaders::norm, constants, Bindings{.state = view, .x = view, .y = view}, push, {1});
#elif CASE == 2  // a constant is missing
  recorder.dispatch(shaders::norm, Constants{.threads = 64, .add = true, .begins_norm = false},
                    Bindings{.state = view, .x = view, .weight = view, .y = view}, push, {1});
#elif CASE == 3  // a name that the shader does not have
  recorder.dispatch(shaders::norm, constants, Bindings{.state = view, .x = view, .weight = view, .out = view}, push,
                    {1});
#elif CASE == 4  // by position
  recorder.dispatch(shaders::norm, constants, Bindings{view, view, view, view}, push, {1});
#elif CASE == 5  // of another shader
  recorder.dispatch(shaders::norm, constants, shaders::Add::Bindings{.x = view, .y = view}, push, {1});
#elif CASE == 6  // other push constants
  recorder.dispatch(shaders::norm, constants, Bindings{.state = view, .x = view, .weight = view, .y = view},
                    abi::AddPush{1}, {1});
#endif
}

}  // namespace weft
