#include "model/tensors.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "format/quantised_rows.h"

namespace weft {

const TensorView* Tensors::look_up(const std::string& name) {
  const TensorView* tensor = file_.find(name);
  // A body that was saved without its output table has no prefix: the first GPT-2 files.
  const std::string_view prefix = config_.traits->prefix;
  if (!tensor && file_.kind == ModelFile::Kind::huggingface && name.starts_with(prefix))
    tensor = file_.find(name.substr(prefix.size()));
  // The first files of BERT call a norm's weight and bias by other names.
  if (!tensor && name.ends_with("LayerNorm.weight")) return look_up(name.substr(0, name.size() - 6) + "gamma");
  if (!tensor && name.ends_with("LayerNorm.bias")) return look_up(name.substr(0, name.size() - 4) + "beta");
  // An encoder-decoder's files may name the table otherwise.
  if (!tensor && name.ends_with("shared.weight"))
    return look_up(name.substr(0, name.size() - 13) + "encoder.embed_tokens.weight");
  // A T5 whose feed-forward has a gate has two matrices before the activation.
  if (!tensor && name.ends_with("DenseReluDense.wi.weight"))
    return look_up(name.substr(0, name.size() - 7) + "_1.weight");
  return tensor;
}

const TensorView* Tensors::find(std::string_view role, int layer, std::string_view what) {
  const TensorView* tensor = look_up(tensor_name(file_.kind, *config_.traits, role, layer, what));
  if (tensor) used_.insert(tensor->name);
  return tensor;
}

const TensorView* Tensors::find_named(const std::string& name) {
  const TensorView* tensor = file_.find(name);
  if (tensor) used_.insert(tensor->name);
  return tensor;
}

const TensorView& Tensors::need(std::string_view role, int layer, const std::vector<uint64_t>& shape,
                                std::string_view what) {
  return need_named(tensor_name(file_.kind, *config_.traits, role, layer, what), shape);
}

const TensorView& Tensors::need_named(const std::string& name, const std::vector<uint64_t>& shape) {
  const TensorView* tensor = look_up(name);
  if (!tensor) throw Error(Code::bad_file, "the tensor '" + name + "' is missing", file_.path.string());
  used_.insert(tensor->name);
  if (tensor->shape != shape)
    throw Error(
        Code::bad_file,
        "tensor '" + tensor->name + "' has the shape " + text_of(tensor->shape) + ", expected " + text_of(shape),
        file_.path.string());
  return *tensor;
}

bool Tensors::stored_transposed(std::string_view role) const {
  if (config_.traits->transposed_output && role == "output") return true;
  return file_.kind == ModelFile::Kind::huggingface && config_.traits->transposed;
}

const TensorView& Tensors::need_matrix(std::string_view role, int layer, uint64_t rows, uint64_t cols) {
  const TensorView* const row = rows == 1 ? find(role, layer) : nullptr;  // GGUF may have it as a vector
  if (row && row->shape == std::vector<uint64_t>{cols}) {
    made_.emplace_back().view = *row;
    made_.back().view.shape = {1, cols};
    return made_.back().view;
  }
  if (!stored_transposed(role)) return need(role, layer, {rows, cols});
  const TensorView& tensor = need(role, layer, {cols, rows});
  if (tensor.rows)
    throw Error(Code::unsupported, "tensor '" + tensor.name + "' is quantised, and its family stores it transposed",
                file_.path.string());
  return tensor;
}

const TensorView& Tensors::matrix(std::string_view role, int layer, uint64_t rows, uint64_t cols) {
  const TensorView& tensor = need_matrix(role, layer, rows, cols);
  if (stored_transposed(role)) {
    std::vector<std::byte> bytes;
    const TensorView stored = file_.read(tensor, bytes);
    if (!is_quantised(tensor.dtype)) return in_place(tensor, {rows, cols}, transposed(stored));
    std::vector<float> numbers(rows * cols);  // blocks cannot be transposed
    to_float(stored, 0, numbers);
    const TensorView decoded = {tensor.name, DType::f32, tensor.shape, std::as_bytes(std::span(numbers))};
    return in_place(decoded, {rows, cols}, transposed(decoded));
  }
  return sorted_by_head(role) ? by_part(tensor) : tensor;
}

const TensorView& Tensors::head_part(std::string_view role, int layer, uint64_t rows, uint64_t cols, uint32_t number,
                                     uint32_t of) {
  const TensorView& tensor = need(role, layer, {rows * of, cols});
  if (tensor.rows)
    return in_order(tensor, rows, number * rows, [each = rows / config_.heads.heads, number, of](uint64_t row) {
      return (row / each * of + number) * each + row % each;
    });
  const uint64_t heads = config_.heads.heads, size = tensor.bytes.size() / (heads * of);
  std::vector<std::byte> bytes(heads * size), read;
  const std::span<const std::byte> stored = file_.read(tensor, read).bytes;
  for (uint64_t head = 0; head < heads; ++head)
    std::memcpy(&bytes[head * size], &stored[(head * of + number) * size], size);
  return in_place(tensor, {rows, cols}, std::move(bytes));
}

const TensorView& Tensors::bias(std::string_view role, int layer, uint64_t rows) {
  const TensorView& tensor = need(role, layer, {rows}, "bias");
  return sorted_by_head(role) ? by_part(tensor) : tensor;
}

const TensorView& Tensors::kernel(std::string_view role, int layer, uint64_t channels, uint64_t taps) {
  if (file_.kind == ModelFile::Kind::huggingface) return need(role, layer, {channels, 1, taps});
  return need(role, layer, {channels, taps});
}

// Safetensors have no blocks: an element is a whole number of bytes, and zero bytes are the number 0.
const TensorView& Tensors::convolution(const Part& part, uint64_t cols, bool as_stored) {
  const uint64_t stride = stride_of(part.channels), taps = cols / stride;
  const TensorView& tensor = need(part.role, -1, {part.rows, part.channels, taps});
  if (as_stored) return tensor;
  const uint64_t size = tensor.bytes.size() / (part.rows * part.channels * taps);
  std::vector<std::byte> read, bytes(part.rows * cols * size);
  const std::span<const std::byte> stored = file_.read(tensor, read).bytes;
  for (uint64_t row = 0; row < part.rows; ++row)
    for (uint64_t channel = 0; channel < part.channels; ++channel)
      for (uint64_t tap = 0; tap < taps; ++tap)
        std::memcpy(&bytes[(row * cols + tap * stride + channel) * size],
                    &stored[((row * part.channels + channel) * taps + tap) * size], size);
  return in_place(tensor, {part.rows, cols}, std::move(bytes));
}

const TensorView& Tensors::frames(const Part& part, uint64_t cols, bool as_stored) {
  const uint64_t count = part.frames, plane = cols / 3;
  std::vector<const TensorView*> stored;
  if (file_.kind == ModelFile::Kind::huggingface) {
    const TensorView* const found = find(part.role, -1);
    std::vector<uint64_t> shape = {part.rows, 3, count};  // and the sides of a patch
    if (found && found->shape.size() == 5) shape.insert(shape.end(), {found->shape[3], found->shape[4]});
    stored.push_back(&need(part.role, -1, shape));
    if (shape.size() != 5 || shape[3] * shape[4] != plane)
      throw Error(Code::bad_file, "tensor '" + stored[0]->name + "' has the shape " + text_of(stored[0]->shape),
                  file_.path.string());
  } else {
    for (uint64_t frame = 0; frame < count; ++frame)
      stored.push_back(
          &need(part.role, -1, {part.rows, cols}, frame == 0 ? "weight" : "weight." + std::to_string(frame)));
  }
  if (as_stored) return *stored[0];
  std::vector<float> sums(part.rows * cols), own;
  for (const TensorView* tensor : stored) {
    std::vector<std::byte> bytes;
    own.resize(element_count(tensor->shape));
    to_float(file_.read(*tensor, bytes), 0, own);
    const uint64_t inner = own.size() / (part.rows * cols);  // frames of this tensor
    for (uint64_t i = 0; i < sums.size(); ++i)
      for (uint64_t frame = 0; frame < inner; ++frame) sums[i] += own[(i / plane * inner + frame) * plane + i % plane];
  }
  const auto made = std::as_bytes(std::span(sums));
  const TensorView& sum = in_place(*stored[0], {part.rows, cols}, {made.begin(), made.end()});
  made_.back().view.dtype = DType::f32;
  return sum;
}

bool Tensors::sorted_by_head(std::string_view role) const {
  return file_.kind == ModelFile::Kind::huggingface && config_.traits->qkv_by_head && role == "attn_qkv";
}

const TensorView& Tensors::in_place(const TensorView& tensor, std::vector<uint64_t> shape,
                                    std::vector<std::byte> bytes) {
  Made& made = made_.emplace_back();
  made.bytes = std::move(bytes);
  made.view = {tensor.name, tensor.dtype, std::move(shape), made.bytes};
  return made.view;
}

// A matrix of `rows` rows of a quantised tensor: row i is source(i). Reports count the bytes of as many rows from
// `first` on for it.
const TensorView& Tensors::in_order(const TensorView& tensor, uint64_t rows, uint64_t first,
                                    std::function<uint64_t(uint64_t)> source) {
  const uint64_t cols = tensor.shape.back(), all = element_count(tensor.shape) / cols;
  const std::span<const std::byte> stored = tensor.rows->stored();
  const uint64_t begin = stored.size() * first / all, end = stored.size() * (first + rows) / all;
  Made& made = made_.emplace_back();
  made.view = {tensor.name, tensor.dtype, {rows, cols}, {}};
  made.view.rows = reordered(tensor.rows, std::move(source), stored.subspan(begin, end - begin));
  return made.view;
}

// Safetensors have no blocks: an element is a whole number of bytes.
std::vector<std::byte> transposed(const TensorView& tensor) {
  const uint64_t cols = tensor.shape[0], rows = tensor.shape[1], size = tensor.bytes.size() / (rows * cols);
  std::vector<std::byte> bytes(tensor.bytes.size());
  for (uint64_t row = 0; row < rows; ++row)
    for (uint64_t col = 0; col < cols; ++col)
      std::memcpy(&bytes[(row * cols + col) * size], &tensor.bytes[(col * rows + row) * size], size);
  return bytes;
}

// Rows (head, q k v, head_dim) as (q k v, head, head_dim).
const TensorView& Tensors::by_part(const TensorView& tensor) {
  if (tensor.rows) {
    const uint64_t all = config_.heads.heads, each = tensor.shape[0] / (all * 3);
    return in_order(tensor, tensor.shape[0], 0, [all, each](uint64_t row) {
      const uint64_t part = row / (each * all), head = row / each % all;
      return (head * 3 + part) * each + row % each;
    });
  }
  const uint64_t heads = config_.heads.heads, size = tensor.bytes.size() / (heads * 3);  // of a head's part
  std::vector<std::byte> bytes(tensor.bytes.size()), read;
  const std::span<const std::byte> stored = file_.read(tensor, read).bytes;
  for (uint64_t head = 0; head < heads; ++head)
    for (uint64_t part = 0; part < 3; ++part)
      std::memcpy(&bytes[(part * heads + head) * size], &stored[(head * 3 + part) * size], size);
  return in_place(tensor, tensor.shape, std::move(bytes));
}

// True for tensors of layers that guess tokens after the next one. Weft does not use them.
bool Tensors::predicts_further_tokens(const std::string& name) const {
  if (!config_.traits->gated_delta) return false;
  if (file_.kind == ModelFile::Kind::huggingface) return name.starts_with("mtp.");
  for (uint32_t layer = config_.layers; layer < config_.layers + config_.further_layers; ++layer)
    if (name.starts_with("blk." + std::to_string(layer) + ".")) return true;
  return false;
}

void Tensors::refuse_leftovers() const {
  // No weights: tables that can be computed, and masks. Not used by Weft: some heads.
  static constexpr std::string_view kIdle[] = {
      "rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight", "rotary_emb.inv_freq", ".attn.bias",
      ".attn.masked_bias", ".attention.bias", ".attention.masked_bias",
      // BERT: which sentence follows which, and a second name of a bias
      "pooler.dense.weight", "pooler.dense.bias", "cls.seq_relationship.weight", "cls.seq_relationship.bias",
      "cls.predictions.bias",
      // T5: further names of the one table, and biases that nothing adds
      "coder.embed_tokens.weight", "EncDecAttention.relative_attention_bias.weight", "cross_attn_rel_b.weight"};
  for (const TensorView& tensor : file_.tensors) {
    const bool idle = std::ranges::any_of(kIdle, [&](std::string_view end) { return tensor.name.ends_with(end); }) ||
                      predicts_further_tokens(tensor.name);
    if (!used_.contains(tensor.name) && !idle)
      throw Error(Code::unsupported,
                  "tensor '" + tensor.name + "' is no part of a network of the family '" + config_.family + "'",
                  file_.path.string());
  }
}

}  // namespace weft
