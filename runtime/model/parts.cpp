#include "model/parts.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace weft {

void Parts::check(Parts* encoder) {
  const Vocabulary vocabulary = find_vocabulary();
  check_body();
  if (encoder) {
    check_copies(*vocabulary.embedding);
    encoder->check_body();
    tensors_.add_used(encoder->tensors_);
  }
  if (config_.start_token >= config_.vocab)
    throw Error(Code::bad_file,
                "the decoder starts from token " + std::to_string(config_.start_token) + ", the vocabulary has " +
                    std::to_string(config_.vocab),
                file_.path.string());
  logit_bias();
  if (config_.layer_input > 0) {
    LayerInputs inputs;
    sources_of(layer_inputs(inputs).matrices, -1, AsStored::yes);
    if (config_.has_layer_input_table()) layer_input_table();
    layer_input_norm();
  }
  for (const char* const name : kGgufDense) tensors_.find_named(name);  // read with the config
  if (config_.traits->gemma4 && config_.layer_kind.sees_all) {
    const auto* const dense = config_.sentences.dense.get();
    tensors_.need("embedding_projection", -1, {dense ? dense->front().rows : 0, config_.width});
  }
  if (config_.sentences.relevance) tensors_.find_named("cls.output.weight");
  if (has_masked_head()) {
    MaskedHead head;
    sources_of(masked_head(head).matrices, -1, AsStored::yes);
  }
  if (config_.backbone > 0) {
    AssistantEnds ends;
    sources_of(assistant_ends(ends).matrices, -1, AsStored::yes);
  }
  if (config_.head) {
    HeadWeights weights;
    sources_of(head(weights).matrices, -1, AsStored::yes);
  }
  tensors_.refuse_leftovers();
}

void Parts::check_body() {
  if (config_.layer_kind.positions == Positions::learned) position_table();
  if (config_.has_position_table()) token_types();
  if (config_.layer_kind.embedding_norm) norm_parts("token_embd_norm", -1);
  for (uint32_t index = 0; index < config_.layers; ++index) {
    Layer layer(config_, index);
    const int number = static_cast<int>(index);
    sources_of(this->layer(layer, number).matrices, number, AsStored::yes);
    attention_norm_parts(number);
    tensors_.forget();
  }
  final_norm_parts();
  if (config_.layer_kind.positions == Positions::bucketed) score_table();
  if (config_.bands > 0) {
    SoundInput input;
    sources_of(sound_input(input).matrices, -1, AsStored::yes);
  }
}

bool Parts::same_bytes(const TensorView& a, const TensorView& b) {
  if (a.rows || b.rows) return false;
  return a.dtype == b.dtype && a.bytes.size() == b.bytes.size() &&
         std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0;
}

// Files may store the shared table of an encoder-decoder again under the names of both halves.
void Parts::check_copies(const TensorView& table) const {
  for (const TensorView& tensor : file_.tensors)
    if (tensor.name.ends_with("coder.embed_tokens.weight") && !same_bytes(tensor, table))
      throw Error(Code::unsupported, "tensor '" + tensor.name + "' is another table than '" + table.name + "'",
                  file_.path.string(), "Weft's encoder-decoders have one table for both halves");
}

Parts::Vocabulary Parts::find_vocabulary() {
  // Files name a shared table by either of its uses, or store it twice.
  const TensorView* embedding = tensors_.find("token_embd", -1);
  const TensorView* output = tensors_.find("output", -1);
  // Decoders that make embeddings, as Qwen3-Embedding-8B, may say that they are not tied and have no output table.
  const bool needs_both = config_.tied == false && !(embedding && config_.sentences.given);
  if (needs_both && !(embedding && output)) tensors_.need(embedding ? "output" : "token_embd", -1, {});
  if (!embedding) std::swap(embedding, output);
  if (!embedding) tensors_.need("token_embd", -1, {});
  if (embedding->shape.size() != 2 || embedding->shape[1] != config_.width || embedding->shape[0] == 0 ||
      embedding->shape[0] >= 1u << 30)
    throw Error(Code::bad_file,
                "tensor '" + embedding->name + "' has the shape " + text_of(embedding->shape) + ", expected (rows, " +
                    std::to_string(config_.width) + ")",
                file_.path.string());
  config_.vocab = static_cast<uint32_t>(embedding->shape[0]);
  if (output) tensors_.need("output", -1, {config_.vocab, config_.width});
  return {embedding, output};
}

std::vector<Floats> Parts::norm_parts(std::string_view role, int index) {
  const bool weights = config_.layer_kind.norm_weights;
  std::vector<Floats> parts = {{weights ? &tensors_.need(role, index, {config_.width}) : nullptr,
                                weights ? config_.norm_offset : 1, config_.width}};
  if (config_.layer_kind.norm != ops::NormKind::layer) return parts;
  if (config_.layer_kind.norm_bias)
    parts.push_back({&tensors_.need(role, index, {config_.width}, "bias")});
  else
    parts.push_back({nullptr, 0, config_.width});
  return parts;
}

std::vector<Floats> Parts::attention_norm_parts(int index) {
  if (config_.layer_kind.unnormed || (index == 0 && config_.layer_kind.first_unnormed))
    return {{nullptr, 0, 2 * config_.width}};  // not used
  return norm_parts(config_.layer_kind.norm_after ? "attn_output_norm" : "attn_norm", index);
}

// If norms come after the branches, the final norm is the last norm of the last layer.
std::vector<Floats> Parts::final_norm_parts() {
  if (!config_.layer_kind.norm_after) return norm_parts("output_norm", -1);
  return norm_parts("layer_output_norm", static_cast<int>(config_.layers) - 1);
}

const TensorView& Parts::position_table() {
  return tensors_.need("position_embd", -1, {config_.context + first_position(), config_.width});
}

uint64_t Parts::first_position() const {
  return file_.kind == ModelFile::Kind::huggingface ? config_.traits->first_position : 0;
}

const TensorView* Parts::token_types() {
  const TensorView* types = tensors_.find("token_types", -1);
  if (types && (types->shape.size() != 2 || types->shape[0] == 0 || types->shape[1] != config_.width))
    throw Error(Code::bad_file,
                "tensor '" + types->name + "' has the shape " + text_of(types->shape) + ", expected (types, " +
                    std::to_string(config_.width) + ")",
                file_.path.string());
  return types;
}

// It is stored in the first layer, and all layers add it.
const TensorView& Parts::score_table() {
  return tensors_.need("attn_rel_b", 0, {config_.buckets.count, config_.heads.heads});
}

Pieces Parts::layer(Layer& layer, int index) {
  Pieces pieces;
  layer.list(*this, index, pieces);
  for (const MatrixSource& source : pieces.matrices) {
    if (!source.biased) continue;
    VectorSource bias = {source.matrix.bias, {}};
    for (uint32_t copy = 0; copy < source.copies(); ++copy)
      for (const Part& part : source.parts)
        if (!config_.layer_kind.key_bias && std::string_view(part.role).ends_with("attn_k"))
          bias.parts.push_back({nullptr, 0, part.rows});
        else
          bias.parts.push_back({source.experts ? &tensors_.expert_bias(part, index, copy, source.experts)
                                               : &tensors_.bias(part.role, index, part.rows)});
    pieces.vectors.push_back(std::move(bias));
  }
  return pieces;
}

// BART has one for its encoder-decoder.
const TensorView* Parts::logit_bias() {
  if (config_.traits->output_bias) return &tensors_.bias("output", -1, config_.vocab);
  const TensorView* bias = config_.encoder ? tensors_.find_named("final_logits_bias") : nullptr;
  const std::vector<uint64_t> shape = {1, config_.vocab};
  if (bias && bias->shape != shape)
    throw Error(Code::bad_file,
                "tensor '" + bias->name + "' has the shape " + text_of(bias->shape) + ", expected " + text_of(shape),
                file_.path.string());
  return bias;
}

// A row for each token of the vocabulary table.
const TensorView& Parts::layer_input_table() {
  return tensors_.need("per_layer_table", -1, {config_.vocab, uint64_t{config_.layers} * config_.layer_input});
}

std::vector<Floats> Parts::layer_input_norm() {
  return {{&tensors_.need("per_layer_norm", -1, {config_.layer_input}), config_.norm_offset}};
}

Pieces Parts::layer_inputs(LayerInputs& inputs) {
  Pieces pieces;
  inputs.list(*this, pieces);
  return pieces;
}

float Parts::layer_scale(int index) {
  const TensorView& tensor = tensors_.need("layer_scale", index, {1}, "");
  float scale = 0;
  std::vector<std::byte> bytes;
  file_.check_length();
  to_float(file_.read(tensor, bytes), 0, std::span(&scale, 1));
  if (!std::isfinite(scale))
    throw Error(Code::unsupported, "tensor '" + tensor.name + "': the number is not finite", file_.path.string());
  return scale;
}

bool Parts::has_masked_head() { return config_.layer_kind.sees_all && tensors_.find("mlm_dense", -1); }

Pieces Parts::masked_head(MaskedHead& head) {
  // Files hold the bias under either name, or both; then Transformers adds the projection's own.
  const bool own = tensors_.find("output", -1, "bias") != nullptr;
  tensors_.find("mlm", -1, "bias");
  const bool biased = tensors_.find("mlm_dense", -1, "bias") != nullptr;
  Pieces pieces = {{{head.transform, config_.width, {{"mlm_dense", config_.width}}, biased}},
                   {{head.norm, norm_parts("mlm_norm", -1)},
                    {head.bias, {{&tensors_.bias(own ? "output" : "mlm", -1, config_.vocab)}}}}};
  if (biased) pieces.vectors.push_back({head.transform.bias, {{&tensors_.bias("mlm_dense", -1, config_.width)}}});
  return pieces;
}

Pieces Parts::head(HeadWeights& weights) {
  config_.head->check(config_.vocab, file_.path.string());
  const std::vector<HeadMatrix> all = config_.head->matrices();
  weights.matrices.resize(all.size());
  Pieces pieces;
  for (size_t i = 0; i < all.size(); ++i) {
    const HeadMatrix& one = all[i];
    Matrix& matrix = weights.matrices[i];
    pieces.matrices.push_back({matrix, one.cols, {{one.role, one.rows}}, one.biased, 0, one.format});
    if (one.biased) pieces.vectors.push_back({matrix.bias, {{&tensors_.bias(one.role, -1, one.rows)}}});
  }
  return pieces;
}

void Parts::check_image(ImageEnds& ends) {
  check_body();
  sources_of(image_ends(ends).matrices, -1, AsStored::yes);
  for (PatchMerger& own : ends.mergers) sources_of(merger(own, ends).matrices, own.number, AsStored::yes);
  if (!ends.mergers.empty()) position_square(ends);
  tensors_.refuse_leftovers();
}

// The pixels are never rounded to less than f16.
Pieces Parts::image_ends(ImageEnds& ends) {
  const uint64_t width = config_.width;
  if (!ends.mergers.empty())
    return {{{ends.patches, ends.pixels, {{.role = "patch_embd", .rows = width, .frames = 2}}, true, 0, Format::f16}},
            {{ends.patches.bias, {{&tensors_.bias("patch_embd", -1, width)}}}}};
  Pieces pieces = {{{ends.patches, ends.pixels, {{"patch_embd", width}}, true, 0, Format::f16},
                    {ends.projection, ends.joined, {{"output", ends.rows}}, false}},
                   {{ends.patches.bias, {{&tensors_.bias("patch_embd", -1, width)}}}}};
  const float offset = file_.kind == ModelFile::Kind::huggingface ? 1 : 0;  // GGUF files have the weights as they are
  if (config_.traits->transposed_output)
    pieces.vectors.push_back({ends.soft_norm, {{&tensors_.need("soft_norm", -1, {width}), offset}}});
  return pieces;
}

Pieces Parts::merger(PatchMerger& own, const ImageEnds& ends) {
  const bool last = own.number < 0;
  const char *const up = last ? "merger_up" : "deepstack_up", *const down = last ? "merger_down" : "deepstack_down";
  Pieces pieces = {
      {{own.up, ends.joined, {{up, ends.joined}}, true}, {own.down, ends.joined, {{down, ends.rows}}, true}},
      {{own.up.bias, {{&tensors_.bias(up, own.number, ends.joined)}}},
       {own.down.bias, {{&tensors_.bias(down, own.number, ends.rows)}}}}};
  if (!last)
    pieces.vectors.push_back({own.norm,
                              {{&tensors_.need("deepstack_norm", own.number, {ends.joined})},
                               {&tensors_.need("deepstack_norm", own.number, {ends.joined}, "bias")}}});
  return pieces;
}

const TensorView& Parts::position_square(const ImageEnds& ends) {
  return tensors_.need("position_embd", -1, {uint64_t{ends.position_side} * ends.position_side, config_.width});
}

Pieces Parts::assistant_ends(AssistantEnds& ends) {
  return {{{ends.in, uint64_t{2} * config_.backbone, {{"assistant_in", config_.width}}, false},
           {ends.out, config_.width, {{"assistant_out", config_.backbone}}, false}},
          {}};
}

// The frames are never rounded to less than f16.
Pieces Parts::sound_input(SoundInput& input) {
  Pieces pieces;
  input.list(*this, pieces);
  return pieces;
}

Parts::Sources Parts::sources_of(const std::vector<MatrixSource>& matrices, int index, AsStored as_stored) {
  Sources sources;
  for (const MatrixSource& source : matrices)
    for (uint32_t copy = 0; copy < source.copies(); ++copy) {
      sources.emplace_back();
      for (const Part& part : source.parts)
        sources.back().push_back(
            source.experts
                ? &tensors_.expert(part, index, copy, source.experts, source.cols, as_stored == AsStored::yes)
            : part.frames                ? &tensors_.frames(part, source.cols, as_stored == AsStored::yes)
            : part.channels              ? &tensors_.convolution(part, source.cols, as_stored == AsStored::yes)
            : as_stored == AsStored::yes ? &tensors_.need_matrix(part.role, index, part.rows * part.of, source.cols)
            : part.of > 1 ? &tensors_.head_part(part.role, index, part.rows, source.cols, part.number, part.of)
                          : &tensors_.matrix(part.role, index, part.rows, source.cols));
    }
  return sources;
}

}  // namespace weft
