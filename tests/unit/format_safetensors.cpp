// The safetensors reader: values that it reads, and all that it refuses.
#include "format/safetensors.h"

#include "format/gguf_writer.h"
#include "format_support.h"

namespace weft {
namespace {

void refuse(const std::string& file, std::vector<std::string> fragments, Code code = Code::bad_file) {
  fragments.push_back("m.safetensors");
  expect_error(code, fragments, [&] { parse_safetensors(Bytes(file), "m.safetensors"); });
}

// The header of one tensor "x".
std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"x":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirData) {
  const std::string header = R"({"__metadata__":{"format":"pt"},
      "b":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},
      "a":{"dtype":"F16","shape":[3],"data_offsets":[8,14]},
      "n":{"dtype":"F32","shape":[0,4],"data_offsets":[8,8]},
      "c":{"dtype":"BF16","shape":[],"data_offsets":[14,16]}}   )";
  const std::string data =
      le(1.5f) + le(-2.0f) + le<uint16_t>(0x3c00) + le<uint16_t>(0x4000) + le<uint16_t>(0x4200) + le<uint16_t>(0xc0a0);
  const Bytes bytes(safetensors_file(header, data));
  const auto tensors = parse_safetensors(bytes, "m.safetensors");
  ASSERT_EQ(tensors.size(), 4u);
  EXPECT_EQ(tensors[0].name, "b");
  EXPECT_EQ(tensors[0].shape, (std::vector<uint64_t>{2, 1}));
  EXPECT_EQ(floats_of(tensors[0]), (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(tensors[1].name, "n");
  EXPECT_TRUE(tensors[1].bytes.empty());
  EXPECT_EQ(floats_of(tensors[2]), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(tensors[3].dtype, DType::bf16);
  EXPECT_EQ(floats_of(tensors[3]), std::vector<float>{-5});
}

TEST(Safetensors, RefusesEveryTruncation) {
  const std::string file = safetensors_file(entry("F32", "[2,2]", "[0,16]"), std::string(16, '\1'));
  parse_safetensors(Bytes(file), "m");
  for (size_t size = 0; size < file.size(); ++size) refuse(file.substr(0, size), {});
}

TEST(Safetensors, RefusesHeaderLengthsThatAreNone) {
  refuse("abc", {"the header's length needs 8 bytes", "ends at byte 3"});
  refuse(le<uint64_t>(UINT64_MAX), {"18446744073709551615 bytes", "allows 100000000"});
  refuse(le<uint64_t>(100'000'001), {"100000001 bytes", "allows 100000000"});
  refuse(le<uint64_t>(100) + "{}", {"the header needs 100 bytes at byte 8", "ends at byte 10"});
}

TEST(Safetensors, RefusesHeadersThatAreNone) {
  refuse(safetensors_file("[]", ""), {"the header is no JSON object"});
  refuse(safetensors_file("{\"a\": ", ""), {"m.safetensors, header: line 1, byte 7", "no valid JSON"});
  refuse(safetensors_file(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"x":{}})", "1234"),
         {"key \"x\"", "twice"});
  refuse(safetensors_file(R"({"x":[]})", ""), {"tensor x", "no object"});
  refuse(safetensors_file(R"({"x":{"shape":[1],"data_offsets":[0,4]}})", "1234"), {"tensor x has no \"dtype\""});
  refuse(safetensors_file(R"({"x":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", "1234"),
         {"tensor x", "\"dtype\" is no string"});
  refuse(safetensors_file(R"({"x":{"dtype":"F32","data_offsets":[0,4]}})", "1234"), {"tensor x has no \"shape\""});
  refuse(safetensors_file(R"({"x":{"dtype":"F32","shape":[1]}})", "1234"), {"tensor x has no \"data_offsets\""});
  refuse(safetensors_file(entry("F32", "1", "[0,4]"), "1234"), {"tensor x", "\"shape\" is no array"});
  refuse(safetensors_file(entry("F32", "[-1]", "[0,4]"), "1234"), {"tensor x", "\"shape\" holds something else"});
  refuse(safetensors_file(entry("F32", "[1.5]", "[0,4]"), "1234"), {"tensor x", "\"shape\" holds something else"});
  refuse(safetensors_file(entry("F32", "[1]", "[0]"), "1234"), {"tensor x", "\"data_offsets\" has 1 numbers, not 2"});
  refuse(safetensors_file(entry("F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]"), "1234"),
         {"tensor x has 17 dimensions", "at most 16"});
}

TEST(Safetensors, NamesTypesItCannotReadYet) {
  refuse(safetensors_file(entry("I64", "[1]", "[0,8]"), "12345678"), {"not supported yet: I64 in tensor x"},
         Code::unsupported);
  refuse(safetensors_file(entry("F8_E4M3", "[1]", "[0,1]"), "1"), {"not supported yet: F8_E4M3 in tensor x"},
         Code::unsupported);
}

// BERT's first files hold the positions' numbers.
TEST(Safetensors, LeavesOutNumberings) {
  const std::string header = R"({"e.position_ids":{"dtype":"I64","shape":[1,2],"data_offsets":[0,16]},)"
                             R"("x":{"dtype":"F32","shape":[1],"data_offsets":[16,20]}})";
  const Bytes bytes(safetensors_file(header, std::string(20, '\0')));
  const auto tensors = parse_safetensors(bytes, "m.safetensors");
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(tensors[0].name, "x");
  refuse(safetensors_file(R"({"position_ids":{"dtype":"I64","shape":[1,2],"data_offsets":[0,8]}})", "12345678"),
         {"position_ids needs 16 bytes"});
}

// Early files of GPT-NeoX hold each layer's causal mask. A bias has one dimension.
TEST(Safetensors, LeavesOutMasks) {
  for (const char* const type : {"U8", "BOOL"}) {
    const std::string of_type = R"(.bias":{"dtype":")" + std::string(type) + R"(","shape":[1,1,2,2],"data_offsets":)";
    const std::string header = R"({"l.0.attention)" + of_type + R"([0,4]},"l.0.attn)" + of_type +
                               R"([4,8]},"x":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})";
    const Bytes bytes(safetensors_file(header, std::string(12, '\0')));
    const auto tensors = parse_safetensors(bytes, "m.safetensors");
    ASSERT_EQ(tensors.size(), 1u);
    EXPECT_EQ(tensors[0].name, "x");
    refuse(
        safetensors_file(
            R"({"attention.bias":{"dtype":")" + std::string(type) + R"(","shape":[4],"data_offsets":[0,4]}})", "1234"),
        {std::string("not supported yet: ") + type + " in tensor attention.bias"}, Code::unsupported);
  }
}

TEST(Safetensors, RefusesOffsetsThatDisagree) {
  refuse(safetensors_file(entry("F32", "[2]", "[0,12]"), std::string(12, '\0')),
         {"tensor x needs 8 bytes from offset 0", "data_offsets end at 12"});
  refuse(safetensors_file(entry("F32", "[2]", "[8,0]"), std::string(16, '\0')),
         {"tensor x needs 8 bytes from offset 8", "end at 0"});
  refuse(safetensors_file(entry("F32", "[100]", "[0,400]"), std::string(12, '\0')),
         {"tensor x needs 400 bytes from byte 0", "end at byte 12"});
  refuse(safetensors_file(entry("F32", "[1]", "[18446744073709551612,18446744073709551615]"), "1234"),
         {"tensor x needs 4 bytes from byte 18446744073709551612", "end at byte 4"});
  refuse(safetensors_file(entry("F32", "[4294967296,4294967296]", "[0,4]"), "1234"),
         {"tensor x", "4294967296 times 4294967296"});
}

TEST(Safetensors, RefusesOverlapsHolesAndSurplus) {
  const auto two = [](const std::string& second) {
    return R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":)" +
           second + "}}";
  };
  const std::string overlap = two("[4,12]"), hole = two("[12,20]"), surplus = two("[8,16]");
  const auto at = [](const std::string& header, size_t offset) {
    return "byte " + std::to_string(8 + header.size() + offset);
  };
  refuse(safetensors_file(overlap, std::string(12, '\0')),
         {"tensors a and b overlap", "ends at " + at(overlap, 8), "begins at " + at(overlap, 4)});
  refuse(safetensors_file(hole, std::string(20, '\0')),
         {"tensor b begins at " + at(hole, 12), "before it end at " + at(hole, 8)});
  refuse(safetensors_file(surplus, std::string(17, '\0')),
         {"the last tensor ends at " + at(surplus, 16), "the file ends at " + at(surplus, 17)});
}

}  // namespace
}  // namespace weft
