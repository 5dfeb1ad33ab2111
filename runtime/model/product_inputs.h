// The inputs of a model's products, for those who measure them (run/squared_inputs.h).
#pragma once

#include <map>
#include <vector>

#include "model/model.h"

namespace weft {

struct Network;

// The inputs of a pass's products. A product records a copy of its input before it reads it.
class ProductInputs {
 public:
  explicit ProductInputs(const Model& model) : model_(model) {}
  ProductInputs(const ProductInputs&) = delete;
  ProductInputs& operator=(const ProductInputs&) = delete;

  // While a pass is recorded: a copy of an input's rows.
  void take(const Network& network, const Linear& product, const ops::Input& input);
  // After the pass has run: adds the squares of its first `tokens` rows to the product's sums.
  void add(const Linear& product, uint64_t tokens, std::vector<double>& sums) const;
  bool has(const Linear& product) const { return copies_.contains(&product); }

 private:
  struct Copy {
    Buffer rows;  // (tokens of the pass, stride)
    uint32_t stride, cols;
    uint32_t sums;  // not 0: a norm that has begun (ops::BegunNorm), with so many partial sums
    float epsilon;
  };
  const Model& model_;
  std::map<const Linear*, Copy> copies_;
};

}  // namespace weft
