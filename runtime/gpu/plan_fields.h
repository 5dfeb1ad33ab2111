// The fields of a plan by name: for reports, and for runs that set some of them (WEFT_PLAN).
#pragma once

#include <span>
#include <string_view>
#include <variant>

#include "gpu/plan.h"

namespace weft {

// All of Plan but `statistics` and `workarounds`.
struct PlanField {
  const char* name;
  std::variant<bool Plan::*, uint32_t Plan::*, uint64_t Plan::*> field;
  const char* values;  // that a run may set, in words
  // True if the device can run a plan with this value. plan: with everything else that the run sets.
  bool (*allows)(const Caps& caps, const Plan& plan, uint64_t value);
};
std::span<const PlanField> plan_fields();
uint64_t value_of(const Plan& plan, const PlanField& field);

// Sets fields: "split=2,attend_span=128"; blanks around names and numbers are skipped. place: where the text is from,
// for errors. Throws Error(invalid_argument) where the text names no field, or a number that is none;
// Error(unsupported) where the device cannot run a value. `plan` is then unchanged.
void set_fields(Plan& plan, const Caps& caps, std::string_view settings, const std::string& place);

}  // namespace weft
