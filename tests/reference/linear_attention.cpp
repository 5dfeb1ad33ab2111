#include "reference/linear_attention.h"

#include <cmath>

namespace weft::reference {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

std::vector<double> convolved(const LinearShape& shape, const LinearWeights& weights, const Rows& projected,
                              uint32_t t) {
  std::vector<double> row(2 * shape.keys() + shape.values());
  const uint32_t first = shape.delta ? 0 : shape.values();  // z is before these columns in Mamba-2, else after them
  for (uint32_t col = 0; col < row.size(); ++col) {
    double sum = weights.bias.empty() ? 0 : weights.bias[col];
    for (uint32_t k = 0; k < shape.taps && k <= t; ++k)
      sum += weights.kernel[col * shape.taps + shape.taps - 1 - k] * projected.row(t - k)[first + col];
    row[col] = sum * sigmoid(sum);
  }
  return row;
}

// Each head's part of a row, with length 1.
void norm_heads(std::span<double> row, uint32_t dim, double epsilon, double scale) {
  for (size_t first = 0; first < row.size(); first += dim) {
    double squares = epsilon;
    for (const double value : row.subspan(first, dim)) squares += value * value;
    for (double& value : row.subspan(first, dim)) value *= scale / std::sqrt(squares);
  }
}

}  // namespace

Rows scan_inputs(const LinearShape& shape, const LinearWeights& weights, const Rows& projected, double epsilon) {
  const uint32_t keys = shape.keys(), values = shape.values();
  Rows prepared(projected.rows, 2 * keys + values + 2 * shape.heads);
  for (uint32_t t = 0; t < projected.rows; ++t) {
    const std::vector<double> conv = convolved(shape, weights, projected, t);
    const std::span<double> to = prepared.row(t);
    const std::span<double> k = to.subspan(0, keys), q = to.subspan(keys + values + 2 * shape.heads, keys);
    for (uint32_t i = 0; i < keys; ++i) {
      q[i] = conv[shape.delta ? i : values + keys + i];
      k[i] = conv[shape.delta ? keys + i : values + i];
    }
    for (uint32_t i = 0; i < values; ++i) to[keys + i] = conv[shape.delta ? 2 * keys + i : i];
    if (shape.delta) {
      norm_heads(k, shape.key_dim, epsilon, 1);
      norm_heads(q, shape.key_dim, epsilon, 1 / std::sqrt(shape.key_dim));
    }
    for (uint32_t head = 0; head < shape.heads; ++head) {
      const std::span<const double> gates = projected.row(t).subspan(2 * keys + 2 * values);
      const double dt = std::log1p(std::exp(gates[head] + weights.dt_bias[head]));
      to[keys + values + head] = std::exp(weights.a[head] * dt);
      to[keys + values + shape.heads + head] = shape.delta ? sigmoid(gates[shape.heads + head]) : dt;
    }
  }
  return prepared;
}

Rows scan(const LinearShape& shape, const LinearWeights& weights, const Rows& prepared) {
  Rows y(prepared.rows, shape.values());
  const uint32_t keys = shape.keys(), values = shape.values();
  for (uint32_t head = 0; head < shape.heads; ++head) {
    const uint32_t key_head = shape.tiled ? head % shape.key_heads : head / (shape.heads / shape.key_heads);
    Rows s(shape.key_dim, shape.value_dim);
    for (uint32_t t = 0; t < prepared.rows; ++t) {
      const std::span<const double> row = prepared.row(t);
      const std::span<const double> k = row.subspan(key_head * shape.key_dim, shape.key_dim);
      const std::span<const double> q =
          row.subspan(keys + values + 2 * shape.heads + key_head * shape.key_dim, shape.key_dim);
      const double decay = row[keys + values + head], rate = row[keys + values + shape.heads + head];
      for (double& value : s.values) value *= decay;
      for (uint32_t j = 0; j < shape.value_dim; ++j) {
        const double v = row[keys + head * shape.value_dim + j];
        double seen = 0, result = shape.delta ? 0 : weights.skip[head] * v;
        for (uint32_t i = 0; i < shape.key_dim && shape.delta; ++i) seen += s.row(i)[j] * k[i];
        for (uint32_t i = 0; i < shape.key_dim; ++i) {
          s.row(i)[j] += k[i] * rate * (v - seen);
          result += s.row(i)[j] * q[i];
        }
        y.row(t)[head * shape.value_dim + j] = result;
      }
    }
  }
  return y;
}

Rows gate(Gate kind, uint32_t groups, const Rows& x, const Rows& gates, const std::vector<double>& weight,
          double epsilon) {
  Rows y = x;
  const uint32_t cols = x.cols / groups;
  const bool normed = kind == Gate::after_norm || kind == Gate::then_norm;
  for (uint32_t t = 0; t < x.rows; ++t)
    for (uint32_t first = 0; first < x.cols; first += cols) {
      double squares = 0;
      for (uint32_t i = first; i < first + cols; ++i) {
        double& value = y.row(t)[i];
        const double own = gates.row(t)[i];
        if (kind == Gate::sigmoid || kind == Gate::of_group) value *= sigmoid(own);
        if (kind == Gate::then_norm) value *= own * sigmoid(own);
        if (kind == Gate::of_gelu)
          value = own * value * (1 + std::tanh(std::sqrt(2 / M_PI) * (value + 0.044715 * value * value * value))) / 2;
        squares += value * value;
      }
      for (uint32_t i = first; i < first + cols && normed; ++i) {
        const double own = kind == Gate::after_norm ? gates.row(t)[i] * sigmoid(gates.row(t)[i]) : 1;
        y.row(t)[i] *= weight[i] / std::sqrt(squares / cols + epsilon) * own;
      }
    }
  return y;
}

}  // namespace weft::reference
