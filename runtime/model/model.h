// A loaded model: constant, shared by any number of sessions and threads.
#pragma once

#include <memory>

#include "model/config.h"
#include "model/weights.h"
#include "vocab/heads/pruned.h"

namespace weft {

struct Model {
  std::shared_ptr<Device> device;
  Config config;
  Weights weights;

  // Weight bytes that decoding one token reads: every layer but the experts not chosen, the head, and one row
  // of the embedding.
  uint64_t bytes_per_token() const;
  // Elements of all tensors; a shared table counts once.
  uint64_t parameters() const;
  // Throws Error(unsupported) if the model has a head with weights of its own. what: cannot be done then.
  void need_plain_head(const char* what) const;
};

}  // namespace weft
