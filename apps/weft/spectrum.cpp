#include "spectrum.h"

#include <cmath>
#include <numeric>
#include <utility>

namespace weft::cli {
namespace {

// Householder's reflections make the symmetric matrix (n, n) tridiagonal (Golub and Van Loan, "Matrix computations",
// 8.3.1). Returns the diagonal and the elements beside it: beside[i] is between i and i + 1.
std::pair<std::vector<double>, std::vector<double>> tridiagonal(std::vector<double> a, std::size_t n) {
  std::vector<double> v(n), p(n), beside(n);
  for (std::size_t k = 0; k + 2 < n; ++k) {
    double length = 0;
    for (std::size_t i = k + 1; i < n; ++i) length += a[i * n + k] * a[i * n + k];
    length = std::sqrt(length);
    if (length == 0) continue;
    const double first = a[(k + 1) * n + k], alpha = first > 0 ? -length : length;
    for (std::size_t i = k + 1; i < n; ++i) v[i] = a[i * n + k];
    v[k + 1] -= alpha;
    const double beta = 1 / (length * (length + std::fabs(first)));
    double along = 0;
    for (std::size_t i = k + 1; i < n; ++i) {
      p[i] = beta * std::inner_product(&v[k + 1], v.data() + n, &a[i * n + k + 1], 0.0);
      along += p[i] * v[i];
    }
    for (std::size_t i = k + 1; i < n; ++i) p[i] -= beta / 2 * along * v[i];
    for (std::size_t i = k + 1; i < n; ++i)
      for (std::size_t j = k + 1; j < n; ++j) a[i * n + j] -= v[i] * p[j] + p[i] * v[j];
    a[(k + 1) * n + k] = alpha;
  }
  std::vector<double> diagonal(n);
  for (std::size_t i = 0; i < n; ++i) {
    diagonal[i] = a[i * n + i];
    if (i + 1 < n) beside[i] = a[(i + 1) * n + i];
  }
  return {diagonal, beside};
}

// Eigenvalues of a tridiagonal matrix below x: the pivots of its factors that are negative (Sylvester's law).
std::size_t values_below(const std::vector<double>& diagonal, const std::vector<double>& beside, double x) {
  std::size_t below = 0;
  double pivot = 1;
  for (std::size_t i = 0; i < diagonal.size(); ++i) {
    pivot = diagonal[i] - x - (i > 0 ? beside[i - 1] * beside[i - 1] / pivot : 0);
    if (pivot == 0) pivot = 1e-300;
    if (pivot < 0) ++below;
  }
  return below;
}

double dot(const double* a, const double* b, std::size_t n) {
  double sums[4] = {};  // side by side
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (std::size_t j = 0; j < 4; ++j) sums[j] += a[i + j] * b[i + j];
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

}  // namespace

std::vector<double> eigenvalues(const std::vector<double>& matrix, std::size_t n) {
  const auto [diagonal, beside] = tridiagonal(matrix, n);
  double most = 0;
  for (std::size_t i = 0; i < n; ++i) most += diagonal[i];  // the trace: no eigenvalue is above it
  std::vector<double> values(n);
  for (std::size_t rank = 0; rank < n; ++rank) {
    double low = 0, high = rank > 0 ? values[rank - 1] : most;
    for (int step = 0; step < 64; ++step) {
      const double middle = (low + high) / 2;
      (n - values_below(diagonal, beside, middle) > rank ? low : high) = middle;
    }
    values[rank] = high;
  }
  return values;
}

std::vector<double> eigenvectors(std::vector<double> matrix, std::size_t n) {
  constexpr double kAngle = 1e-8;  // cosine of two rows that count as at a right angle
  constexpr int kSweeps = 30;
  bool turned = true;
  for (int sweep = 0; turned && sweep < kSweeps; ++sweep) {
    turned = false;
    for (std::size_t p = 0; p + 1 < n; ++p)
      for (std::size_t q = p + 1; q < n; ++q) {
        double* const one = &matrix[p * n];
        double* const two = &matrix[q * n];
        const double a = dot(one, one, n), b = dot(two, two, n), c = dot(one, two, n);
        if (std::fabs(c) <= kAngle * std::sqrt(a * b)) continue;
        turned = true;
        const double zeta = (b - a) / (2 * c),
                     tangent = std::copysign(1, zeta) / (std::fabs(zeta) + std::hypot(1, zeta));
        const double cosine = 1 / std::hypot(1, tangent), sine = cosine * tangent;
        for (std::size_t i = 0; i < n; ++i) {
          const double x = one[i], y = two[i];
          one[i] = cosine * x - sine * y;
          two[i] = sine * x + cosine * y;
        }
      }
  }
  for (std::size_t p = 0; p < n; ++p) {
    double* const row = &matrix[p * n];
    const double length = std::sqrt(dot(row, row, n));
    for (std::size_t i = 0; i < n; ++i) row[i] = length > 0 ? row[i] / length : 0;
  }
  return matrix;
}

}  // namespace weft::cli
