// Converting to the types that are rounded by search: types, bytes and importance matrices. No device needed.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "convert/convert.h"
#include "convert/rounding/rounding.h"
#include "format/gguf.h"
#include "format/gguf_writer.h"
#include "format/model_file.h"
#include "format_support.h"
#include "support/model_maker.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr auto kSilent = [](float) {};

std::vector<float> floats_of_tensor(const TensorView& tensor) {
  std::vector<float> values(element_count(tensor.shape));
  to_float(tensor, 0, values);
  return values;
}
std::string bytes_of(const TensorView& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
}

// Its matrices have rows of 256 and of 512, so that K types fit.
LlamaShape whole_blocks() {
  LlamaShape shape;
  shape.width = 256;
  shape.ffn = 512;
  shape.vocab = 300;
  return shape;
}

class ConvertTypes : public testing::Test {
 protected:
  ConvertTypes() { make_gguf(in(), whole_blocks(), {.type = DType::f32}); }
  fs::path in() const { return folder_ / "m.gguf"; }
  fs::path out() const { return folder_ / "out.gguf"; }
  std::vector<ConvertedTensor> convert_to(FileType type, const fs::path& importance = {}) const {
    return convert(in(), out(), {.type = type, .replace = true, .importance = importance}, kSilent);
  }

  TestFolder folder_;
};

TEST_F(ConvertTypes, EveryTypeIsWrittenWithTheErrorsThatAreStated) {
  const ModelFile before = open_model(in());
  for (const FileTypeInfo& type : file_types()) {
    SCOPED_TRACE(type.name);
    const auto report = convert_to(type.type);
    const ModelFile after = open_model(out());
    EXPECT_EQ(after.metadata["general.file_type"], type.number);
    for (const ConvertedTensor& tensor : report) {
      const TensorView* const written = after.find(tensor.name);
      ASSERT_TRUE(written) << tensor.name;
      EXPECT_EQ(written->dtype, tensor.to) << tensor.name;
      EXPECT_EQ(written->bytes.size(), tensor.bytes) << tensor.name;
      const bool matrix = tensor.shape.size() > 1;
      EXPECT_EQ(tensor.to, matrix ? matrix_type(type.type, std::nullopt, tensor.name, 2, true) : DType::f32);
      const auto was = floats_of_tensor(*before.find(tensor.name)), is = floats_of_tensor(*written);
      double largest = 0;
      for (size_t i = 0; i < was.size(); ++i) largest = std::max<double>(largest, std::abs(is[i] - was[i]));
      EXPECT_EQ(tensor.rounding.largest_error, largest) << tensor.name;
      EXPECT_LT(tensor.rounding.relative(), 0.3) << tensor.name;
      EXPECT_FALSE(tensor.weighted);
    }
  }
}

// Blocks that have the type already are copied, whatever tensors are rounded beside them.
TEST_F(ConvertTypes, ASecondConversionChangesNothing) {
  for (const FileType type : {FileType::q4_k_m, FileType::q4_0, FileType::mxfp4}) {
    convert_to(type);
    convert(out(), folder_ / "again.gguf", {.type = type, .replace = true}, kSilent);
    const ModelFile first = open_model(out()), second = open_model(folder_ / "again.gguf");
    for (size_t i = 0; i < first.tensors.size(); ++i)
      EXPECT_TRUE(bytes_of(first.tensors[i]) == bytes_of(second.tensors[i])) << first.tensors[i].name;
  }
}

// Each row is what round_row makes of it: whichever thread has written it.
TEST_F(ConvertTypes, RowsAreThoseOfTheRounding) {
  convert_to(FileType::q4_k_s);
  const ModelFile before = open_model(in()), after = open_model(out());
  for (const TensorView& tensor : after.tensors) {
    if (!is_rounded_by_search(tensor.dtype)) continue;
    std::vector<std::byte> want(tensor.bytes.size());
    round_row(tensor.dtype, floats_of_tensor(*before.find(tensor.name)), {}, want.data());
    EXPECT_TRUE(std::ranges::equal(want, tensor.bytes)) << tensor.name;
  }
}

// An importance matrix of some tensors: sums of as many columns, and one count for each matrix.
struct Columns {
  std::string name;
  uint64_t columns;
};
void write_importance(const fs::path& path, const std::vector<Columns>& tensors) {
  GgufWriter w;
  w.key("general.type", "imatrix");
  std::string data;
  const auto add = [&](const std::string& name, const std::vector<float>& values) {
    w.tensor(name, {1, values.size()}, 0, values.size() * sizeof(float));
    for (const float value : values) data += le(value);
    data.resize(data.size() + w.padding(values.size() * sizeof(float)));
  };
  for (const Columns& tensor : tensors) {
    std::vector<float> sums(tensor.columns);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] = i % 8 == 0 ? 300 : 3;
    add(tensor.name + ".in_sum2", sums);
    add(tensor.name + ".counts", {3});
  }
  std::ofstream(path, std::ios::binary) << w.header() + data;
}

TEST_F(ConvertTypes, AnImportanceMatrixWeighsTheErrors) {
  const fs::path path = folder_ / "i.gguf";
  const std::string up = "blk.0.ffn_up.weight", down = "blk.0.ffn_down.weight", other = "blk.1.ffn_up.weight";
  write_importance(path, {{up, 256}, {down, 512}});
  const ModelFile before = open_model(in());
  // The sum of the squared errors of one column in eight.
  const auto error = [&](const std::string& name) {
    const ModelFile after = open_model(out());
    const auto was = floats_of_tensor(*before.find(name)), is = floats_of_tensor(*after.find(name));
    double sum = 0;
    for (size_t i = 0; i < was.size(); i += 8) sum += std::pow(is[i] - was[i], 2);
    return sum;
  };
  convert_to(FileType::q4_k_s);
  const double plain_up = error(up), plain_down = error(down), plain_other = error(other);
  const auto report = convert_to(FileType::q4_k_s, path);
  EXPECT_LT(error(up), 0.6 * plain_up);
  EXPECT_LT(error(down), 0.6 * plain_down);
  EXPECT_EQ(error(other), plain_other);
  EXPECT_EQ(std::ranges::count(report, true, &ConvertedTensor::weighted), 2);
  // Types that are not rounded by search do not use it.
  const auto eight = convert_to(FileType::q8_0, path);
  EXPECT_EQ(std::ranges::count(eight, true, &ConvertedTensor::weighted), 0);
}

// llama-imatrix measures output.weight of a file with two tables, if it is asked to; they may be written as one.
TEST_F(ConvertTypes, TheImportanceOfTheLogitsIsThatOfASharedTable) {
  const fs::path path = folder_ / "i.gguf";
  const auto weighted = [&] {
    std::vector<std::string> names;
    for (const ConvertedTensor& tensor : convert_to(FileType::q4_k_s, path))
      if (tensor.weighted) names.push_back(tensor.name);
    return names;
  };
  write_importance(path, {{"output.weight", 256}});
  EXPECT_EQ(weighted(), (std::vector<std::string>{"token_embd.weight"}));
  write_importance(path, {{"output.weight", 256}, {"token_embd.weight", 256}});
  EXPECT_EQ(weighted(), (std::vector<std::string>{"token_embd.weight"}));
  write_importance(path, {{"output.weight", 320}});
  expect_error(Code::invalid_argument, {"tensor output.weight: it has numbers for 320 columns"}, weighted);
  LlamaShape shape = whole_blocks();
  shape.tied = false;
  make_gguf(in(), shape, {.type = DType::f32});
  write_importance(path, {{"output.weight", 256}});
  EXPECT_EQ(weighted(), (std::vector<std::string>{"output.weight"}));
}

// Copied tensors are not weighted, and their numbers may be larger than those that are rounded.
TEST_F(ConvertTypes, CopiesAreNotRounded) {
  const fs::path path = folder_ / "i.gguf", again = folder_ / "again.gguf";
  const std::string up = "blk.0.ffn_up.weight";
  write_importance(path, {{up, 256}});
  convert_to(FileType::q4_k_s);
  const auto report = convert(out(), again, {.type = FileType::q4_k_s, .replace = true, .importance = path}, kSilent);
  EXPECT_EQ(std::ranges::count(report, true, &ConvertedTensor::weighted), 0);
  GgufWriter w;
  w.key("general.architecture", "llama");
  w.tensor(up, {1, 32}, ggml_type(DType::mxfp4), 17);
  const char exponent = static_cast<char>(127 + 23);
  std::ofstream(in(), std::ios::binary) << w.header() + exponent + std::string(16, 0x22) + std::string(15, '\0');
  convert(in(), again, {.type = FileType::mxfp4, .replace = true}, kSilent);
  EXPECT_EQ(floats_of_tensor(*open_model(again).find(up)), std::vector<float>(32, 0x1p23f));
}

TEST_F(ConvertTypes, AnImportanceMatrixOfAnotherModelIsRefused) {
  const fs::path path = folder_ / "i.gguf";
  const auto refuse = [&](Code code, const std::vector<std::string>& fragments) {
    expect_error(code, fragments, [&] { convert_to(FileType::q4_k_m, path); });
    EXPECT_FALSE(fs::exists(out()));
  };
  refuse(Code::not_found, {"i.gguf"});
  write_importance(path, {{"blk.0.ffn_up.weight", 256}, {"blk.2.ffn_up.weight", 256}});
  refuse(Code::invalid_argument, {"i.gguf, tensor blk.2.ffn_up.weight: the model has no such tensor"});
  write_importance(path, {{"blk.0.ffn_up.weight", 320}});
  refuse(Code::invalid_argument,
         {"tensor blk.0.ffn_up.weight: it has numbers for 320 columns, the model's tensor has 256"});
  std::ofstream(path, std::ios::binary) << "no matrix";
  refuse(Code::bad_file, {"i.gguf", "importance matrices are GGUF files"});
}

}  // namespace
}  // namespace weft
