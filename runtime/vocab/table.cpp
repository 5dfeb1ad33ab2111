#include "vocab/table.h"

#include <algorithm>
#include <exception>
#include <thread>

namespace weft {
namespace {

void pack_on_all_cores(const Matrix& matrix, std::span<const TensorView* const> parts, uint32_t first_tile,
                       std::span<std::byte> out, std::span<Rounding> roundings) {
  const uint64_t tiles = out.size() / matrix.tile_bytes();
  const auto threads = static_cast<uint32_t>(std::clamp<uint64_t>(std::thread::hardware_concurrency(), 1, tiles));
  std::vector<std::vector<Rounding>> own(threads, std::vector<Rounding>(roundings.size()));
  std::vector<std::exception_ptr> thrown(threads);
  const auto pack = [&](uint32_t thread) noexcept {
    const uint64_t begin = tiles * thread / threads, end = tiles * (thread + 1) / threads;
    try {
      pack_tiles(matrix, parts, static_cast<uint32_t>(first_tile + begin),
                 out.subspan(begin * matrix.tile_bytes(), (end - begin) * matrix.tile_bytes()), own[thread]);
    } catch (...) {
      thrown[thread] = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  others.reserve(threads);
  for (uint32_t thread = 1; thread < threads; ++thread) try {
      others.emplace_back(pack, thread);
    } catch (const std::exception&) {  // the system has no more threads or memory
      pack(thread);
    }
  pack(0);
  for (std::thread& other : others) other.join();
  for (const std::exception_ptr& error : thrown)
    if (error) std::rethrow_exception(error);
  for (const std::vector<Rounding>& one : own)
    for (size_t i = 0; i < roundings.size(); ++i) {
      roundings[i].largest_error = std::max(roundings[i].largest_error, one[i].largest_error);
      roundings[i].largest_value = std::max(roundings[i].largest_value, one[i].largest_value);
    }
}

}  // namespace

Table::Table(const std::shared_ptr<Device>& device, Uploader& uploader, const TensorView& tensor, Format format,
             std::shared_ptr<const Basis> basis, std::string name, const std::function<void(uint64_t)>& progress,
             Rounding* rounding) {
  matrix_ = {format, static_cast<uint32_t>(tensor.shape[0]), static_cast<uint32_t>(tensor.shape[1])};
  if (basis) {
    const std::vector<uint32_t> words = basis->words();
    basis_words_ = Buffer(device, name + " basis", words.size() * 4, Memory::device);
    uploader.upload(basis_words_, std::span<const uint32_t>(words));
    matrix_.layout = Layout::planes;
    matrix_.basis = std::move(basis);
    matrix_.basis_words = basis_words_;
  }
  buffer_ = Buffer(device, std::move(name), matrix_.bytes(), Memory::device);
  matrix_.view = buffer_;
  const TensorView* const parts[] = {&tensor};
  upload_matrix(uploader, matrix_, parts, progress, rounding ? std::span(rounding, 1) : std::span<Rounding>());
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
