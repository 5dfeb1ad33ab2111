#include "model/model.h"

#include <algorithm>

#include "base/error.h"

namespace weft {

uint64_t Model::bytes_per_token() const {
  const Table& embedding = *weights.embedding;
  const uint64_t positions = weights.positions.bytes();  // of which a row is read
  uint64_t once = 0;                                     // read for an input, not for a token
  if (weights.encoder) {
    once = weights.encoder->weights.layer_bytes();
    for (const Layer& layer : weights.layers) once += layer.cross->kv.bytes();
  }
  uint64_t idle = 0;  // experts that a token has not chosen, rows of other tokens
  for (const Layer& layer : weights.layers)
    if (const auto* experts = std::get_if<Experts>(&layer.mlp))
      idle += (config.experts.count - config.experts.used) * (experts->gate_up.bytes() + experts->down.bytes());
  if (weights.layer_inputs && weights.layer_inputs->table) {  // of which a row is read
    const Table& table = *weights.layer_inputs->table;
    idle += table.bytes() - table.bytes() / table.rows();
  }
  return weights.layer_bytes() - once - idle - positions + positions / std::max(config.context, 1u) +
         weights.output_table().bytes() + embedding.buffer().bytes() / embedding.rows();
}

uint64_t Model::parameters() const {
  uint64_t count = 0;
  for (const TensorReport& tensor : weights.tensors) {
    if (tensor.device_bytes == 0) continue;  // the second name of a shared table
    uint64_t elements = 1;
    for (const uint64_t extent : tensor.shape) elements *= extent;
    count += elements;
  }
  return count;
}

void Model::need_plain_head(const char* what) const {
  if (config.head) throw Error(Code::unsupported, config.head->refusal(), what, config.head->hint());
}

}  // namespace weft
