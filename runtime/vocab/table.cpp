#include "vocab/table.h"

namespace weft {

Table::Table(const std::shared_ptr<Device>& device, Uploader& uploader, const TensorView& tensor, Format format,
             std::string name, const std::function<void(uint64_t)>& progress, Rounding* rounding) {
  matrix_ = {
      format, static_cast<uint32_t>(tensor.shape[0]), static_cast<uint32_t>(tensor.shape[1]), {}, Layout::planes};
  buffer_ = Buffer(device, std::move(name), matrix_.bytes(), Memory::device);
  matrix_.view = buffer_;
  const TensorView* const parts[] = {&tensor};
  upload_matrix(uploader, matrix_, parts, progress, rounding ? std::span(rounding, 1) : std::span<Rounding>());
}

void upload_matrix(Uploader& uploader, const Matrix& matrix, std::span<const TensorView* const> parts,
                   const std::function<void(uint64_t)>& progress, std::span<Rounding> roundings) {
  const uint64_t tile = matrix.tile_bytes();
  uploader.upload(matrix.view, tile, [&](uint64_t offset, std::span<std::byte> out) {
    pack_tiles(matrix, parts, static_cast<uint32_t>(offset / tile), out, roundings);
    progress(out.size());
  });
}

}  // namespace weft
