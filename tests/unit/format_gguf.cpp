// The GGUF reader: values that it reads, and all that it refuses.

#include "format/gguf.h"
#include "format/gguf_writer.h"
#include "format_support.h"
#include "support/json_value.h"

namespace weft {
namespace {

GgufContents parse(const std::string& file) { return parse_gguf(Bytes(file), "m.gguf"); }

// Requires that the file is refused, with its name and these fragments.
void refuse(const std::string& file, std::vector<std::string> fragments, Code code = Code::bad_file) {
  fragments.push_back("m.gguf: ");
  expect_error(code, fragments, [&] { parse(file); });
}

std::string array(const GgufWriter& writer, uint32_t type, uint64_t count, const std::string& elements) {
  return le(type) + writer.length(count) + elements;
}

// A header of version 3 with another number where it counts its tensors or keys.
constexpr size_t kTensorCount = 8, kKeyCount = 16;
std::string claim(std::string header, size_t at, uint64_t count) { return header.replace(at, sizeof count, le(count)); }

class GgufVersions : public ::testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(All, GgufVersions, ::testing::Values(1u, 2u, 3u));

TEST_P(GgufVersions, ReadsEveryValueType) {
  GgufWriter w(GetParam());
  w.key("u8", kGgufUint8, le<uint8_t>(255));
  w.key("i8", kGgufInt8, le<int8_t>(-128));
  w.key("u16", kGgufUint16, le<uint16_t>(65535));
  w.key("i16", kGgufInt16, le<int16_t>(-32768));
  w.key("u32", uint32_t{4294967295u});
  w.key("i32", kGgufInt32, le<int32_t>(INT32_MIN));
  w.key("u64", kGgufUint64, le<uint64_t>(UINT64_MAX));
  w.key("i64", kGgufInt64, le<int64_t>(INT64_MIN));
  w.key("f32", 0.5f);
  w.key("f64", kGgufFloat64, le(0.1));
  w.key("bool", true);
  w.key("string", "a\"b");
  w.key("empty", "");
  w.key("strings", std::vector<std::string>{"x", "", "yz"});
  w.key("none", kGgufArray, array(w, kGgufUint64, 0, ""));
  w.key("nested", kGgufArray, array(w, kGgufArray, 2, array(w, kGgufUint8, 2, "\1\2") + array(w, kGgufBool, 1, "\1")));
  const auto contents = parse(w.header());
  const auto expected = nlohmann::json::parse(R"({"u8": 255, "i8": -128, "u16": 65535, "i16": -32768, "u32": 4294967295,
      "i32": -2147483648, "u64": 18446744073709551615, "i64": -9223372036854775808, "f32": 0.5, "f64": 0.1, "bool": true,
      "string": "a\"b", "empty": "", "strings": ["x", "", "yz"], "none": [], "nested": [[1, 2], [true]]})");
  EXPECT_EQ(nlohmann::json(contents.metadata), expected);
  EXPECT_TRUE(contents.tensors.empty());
}

TEST_P(GgufVersions, ReadsTensorsOfEveryTypeInFileOrder) {
  GgufWriter w(GetParam());
  w.tensor("z", {2, 3}, 0, 24);
  w.tensor("a", {3, 2, 5}, 1, 60);
  w.tensor("m", {4}, 30, 8);
  w.tensor("q", {2, 64}, 8, 136);
  std::string file = w.file_of_zeros();
  const size_t start = w.header().size();
  for (size_t i = start; i < file.size(); ++i) file[i] = static_cast<char>(i - start);
  const Bytes bytes(file);
  const auto contents = parse_gguf(bytes, "m.gguf");
  ASSERT_EQ(contents.tensors.size(), 4u);
  const auto& t = contents.tensors;
  EXPECT_EQ(t[0].name, "z");
  EXPECT_EQ(t[0].dtype, DType::f32);
  EXPECT_EQ(t[0].shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(t[1].shape, (std::vector<uint64_t>{3, 2, 5}));
  EXPECT_EQ(t[1].dtype, DType::f16);
  EXPECT_EQ(t[2].dtype, DType::bf16);
  EXPECT_EQ(t[3].dtype, DType::q8_0);
  const size_t offsets[] = {0, 32, 96, 128}, sizes[] = {24, 60, 8, 136};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(t[i].bytes.size(), sizes[i]);
    EXPECT_EQ(t[i].bytes[0], static_cast<std::byte>(offsets[i])) << t[i].name;
  }
}

TEST_P(GgufVersions, RefusesEveryTruncation) {
  GgufWriter w(GetParam());
  w.key("general.architecture", "llama");
  w.key("tokens", std::vector<std::string>{"a", "bc"});
  w.tensor("x", {2, 8}, 0, 64);
  w.tensor("y", {8}, 0, 32);
  const std::string file = w.file_of_zeros();
  parse(file);
  for (size_t size = 0; size < file.size(); ++size) refuse(file.substr(0, size), {});
}

TEST_P(GgufVersions, HonoursTheAlignment) {
  GgufWriter w(GetParam(), 128);
  w.key("general.alignment", uint32_t{128});
  w.tensor("x", {3}, 0, 12);
  w.tensor("y", {1}, 0, 4);
  std::string file = w.file_of_zeros();
  const float value = 7;
  std::memcpy(&file[w.header().size() + 128], &value, 4);
  const Bytes bytes(file);
  EXPECT_EQ(floats_of(parse_gguf(bytes, "m.gguf").tensors[1]), std::vector<float>{7});
}

TEST(Gguf, ReadsAFileWithoutTheLastPadding) {
  GgufWriter w;
  w.tensor("x", {3}, 0, 12);
  EXPECT_EQ(parse(w.header() + std::string(12, '\0')).tensors.size(), 1u);
}

TEST(Gguf, RefusesWhatIsNoGguf) {
  refuse("", {"the magic number needs 4 bytes at byte 0", "ends at byte 0"});
  refuse("GGML----", {"begins with \"GGML\"", "\"GGUF\""});
  refuse("\x1b[2J____", {"begins with \"\\x1b[2J\""});
  refuse("GGUF" + le<uint32_t>(4), {"version 4", "versions 1 to 3"}, Code::unsupported);
  refuse("GGUF" + le<uint32_t>(0), {"version 0"}, Code::unsupported);
  refuse("GGUF" + le<uint32_t>(0x03000000) + std::string(64, '\0'), {"big-endian", "version 3"}, Code::unsupported);
}

TEST(Gguf, RefusesCountsTheFileCannotHold) {
  GgufWriter w(3, 1);  // alignment 1: nothing after the last key
  w.key("a", uint32_t{1});
  refuse(claim(w.header(), kKeyCount, UINT64_MAX), {"18446744073709551615 keys", "bytes are left"});
  refuse(claim(w.header(), kKeyCount, 2) + std::string(64, '\xff'), {"key 1 needs 18446744073709551615 bytes at byte"});
  GgufWriter t;
  t.tensor("x", {1}, 0, 4);
  refuse(claim(t.file_of_zeros(), kTensorCount, uint64_t{1} << 60), {"1152921504606846976 tensors", "bytes are left"});
  refuse(claim(t.header(), kTensorCount, (uint64_t{1} << 20) + 1) + std::string(26u << 20, '\0'),
         {"1048577 tensors", "at most 1048576"});
}

TEST(Gguf, RefusesValuesThatAreLongerThanTheFile) {
  GgufWriter w(3, 1);  // alignment 1: nothing after the last key
  w.key("text", kGgufString, le<uint64_t>(1000) + "abc");
  refuse(w.header(), {"key text needs 1000 bytes at byte 48", "the file ends at byte 51"});
  GgufWriter a(3, 1);
  a.key("list", kGgufArray, array(a, kGgufUint32, uint64_t{1} << 62, ""));
  refuse(a.header(), {"key list", "4611686018427387904 elements of at least 4 bytes", "only 0 bytes are left"});
  GgufWriter s(3, 1);
  s.key("words", kGgufArray, array(s, kGgufString, 9, std::string(64, '\0')));
  refuse(s.header(), {"key words", "9 elements of at least 8 bytes", "only 64 bytes are left"});
  GgufWriter n(3, 1);
  n.key("nest", kGgufArray, array(n, kGgufArray, 3, std::string(35, '\0')));
  refuse(n.header(), {"key nest", "3 elements of at least 12 bytes"});
}

TEST(Gguf, RefusesMoreValuesThanItIsWillingToKeep) {
  GgufWriter w;
  w.key("many", kGgufArray, array(w, kGgufUint8, (1u << 24) + 1, std::string((1u << 24) + 1, '\0')));
  refuse(w.header(), {"16777218 metadata values", "at most 16777216"});
}

TEST(Gguf, RefusesArraysNestedTooDeep) {
  GgufWriter w;
  std::string value = array(w, kGgufUint8, 1, "\1");
  for (int depth = 1; depth < 4; ++depth) value = array(w, kGgufArray, 1, value);
  w.key("deep", kGgufArray, value);
  EXPECT_EQ(parse(w.header()).metadata["deep"].dump(), "[[[[1]]]]");
  GgufWriter deeper;
  deeper.key("deep", kGgufArray, array(w, kGgufArray, 1, value));
  refuse(deeper.header(), {"key deep", "nested 5 deep", "at most 4"});
}

TEST(Gguf, RefusesUnknownValueTypesAndBooleans) {
  GgufWriter w;
  w.key("odd", 13, "12345678");
  refuse(w.header(), {"key odd has type 13", "types 0 to 12"});
  GgufWriter a;
  a.key("odds", kGgufArray, array(a, 77, 1, "12345678"));
  refuse(a.header(), {"key odds has type 77"});
  GgufWriter b;
  b.key("flag", kGgufBool, "\2");
  refuse(b.header(), {"key flag", "0 or 1", "it is 2"});
}

TEST(Gguf, RefusesRepeatedKeysAndNames) {
  GgufWriter w;
  w.key("llama.block_count", uint32_t{1});
  w.key("llama.block_count", uint32_t{2});
  refuse(w.header(), {"key llama.block_count is there twice"});
  GgufWriter t;
  t.tensor("output.weight", {1}, 0, 4);
  t.tensor("output.weight", {1}, 0, 4);
  refuse(t.file_of_zeros(), {"tensor output.weight is there twice"});
}

TEST(Gguf, RefusesAlignmentsThatAreNone) {
  for (const uint32_t alignment : {0u, 33u, 48u}) {
    GgufWriter w;
    w.key("general.alignment", alignment);
    refuse(w.header(), {"general.alignment must be a power of two", "it is " + std::to_string(alignment)});
  }
  GgufWriter w;
  w.key("general.alignment", "32\xff");
  refuse(w.header(), {"general.alignment must be a power of two"});
  GgufWriter huge;
  huge.key("general.alignment", kGgufUint64, le(uint64_t{1} << 63));
  huge.tensor("x", {1}, 0, 4);
  refuse(huge.file_of_zeros(), {"data begin at byte 9223372036854775808", "ends at byte"});
}

TEST(Gguf, RefusesWrongDimensions) {
  GgufWriter none;
  none.tensor("x", {}, 0, 4);
  refuse(none.file_of_zeros(), {"tensor x has 0 dimensions", "1 to 4"});
  GgufWriter five;
  five.tensor("x", {1, 1, 1, 1, 1}, 0, 4);
  refuse(five.file_of_zeros(), {"tensor x has 5 dimensions", "1 to 4"});
  GgufWriter zero;
  zero.tensor("x", {4, 0, 2}, 0, 0);
  refuse(zero.file_of_zeros(), {"tensor x has 0 elements along dimension 1"});
  GgufWriter wide;
  wide.tensor("x", {uint64_t{1} << 40, uint64_t{1} << 40}, 0, 32);
  refuse(wide.file_of_zeros(), {"tensor x: ", "1099511627776 times 1099511627776"});
  GgufWriter bytes;
  bytes.tensor("x", {uint64_t{1} << 31, uint64_t{1} << 31}, 0, 32);
  refuse(bytes.file_of_zeros(), {"tensor x: ", "4611686018427387904 times 4"});
  GgufWriter row;
  row.tensor("x", {2, 48}, 8, 102);
  refuse(row.file_of_zeros(), {"tensor x: ", "48 elements", "block of 32"});
}

TEST(Gguf, RefusesTensorsOutsideTheFile) {
  GgufWriter w;
  w.tensor("blk.0.attn_q.weight", {100, 100}, 0, 32);
  refuse(w.file_of_zeros(), {"tensor blk.0.attn_q.weight needs 40000 bytes from byte 0", "end at byte 32"});
  GgufWriter far;
  far.tensor("x", {8}, 0, 32, UINT64_MAX - 31);
  refuse(far.file_of_zeros(), {"tensor x needs 32 bytes from byte 18446744073709551584", "end at byte 32"});
  GgufWriter end;
  end.tensor("x", {8}, 0, 32, 32);
  refuse(end.file_of_zeros(), {"tensor x needs 32 bytes from byte 32", "end at byte 32"});
}

TEST(Gguf, RefusesMisalignedAndOverlappingTensors) {
  GgufWriter odd;
  odd.tensor("x", {1}, 0, 4, 4);
  refuse(odd.file_of_zeros(), {"tensor x is at offset 4", "alignment 32"});
  GgufWriter w;
  w.tensor("a", {16}, 0, 64);
  w.tensor("b", {8}, 0, 32, 32);
  const size_t start = w.header().size();
  refuse(w.file_of_zeros(), {"tensors a and b overlap", "ends at byte " + std::to_string(start + 64),
                             "begins at byte " + std::to_string(start + 32)});
}

TEST(Gguf, RefusesBytesThatBelongToNoTensor) {
  GgufWriter w;
  w.tensor("x", {8}, 0, 32);
  const std::string file = w.file_of_zeros();
  EXPECT_EQ(parse(file + std::string(31, '\0')).tensors.size(), 1u);
  refuse(file + std::string(32, '\0'), {"the last tensor ends at byte " + std::to_string(file.size()),
                                        "the file ends at byte " + std::to_string(file.size() + 32)});
}

TEST(Gguf, NamesTypesItCannotReadYet) {
  GgufWriter w;
  w.tensor("blk.0.attn_q.weight", {1, 256}, 15, 292);
  refuse(w.file_of_zeros(),
         {"not supported yet: Q8_K in tensor blk.0.attn_q.weight",
          "Weft reads F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, MXFP4, IQ4_NL, "
          "IQ4_XS, IQ3_XXS, "
          "IQ3_S, IQ2_XXS, IQ2_XS, IQ2_S, IQ1_S, IQ1_M, TQ1_0, TQ2_0, NVFP4, Q1_0, Q2_0"},
         Code::unsupported);
  GgufWriter unknown;
  unknown.tensor("x", {1}, 99, 4);
  refuse(unknown.file_of_zeros(), {"not supported yet: type 99 in tensor x"}, Code::unsupported);
  const std::pair<uint32_t, const char*> names[] = {
      {2, "Q4_0"},   {3, "Q4_1"},    {6, "Q5_0"},   {7, "Q5_1"},   {9, "Q8_1"},     {10, "Q2_K"},   {11, "Q3_K"},
      {12, "Q4_K"},  {13, "Q5_K"},   {14, "Q6_K"},  {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},
      {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"}, {23, "IQ4_XS"},  {24, "I8"},     {25, "I16"},
      {26, "I32"},   {27, "I64"},    {28, "F64"},   {29, "IQ1_M"}, {30, "BF16"},    {34, "TQ1_0"},  {35, "TQ2_0"},
      {39, "MXFP4"}, {40, "NVFP4"},  {41, "Q1_0"},  {42, "Q2_0"},  {43, "type 43"}};
  for (const auto& [type, expected] : names) EXPECT_EQ(ggml_type_name(type), expected);
  for (const DType dtype : kDTypes) {
    EXPECT_EQ(ggml_type_name(ggml_type(dtype)), name(dtype));
    EXPECT_EQ(dtype_of_ggml(ggml_type(dtype)), dtype);
  }
  for (const uint32_t removed : {4u, 5u, 9u, 15u, 31u, 99u}) EXPECT_EQ(dtype_of_ggml(removed), std::nullopt);
}

TEST(Gguf, RefusesSizesThatSplitTheBlocksOfAnyType) {
  for (const DType dtype : kDTypes) {
    if (!is_quantised(dtype)) continue;
    const uint64_t block = block_elements(dtype), bytes = block_bytes(dtype);
    const std::string named = std::string(name(dtype)) + "'s block of " + std::to_string(block);
    GgufWriter split;
    split.tensor("x", {2, block / 2}, ggml_type(dtype), bytes);  // one block's elements, in two rows
    refuse(split.file_of_zeros(), {"tensor x: ", std::to_string(block / 2) + " elements", named});
    GgufWriter large;
    large.tensor("x", {uint64_t{1} << 40, block}, ggml_type(dtype), bytes);
    refuse(large.file_of_zeros(), {"tensor x needs " + std::to_string((uint64_t{1} << 40) * bytes) + " bytes"});
    GgufWriter wrapped;
    wrapped.tensor("x", {uint64_t{1} << 62, block}, ggml_type(dtype), bytes);
    refuse(wrapped.file_of_zeros(), {"tensor x: ", "does not fit 64 bits"});
    GgufWriter exact;
    exact.tensor("x", {3, 2 * block}, ggml_type(dtype), 6 * bytes);
    const GgufContents contents = parse(exact.file_of_zeros());
    EXPECT_EQ(contents.tensors[0].bytes.size(), 6 * bytes) << name(dtype);
  }
}

TEST(Gguf, WritesNoControlCharactersOfTheFileIntoErrors) {
  GgufWriter w;
  w.tensor(std::string("\x1b]0;evil\a\xff\xc3\xa9") + std::string(300, 'n'), {1}, 16, 4);
  try {
    parse(w.file_of_zeros());
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.sentence().find("\\x1b]0;evil\\x07\\xff\xc3\xa9nnn"), std::string::npos) << error.sentence();
    EXPECT_LT(error.sentence().size(), 200u);
  }
}

}  // namespace
}  // namespace weft
