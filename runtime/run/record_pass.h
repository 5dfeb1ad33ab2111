// Records passes over the network. Every owner of passes (docs/extending.md) records by these functions, and submits
// by a SubmissionQueue.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/forward.h"
#include "run/submission_queue.h"

namespace weft {

// Tokens of a pass that takes whole chunks.
uint32_t whole_chunks(const Model& model, size_t tokens);

// The embedding and every layer. With a dry run it asks the device for their kernels.
void record_network(Recorder& r, const Pass& pass);

// A pass's command buffers but the last: the embedding, then each layer. If layers are streamed, each copies the next
// layer's weights to the device beside its own work. after: records more after the embedding (0) and each layer (1 ..).
std::vector<CommandBuffer> record_body(CommandPool& pool, const Pass& pass, Timestamps* timestamps = nullptr,
                                       const std::function<void(Recorder&, uint32_t layer)>& after = {});
// The last one, which the CPU may read results of. If layers are streamed, it copies those of the first.
CommandBuffer record_end(CommandPool& pool, const Pass& pass, const std::function<void(Recorder&)>& commands,
                         Timestamps* timestamps = nullptr);
inline RecordedPass record_pass(CommandPool& pool, const Pass& pass, const std::function<void(Recorder&)>& end) {
  return {record_body(pool, pass), record_end(pool, pass, end)};
}

// Other commands, which the CPU may read results of. Both this and record_end() ask for every kernel before the
// recording waits for one.
CommandBuffer record_commands(CommandPool& pool, const std::string& name,
                              const std::function<void(Recorder&)>& commands, Timestamps* timestamps = nullptr);

}  // namespace weft
