// The memory that a model and its sessions will take on a device, computed from the file's header alone.
#pragma once

#include "model/weights.h"

namespace weft {

struct Footprint {
  uint64_t vocab_bytes = 0;           // on the device: the vocabulary's tables
  uint64_t layer_bytes = 0;           // on the device: all other weights, or what streaming them needs
  uint64_t streamed_bytes = 0;        // in the host's memory
  std::vector<uint64_t> pieces = {};  // of the first two, in the order of a load: none can be divided between heaps
  uint64_t session_bytes = 0;         // of a session with the full head; of an encoder, if the model is one
};

// context: tokens of the session. cache: format of its keys and values. Sets config.vocab. Throws as load_weights for
// what the header of the file tells, and as StateLayout. If the file has two vocabulary tables, reads both.
Footprint footprint(const ModelFile& file, Config& config, const DeviceFormats& formats, const Plan& plan,
                    uint32_t context, const ops::CacheFormat& cache);

}  // namespace weft
