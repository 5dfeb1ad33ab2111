// Writes GGUF headers, versions 1 to 3. Does not check the values that it is given.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

enum GgufValueType : uint32_t {
  kGgufUint8,
  kGgufInt8,
  kGgufUint16,
  kGgufInt16,
  kGgufUint32,
  kGgufInt32,
  kGgufFloat32,
  kGgufBool,
  kGgufString,
  kGgufArray,
  kGgufUint64,
  kGgufInt64,
  kGgufFloat64
};

// A number's bytes, little-endian.
template <typename T>
std::string le(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

class GgufWriter {
 public:
  explicit GgufWriter(uint32_t version = 3, uint64_t alignment = 32) : version_(version), alignment_(alignment) {}

  // A length or count: 32 bits in version 1, else 64.
  std::string length(uint64_t value) const { return version_ == 1 ? le(static_cast<uint32_t>(value)) : le(value); }
  std::string string(std::string_view text) const { return length(text.size()) + std::string(text); }

  void key(std::string_view name, uint32_t type, std::string_view value);  // value: as it is in the file
  void key(std::string_view name, std::string_view text) { key(name, kGgufString, string(text)); }
  void key(std::string_view name, const char* text) { key(name, std::string_view(text)); }
  void key(std::string_view name, uint32_t value) { key(name, kGgufUint32, le(value)); }
  void key(std::string_view name, float value) { key(name, kGgufFloat32, le(value)); }
  void key(std::string_view name, bool value) { key(name, kGgufBool, le(static_cast<uint8_t>(value))); }
  void key(std::string_view name, const std::vector<std::string>& texts);
  void key(std::string_view name, const std::vector<float>& values);
  void key(std::string_view name, const std::vector<int32_t>& values);

  // Announces a tensor; its data follow those of the tensors before it, aligned. shape: outermost first, as Weft has
  // it. type: ggml's number. offset: where to claim the data are, if not there.
  void tensor(std::string_view name, const std::vector<uint64_t>& shape, uint32_t type, uint64_t bytes,
              std::optional<uint64_t> offset = {});

  // The file up to the first tensor's data.
  std::string header() const;
  // Zeros that follow a tensor of this many bytes.
  uint64_t padding(uint64_t bytes) const { return (alignment_ - bytes % alignment_) % alignment_; }
  // Header and zeros for all tensors.
  std::string file_of_zeros() const { return header() + std::string(data_bytes_, '\0'); }

 private:
  uint32_t version_;
  uint64_t alignment_;
  uint64_t keys_ = 0, tensors_ = 0, data_bytes_ = 0;
  std::string key_bytes_, tensor_bytes_;
};

}  // namespace weft
