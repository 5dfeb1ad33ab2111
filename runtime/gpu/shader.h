// A compiled shader and its arguments. cmake/shader_header.cmake writes them from its SPIR-V, so that nothing here is
// typed by hand.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "gpu/buffer.h"

namespace weft {

// A shader's type, for example shaders::Norm, has structs of its arguments, Bindings and Constants. Their members are
// of the following types. Designated initialisers set them: a Binding or a Constant that is left out does not compile,
// nor does a list without names.
struct ByName {  // the first member
  explicit ByName() = default;
};

struct Binding {
  template <std::convertible_to<View> T>
  Binding(const T& from) : view(from) {}
  View view;
};

// A binding that only some specialisation constants use.
struct OptionalBinding {
  OptionalBinding() = default;
  template <std::convertible_to<View> T>
  OptionalBinding(const T& from) : view(from) {}
  OptionalBinding(const View* from) : view(from ? *from : View{}) {}
  View view;
};

// A specialisation constant. It also takes a bool and an enumerator.
struct Constant {
  template <class T>
  requires(std::integral<T> || std::is_enum_v<T>) Constant(T from) : value(static_cast<uint32_t>(from)) {}
  uint32_t value;
};

struct Shader {
  const char* name;               // the operation's: profile row
  const char* variant;            // of those of an operation: "texel", "tiled fp16"; "": the plain one
  std::span<const uint8_t> code;  // of unpack_spirv(); lives as long as the program; empty if the build left it out
  const char* binding_names;      // in order, with a space between
  uint32_t bindings;              // buffers 0 .. bindings - 1
  uint32_t written;               // bit i: binding i may be written
  uint32_t texel;       // bit i: binding i is a buffer of texels of four 32-bit integers; else a storage buffer
  uint32_t optional;    // bit i: binding i may be left out
  uint32_t constants;   // specialisation constants that the code declares: 0 .. constants - 1
  uint32_t push_bytes;  // size of the push constants
  bool full_subgroups;  // the pipeline needs them; the local size x is a multiple of the subgroups'
};

std::string binding_name(const Shader& shader, uint32_t binding);

// The words of a shader's SPIR-V, with each fma() of a module that has `precise` values marked as NoContraction:
// without it SPIR-V does not promise that two give the same result, and glslang 12 marks + and * alone. code: as gzip
// compresses (RFC 1952), with a header of ten bytes.
std::vector<uint32_t> unpack_spirv(std::span<const uint8_t> code);

}  // namespace weft
