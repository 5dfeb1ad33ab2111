#include "model/weights_report.h"

#include <algorithm>

namespace weft {

WeightsReport::WeightsReport(const ModelFile& file, std::function<void(float)> told) : progress(std::move(told)) {
  for (const TensorView& tensor : file.tensors) total_bytes_ += stored_bytes(tensor).size();
}

TensorReport& WeightsReport::add(const TensorView& tensor, const char* device_type, uint64_t bytes,
                                 const std::string& buffer, const Rounding& rounding) {
  return tensors.emplace_back(
      TensorReport{tensor.name, tensor.shape, type_name(tensor), device_type, bytes, buffer, rounding});
}

void WeightsReport::advance(uint64_t bytes) {
  done_bytes_ = std::min(done_bytes_ + bytes, total_bytes_);  // a layer that is loaded a second time counts twice
  if (progress) progress(total_bytes_ ? static_cast<float>(done_bytes_) / static_cast<float>(total_bytes_) : 1.0f);
}

void WeightsReport::add_floats(const TensorView& tensor, uint64_t count, const std::string& buffer) {
  add(tensor, "f32", count * 4, buffer);
  advance(stored_bytes(tensor).size());
}

}  // namespace weft
