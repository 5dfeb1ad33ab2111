// The step state (abi::StepState): which tokens of the context the next pass computes. The device moves it on from pass
// to pass. The CPU writes it here and nowhere else, and only while nothing is in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "gpu/buffer.h"
#include "shaders/abi.h"

namespace weft {

class StepState : public Buffer {
 public:
  StepState() = default;
  // most: tokens that the context can hold.
  StepState(const std::shared_ptr<Device>& device, const std::string& name, size_t most);

  // Passes compute the tokens [from, to) of the context, and check no draft.
  void begin(size_t from, size_t to) const;
  // Passes end before token `to`; they go on where they are.
  void end_at(size_t to) const { state().end = static_cast<uint32_t>(to); }
  size_t pos() const { return state().pos; }  // the next pass's first token
  size_t end() const { return state().end; }  // tokens of the context
  // Positions of the encoder's output, for an encoder-decoder.
  void set_source(size_t positions) const { state().source = static_cast<uint32_t>(positions); }

  // The next pass checks the `drafted` ids after the first `before` ones of the history. tree: as abi::StepState has
  // it; 0: they are a chain.
  void begin_check(size_t before, size_t drafted, uint32_t tree) const;
  size_t drafted() const { return state().drafted; }
  bool checks_tree() const { return state().tree != 0; }
  // After the pass: number of tokens that it has chosen after those. Includes one that could not be chosen, because no
  // logit was a finite number.
  size_t end_check(size_t before) const;

  abi::HeadState& head() const { return state().head; }

 private:
  abi::StepState& state() const { return *as<abi::StepState>(); }
};

}  // namespace weft
