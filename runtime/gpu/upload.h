// The way of data from the CPU into Memory::device buffers, and back for tests.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "gpu/device.h"
#include "gpu/recorder.h"

namespace weft {

// Copies through one staging buffer, unless the destination is mapped. One thread at a time.
class Uploader {
 public:
  explicit Uploader(std::shared_ptr<Device> device);

  // Asks fill for the bytes [offset, offset + span.size()) of the destination, front to back, in pieces that are
  // multiples of granule bytes (except the last). Returns when they are on the device.
  void upload(const View& to, uint64_t granule, const std::function<void(uint64_t offset, std::span<std::byte>)>& fill);
  template <class T>
  void upload(const View& to, std::span<const T> values) {
    const std::span<const std::byte> bytes = std::as_bytes(values);
    upload(to, 4,
           [&](uint64_t offset, std::span<std::byte> out) { std::memcpy(out.data(), &bytes[offset], out.size()); });
  }

 private:
  std::shared_ptr<Device> device_;
  std::vector<std::byte> packed_;
  Buffer staging_;
};

// Bytes of a view, brought to the CPU. Waits for everything submitted before.
std::vector<std::byte> download(const std::shared_ptr<Device>& device, const View& from);

template <class T>
std::vector<T> download_as(const std::shared_ptr<Device>& device, const View& from) {
  const std::vector<std::byte> bytes = download(device, from);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace weft
