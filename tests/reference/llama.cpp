#include "reference/llama.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "support/op_inputs.h"

namespace weft::reference {
namespace {

using Vector = std::vector<double>;

struct Weights {  // (rows, cols), row-major
  uint64_t rows, cols;
  std::vector<float> values;
};

// Blocks of 32 along a row: a scale of a 127th of the largest magnitude, rounded to f16, times integers.
void round_to_q8(float* block, uint64_t count) {
  float largest = 0;
  for (uint64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(block[i]));
  const float scale = half_to_float(float_to_half(largest / 127));
  for (uint64_t i = 0; i < count; ++i)
    block[i] = scale > 0 ? std::clamp(std::nearbyint(block[i] / scale), -127.0f, 127.0f) * scale : 0;
}

void round_to(Format format, DType from, Weights& w) {
  if (from == file_type(format)) return;  // it is that already
  if (format == Format::q4) throw std::runtime_error("the reference does not round to q4");
  if (format == Format::f16)
    for (float& value : w.values) value = half_to_float(float_to_half(value));
  else
    for (uint64_t row = 0; row < w.rows; ++row)
      for (uint64_t col = 0; col < w.cols; col += 32)
        round_to_q8(&w.values[row * w.cols + col], std::min<uint64_t>(32, w.cols - col));
}

enum class Kept { plain, table };  // table: as a vocabulary table that is projected on
Weights read(const ModelFile& file, Format format, std::string_view role, int layer = -1, Kept kept = Kept::plain) {
  const std::string name = tensor_name(file.kind, find_family(file.kind, "llama", ""), role, layer);
  const TensorView* tensor = file.find(name);
  if (!tensor) throw std::runtime_error("no tensor " + name);
  Weights weights = {tensor->shape.size() == 2 ? tensor->shape[0] : 1, tensor->shape.back(), {}};
  if (kept == Kept::table) {
    weights.values = test::stored_table(format, *tensor);
    return weights;
  }
  weights.values.resize(weights.rows * weights.cols);
  to_float(*tensor, 0, weights.values);
  if (tensor->shape.size() == 2) round_to(format, tensor->dtype, weights);
  return weights;
}

Vector times(const Weights& w, const Vector& x) {
  Vector y(w.rows, 0.0);
  for (uint64_t row = 0; row < w.rows; ++row)
    for (uint64_t col = 0; col < w.cols; ++col) y[row] += double{w.values[row * w.cols + col]} * x[col];
  return y;
}

Vector norm(const Weights& weight, const Vector& x, double epsilon) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
  Vector y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * double{weight.values[i]};
  return y;
}

// Turns the head that begins at x[first] for a position.
void turn(Vector& x, size_t first, const Config& c, uint32_t position) {
  const uint32_t d = c.heads.head_dim;
  for (uint32_t i = 0; i < d / 2; ++i) {
    const double angle = position * c.ropes[0].frequencies[i];
    const size_t a = first + (c.pairs == ops::Pairs::adjacent ? 2 * i : i);
    const size_t b = first + (c.pairs == ops::Pairs::adjacent ? 2 * i + 1 : i + d / 2);
    const double low = x[a], high = x[b];
    x[a] = low * std::cos(angle) - high * std::sin(angle);
    x[b] = low * std::sin(angle) + high * std::cos(angle);
  }
}

struct Layer {
  Weights attention_norm, q, k, v, out, ffn_norm, gate, up, down;
  std::vector<Vector> keys, values;  // by position
};

Vector attend(const Layer& layer, const Vector& q, const Config& c) {
  const uint32_t d = c.heads.head_dim, group = c.heads.heads / c.heads.kv_heads;
  Vector y(q.size(), 0.0);
  for (uint32_t head = 0; head < c.heads.heads; ++head) {
    const size_t kv = size_t{head / group} * d;
    Vector weights(layer.keys.size());
    double total = 0;
    for (size_t p = 0; p < weights.size(); ++p) {
      double score = 0;
      for (uint32_t i = 0; i < d; ++i) score += q[head * d + i] * layer.keys[p][kv + i];
      total += weights[p] = std::exp(score / std::sqrt(double(d)));
    }
    for (size_t p = 0; p < weights.size(); ++p)
      for (uint32_t i = 0; i < d; ++i) y[head * d + i] += weights[p] / total * layer.values[p][kv + i];
  }
  return y;
}

Vector halves(Vector x) {
  for (double& value : x) value = half_to_float(float_to_half(static_cast<float>(value)));
  return x;
}

void add(Vector& x, const Vector& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

// note: told of the input of each product.
template <class Note>
void run_layer(Layer& layer, Vector& x, const Config& c, uint32_t position, const Note& note) {
  const Vector normed = norm(layer.attention_norm, x, c.epsilon);
  note("attn_q", normed);
  Vector q = times(layer.q, normed), k = times(layer.k, normed);
  for (uint32_t head = 0; head < c.heads.heads; ++head) turn(q, size_t{head} * c.heads.head_dim, c, position);
  for (uint32_t head = 0; head < c.heads.kv_heads; ++head) turn(k, size_t{head} * c.heads.head_dim, c, position);
  layer.keys.push_back(halves(k));
  layer.values.push_back(halves(times(layer.v, normed)));
  const Vector attended = attend(layer, q, c);
  note("attn_output", attended);
  add(x, times(layer.out, attended));

  const Vector inner_in = norm(layer.ffn_norm, x, c.epsilon);
  note("ffn_gate", inner_in);
  Vector gate = times(layer.gate, inner_in);
  const Vector up = times(layer.up, inner_in);
  for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
  note("ffn_down", gate);
  add(x, times(layer.down, gate));
}

}  // namespace

std::vector<std::vector<double>> llama_logits(const ModelFile& file, const Config& c, Format format,
                                              std::span<const uint32_t> ids, SquareSums* squares) {
  const auto has = [&](std::string_view role) {
    return file.find(tensor_name(file.kind, find_family(file.kind, "llama", ""), role)) != nullptr;
  };
  const bool tied = !has("token_embd") || !has("output");
  const Weights head = read(file, format, has("output") ? "output" : "token_embd", -1, Kept::table),
                embedding = tied ? head : read(file, format, "token_embd"),
                final_norm = read(file, format, "output_norm");
  std::vector<Layer> layers;
  for (int i = 0; i < static_cast<int>(c.layers); ++i)
    layers.push_back({read(file, format, "attn_norm", i),
                      read(file, format, "attn_q", i),
                      read(file, format, "attn_k", i),
                      read(file, format, "attn_v", i),
                      read(file, format, "attn_output", i),
                      read(file, format, "ffn_norm", i),
                      read(file, format, "ffn_gate", i),
                      read(file, format, "ffn_up", i),
                      read(file, format, "ffn_down", i),
                      {},
                      {}});
  std::vector<Vector> logits;
  for (uint32_t position = 0; position < ids.size(); ++position) {
    const float* row = &embedding.values[ids[position] * embedding.cols];
    Vector x(row, row + embedding.cols);
    for (uint32_t i = 0; i < layers.size(); ++i)
      run_layer(layers[i], x, c, position, [&](const char* role, const Vector& input) {
        if (!squares) return;
        Vector& sums = (*squares)[{role, i}];
        sums.resize(input.size());
        for (size_t column = 0; column < input.size(); ++column) sums[column] += input[column] * input[column];
      });
    logits.push_back(times(head, norm(final_norm, x, c.epsilon)));
  }
  return logits;
}

}  // namespace weft::reference
