// Guesses what Medusa heads say (model/medusa.h).
#pragma once

#include <array>
#include <vector>

#include "model/medusa.h"
#include "session/pass_costs.h"
#include "session/session.h"

namespace weft {

class Medusa : public Drafter {
 public:
  // of: the session that it guesses for, which outlives this. Throws as MedusaHeads.
  Medusa(Session& of, std::shared_ptr<const ModelFile> file);

  void begin(std::span<const uint32_t> ids) override;
  void append(uint32_t id) override;
  std::span<const uint32_t> draft(size_t most) override;
  void passed(uint32_t tokens, double seconds) override { account_.passed(tokens, seconds); }
  size_t resting() const override { return account_.resting(); }
  void leave_device() override { heads_.reset(); }
  // All heads' guesses of what follows the context's last token, which a pass of the session has just given; whether
  // they pay or not.
  std::span<const uint32_t> guess();

 private:
  // By the share of the mass that a guess has.
  static constexpr size_t kShares = 10;
  double& chance(float share);

  Session& of_;
  std::shared_ptr<const ModelFile> file_;
  std::unique_ptr<MedusaHeads> heads_;   // none: the device was left
  std::vector<uint32_t> guesses_;        // the last ones
  std::vector<float> shares_;            // of them
  size_t judged_ = 0;                    // of them
  std::array<double, kShares> chances_;  // that a guess is right if those before it are
  MeasuredTime each_;                    // guess(), in seconds
  GuessAccount account_;
};

}  // namespace weft
