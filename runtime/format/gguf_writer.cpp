#include "format/gguf_writer.h"

namespace weft {

void GgufWriter::key(std::string_view name, uint32_t type, std::string_view value) {
  key_bytes_ += string(name) + le(type);
  key_bytes_ += value;
  ++keys_;
}

void GgufWriter::key(std::string_view name, const std::vector<std::string>& texts) {
  std::string value = le<uint32_t>(kGgufString) + length(texts.size());
  for (const std::string& text : texts) value += string(text);
  key(name, kGgufArray, value);
}

void GgufWriter::key(std::string_view name, const std::vector<float>& values) {
  std::string value = le<uint32_t>(kGgufFloat32) + length(values.size());
  for (const float v : values) value += le(v);
  key(name, kGgufArray, value);
}

void GgufWriter::key(std::string_view name, const std::vector<int32_t>& values) {
  std::string value = le<uint32_t>(kGgufInt32) + length(values.size());
  for (const int32_t v : values) value += le(v);
  key(name, kGgufArray, value);
}

void GgufWriter::tensor(std::string_view name, const std::vector<uint64_t>& shape, uint32_t type, uint64_t bytes,
                        std::optional<uint64_t> offset) {
  tensor_bytes_ += string(name) + le(static_cast<uint32_t>(shape.size()));
  for (auto extent = shape.rbegin(); extent != shape.rend(); ++extent) tensor_bytes_ += length(*extent);
  tensor_bytes_ += le(type) + le(offset.value_or(data_bytes_));
  data_bytes_ += bytes + padding(bytes);
  ++tensors_;
}

std::string GgufWriter::header() const {
  std::string bytes = "GGUF" + le(version_) + length(tensors_) + length(keys_) + key_bytes_ + tensor_bytes_;
  return bytes + std::string(padding(bytes.size()), '\0');
}

}  // namespace weft
