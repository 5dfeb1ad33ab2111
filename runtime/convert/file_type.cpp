#include "convert/file_type.h"

#include <algorithm>
#include <charconv>

namespace weft {
namespace {

constexpr FileTypeInfo kTypes[] = {
    {FileType::f16, "f16", 1, DType::f16, DType::f16},
    {FileType::q8_0, "q8_0", 7, DType::q8_0, DType::q8_0},
    {FileType::q4_1, "q4_1", 3, DType::q4_1, DType::q4_1},
    {FileType::q4_0, "q4_0", 2, DType::q4_0, DType::q6_k},
    {FileType::iq4_nl, "iq4_nl", 25, DType::iq4_nl, DType::q6_k},
    {FileType::mxfp4, "mxfp4", 38, DType::mxfp4, DType::q8_0},
    {FileType::q4_k_s, "q4_k_s", 14, DType::q4_k, DType::q6_k},
    {FileType::q4_k_m, "q4_k_m", 15, DType::q4_k, DType::q6_k, DType::q6_k, DType::q5_k},
    {FileType::q5_k_s, "q5_k_s", 16, DType::q5_k, DType::q6_k},
    {FileType::q5_k_m, "q5_k_m", 17, DType::q5_k, DType::q6_k, DType::q6_k, DType::q6_k},
    {FileType::q6_k, "q6_k", 18, DType::q6_k, DType::q6_k},
};

bool is_in_finer_half(uint64_t layer, uint64_t layers) {
  const uint64_t eighth = layers / 8;
  return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

}  // namespace

std::span<const FileTypeInfo> file_types() { return kTypes; }

const FileTypeInfo& info(FileType type) { return *std::ranges::find(kTypes, type, &FileTypeInfo::type); }

std::optional<uint64_t> layer_of(std::string_view tensor) {
  constexpr std::string_view kPrefix = "blk.";
  uint64_t layer = 0;
  if (!tensor.starts_with(kPrefix)) return std::nullopt;
  const auto [end, error] = std::from_chars(tensor.data() + kPrefix.size(), tensor.data() + tensor.size(), layer);
  if (error != std::errc()) return std::nullopt;
  return layer;
}

DType fitting_type(DType type, uint64_t columns) {
  if (columns % block_elements(type) == 0) return type;
  switch (type) {
    case DType::q4_k:
      return fitting_type(DType::q5_0, columns);
    case DType::q5_k:
      return fitting_type(DType::q5_1, columns);
    case DType::q6_k:
      return fitting_type(DType::q8_0, columns);
    default:
      return DType::f16;
  }
}

DType matrix_type(FileType type, std::optional<FileType> vocab, std::string_view tensor, uint64_t layers, bool tied) {
  const FileTypeInfo& all = info(type);
  const bool embedding = tensor == "token_embd.weight", output = tensor == "output.weight";
  if (embedding || output || tensor == "per_layer_token_embd.weight") {
    if (vocab) return info(*vocab).matrices;
    return output || (embedding && tied) ? all.output : all.matrices;
  }
  const std::optional<uint64_t> layer = layer_of(tensor);
  if (all.finer == DType::f32 || !layer) return all.matrices;
  if (tensor.find(".attn_qkv.") != std::string_view::npos) return all.fused;
  const bool sensitive =
      tensor.find(".attn_v.") != std::string_view::npos || tensor.find(".ffn_down") != std::string_view::npos;
  return sensitive && is_in_finer_half(*layer, layers) ? all.finer : all.matrices;
}

}  // namespace weft
