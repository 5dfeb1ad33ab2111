// Report on a model while it is loaded: its tensors, and the progress of loading. Not for other modules.
#pragma once

#include <functional>

#include "format/model_file.h"
#include "model/weights.h"

namespace weft {

struct WeightsReport {
  WeightsReport(const ModelFile& file, std::function<void(float)> told);

  // Adds the place of a tensor of the file. The entry keeps its address even if `tensors` is moved.
  TensorReport& add(const TensorView& tensor, const char* device_type, uint64_t bytes, const std::string& buffer,
                    const Rounding& rounding = {});
  // Reports that `bytes` more bytes of the file's tensors are done.
  void advance(uint64_t bytes);
  void add_floats(const TensorView& tensor, uint64_t count, const std::string& buffer);  // and advances

  std::list<TensorReport> tensors;
  std::function<void(float)> progress;  // called with 0..1; may be empty

 private:
  uint64_t total_bytes_ = 0, done_bytes_ = 0;
};

}  // namespace weft
