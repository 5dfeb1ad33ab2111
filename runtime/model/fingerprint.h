// Which model a file was made with.
#pragma once

#include <cstdint>
#include <span>

#include "format/model_file.h"

namespace weft {

// FNV-1a (draft-eastlake-fnv) over 64-bit words and the bytes that are left, with the high half folded back. It
// distinguishes files; it does not protect against an adversary.
class Fingerprint {
 public:
  void add(std::span<const std::byte> bytes);
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325u;
};

// Fingerprint of the network's settings and of each tensor's name, type, shape and first, middle and last 4 KiB. A
// tokenizer in the same file does not count.
uint64_t fingerprint(const ModelFile& file);

}  // namespace weft
