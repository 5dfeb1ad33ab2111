// Guesses what Gemma 4's drafter says (run/assistant.h): a chain of its best tokens.
#pragma once

#include <memory>

#include "run/assistant.h"
#include "session/chain_drafter.h"
#include "session/session.h"

namespace weft {

class Assistant : public ChainDrafter {
 public:
  // of: the session that it guesses for, which outlives this. Throws as AssistantNetwork.
  Assistant(Session& of, std::shared_ptr<const ModelFile> file);

  void begin(std::span<const uint32_t> ids) override;
  void learn(const PassCosts& costs) override;
  void leave_device() override { network_.reset(); }

 private:
  void make(size_t count) override;

  Session& of_;
  std::shared_ptr<const ModelFile> file_;
  std::unique_ptr<AssistantNetwork> network_;  // none: the device was left
};

}  // namespace weft
