// What a measurement may choose better than a plan's defaults: the shapes of tiles and workgroups, and whether prompts
// are multiplied by cooperative matrices. `weft tune` measures (ops/tune.h) and keeps the values it chose in a file
// beside the pipeline cache, one for a device and driver version; models loaded after that use them.
//
// Whatever is chosen, results are deterministic. Equal to the last bit are those of different row_tiles, and the
// vocabulary table's logits for different block_tokens. Equal up to rounding are others: with another split or
// reduce_threads, or without cooperative matrices, sums are added up in another order, and a layer's product of a group
// of tokens may round otherwise than that of one.
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

// Where a device's tuned values are kept; nothing if there is no place for it (pipeline_cache.h).
std::optional<std::filesystem::path> tuning_path(const Caps& caps);

// The tuned values as a file's text, and back: the plan with them. Nothing where the text was not written for this
// device, driver and version of the kernels, is damaged, or chooses what is no candidate.
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
