#include "translators.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <weft/weft.hpp>

namespace weft::cli {
namespace {

constexpr std::size_t kAtOnce = 4;  // terms of a sum that one pass over its row adds

// to[j] += sum over t of factors[t] rows[t][j].
void add_scaled(double* __restrict to, const double* const (&rows)[kAtOnce], const double (&factors)[kAtOnce],
                std::size_t first, std::size_t end) {
  const double *const a = rows[0], *const b = rows[1], *const c = rows[2], *const d = rows[3];
  const double fa = factors[0], fb = factors[1], fc = factors[2], fd = factors[3];
  for (std::size_t j = first; j < end; ++j) to[j] += fa * a[j] + fb * b[j] + fc * c[j] + fd * d[j];
}

// Solves A Z = B for a positive definite A (n, n), of which the upper triangle is given and overwritten by Cholesky's
// factor U, A = U^T U; B (n, n) becomes Z.
void solve_positive(std::vector<double>& a, std::vector<double>& b, std::size_t n) {
  const auto subtract = [n](double* to, const double* row, double factor, std::size_t first) {
    for (std::size_t j = first; j < n; ++j) to[j] -= factor * row[j];
  };
  for (std::size_t k = 0; k < n; ++k) {
    double* const row = &a[k * n];
    const double root = std::sqrt(row[k]);
    for (std::size_t j = k; j < n; ++j) row[j] /= root;
    for (std::size_t i = k + 1; i < n; ++i) subtract(&a[i * n], row, row[i], i);
  }
  for (std::size_t k = 0; k < n; ++k) {  // U^T Y = B
    for (std::size_t j = 0; j < n; ++j) b[k * n + j] /= a[k * n + k];
    for (std::size_t i = k + 1; i < n; ++i) subtract(&b[i * n], &b[k * n], a[k * n + i], 0);
  }
  for (std::size_t k = n; k-- > 0;) {  // U Z = Y
    for (std::size_t i = k + 1; i < n; ++i) subtract(&b[k * n], &b[i * n], a[k * n + i], 0);
    for (std::size_t j = 0; j < n; ++j) b[k * n + j] /= a[k * n + k];
  }
}

}  // namespace

Moments::Moments(std::size_t width) : width_(width), x_(width), d_(width), xx_(width * width), xd_(width * width) {}

void Moments::add(const float* x, const float* y, std::size_t count) {
  const std::size_t n = width_, rows = (count + kAtOnce - 1) / kAtOnce * kAtOnce;
  std::vector<double> xs(rows * n), ds(rows * n);  // divided by |y|; rows of zeros after the last one
  for (std::size_t t = 0; t < count; ++t) {
    double length = 0;
    for (std::size_t j = 0; j < n; ++j) length += static_cast<double>(y[t * n + j]) * y[t * n + j];
    if (!std::isfinite(length)) throw api::Failure(WEFT_BAD_FILE, "not all hidden states are finite numbers", "model");
    const double scale = length > 0 ? 1 / std::sqrt(length) : 0;
    weight_ += scale * scale;
    for (std::size_t j = 0; j < n; ++j) {
      xs[t * n + j] = x[t * n + j] * scale;
      ds[t * n + j] = (static_cast<double>(y[t * n + j]) - x[t * n + j]) * scale;
      x_[j] += xs[t * n + j] * scale;
      d_[j] += ds[t * n + j] * scale;
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t t = 0; t < rows; t += kAtOnce) {
      const double *rows_x[kAtOnce], *rows_d[kAtOnce];
      double factors[kAtOnce];
      for (std::size_t k = 0; k < kAtOnce; ++k) {
        rows_x[k] = &xs[(t + k) * n], rows_d[k] = &ds[(t + k) * n];
        factors[k] = rows_x[k][i];
      }
      add_scaled(&xx_[i * n], rows_x, factors, i, n);
      add_scaled(&xd_[i * n], rows_d, factors, 0, n);
    }
  }
}

void Moments::add(const Moments& other) {
  const auto sum = [](std::vector<double>& to, const std::vector<double>& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  };
  weight_ += other.weight_;
  sum(x_, other.x_);
  sum(d_, other.d_);
  sum(xx_, other.xx_);
  sum(xd_, other.xd_);
}

Translator Moments::solve(double ridge) const {
  const std::size_t n = width_;
  std::vector<double> a = xx_, z = xd_;  // about the means, which leaves b to be found afterwards
  double mean = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i; j < n; ++j) a[i * n + j] -= x_[i] * x_[j] / weight_;
    for (std::size_t j = 0; j < n; ++j) z[i * n + j] -= x_[i] * d_[j] / weight_;
    mean += a[i * n + i] / static_cast<double>(n);
  }
  // A column that is always the same has no deviation: it gets a small one, and with it W_ij = 0.
  for (std::size_t i = 0; i < n; ++i) a[i * n + i] += ridge * std::max(a[i * n + i], 1e-9 * mean + 1e-300);
  solve_positive(a, z, n);
  Translator result = {std::vector<float>(n * n), std::vector<float>(n)};
  for (std::size_t out = 0; out < n; ++out) {
    double shift = d_[out];
    for (std::size_t in = 0; in < n; ++in) {
      result.weight[out * n + in] = static_cast<float>(z[in * n + out]);
      shift -= z[in * n + out] * x_[in];
    }
    result.bias[out] = static_cast<float>(shift / weight_);
    if (!std::isfinite(result.bias[out]))
      throw api::Failure(WEFT_INTERNAL, "least squares gave a number that is not finite", "weft lens --fit");
  }
  return result;
}

double Moments::error(const Translator& translator) const {
  const std::size_t n = width_;
  double sum = 0;
  std::vector<double> product(n);
  for (std::size_t out = 0; out < n; ++out) {
    const float* const w = &translator.weight[out * n];
    const double b = translator.bias[out];
    // w^T XX w + 2 b w^T x + b^2 - 2 (w^T xd + b d)
    std::fill(product.begin(), product.end(), 0.0);
    for (std::size_t i = 0; i < n; ++i) {
      const double* const row = &xx_[i * n];
      product[i] += 0.5 * w[i] * row[i];
      for (std::size_t j = i + 1; j < n; ++j) product[j] += w[i] * row[j];
    }
    for (std::size_t i = 0; i < n; ++i) sum += 2 * w[i] * (product[i] + b * x_[i] - xd_[i * n + out]);
    sum += weight_ * b * b - 2 * b * d_[out];
  }
  return sum;
}

void write_translators(const std::string& folder, const std::vector<Translator>& layers, const std::string& base) {
  const std::filesystem::path path = folder;
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw api::Failure(WEFT_IO, error.message(), folder);
  const auto write = [](const std::filesystem::path& name, const auto& content) {
    std::ofstream file(name, std::ios::binary);
    content(file);
    file.close();
    if (!file) throw api::Failure(WEFT_IO, std::strerror(errno), name.string());
  };
  const std::size_t width = layers.front().bias.size();
  nlohmann::ordered_json header;
  std::uint64_t end = 0;
  const auto describe = [&](const std::string& name, nlohmann::ordered_json shape, std::size_t count) {
    header[name] = {
        {"dtype", "F32"}, {"shape", std::move(shape)}, {"data_offsets", {end, end + count * sizeof(float)}}};
    end += count * sizeof(float);
  };
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    describe(std::to_string(layer) + ".weight", {width, width}, width * width);
    describe(std::to_string(layer) + ".bias", nlohmann::ordered_json::array({width}), width);
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the numbers are aligned
  write(path / "params.safetensors", [&](std::ofstream& file) {
    const auto put = [&](const std::vector<float>& values) {
      file.write(reinterpret_cast<const char*>(values.data()),
                 static_cast<std::streamsize>(values.size() * sizeof(float)));
    };
    const std::uint64_t length = text.size();
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file << text;
    for (const Translator& one : layers) put(one.weight), put(one.bias);
  });
  const nlohmann::ordered_json config = {{"base_model_name_or_path", base},    {"d_model", width},
                                         {"num_hidden_layers", layers.size()}, {"bias", true},
                                         {"base_model_revision", nullptr},     {"unembed_hash", nullptr},
                                         {"lens_type", "linear_tuned_lens"}};
  write(path / "config.json", [&](std::ofstream& file) { file << config.dump(1) << '\n'; });
}

}  // namespace weft::cli
