#include "model/footprint.h"

#include <algorithm>

#include "model/activations.h"
#include "model/weights_layout.h"

namespace weft {
namespace {

uint64_t float_bytes(const std::vector<Floats>& parts) {
  uint64_t count = 0;
  for (const Floats& part : parts) count += part.count();
  return count * 4;
}

// Everything of a network that is neither a layer nor the vocabulary: as WeightsLoader's load_body and load_ends.
uint64_t other_bytes(const Config& config, Parts& parts, const DeviceFormats& formats) {
  uint64_t bytes = float_bytes(parts.final_norm_parts());
  for (uint32_t layer = 0; layer < config.layers; ++layer)
    bytes += align_up(float_bytes(parts.attention_norm_parts(static_cast<int>(layer))), kViewAlignment);
  if (config.has_position_table()) bytes += uint64_t{config.context} * config.width * 4;
  if (config.layer_kind.positions == Positions::bucketed)
    bytes += (2 * uint64_t{config.buckets.farthest} + 1) * config.heads.heads * 4;
  if (config.layer_kind.embedding_norm) bytes += float_bytes(parts.norm_parts("token_embd_norm", -1));
  if (parts.has_masked_head()) {
    MaskedHead head;
    const Pieces pieces = parts.masked_head(head);
    bytes += set_offsets(pieces, parts.sources_of(pieces.matrices, -1, Parts::AsStored::yes), formats.matrices);
  }
  if (config.layer_input > 0) {
    LayerInputs inputs;
    const Pieces pieces = parts.layer_inputs(inputs);
    bytes += set_offsets(pieces, parts.sources_of(pieces.matrices, -1, Parts::AsStored::yes), formats.matrices) +
             float_bytes(parts.layer_input_norm());
  }
  if (config.bands > 0) {
    SoundInput input;
    const Pieces pieces = parts.sound_input(input);
    bytes += set_offsets(pieces, parts.sources_of(pieces.matrices, -1, Parts::AsStored::yes), formats.matrices);
  }
  if (config.head) {
    HeadWeights weights;
    const Pieces pieces = parts.head(weights);
    bytes += set_offsets(pieces, parts.sources_of(pieces.matrices, -1, Parts::AsStored::yes), formats.matrices) +
             config.head->constants(config.vocab).words.size() * 4;
  }
  if (const TensorView* const bias = parts.logit_bias()) {
    std::vector<float> values(element_count(bias->shape));
    to_float(*bias, 0, values);
    if (std::ranges::any_of(values, [](float value) { return value != 0; })) bytes += values.size() * 4;
  }
  parts.forget();
  return bytes;
}

uint32_t whole_chunks(const Plan& plan, uint32_t tokens) {
  return static_cast<uint32_t>(align_up(tokens, plan.chunk_tokens));
}

// As Encoder has it.
uint64_t encoder_bytes(const Config& config, const Plan& plan, uint32_t stride, uint32_t context) {
  const uint32_t tokens = whole_chunks(plan, context);
  return activation_bytes(config, plan, stride, tokens) +
         StateLayout(config, {plan, context, tokens, Format::f16}).bytes + step_bytes(config, context, context) +
         (config.bands ? columns_bytes(config, tokens) + sizeof(abi::StepState) : 0);
}

// As Session has it.
uint64_t session_bytes(const Config& config, const Plan& plan, uint32_t stride, uint32_t context,
                       const ops::CacheFormat& cache) {
  const StateLayout kv(config, {plan, context, most_pass_tokens(config, plan), cache});
  return activation_bytes(config, plan, stride, plan.chunk_tokens) + step_bytes(config, context, context) + kv.bytes +
         kv.scratch_bytes + kv.checkpoint_bytes();
}

}  // namespace

Footprint footprint(const ModelFile& file, Config& config, const DeviceFormats& formats, const Plan& plan,
                    uint32_t context, const ops::CacheFormat& cache) {
  Parts parts(file, config);
  Config half = config.encoder ? *config.encoder : Config();
  Parts encoder(file, half);
  parts.check(config.encoder ? &encoder : nullptr);
  const VocabularyTables vocabulary =
      choose_tables(parts.find_vocabulary(), formats.tie && config.tied != false, [](uint64_t) {});
  const WeightSizes sizes = weight_sizes(config, parts, vocabulary, formats);
  const uint64_t buffer = layer_buffer_bytes(plan, config, parts, vocabulary, formats, file.path.string());
  Footprint print;
  print.vocab_bytes = sizes.tables;
  const uint64_t others = other_bytes(config, parts, formats);
  print.layer_bytes = (buffer ? 2 * buffer : sizes.layers) + others;
  print.pieces = sizes.each_table;
  const std::vector<uint64_t> layers = buffer ? std::vector<uint64_t>(2, buffer) : sizes.each_layer;
  print.pieces.insert(print.pieces.end(), layers.begin(), layers.end());
  print.pieces.push_back(others);
  print.streamed_bytes = buffer ? sizes.layers : 0;
  if (config.has_layer_input_table()) {
    const TensorView& table = parts.layer_input_table();
    print.streamed_bytes +=
        Matrix{layer_input_format(formats.tables, table), config.vocab, static_cast<uint32_t>(table.shape[1])}.bytes();
  }
  const uint32_t stride = candidate_stride(plan, table_matrix(*vocabulary.projected(), vocabulary, formats));
  const bool sees_all = config.layer_kind.sees_all, encodes = sees_all || config.sentences.given;
  print.session_bytes = encodes ? encoder_bytes(config, plan, stride, sees_all ? config.context : context)
                                : session_bytes(config, plan, stride, context, cache);
  if (config.encoder) {
    half.vocab = config.vocab;
    const WeightSizes own_sizes = weight_sizes(half, encoder, {}, formats);
    const uint64_t own_others = other_bytes(half, encoder, formats);
    print.layer_bytes += own_sizes.layers + own_others;
    print.pieces.insert(print.pieces.end(), own_sizes.each_layer.begin(), own_sizes.each_layer.end());
    print.pieces.push_back(own_others);
    const uint32_t input = config.hears() ? half.context : context;
    const StateLayout read(config, {plan, input, whole_chunks(plan, input), source_format(cache)});
    const uint32_t own = candidate_stride(plan, table_matrix(*vocabulary.embedding, vocabulary, formats));
    print.session_bytes += encoder_bytes(half, plan, own, input) + read.bytes + read.scratch_bytes;
  }
  return print;
}

}  // namespace weft
