// A cursor over hostile bytes: every step is checked against the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace weft {

class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, const std::string& place) : bytes_(bytes), place_(place) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  // The next bytes; what names them in the error ("the value of key a.b").
  std::span<const std::byte> take(uint64_t count, std::string_view what) {
    if (count > remaining()) {
      throw Error(Code::bad_file,
                  std::string(what) + " needs " + std::to_string(count) + " bytes at byte " +
                      std::to_string(position_) + ", but the file ends at byte " + std::to_string(bytes_.size()),
                  place_);
    }
    const auto taken = bytes_.subspan(position_, count);
    position_ += count;
    return taken;
  }

  // A little-endian number.
  template <typename T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& place_;
  uint64_t position_ = 0;
};

}  // namespace weft
