// Gemma 4's drafter ("assistant"): a small network whose layers compute queries only. Each attends to the keys and
// values of the target's last layer of its kind, with a window or without one. run/assistant.h runs it.
#pragma once

#include "model/config.h"

namespace weft {

// Has the drafter's layers read the caches of its target: sets their sources. file: the drafter's folder, for errors;
// config.vocab is set. Throws Error(invalid_argument) naming the key and both numbers if the two do not belong
// together.
void fit_assistant(Config& config, const Config& target, const ModelFile& file);

}  // namespace weft
