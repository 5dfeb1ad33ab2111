// The encoder of pictures, and prompts with its rows, against Transformers: tests/tools/image_goldens.py.
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "model/image_encoder.h"
#include "support/closeness.h"
#include "support/json_value.h"
#include "support/model_test.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

using nlohmann::json;

std::filesystem::path golden_folder() { return source_folder() / "tests/model/golden_images"; }

json read_goldens(const std::filesystem::path& folder) {
  std::ifstream file(folder / "reference.json");
  return json::parse(file);
}

Picture picture_of(const json& golden) {
  const std::filesystem::path path = golden_folder() / "pictures" / golden["picture"];
  return decode_picture(read_file(path), path.string());
}

// The rows of all tiles, one after the other.
std::vector<float> encode(ImageEncoder& encoder, const ImageConfig& config, const Picture& picture) {
  std::vector<float> rows;
  for (const Picture& tile : split_picture(picture, config.pictures).pictures) {
    const std::vector<float> some = encoder.encode(patches_of(tile, config.pictures, config.patch));
    rows.insert(rows.end(), some.begin(), some.end());
  }
  return rows;
}

std::vector<double> wanted_rows(const json& golden) {
  std::vector<double> rows;
  for (const json& tile : golden["rows"])
    for (const json& row : tile)
      for (const json& value : row) rows.push_back(value);
  return rows;
}

class ImagesTest : public GpuTest, public testing::WithParamInterface<std::string> {
 protected:
  double worst_distance(const std::filesystem::path& file, Format format) {
    const auto model = load_image_model(open_device(), open_image_model(file), format);
    ImageEncoder encoder(*model);
    double worst = 0;
    for (const bool again : {false, true})  // what another picture left behind must not show
      for (const json& golden : read_goldens(folder_)) {
        SCOPED_TRACE(golden["picture"].get<std::string>() + (again ? " again" : ""));
        const std::vector<float> rows = encode(encoder, model->config, picture_of(golden));
        worst = std::max(worst, distance(wanted_rows(golden), rows));
      }
    std::printf("%s: %.1e of the spread\n", file.filename().c_str(), worst);
    return worst;
  }
  std::filesystem::path folder_ = golden_folder() / GetParam();
};

TEST_P(ImagesTest, EqualsTransformersInF16) { EXPECT_LT(worst_distance(folder_, Format::f16), 1e-3); }

TEST_P(ImagesTest, StaysCloseInQ8) { EXPECT_LT(worst_distance(folder_, Format::q8), 0.1); }

// The whole model: the prompt's ids, with the encoder's rows where "<image>" stands.
TEST_P(ImagesTest, PromptsContinueAsTransformersDoes) {
  const auto device = open_device();
  const auto images = load_image_model(device, open_image_model(folder_), Format::f16);
  const auto text = load_model(device, folder_, Format::f16);
  ImageEncoder encoder(*images);
  const uint32_t image = json::parse(std::ifstream(folder_ / "config.json"))["image_token_id"];
  for (const json& golden : read_goldens(folder_)) {
    SCOPED_TRACE(golden["picture"].get<std::string>());
    const std::vector<float> rows = encode(encoder, images->config, picture_of(golden));
    const std::vector<uint32_t> ids = golden["ids"];
    std::vector<PromptPart> parts;
    size_t used = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] != image) {
        parts.push_back({std::span(ids).subspan(i, 1), {}});
        continue;
      }
      ASSERT_LE(used + text->config.width, rows.size());
      parts.push_back({{}, std::span(rows).subspan(used, text->config.width)});
      used += text->config.width;
    }
    EXPECT_EQ(used, rows.size());
    Session session(*text, 512, {});
    session.set_sampling(greedy());
    session.prompt_parts(parts);
    const double off = distance(golden["logits"].get<std::vector<double>>(), session.logits());
    std::printf("logits: %.1e of the spread\n", off);
    EXPECT_LT(off, 3e-3);
    std::vector<uint32_t> out;
    session.generate(static_cast<uint32_t>(golden["greedy"].size()), true, [&](uint32_t id) {
      out.push_back(id);
      return true;
    });
    EXPECT_EQ(json(out), golden["greedy"]);
  }
}

TEST_P(ImagesTest, RefusesAFileThatLacksATensor) {
  const auto device = open_device();
  const size_t count = open_image_model(folder_).tensors.size();
  ASSERT_GT(count, 30u);
  for (size_t i = 0; i < count; ++i) {
    ModelFile file = open_image_model(folder_);
    const std::string name = file.tensors[i].name;
    file.tensors.erase(file.tensors.begin() + static_cast<ptrdiff_t>(i));
    file.index.clear();
    for (size_t place = 0; place < file.tensors.size(); ++place) file.index[file.tensors[place].name] = place;
    EXPECT_THROW(load_image_model(device, file, Format::f16), Error) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ImagesTest, testing::Values("idefics3", "idefics3-rest"), [](const auto& model) {
  std::string name = model.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// llama.cpp's file of the encoder gives the same rows.
using ImageFilesTest = GpuTest;
TEST_F(ImageFilesTest, Mmproj) {
  const std::filesystem::path folder = golden_folder() / "idefics3";
  const auto model = load_image_model(open_device(), open_image_model(folder / "mmproj.gguf"), Format::f16);
  EXPECT_EQ(model->config.pictures.longest_edge, 144u);
  ImageEncoder encoder(*model);
  for (const json& golden : read_goldens(folder))
    EXPECT_LT(distance(wanted_rows(golden), encode(encoder, model->config, picture_of(golden))), 1e-3);
  EXPECT_THROW(encoder.encode(std::vector<float>(7)), Error);
}

TEST_F(ImageFilesTest, SettingsThatWeftCannotFollow) {
  const auto code_of = [](const auto& change) {
    ModelFile file = open_image_model(golden_folder() / "idefics3");
    change(file);
    try {
      read_image_config(file);
    } catch (const Error& error) {
      return error.code();
    }
    return Code::internal;  // read
  };
  const auto changed = [](json document, const char* pointer, const json& value) {
    document[json::json_pointer(pointer)] = value;
    return document;
  };
  const auto set = [&](const char* pointer, const json& value) {
    return code_of([&](ModelFile& file) { file.metadata = changed(file.metadata, pointer, value); });
  };
  const auto prepare = [&](const char* pointer, const json& value) {
    return code_of([&](ModelFile& file) { file.preprocessor = changed(file.preprocessor, pointer, value); });
  };
  EXPECT_EQ(code_of([](ModelFile&) {}), Code::internal);
  EXPECT_EQ(code_of([](ModelFile& file) { file.preprocessor = nullptr; }), Code::not_found);
  EXPECT_EQ(set("/vision_config/hidden_act", "gelu"), Code::unsupported);
  EXPECT_EQ(set("/vision_config/num_channels", 1), Code::unsupported);
  EXPECT_EQ(set("/vision_config/num_attention_heads", 5), Code::bad_file);
  EXPECT_EQ(set("/vision_config/num_attention_heads", 16), Code::unsupported);  // 3 dimensions
  EXPECT_EQ(set("/vision_config/patch_size", 0), Code::bad_file);
  EXPECT_EQ(set("/vision_config/image_size", 144), Code::unsupported);
  EXPECT_EQ(set("/scale_factor", 2), Code::bad_file);
  EXPECT_EQ(prepare("/resample", 3), Code::unsupported);
  EXPECT_EQ(prepare("/do_normalize", false), Code::unsupported);
  EXPECT_EQ(prepare("/image_std", json({0.5, 0, 0.5})), Code::bad_file);
  EXPECT_EQ(prepare("/size/longest_edge", 0), Code::bad_file);
  EXPECT_EQ(prepare("/size/longest_edge", 30000), Code::unsupported);
  EXPECT_EQ(prepare("/max_image_size/longest_edge", 1), Code::unsupported);
  EXPECT_THROW(open_image_model(source_folder() / "tests/model/golden_encoders/bert"), Error);
}

}  // namespace
}  // namespace weft::test
