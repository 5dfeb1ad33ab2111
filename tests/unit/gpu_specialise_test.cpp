// Shaders without what their specialisation constants exclude (gpu/specialise.h). Every test of an operation runs such
// shaders, with the validation layer; here is the structure of all of them.
#include "gpu/specialise.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "all.spv.h"
#include "shaders/abi.h"

namespace weft::test {
namespace {

using Words = std::vector<uint32_t>;

// Opcodes of the SPIR-V specification 1.3, section 3.32.
constexpr uint32_t kFunction = 54, kFunctionCall = 57, kVariable = 59, kLoopMerge = 246, kSelectionMerge = 247,
                   kLabel = 248, kBranch = 249, kBranchConditional = 250, kWorkgroup = 4;

template <class Visit>
void each(const Words& words, Visit visit) {
  for (size_t at = 5; at < words.size(); at += words[at] >> 16) {
    ASSERT_NE(words[at] >> 16, 0u);
    ASSERT_LE(at + (words[at] >> 16), words.size());
    visit(words[at] & 0xffff, &words[at], words[at] >> 16);
  }
}

// Labels and functions that instructions name are there, and each is there once.
void check_structure(const Words& words) {
  std::map<uint32_t, int> labels, functions;
  each(words, [&](uint32_t opcode, const uint32_t* w, uint32_t) {
    if (opcode == kLabel) ++labels[w[1]];
    if (opcode == kFunction) ++functions[w[2]];
  });
  for (const auto& [label, times] : labels) EXPECT_EQ(times, 1) << label;
  each(words, [&](uint32_t opcode, const uint32_t* w, uint32_t) {
    if (opcode == kFunctionCall) {
      EXPECT_EQ(functions.count(w[3]), 1u) << w[3];
    }
    const uint32_t from = opcode == kBranchConditional ? 2 : 1;
    const uint32_t some = opcode == kBranchConditional || opcode == kLoopMerge ? 2 : 1;
    if (opcode != kBranch && opcode != kBranchConditional && opcode != kLoopMerge && opcode != kSelectionMerge) return;
    for (uint32_t i = from; i < from + some; ++i) EXPECT_EQ(labels.count(w[i]), 1u) << w[i];
  });
}

TEST(SpecialiseTest, EveryShaderStaysWhole) {
  for (const Shader* shader : shaders::all) {
    const Words words = unpack_spirv(shader->code);
    for (const uint32_t value : {0u, 1u, 2u, 5u, 64u}) {
      SCOPED_TRACE(std::string(shader->name) + " " + shader->variant + ", constants of " + std::to_string(value));
      const Words less = specialise(words, Words(20, value));
      check_structure(less);
      EXPECT_LE(less.size(), words.size());
      // Once more, nothing is left to do.
      EXPECT_EQ(specialise(less, Words(20, value)), less);
    }
  }
}

TEST(SpecialiseTest, AProductKeepsTheCodeOfItsFormats) {
  const Words words = unpack_spirv(shaders::matmul.code);
  shaders::Matmul::Constants constants = {.format = FORMAT_Q8,
                                          .tokens = 1,
                                          .split = 4,
                                          .row_tiles = 1,
                                          .gated = false,
                                          .activation = 0,
                                          .bias = false,
                                          .add = false,
                                          .ends_norm = false,
                                          .begins_norm = false,
                                          .lane_rows = 64,
                                          .step = 1,
                                          .staged = 0,
                                          .second_tile = 0,
                                          .second_format = FORMAT_F16,
                                          .exact_halves = false};
  const Words one = specialise(words, constants.list());
  EXPECT_LT(one.size() * 3, words.size() * 2);
  constants.second_tile = 2;
  const Words two = specialise(words, constants.list());
  EXPECT_GT(two.size(), one.size());
  constants.format = constants.second_format = FORMAT_Q6;
  EXPECT_NE(specialise(words, constants.list()), two);
  // Another number of tokens changes no branch.
  constants.tokens = 4;
  const Words four = specialise(words, constants.list());
  constants.tokens = 8;
  EXPECT_EQ(specialise(words, constants.list()), four);
}

// A device with little shared memory would refuse what the others use.
TEST(SpecialiseTest, UnusedSharedMemoryGoes) {
  const Words words = unpack_spirv(shaders::matmul_tiled_fp16.code);
  const shaders::MatmulTiled::Constants constants = {.format = FORMAT_Q8,
                                                     .tokens = 16,
                                                     .bias = false,
                                                     .add = false,
                                                     .second_tile = 0,
                                                     .second_format = FORMAT_F16,
                                                     .fewest_registers = false};
  const Words less = specialise(words, constants.list());
  const auto shared = [](const Words& module) {
    size_t sum = 0;
    each(module,
         [&](uint32_t opcode, const uint32_t* w, uint32_t) { sum += opcode == kVariable && w[3] == kWorkgroup; });
    return sum;
  };
  EXPECT_EQ(shared(less), shared(words) - 2);  // the peaks of f16 weights, of both formats
}

TEST(SpecialiseTest, WhatItDoesNotUnderstandStays) {
  Words words = unpack_spirv(shaders::matmul.code);
  const Words constants(15, 1);
  ASSERT_NE(specialise(words, constants), words);
  const Words cut(words.begin(), words.end() - 1);
  EXPECT_EQ(specialise(cut, constants), cut);
  Words empty(words.begin(), words.begin() + 5);
  EXPECT_EQ(specialise(empty, constants), empty);
  words[5] = 0;  // an instruction without a length
  EXPECT_EQ(specialise(words, constants), words);
}

}  // namespace
}  // namespace weft::test
