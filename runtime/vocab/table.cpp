#include "vocab/table.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "base/all_cores.h"

namespace weft {
namespace {

void pack_on_all_cores(const Matrix& matrix, std::span<const TensorView* const> parts, uint32_t first_tile,
                       std::span<std::byte> out, std::span<Rounding> roundings) {
  std::mutex adding;
  on_all_cores(out.size() / matrix.tile_bytes(), [&](uint64_t begin, uint64_t end) {
    std::vector<Rounding> own(roundings.size());
    pack_tiles(matrix, parts, static_cast<uint32_t>(first_tile + begin),
               out.subspan(begin * matrix.tile_bytes(), (end - begin) * matrix.tile_bytes()), own);
    const std::lock_guard lock(adding);
    for (size_t i = 0; i < roundings.size(); ++i) {
      roundings[i].largest_error = std::max(roundings[i].largest_error, own[i].largest_error);
      roundings[i].largest_value = std::max(roundings[i].largest_value, own[i].largest_value);
    }
  });
}

}  // namespace

Table::Table(const std::shared_ptr<Device>& device, Uploader& uploader, std::span<const TensorView> parts,
             Format format, std::shared_ptr<const Basis> basis, std::string name,
             const std::function<void(uint64_t)>& progress, Rounding* rounding, Memory memory) {
  uint64_t rows = 0;
  std::vector<const TensorView*> pointers;
  for (const TensorView& part : parts) {
    rows += part.shape[0];
    pointers.push_back(&part);
  }
  matrix_ = {format, static_cast<uint32_t>(rows), static_cast<uint32_t>(parts[0].shape[1])};
  if (basis) {
    const std::vector<uint32_t> words = basis->words();
    basis_words_ = Buffer(device, name + " basis", words.size() * 4, Memory::device);
    uploader.upload(basis_words_, std::span<const uint32_t>(words));
    matrix_.layout = Layout::planes;
    matrix_.basis = std::move(basis);
    matrix_.basis_words = basis_words_;
  }
  buffer_ = Buffer(device, std::move(name), matrix_.bytes(), memory);
  matrix_.view = buffer_;
  std::vector<Rounding> roundings(rounding ? parts.size() : 0);
  upload_matrix(uploader, matrix_, pointers, progress, roundings);
  for (const Rounding& part : roundings) {
    rounding->largest_error = std::max(rounding->largest_error, part.largest_error);
    rounding->largest_value = std::max(rounding->largest_value, part.largest_value);
  }
}

void upload_matrix(Uploader& uploader, const Matrix& matrix, std::span<const TensorView* const> parts,
                   const std::function<void(uint64_t)>& progress, std::span<Rounding> roundings) {
  const uint64_t tile = matrix.tile_bytes();
  uploader.upload(matrix.view, tile, [&](uint64_t offset, std::span<std::byte> out) {
    pack_on_all_cores(matrix, parts, static_cast<uint32_t>(offset / tile), out, roundings);
    progress(out.size());
  });
}

}  // namespace weft
