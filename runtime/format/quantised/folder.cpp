#include "format/quantised/folder.h"

#include <algorithm>

#include "base/quote.h"
#include "format/quantised.h"

namespace weft {

QuantisedFolder::QuantisedFolder(ModelFile& model) : model_(model) {
  for (size_t i = 0; i < model.tensors.size(); ++i) places_.emplace(model.tensors[i].name, i);
}

std::vector<std::string> QuantisedFolder::modules(std::string_view end) const {
  std::vector<std::string> names;
  for (const TensorView& tensor : model_.tensors)
    if (tensor.name.ends_with(end)) names.push_back(tensor.name.substr(0, tensor.name.size() - end.size()));
  return names;
}

const TensorView* QuantisedFolder::look(const std::string& name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &model_.tensors[found->second];
}

const TensorView* QuantisedFolder::find(const std::string& name) {
  used_.insert(name);
  return look(name);
}

void QuantisedFolder::leave_out(std::initializer_list<std::string_view> ends) {
  for (const TensorView& tensor : model_.tensors)
    if (std::ranges::any_of(ends, [&](std::string_view end) { return tensor.name.ends_with(end); }))
      used_.insert(tensor.name);
}

std::string QuantisedFolder::file_of(const TensorView& tensor) const {
  for (const MappedFile& file : model_.files)
    if (file.holds(tensor.bytes)) return file.path().string();
  return model_.path.string();
}

void QuantisedFolder::refuse(const TensorView& tensor, const std::string& sentence, Code code) const {
  throw Error(code, "tensor " + printable(tensor.name) + " " + sentence, file_of(tensor));
}

void QuantisedFolder::check_type(const TensorView& tensor, std::initializer_list<DType> types) const {
  if (std::ranges::find(types, tensor.dtype) != types.end()) return;
  std::string expected;
  for (const DType type : types) expected += (expected.empty() ? "" : " or ") + std::string(name(type));
  refuse(tensor, "is " + std::string(name(tensor.dtype)) + ", expected " + expected);
}

const TensorView& QuantisedFolder::need(const std::string& name, std::initializer_list<DType> types,
                                        const std::vector<uint64_t>& shape) {
  const TensorView* tensor = find(name);
  if (!tensor) throw Error(Code::bad_file, "the tensor " + printable(name) + " is missing", model_.path.string());
  check_type(*tensor, types);
  if (tensor->shape != shape)
    refuse(*tensor, "has the shape " + text_of(tensor->shape) + ", expected " + text_of(shape));
  return *tensor;
}

const TensorView& QuantisedFolder::need_matrix(const std::string& name, std::initializer_list<DType> types) {
  const TensorView* tensor = find(name);
  if (!tensor) throw Error(Code::bad_file, "the tensor " + printable(name) + " is missing", model_.path.string());
  check_type(*tensor, types);
  if (tensor->shape.size() != 2 || tensor->bytes.empty())
    refuse(*tensor, "has the shape " + text_of(tensor->shape) + ", expected two dimensions above 0");
  return *tensor;
}

void QuantisedFolder::put(const TensorView& in_place_of, std::string name, DType dtype, std::vector<uint64_t> shape,
                          std::shared_ptr<const QuantisedRows> rows) {
  if (name != in_place_of.name && places_.contains(name))
    throw Error(Code::bad_file,
                "tensor " + printable(name) + " is in the folder twice: quantised, and as plain numbers",
                file_of(in_place_of));
  TensorView& made = made_[places_.at(in_place_of.name)];
  made.name = std::move(name);
  made.dtype = dtype;
  made.shape = std::move(shape);
  made.rows = std::move(rows);
}

void QuantisedFolder::finish() {
  std::vector<TensorView> kept;
  for (size_t i = 0; i < model_.tensors.size(); ++i) {
    TensorView& tensor = model_.tensors[i];
    if (const auto made = made_.find(i); made != made_.end()) {
      kept.push_back(std::move(made->second));
    } else if (!used_.contains(tensor.name)) {
      if (is_raw(tensor.dtype))
        throw Error(Code::unsupported,
                    "not supported yet: " + std::string(name(tensor.dtype)) + " in tensor " + printable(tensor.name),
                    file_of(tensor), "no quantised matrix has such a part");
      kept.push_back(std::move(tensor));
    }
  }
  model_.tensors = std::move(kept);
}

void read_quantised(ModelFile& model) {
  const std::string place = (model.path / "config.json").string();
  const JsonObject config = JsonObject(model.metadata, place).object("quantization_config");
  const std::string method = config.text("quant_method", "an unnamed method");
  QuantisedFolder folder(model);
  if (method == "gptq")
    read_gptq(folder, config);
  else if (method == "awq")
    read_awq(folder, config);
  else if (method == "compressed-tensors")
    read_compressed(folder, config);
  else if (method == "fp8")
    read_fp8(folder, config);
  else if (method == "bitsandbytes")
    read_bitsandbytes(folder, config);
  else if (method == "mxfp4")
    read_mxfp4(folder, config);
  else
    throw Error(
        Code::unsupported, "not supported: weights quantised by '" + printable(method) + "'", config.place(),
        "Weft reads gptq, awq, compressed-tensors, fp8, bitsandbytes and mxfp4; or take the model's F32, F16 or "
        "BF16 weights, or a GGUF file");
  folder.finish();
}

}  // namespace weft
