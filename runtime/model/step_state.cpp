#include "model/step_state.h"

namespace weft {

StepState::StepState(const std::shared_ptr<Device>& device, const std::string& name, size_t most)
    : Buffer(device, name, sizeof(abi::StepState), Memory::shared) {
  state() = {};
  state().context = static_cast<uint32_t>(most);
}

void StepState::begin(size_t from, size_t to) const {
  state().pos = static_cast<uint32_t>(from);
  state().end = static_cast<uint32_t>(to);
  state().finished = 0;
  state().drafted = state().tree = 0;
}

void StepState::begin_check(size_t before, size_t drafted, uint32_t tree) const {
  state().end = static_cast<uint32_t>(before + drafted);
  state().drafted = static_cast<uint32_t>(drafted);
  state().tree = tree;
  state().root = static_cast<uint32_t>(before - 1);
  state().path = 0;
}

size_t StepState::end_check(size_t before) const {
  const size_t chosen = state().end - before + (state().finished == FINISH_NOT_FINITE ? 1 : 0);
  state().drafted = state().tree = 0;
  if (state().finished == FINISH_DRAFT) state().finished = 0;
  return chosen;
}

}  // namespace weft
