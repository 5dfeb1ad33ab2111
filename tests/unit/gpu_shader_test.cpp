// Declarations of the shaders (gpu/shader.h), compared with their instructions, which are read here once more, and with
// expected ones.
#include "gpu/shader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "all.spv.h"
#include "base/error.h"
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
  kDecorationSpecId = 1,
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

// spirv-cross reads them from the module with names; of matmul_matrix, which it cannot read, from a shader like it.
TEST(ShaderTest, ConstantsAreThoseThatTheCodeDeclares) {
  for (const Shader* shader : shaders::all) {
    const std::vector<uint32_t> words = unpack_spirv(shader->code);
    uint32_t count = 0;
    for (size_t at = 5; at < words.size() && words[at] >> 16 > 0; at += words[at] >> 16)
      if ((words[at] & 0xffff) == kDecorate && words[at + 2] == kDecorationSpecId)
        count = std::max(count, words[at + 3] + 1);
    EXPECT_EQ(shader->constants, count) << label(*shader);
  }
}

TEST(ShaderTest, DescriptionsAreThoseOfTheSources) {
  const auto expect = [](const Shader& shader, const char* name, const char* variant, const char* bindings,
                         uint32_t written, uint32_t texel, uint32_t optional, size_t push_bytes) {
    EXPECT_STREQ(shader.name, name);
    EXPECT_STREQ(shader.variant, variant) << name;
    EXPECT_STREQ(shader.binding_names, bindings) << label(shader);
    EXPECT_EQ(shader.bindings, std::count(bindings, bindings + std::strlen(bindings), ' ') + 1) << label(shader);
    EXPECT_EQ(shader.written, written) << label(shader);
    EXPECT_EQ(shader.texel, texel) << label(shader);
    EXPECT_EQ(shader.optional, optional) << label(shader);
    EXPECT_EQ(shader.push_bytes, push_bytes) << label(shader);
  };
  expect(shaders::add, "add", "", "x y", 0b10, 0, 0, sizeof(abi::AddPush));
  expect(shaders::read_bandwidth, "read_bandwidth", "", "words sums", 0b10, 0, 0, 0);
  expect(shaders::read_bandwidth_texel, "read_bandwidth", "texel", "words sums", 0b10, 0b01, 0, 0);
  expect(shaders::advance, "advance", "", "state params candidates history token_flags ring", 0b111001, 0, 0,
         sizeof(abi::AdvancePush));
  expect(shaders::halves, "halves", "", "state x halves", 0b100, 0, 0, sizeof(abi::HalvesPush));
  expect(shaders::rope, "rope", "", "state qkv rope_table q keys values", 0b111000, 0, 0, sizeof(abi::RopePush));
  expect(shaders::select_texel, "select", "texel", "state params token_flags allowed_rows lists bounds", 0b010001,
         0b100000, 0, sizeof(abi::SelectPush));
  const char* const product = "words inputs state y bias norm_weights begun";
  expect(shaders::matmul_texel, "matmul", "texel", product, 0b1001000, 0b0000011, 0b1110000, sizeof(abi::MatmulPush));
  expect(shaders::matmul_subgroup, "matmul", "subgroup", product, 0b1001000, 0, 0b1110000, sizeof(abi::MatmulPush));
  const char* const tiled = "words inputs state y bias";
  expect(shaders::matmul_tiled_fp16, "matmul", "tiled fp16", tiled, 0b01000, 0, 0b10000, sizeof(abi::MatmulPush));
  // spirv-cross cannot read it: it has matmul_tiled's interface. Without code if glslang does not know its extension.
  expect(shaders::matmul_matrix, "matmul", "matrix", tiled, 0b01000, 0, 0b10000, sizeof(abi::MatmulPush));
  // Bindings that only some values of a specialisation constant write: logits or candidates, the cache or not.
  expect(shaders::project, "project", "", "words inputs logits candidates", 0b1100, 0, 0b1100,
         sizeof(abi::ProjectPush));
  expect(shaders::attend, "attend", "", "state qkv keys values y biases parts sinks", 0b1011100, 0, 0b11100000,
         sizeof(abi::AttendPush));
  expect(shaders::attend_texel, "attend", "texel",
         "state qkv keys values y biases rope_table new_keys new_values parts sinks", 0b1110010000, 0b0001001110,
         0b11111100000, sizeof(abi::AttendPush));
  EXPECT_EQ(binding_name(shaders::attend, 0), "state");
  EXPECT_EQ(binding_name(shaders::attend, 7), "sinks");
}

TEST(ShaderTest, ArgumentsHaveTheOrderOfTheShader) {
  const Buffer buffer;
  const auto view = [&](uint64_t number) { return View(buffer, 256 * number, 4); };
  const auto offsets = [](const std::vector<View>& views) {
    std::vector<uint64_t> list;
    for (const View& one : views) list.push_back(one.buffer ? one.offset / 256 : 99);
    return list;
  };
  const shaders::Norm::Bindings some = {.state = view(1), .x = view(2), .weight = view(3), .y = view(4)};
  EXPECT_EQ(offsets(some.list()), (std::vector<uint64_t>{1, 2, 3, 4, 99, 99}));
  const View last = view(5);
  const View* const none = nullptr;
  const shaders::Nll::Bindings all = {
      .state = view(1), .history = view(2), .logits = view(3), .nll = view(4), .allowed_rows = &last};
  EXPECT_EQ(offsets(all.list()), (std::vector<uint64_t>{1, 2, 3, 4, 5}));
  const shaders::Sample::Bindings without = {
      .state = view(1), .params = view(2), .scores = view(3), .candidates = view(4), .lists = none};
  EXPECT_EQ(offsets(without.list()), (std::vector<uint64_t>{1, 2, 3, 4, 99}));
  // By their numbers, which are not the order of the source. Variants may declare fewer: the recorder cuts the list.
  const shaders::Rope::Constants rope = {
      .key_format = 1, .member_tokens = 2, .of_tree = true, .value_format = 4, .dim = 5, .adjacent = 6};
  EXPECT_EQ(rope.list(), (std::vector<uint32_t>{1, 2, 1, 4, 5, 6}));
  EXPECT_EQ(shaders::rope.constants, 4u);
  EXPECT_EQ(shaders::rope_texel.constants, 6u);
}

TEST(ShaderTest, FullSubgroupsAreThoseOfTheSources) {
  std::set<std::string> full;
  for (const Shader* shader : shaders::all)
    if (shader->full_subgroups) full.insert(label(*shader));
  full.erase("matmul matrix");  // it may have no code
  EXPECT_EQ(full, (std::set<std::string>{"matmul int8", "matmul subgroup", "matmul_expert subgroup", "project subgroup",
                                         "project_rows subgroup"}));
  EXPECT_TRUE(shaders::matmul_matrix.full_subgroups);
}

// Takes the marks of fma() (unpack_spirv) out of a module; returns how many fma() it has, and how many
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
  const Shader* const tables[] = {
      &shaders::project,      &shaders::project_subgroup,      &shaders::project_texel,
      &shaders::project_rows, &shaders::project_rows_subgroup, &shaders::project_rows_texel};
  for (const Shader* shader : tables) {
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

TEST(ShaderTest, DamageIsSeen) {
  const std::span<const uint8_t> code = shaders::add.code;
  std::vector<uint8_t> damaged(code.begin(), code.end());
  damaged[code.size() - 4] ^= 4;  // of its size
  EXPECT_THROW(unpack_spirv(damaged), Error);
}

}  // namespace
}  // namespace weft::test
