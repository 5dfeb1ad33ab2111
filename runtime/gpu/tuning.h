// Plan fields for which measured values can be better than the defaults: the shapes of tiles and workgroups, and the
// use of cooperative matrices for prompts. `weft tune` measures (ops/tune.h) and writes the values it chose to a file
// beside the pipeline cache, one for each device and driver version; models loaded after that use them.
//
// Results are deterministic with any values. They are equal to the last bit for different row_tiles, as are the
// vocabulary table's logits for different block_tokens. In other cases they are equal up to rounding: another split or
// reduce_threads, or a plan without cooperative matrices, adds sums in another order, and a layer's product of a group
// of tokens may round differently from that of one token.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/plan.h"

namespace weft {

struct Tunable {
  const char* name;  // of the field, for files and reports
  uint32_t Plan::*field;
  // The values worth trying on a device whose default is that plan, the default among them, ascending.
  std::vector<uint32_t> (*candidates)(const Caps& caps, const Plan& defaults);
};
std::span<const Tunable> tunables();

// The path of a device's tuned values; nothing if there is no folder for it (pipeline_cache.h).
std::optional<std::filesystem::path> tuning_path(const Caps& caps);

// Write the tuned values as a file's text, and read them back into a plan. Reading returns nothing if the text was
// written for another device, driver or version of the kernels, is damaged, or has a value that is not a candidate.
std::string write_tuning(const Caps& caps, const Plan& plan);
std::optional<Plan> read_tuning(std::string_view text, const Caps& caps, const Plan& defaults);

// make_plan, with the tuned values of the device's file, and then the fields that WEFT_PLAN sets (plan_fields.h).
// WEFT_TUNE=0 ignores the file. Throws as make_plan and set_fields.
struct TunedPlan {
  Plan plan;
  std::string source;  // the file and the settings, or why the file is not used; empty: there are none
};
TunedPlan tuned_plan(const Caps& caps);

}  // namespace weft
