// Proof before trust: a plan's kernels compute known answers (known_answers.h) at the first use of a device, a driver's
// version and these kernels. Fields of the plan whose kernels fail get plainer values, and the reasons are kept.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device.h"

namespace weft {

// Fields of a plan that have plainer values because kernels failed.
struct Replacement {
  std::string settings;  // as WEFT_PLAN takes them: "matrix_side=0"
  std::string reason;    // the fault that they mend
};
struct Proof {
  // not_needed: drivers that run on the CPU, whose kernels our tests prove; and where WEFT_PROOF=0
  enum class State { not_needed, not_yet, passed };
  State state = State::not_needed;
  std::vector<Replacement> replaced = {};  // in order; only if passed
  Plan plan;                               // with them
};

// Known results for a plan on a device; runs nothing. They are kept in a file beside the pipeline cache, or for the
// process where no file can be.
Proof proof_of(const Caps& caps, const Plan& plan);

// Opens a device as Device::open does, with the planner's plan if its kernels compute their known answers, else with
// the fields of it replaced. If they were not computed before, this takes what their compilation takes; if the device
// has no room for them, they are computed another time. Throws as Device::open does, and Error(unsupported) if kernels
// fail whatever the plan.
std::shared_ptr<Device> open_proven(std::string_view selector, const std::function<Plan(const Caps&)>& planner);

}  // namespace weft
