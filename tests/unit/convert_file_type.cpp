// Which type a tensor of a file gets.
#include "convert/file_type.h"

#include <gtest/gtest.h>

#include <string>

namespace weft {
namespace {

DType type_in(FileType type, const char* tensor, uint64_t layers = 30, bool tied = false) {
  return matrix_type(type, std::nullopt, tensor, layers, tied);
}

TEST(FileType, NamesAndNumbersAreLlamaQuantizes) {
  const std::pair<const char*, uint32_t> want[] = {{"f16", 1},     {"q8_0", 7},    {"q4_1", 3},    {"q4_0", 2},
                                                   {"iq4_nl", 25}, {"mxfp4", 38},  {"q4_k_s", 14}, {"q4_k_m", 15},
                                                   {"q5_k_s", 16}, {"q5_k_m", 17}, {"q6_k", 18}};
  ASSERT_EQ(file_types().size(), std::size(want));
  for (size_t i = 0; i < std::size(want); ++i) {
    const FileTypeInfo& type = file_types()[i];
    EXPECT_EQ(type.name, std::string(want[i].first));
    EXPECT_EQ(type.number, want[i].second);
    EXPECT_EQ(static_cast<uint32_t>(type.type), i + 1) << "weft_file_type";
    EXPECT_EQ(&info(type.type), &type);
  }
}

TEST(FileType, HalfOfTheMatricesThatMatterMostAreFiner) {
  std::string finer;
  for (uint32_t layer = 0; layer < 30; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    const bool own = type_in(FileType::q4_k_m, (block + "attn_v.weight").c_str()) == DType::q6_k;
    if (own) finer += std::to_string(layer) + " ";
    for (const char* name : {"ffn_down.weight", "ffn_down_exps.weight"})
      EXPECT_EQ(type_in(FileType::q5_k_m, (block + name).c_str()), own ? DType::q6_k : DType::q5_k) << layer;
    for (const char* name : {"attn_q.weight", "attn_output.weight", "ffn_up.weight"})
      EXPECT_EQ(type_in(FileType::q4_k_m, (block + name).c_str()), DType::q4_k);
    EXPECT_EQ(type_in(FileType::q4_k_m, (block + "attn_qkv.weight").c_str()), DType::q5_k);
    EXPECT_EQ(type_in(FileType::q4_k_s, (block + "attn_v.weight").c_str()), DType::q4_k);
  }
  // The layers in which llama.cpp 0.7.0's llama-quantize makes them Q6_K.
  EXPECT_EQ(finer, "0 1 2 5 8 11 14 17 20 23 26 27 28 29 ");
}

TEST(FileType, Tables) {
  EXPECT_EQ(type_in(FileType::q4_k_m, "output.weight"), DType::q6_k);
  EXPECT_EQ(type_in(FileType::q4_k_m, "token_embd.weight"), DType::q4_k);
  EXPECT_EQ(type_in(FileType::q4_k_m, "token_embd.weight", 30, true), DType::q6_k);
  EXPECT_EQ(type_in(FileType::q4_0, "token_embd.weight", 30, true), DType::q6_k);
  EXPECT_EQ(type_in(FileType::mxfp4, "token_embd.weight", 30, true), DType::q8_0);
  EXPECT_EQ(type_in(FileType::q4_1, "token_embd.weight", 30, true), DType::q4_1);
  for (const char* table : {"output.weight", "token_embd.weight", "per_layer_token_embd.weight"})
    EXPECT_EQ(matrix_type(FileType::q4_k_m, FileType::q4_0, table, 30, true), DType::q4_0);
}

TEST(FileType, RowsThatAreNoWholeBlocksGetAnother) {
  for (const auto& [type, of_32] : {std::pair(DType::q4_k, DType::q5_0), std::pair(DType::q5_k, DType::q5_1),
                                    std::pair(DType::q6_k, DType::q8_0), std::pair(DType::q4_0, DType::q4_0)}) {
    EXPECT_EQ(fitting_type(type, 512), type);
    EXPECT_EQ(fitting_type(type, 576), of_32);
    EXPECT_EQ(fitting_type(type, 172), DType::f16);
  }
}

}  // namespace
}  // namespace weft
