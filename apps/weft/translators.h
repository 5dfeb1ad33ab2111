// Translators of a tuned lens, made by least squares (docs/lens.md).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace weft::cli {

// One layer's translator: h + W h + b is close to the state after the last layer.
struct Translator {
  std::vector<float> weight;  // W: (width, width), a row for each number of the result
  std::vector<float> bias;    // b: (width)
};

// Sums for least squares over pairs of states x (after a layer) and y (after the last one): weighted sums of x, d,
// x x^T and x d^T with d = y - x. A pair's weight is 1 / |y|^2, because the final norm takes the length of y away: the
// fit minimises the error relative to it, and the few very long states count no more than others.
class Moments {
 public:
  explicit Moments(std::size_t width);
  // x, y: (count, width), one pair after the other.
  void add(const float* x, const float* y, std::size_t count);
  void add(const Moments& other);

  // Minimises  sum of |W x + b - d|^2 / |y|^2  +  ridge * sum of W_ij^2 C_jj,  C the covariance of x: ridge regression
  // (Hoerl and Kennard 1970) with each column of x in units of its own deviation. W = 0 is the logit lens.
  Translator solve(double ridge) const;
  // The first sum of solve() for a translator of other pairs, without the sum of |d|^2 / |y|^2.
  double error(const Translator& translator) const;

 private:
  std::size_t width_;
  double weight_ = 0;
  std::vector<double> x_, d_;    // (width)
  std::vector<double> xx_, xd_;  // (width, width); of xx_ the upper triangle
};

// Writes config.json and params.safetensors into the folder, which is made if it is not there. base: the model's name.
// Throws api::Failure.
void write_translators(const std::string& folder, const std::vector<Translator>& layers, const std::string& base);

}  // namespace weft::cli
