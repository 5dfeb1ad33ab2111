// A model of every GGUF type decodes as the one whose file holds the same numbers as floats.
#include <gtest/gtest.h>

#include <fstream>

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

std::vector<uint32_t> decode(const std::shared_ptr<Device>& device, const std::filesystem::path& path, Format format) {
  const auto model = load_model(device, path, format);
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
    if (is_scaled_integers(type)) continue;  // the device then has the file's numbers; rounding floats finds others
    EXPECT_EQ(decode(device, blocks, Format::q8), decode(device, floats, Format::q8));
  }
}

}  // namespace
}  // namespace weft::test
