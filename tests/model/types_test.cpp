// A model of every GGUF type decodes as the one whose file holds the same numbers as floats.
#include <gtest/gtest.h>

#include <fstream>

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

std::vector<uint32_t> decode(const std::shared_ptr<Device>& device, const std::filesystem::path& path,
                             const DeviceFormats& formats) {
  const auto model = load_model(device, path, formats);
  Session session(*model, 128, {});
  session.set_sampling(greedy());
  return generate(session, some_ids(5, model->config.vocab), 24);
}

class TypesTest : public GpuTest {};

TEST_F(TypesTest, EveryTypeDecodesAsItsFloats) {
  const auto device = open_device();
  const TemporaryFolder folder;
  const auto blocks = folder.path() / "blocks.gguf", floats = folder.path() / "floats.gguf",
             halves = folder.path() / "halves.gguf";
  for (const DType type : kDTypes) {
    if (!is_quantised(type) || type == DType::q8_0) continue;
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
  for (const DType type : kDTypes) {
    make_gguf(path, wide_shape(), {type, 7, ""});
    // The vocabulary table has at least eight bits: it is rounded a second time, which hardly changes them.
    const bool four_bits = type == DType::q4_0 || type == DType::q4_1 || type == DType::q4_k;
    EXPECT_EQ(load_model(open_device(), path, {})->weights.type(), !is_quantised(type)   ? "f16"
                                                                   : four_bits           ? "q8+q4"
                                                                   : type == DType::q6_k ? "q8+q6"
                                                                                         : "q8")
        << name(type);
  }
  // One tensor of another type: the matrices that are stored with it take the finer format, the others keep theirs.
  make_gguf(path, wide_shape(), {DType::q4_1, 7, ""});
  make_gguf(other, wide_shape(), {DType::q8_0, 7, ""});
  ModelFile file = open_model(path);
  const ModelFile finer = open_model(other);
  for (TensorView& tensor : file.tensors)
    if (tensor.name == "blk.0.attn_v.weight") tensor = *finer.find(tensor.name);
  Config config = read_config(file);
  const Weights weights = load_weights(open_device(), file, config, {}, [](float) {});
  EXPECT_EQ(weights.type(), "q8+q4");
  for (const char* name : {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight", "token_embd.weight"})
    EXPECT_EQ(device_type(weights, name), "q8") << name;
  for (const char* name : {"blk.1.attn_q.weight", "blk.0.ffn_up.weight"})
    EXPECT_EQ(device_type(weights, name), "q4") << name;
}

// A file of four bits runs the same whether it says Q4_0 or, converted, Q4_1.
TEST_F(TypesTest, Q4FilesRunAsTheyDoConverted) {
  const TemporaryFolder folder;
  const auto blocks = folder.path() / "m.gguf", converted = folder.path() / "q4.gguf";
  for (const DType type : {DType::q4_0, DType::q4_k}) {
    make_gguf(blocks, wide_shape(), {type, 7, ""});
    convert(blocks, converted, {Format::q4, Format::q4, true}, [](float) {});
    EXPECT_EQ(decode(open_device(), blocks, {}), decode(open_device(), converted, {})) << name(type);
  }
}

}  // namespace
}  // namespace weft::test
