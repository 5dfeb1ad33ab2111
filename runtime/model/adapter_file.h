// The settings and names of an adapter's file. Not for other modules.
#pragma once

#include <string>
#include <utility>

#include "model/config.h"

namespace weft {

class AdapterFile {
 public:
  // Both arguments outlive it. Throws as Adapter's constructor.
  AdapterFile(const ModelFile& file, const Config& config);

  // The names of A and B for a tensor of the model.
  std::pair<std::string, std::string> names(std::string_view role, int layer) const;
  // The factor of B (A x).
  double scale(uint64_t rank) const;

 private:
  void read_gguf();
  void read_peft();

  const ModelFile& file_;
  const Config& config_;
  double alpha_ = 0;  // 0: the matrices have their scale
  bool by_root_ = false;
};

// The row of B in an adapter's file for a row of the model's tensor, which has `rows`. Files and models may have the
// rows of queries and keys in different orders: see Family.
uint64_t row_in_file(ModelFile::Kind kind, const Config& config, std::string_view role, uint64_t rows, uint64_t row);

}  // namespace weft
