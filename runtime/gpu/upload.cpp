#include "gpu/upload.h"

#include <algorithm>

namespace weft {
namespace {
constexpr uint64_t kPieceBytes = 4 << 20;
}

Uploader::Uploader(std::shared_ptr<Device> device) : device_(std::move(device)) {}

void Uploader::upload(const View& to, uint64_t granule,
                      const std::function<void(uint64_t offset, std::span<std::byte>)>& fill) {
  const uint64_t piece = std::max(kPieceBytes / granule, uint64_t{1}) * granule;
  const uint64_t needed = std::min(piece, to.bytes);
  std::byte* const mapped = to.buffer->as<std::byte>();
  if (!mapped && staging_.bytes() < needed) staging_ = Buffer(device_, "staging", needed, Memory::upload);
  for (uint64_t done = 0; done < to.bytes; done += piece) {
    const uint64_t bytes = std::min(piece, to.bytes - done);
    // A mapped buffer is slow to read, and to write byte by byte, where the processor does not cache it.
    packed_.resize(std::max<size_t>(packed_.size(), bytes));
    fill(done, std::span(packed_).first(bytes));
    std::memcpy(mapped ? mapped + to.offset + done : staging_.as<std::byte>(), packed_.data(), bytes);
    if (mapped) continue;
    run_once(device_, "upload",
             [&](Recorder& recorder) { recorder.copy(View(staging_, 0, bytes), to.part(done, bytes)); });
  }
}

std::vector<std::byte> download(const std::shared_ptr<Device>& device, const View& from) {
  const Buffer staging(device, "readback", from.bytes, Memory::readback);
  run_once(device, "download", [&](Recorder& recorder) { recorder.copy(from, staging); });
  return {staging.as<std::byte>(), staging.as<std::byte>() + from.bytes};
}

}  // namespace weft
