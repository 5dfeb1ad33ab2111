// The tensors of a folder while its readers make quantised matrices of them. Not for other modules.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_object.h"
#include "format/model_file.h"
#include "format/quantised_rows.h"

namespace weft {

class QuantisedFolder {
 public:
  // Both outlive it.
  explicit QuantisedFolder(ModelFile& model);

  // Names of the modules that have a tensor of this end, without the end; in the order of the file.
  std::vector<std::string> modules(std::string_view end) const;
  // A tensor; nullptr if the files lack it.
  const TensorView* look(const std::string& name) const;
  // Finds a tensor as look() does, and notes that it is a part of a matrix.
  const TensorView* find(const std::string& name);
  // Finds a part as find() does. Throws Error(bad_file), naming file, tensor and what was expected, if it is missing or
  // has another shape or none of these types.
  const TensorView& need(const std::string& name, std::initializer_list<DType> types,
                         const std::vector<uint64_t>& shape);
  // Finds a part of two dimensions, both above 0. Throws as need().
  const TensorView& need_matrix(const std::string& name, std::initializer_list<DType> types);
  // Puts a matrix in the place of a tensor that it was made of.
  void put(const TensorView& in_place_of, std::string name, DType dtype, std::vector<uint64_t> shape,
           std::shared_ptr<const QuantisedRows> rows);
  // Leaves out the tensors of these ends, which the numbers of no matrix depend on.
  void leave_out(std::initializer_list<std::string_view> ends);

  // Gives the model its matrices. Throws Error(unsupported) for integers that belong to none.
  void finish();

  [[noreturn]] void refuse(const TensorView& tensor, const std::string& sentence,
                           Code code = Code::bad_file) const;  // "tensor NAME " + sentence
  std::string file_of(const TensorView& tensor) const;

 private:
  void check_type(const TensorView& tensor, std::initializer_list<DType> types) const;

  ModelFile& model_;
  std::map<std::string, size_t, std::less<>> places_;  // in the model's tensors
  std::set<std::string> used_;
  std::map<size_t, TensorView> made_;  // by the place
};

// The readers. Each takes the matrices of its method; config is "quantization_config".
[[gnu::cold]] void read_gptq(QuantisedFolder& folder, const JsonObject& config);
[[gnu::cold]] void read_awq(QuantisedFolder& folder, const JsonObject& config);
[[gnu::cold]] void read_compressed(QuantisedFolder& folder, const JsonObject& config);
[[gnu::cold]] void read_fp8(QuantisedFolder& folder, const JsonObject& config);
[[gnu::cold]] void read_bitsandbytes(QuantisedFolder& folder, const JsonObject& config);
[[gnu::cold]] void read_mxfp4(QuantisedFolder& folder, const JsonObject& config);

}  // namespace weft
