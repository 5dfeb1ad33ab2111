// A compiled shader and what it expects. cmake/shader_header.cmake writes one for each from its SPIR-V, so that nothing
// here is typed by hand.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft {

struct Shader {
  const char* name;               // the operation's: profile row
  const char* variant;            // of those of an operation: "texel", "tiled fp16"; "": the plain one
  std::span<const uint8_t> code;  // packed SPIR-V; lives as long as the program; empty if the build left it out
  uint32_t bindings;              // buffers 0 .. bindings - 1
  uint32_t written;               // bit i: binding i may be written
  uint32_t texel;       // bit i: binding i is a buffer of texels of four 32-bit integers; else a storage buffer
  uint32_t push_bytes;  // size of the push constants
};

// The words of a shader's SPIR-V. Packed, a word w takes, lowest byte of w first:
//   w < 0xf0             1 byte, w
//   w < 0xc00            2 bytes: 0xf0 + w / 256, w % 256
//   w < 0x10000          3 bytes: 0xfc, bytes 0 and 1
//   bytes 1 and 3 are 0  3 bytes: 0xfd, bytes 0 and 2
//   w < 0x1000000        4 bytes: 0xfe, bytes 0 to 2
//   else                 5 bytes: 0xff, bytes 0 to 3
std::vector<uint32_t> unpack_spirv(std::span<const uint8_t> code);

}  // namespace weft
