#include "model/fingerprint.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "format/quantised_rows.h"

namespace weft {

void Fingerprint::add(std::span<const std::byte> bytes) {
  const auto mix = [this](uint64_t word) {
    hash_ = (hash_ ^ word) * 0x100000001b3u;
    hash_ ^= hash_ >> 32;
  };
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    mix(word);
  }
  for (const std::byte byte : bytes) mix(static_cast<uint64_t>(byte) + 0x100);  // no byte is a word
}

uint64_t fingerprint(const ModelFile& file) {
  Fingerprint hash;
  const auto add_text = [&](const std::string& text) {
    const uint64_t length = text.size();
    hash.add(std::as_bytes(std::span(&length, 1)));
    hash.add(std::as_bytes(std::span(text)));
  };
  for (const JsonValue::Member* member : file.metadata.by_name()) {
    if (member->name.starts_with("tokenizer.")) continue;
    add_text(member->name);
    add_text(member->value.dump());
  }
  for (const TensorView& tensor : file.tensors) {
    add_text(tensor.name);
    const uint64_t type = static_cast<uint64_t>(tensor.dtype);
    hash.add(std::as_bytes(std::span(&type, 1)));
    hash.add(std::as_bytes(std::span(tensor.shape)));
    const std::span<const std::byte> bytes = stored_bytes(tensor);
    const size_t piece = std::min<size_t>(bytes.size(), 4096), rest = bytes.size() - piece;
    for (const size_t at : {size_t{0}, rest / 2, rest}) hash.add(bytes.subspan(at, piece));
    if (!tensor.rows) continue;
    // Scales and zero points are other tensors of the folder, which only the rows' numbers depend on.
    std::vector<float> values(tensor.shape.back());
    const uint64_t rows = element_count(tensor.shape) / values.size();
    for (const uint64_t row : {uint64_t{0}, rows / 2, rows - 1}) {
      tensor.rows->values(row, values);
      hash.add(std::as_bytes(std::span(values)));
    }
  }
  return hash.value();
}

}  // namespace weft
