#include "run/record_pass.h"

namespace weft {

uint32_t whole_chunks(const Model& model, size_t tokens) {
  return static_cast<uint32_t>(align_up(tokens, model.device->plan().chunk_tokens));
}

void record_network(Recorder& r, const Pass& pass) {
  record_embed(r, pass);
  for (uint32_t layer = 0; layer < pass.model.config.layers; ++layer) record_layer(r, pass, layer);
}

std::vector<CommandBuffer> record_body(CommandPool& pool, const Pass& pass, Timestamps* timestamps,
                                       const std::function<void(Recorder&, uint32_t layer)>& after) {
  const Model& model = pass.model;
  std::vector<CommandBuffer> body;
  Recorder embed(pool, "embed", timestamps);
  record_embed(embed, pass);
  if (after) after(embed, 0);
  body.push_back(embed.finish());
  for (uint32_t layer = 0; layer < model.config.layers; ++layer) {
    Recorder recorder(pool, "layer " + std::to_string(layer), timestamps);
    if (layer + 1 < model.config.layers) model.weights.fetch(recorder, layer + 1);
    record_layer(recorder, pass, layer);
    if (after) after(recorder, layer + 1);
    body.push_back(recorder.finish());
  }
  return body;
}

CommandBuffer record_end(CommandPool& pool, const Pass& pass, const std::function<void(Recorder&)>& commands,
                         Timestamps* timestamps) {
  return record_commands(
      pool, "end",
      [&](Recorder& r) {
        pass.model.weights.fetch(r, 0);
        commands(r);
      },
      timestamps);
}

CommandBuffer record_commands(CommandPool& pool, const std::string& name,
                              const std::function<void(Recorder&)>& commands, Timestamps* timestamps) {
  Recorder dry_run(pool.device());
  commands(dry_run);
  Recorder recorder(pool, name, timestamps);
  commands(recorder);
  return recorder.finish(true);
}

}  // namespace weft
