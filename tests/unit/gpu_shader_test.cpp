// Declarations of the shaders (gpu/shader.h), compared with their instructions, which are read here once more, and with
// expected ones.
#include "gpu/shader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "all.spv.h"
#include "base/file.h"
#include "shaders/abi.h"

namespace weft::test {
namespace {

std::string label(const Shader& shader) { return std::string(shader.name) + " " + shader.variant; }

// A module's use of its bindings, independent of its declarations.
struct Module {
  std::map<uint32_t, uint32_t> binding_of;  // by variable
  std::set<uint32_t> stored;                // bindings that an instruction writes
};

// Opcodes of the SPIR-V specification 1.3, section 3.32.
enum : uint32_t {
  kExtInst = 12,
  kVariable = 59,
  kStore = 62,
  kCopyMemory = 63,
  kAccessChain = 65,
  kInBoundsAccessChain = 66,
  kDecorate = 71,
  kAtomicStore = 228,
  kFirstAtomic = 229,  // exchanges and so on: result type, result, pointer
  kLastAtomic = 242,
  kDecorationBinding = 33,
  kDecorationNoContraction = 42,
  kFma = 50,  // of GLSL.std.450, the only set that shaders import
};

Module read_module(const std::vector<uint32_t>& words) {
  Module module;
  std::map<uint32_t, uint32_t> base_of;  // of pointers into variables
  const auto store = [&](uint32_t pointer) {
    while (base_of.count(pointer)) pointer = base_of[pointer];
    if (const auto found = module.binding_of.find(pointer); found != module.binding_of.end())
      module.stored.insert(found->second);
  };
  for (size_t at = 5; at < words.size(); at += words[at] >> 16) {
    const uint32_t* const operands = &words[at] + 1;
    const uint32_t opcode = words[at] & 0xffff;
    EXPECT_GT(words[at] >> 16, 0u);
    if (words[at] >> 16 == 0) break;
    if (opcode == kDecorate && operands[1] == kDecorationBinding) module.binding_of[operands[0]] = operands[2];
    if (opcode == kAccessChain || opcode == kInBoundsAccessChain) base_of[operands[1]] = operands[2];
    if (opcode == kStore || opcode == kCopyMemory || opcode == kAtomicStore) store(operands[0]);
    if (opcode >= kFirstAtomic && opcode <= kLastAtomic) store(operands[2]);
  }
  return module;
}

// A wrong bit is a barrier too few, or one too many.
TEST(ShaderTest, WrittenIsWhatInstructionsWrite) {
  EXPECT_GT(std::size(shaders::all), 40u);
  for (const Shader* shader : shaders::all) {
    const Module module = read_module(unpack_spirv(shader->code));
    uint32_t stored = 0, highest = 0;
    for (const uint32_t binding : module.stored) stored |= 1u << binding;
    for (const auto& [variable, binding] : module.binding_of) highest = std::max(highest, binding);
    EXPECT_EQ(shader->written, stored) << label(*shader);
    EXPECT_EQ(shader->bindings, highest + 1) << label(*shader);
    EXPECT_NE(shader->written, 0u) << label(*shader);
  }
}

TEST(ShaderTest, DescriptionsAreThoseOfTheSources) {
  const auto expect = [](const Shader& shader, const char* name, const char* variant, uint32_t bindings,
                         uint32_t written, uint32_t texel, size_t push_bytes) {
    EXPECT_STREQ(shader.name, name);
    EXPECT_STREQ(shader.variant, variant) << name;
    EXPECT_EQ(shader.bindings, bindings) << label(shader);
    EXPECT_EQ(shader.written, written) << label(shader);
    EXPECT_EQ(shader.texel, texel) << label(shader);
    EXPECT_EQ(shader.push_bytes, push_bytes) << label(shader);
  };
  expect(shaders::add, "add", "", 2, 0b10, 0, sizeof(abi::AddPush));
  expect(shaders::read_bandwidth, "read_bandwidth", "", 2, 0b10, 0, 0);
  expect(shaders::read_bandwidth_texel, "read_bandwidth", "texel", 2, 0b10, 0b01, 0);
  expect(shaders::advance, "advance", "", 6, 0b111001, 0, sizeof(abi::AdvancePush));
  expect(shaders::halves, "halves", "", 3, 0b100, 0, sizeof(abi::HalvesPush));
  expect(shaders::rope, "rope", "", 6, 0b111000, 0, sizeof(abi::RopePush));
  expect(shaders::select_texel, "select", "texel", 6, 0b010001, 0b100000, sizeof(abi::SelectPush));
  expect(shaders::matmul_texel, "matmul", "texel", 7, 0b1001000, 0b0000011, sizeof(abi::MatmulPush));
  expect(shaders::matmul_subgroup, "matmul", "subgroup", 7, 0b1001000, 0, sizeof(abi::MatmulPush));
  expect(shaders::matmul_tiled_fp16, "matmul", "tiled fp16", 5, 0b01000, 0, sizeof(abi::MatmulPush));
  // spirv-cross cannot read it: it has matmul_tiled's interface. Without code if glslang does not know its extension.
  if (!shaders::matmul_matrix.code.empty())
    expect(shaders::matmul_matrix, "matmul", "matrix", 5, 0b01000, 0, sizeof(abi::MatmulPush));
  // Bindings that only some values of a specialisation constant write: logits or candidates, the cache or not.
  expect(shaders::project, "project", "", 4, 0b1100, 0, sizeof(abi::ProjectPush));
  expect(shaders::attend, "attend", "", 8, 0b1011100, 0, sizeof(abi::AttendPush));
  expect(shaders::attend_texel, "attend", "texel", 11, 0b1110010000, 0b0001001110, sizeof(abi::AttendPush));
}

// Takes the marks of fma() (cmake/shader_header.cmake) out of a module; returns how many fma() it has, and how many
// marks.
std::pair<size_t, size_t> remove_marks(std::vector<uint32_t>& words) {
  std::set<uint32_t> fused;
  for (size_t at = 5; at < words.size(); at += words[at] >> 16)
    if ((words[at] & 0xffff) == kExtInst && words[at + 4] == kFma) fused.insert(words[at + 2]);
  size_t marks = 0;
  for (size_t at = 5; at < words.size();) {
    const bool mark = words[at] == (3u << 16 | kDecorate) && words[at + 2] == kDecorationNoContraction;
    if (!mark || !fused.contains(words[at + 1])) {
      at += words[at] >> 16;
      continue;
    }
    words.erase(words.begin() + static_cast<ptrdiff_t>(at), words.begin() + static_cast<ptrdiff_t>(at) + 3);
    ++marks;
  }
  return {fused.size(), marks};
}

// Without the marks two logits of a row may differ between shaders (shaders/lib/table.glsl).
TEST(ShaderTest, EveryFmaOfATableIsMarked) {
  for (const Shader* shader : {&shaders::project, &shaders::project_subgroup, &shaders::project_texel,
                               &shaders::project_rows, &shaders::project_rows_subgroup, &shaders::project_rows_texel}) {
    std::vector<uint32_t> words = unpack_spirv(shader->code);
    const auto [fused, marks] = remove_marks(words);
    EXPECT_GT(fused, 0u) << label(*shader);
    EXPECT_EQ(fused, marks) << label(*shader);
  }
}

// Against the files that the compiler wrote.
TEST(ShaderTest, UnpacksWhatTheCompilerWrote) {
  for (const Shader* shader : shaders::all) {
    std::string name = label(*shader);
    std::replace(name.begin(), name.end(), ' ', '_');
    if (name.back() == '_') name.pop_back();
    const MappedFile file(std::filesystem::path(WEFT_SPIRV_DIR) / (name + ".spv"));
    std::vector<uint32_t> words = unpack_spirv(shader->code);
    remove_marks(words);
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(words)), file.bytes())) << name;
  }
}

TEST(ShaderTest, UnpacksEveryLength) {
  const uint8_t code[] = {0x00, 0xef, 0xf0, 0xf0, 0xfb, 0xff, 0xfc, 0x00, 0x0c, 0xfd, 0x3d,
                          0x04, 0xfe, 1,    2,    3,    0xff, 1,    2,    3,    4};
  EXPECT_EQ(unpack_spirv(code), (std::vector<uint32_t>{0, 0xef, 0xf0, 0xbff, 0xc00, 0x4003d, 0x30201, 0x4030201}));
}

}  // namespace
}  // namespace weft::test
