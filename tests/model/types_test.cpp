// A model of every GGUF type decodes as the one whose file holds the same numbers as floats.
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "convert/convert.h"
#include "format/model_file.h"
#include "format/quants.h"
#include "support/model_test.h"

namespace weft::test {
namespace {

LlamaShape wide_shape() {
  LlamaShape shape;
  shape.width = 256;
  shape.ffn = 512;
  return shape;
}

// The same model with its numbers as floats or halves.
void write_twin(const std::filesystem::path& from, DType type, const std::filesystem::path& to) {
  make_gguf(to, wide_shape(), {type, 7, ""});
  const ModelFile source = open_model(from), twin = open_model(to);
  std::fstream file(to, std::ios::in | std::ios::out | std::ios::binary);
  for (const TensorView& tensor : source.tensors) {
    const TensorView& place = *twin.find(tensor.name);
    std::vector<float> values(element_count(tensor.shape));
    to_float(tensor, 0, values);
    file.seekp(place.bytes.data() - twin.files[0].bytes().data());
    if (place.dtype == DType::f32) {
      file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * 4));
      continue;
    }
    std::vector<uint16_t> halves;
    for (const float value : values) halves.push_back(float_to_half(value));
    file.write(reinterpret_cast<const char*>(halves.data()), static_cast<std::streamsize>(halves.size() * 2));
  }
  ASSERT_TRUE(file.good());
}

std::vector<uint32_t> decode(const Model& model) {
  Session session(model, 128, {});
  session.set_sampling(greedy());
  return generate(session, some_ids(5, model.config.vocab), 24);
}

std::vector<uint32_t> decode(const std::shared_ptr<Device>& device, const std::filesystem::path& path,
                             const DeviceFormats& formats) {
  return decode(*load_model(device, path, formats));
}

std::unique_ptr<Model> load(const ModelFile& file, const DeviceFormats& formats) {
  const auto device = open_device();
  Config config = read_config(file);
  Weights weights = load_weights(device, file, config, formats, [](float) {});
  return std::make_unique<Model>(Model{device, std::move(config), std::move(weights)});
}

// False: the type becomes another's native format, and differs from that in reading only
// (tests/unit/format_quants.cpp).
bool has_own_format(DType type) {
  const Format format = closest_format(type);
  return !is_native(format) || file_type(format) == type;
}

class TypesTest : public GpuTest {};

TEST_F(TypesTest, EveryTypeDecodesAsItsFloats) {
  const auto device = open_device();
  const TemporaryFolder folder;
  const auto blocks = folder.path() / "blocks.gguf", floats = folder.path() / "floats.gguf",
             halves = folder.path() / "halves.gguf";
  for (const DType type : kDTypes) {
    if (!is_quantised(type) || type == DType::q8_0 || !has_own_format(type)) continue;
    SCOPED_TRACE(name(type));
    make_gguf(blocks, wide_shape(), {type, 7, ""});
    write_twin(blocks, DType::f32, floats);
    write_twin(blocks, DType::f16, halves);
    const std::vector<uint32_t> f16 = decode(device, blocks, Format::f16);
    EXPECT_EQ(f16, decode(device, floats, Format::f16));
    EXPECT_EQ(f16, decode(device, halves, Format::f16));
    DeviceFormats native;  // layers' matrices as the file has them
    native.tables = Format::f16;
    if (is_native(closest_format(type))) {
      EXPECT_EQ(f16, decode(device, blocks, native));
    }
    DeviceFormats whole;  // the vocabulary table, too
    whole.native_table = true;
    EXPECT_EQ(f16, decode(device, blocks, whole));
    if (is_scaled_integers(type) || type == DType::mxfp4)
      continue;  // the device then has the file's numbers; rounding floats finds others
    EXPECT_EQ(decode(device, blocks, Format::q8), decode(device, floats, Format::q8));
  }
}

std::string device_type(const Weights& weights, const std::string& name) {
  for (const TensorReport& tensor : weights.tensors)
    if (tensor.name == name) return tensor.device_type;
  return "";
}

TEST_F(TypesTest, EachMatrixGetsTheFormatClosestToItsType) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "m.gguf", other = folder.path() / "q8.gguf";
  const std::map<DType, std::string> expected = {
      {DType::f32, "f16"},         {DType::f16, "f16"},     {DType::bf16, "f16"},      {DType::q8_0, "q8"},
      {DType::q4_0, "q4_0"},       {DType::q4_1, "q4"},     {DType::q5_0, "q5_0"},     {DType::q5_1, "q5_1"},
      {DType::q2_k, "q2k"},        {DType::q3_k, "q3k"},    {DType::q4_k, "q4k"},      {DType::q5_k, "q5k"},
      {DType::q6_k, "q6"},         {DType::mxfp4, "mxfp4"}, {DType::iq4_nl, "iq4_nl"}, {DType::iq4_xs, "iq4_xs"},
      {DType::iq3_xxs, "iq3_xxs"}, {DType::iq3_s, "iq3_s"}, {DType::iq2_xxs, "iq2"},   {DType::iq2_xs, "iq2"},
      {DType::iq2_s, "iq2"},       {DType::iq1_s, "iq1"},   {DType::iq1_m, "iq1"},     {DType::tq1_0, "q2k"},
      {DType::tq2_0, "q2k"},       {DType::nvfp4, "q8"},    {DType::q1_0, "q4_0"},     {DType::q2_0, "q4_0"}};
  for (const DType type : kDTypes) {
    EXPECT_EQ(name(closest_format(type)), expected.at(type)) << name(type);
    if (!has_own_format(type)) continue;
    make_gguf(path, wide_shape(), {type, 7, ""});
    // The vocabulary table has at least eight bits: it is rounded a second time, which hardly changes them.
    const Format own = closest_format(type);
    EXPECT_EQ(load_model(open_device(), path, {})->weights.type(),
              own == Format::f16 || own == Format::q8 ? name(own) : "q8+" + std::string(name(own)))
        << name(type);
  }
}

// One tensor of another type: the matrix that it is stored in has both formats.
TEST_F(TypesTest, PartsOfAMatrixKeepTheirFormats) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "m.gguf", other = folder.path() / "other.gguf";
  for (const auto& [type, values] :
       {std::pair{DType::q4_1, DType::q8_0}, std::pair{DType::q4_k, DType::q5_k}, std::pair{DType::q4_k, DType::q6_k},
        std::pair{DType::q6_k, DType::f16}, std::pair{DType::q5_0, DType::q8_0}}) {
    SCOPED_TRACE(std::string(name(type)) + " " + name(values));
    make_gguf(path, wide_shape(), {type, 7, ""});
    make_gguf(other, wide_shape(), {values, 7, ""});
    ModelFile file = open_model(path);
    const ModelFile finer = open_model(other);
    for (TensorView& tensor : file.tensors)
      if (tensor.name == "blk.0.attn_v.weight") tensor = *finer.find(tensor.name);
    DeviceFormats native;
    native.tables = Format::f16;
    const std::unique_ptr<Model> model = load(file, native);
    const Weights& weights = model->weights;
    if (type == DType::q4_k) {
      EXPECT_EQ(decode(*model), decode(*load(file, Format::f16)));
    }
    EXPECT_EQ(device_type(weights, "blk.0.attn_v.weight"), weft::name(closest_format(values)));
    for (const char* name :
         {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.1.attn_q.weight", "blk.0.ffn_up.weight"})
      EXPECT_EQ(device_type(weights, name), weft::name(closest_format(type))) << name;
  }
}

// A file of four bits runs as q4 the same whether it says Q4_0 or, converted, Q4_1.
TEST_F(TypesTest, Q4FilesRunAsTheyDoConverted) {
  const TemporaryFolder folder;
  const auto blocks = folder.path() / "m.gguf", converted = folder.path() / "q4.gguf";
  for (const DType type : {DType::q4_0, DType::q4_k}) {
    make_gguf(blocks, wide_shape(), {type, 7, ""});
    convert(blocks, converted, {FileType::q4_1, FileType::q4_1, true}, [](float) {});
    DeviceFormats four_bits;
    four_bits.matrices = Format::q4;
    EXPECT_EQ(decode(open_device(), blocks, four_bits), decode(open_device(), converted, {})) << name(type);
  }
}

}  // namespace
}  // namespace weft::test
