#include "model/product_inputs.h"

#include "base/error.h"
#include "gpu/upload.h"
#include "model/network.h"

namespace weft {

void ProductInputs::take(const Network& n, const Linear& product, const ops::Input& input) {
  const uint32_t cols = product.base.cols, stride = input.end ? ops::begun_stride(cols) : stride_of(cols);
  const uint64_t bytes = uint64_t{n.tokens} * stride * sizeof(float);
  Copy& copy = copies_[&product];
  if (copy.rows.bytes() != bytes)
    copy = {Buffer(model_.device, "products' inputs", bytes, Memory::device), stride, cols,
            input.end ? input.end->sums : 0, input.end ? input.end->shape.epsilon : 0};
  n.r.copy(input.x.part(0, bytes), copy.rows);
}

void ProductInputs::add(const Linear& product, uint64_t tokens, std::vector<double>& sums) const {
  const Copy& copy = copies_.at(&product);
  if (sums.size() != copy.cols)
    throw Error(Code::internal,
                "a product of " + std::to_string(copy.cols) + " columns has sums of " + std::to_string(sums.size()));
  const std::vector<float> rows =
      download_as<float>(model_.device, View(copy.rows).part(0, tokens * copy.stride * sizeof(float)));
  for (uint64_t t = 0; t < tokens; ++t) {
    const float* const row = &rows[t * copy.stride];
    double squares = 0;  // of the rows before the norm's weights
    for (uint32_t i = 0; i < copy.sums; ++i) squares += row[NORM_SUMS_AT(copy.cols) + i];
    const double factor = copy.sums == 0 ? 1 : 1 / (squares / copy.cols + copy.epsilon);
    for (uint32_t i = 0; i < copy.cols; ++i) sums[i] += factor * row[i] * row[i];
  }
}

}  // namespace weft
