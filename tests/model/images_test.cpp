// The encoder of pictures, and prompts with its rows, against Transformers: tests/tools/image_goldens.py.
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "run/image_encoder.h"
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

// The pictures of a prompt.
std::vector<Picture> pictures_of(const json& golden) {
  std::vector<Picture> pictures = {picture_of(golden)};
  for (const json& name : golden.value("more", json::array())) pictures.push_back(picture_of({{"picture", name}}));
  return pictures;
}

// The rows of all tiles, one after the other.
std::vector<float> encode(ImageEncoder& encoder, const ImageConfig& config, const Picture& picture) {
  std::vector<float> rows;
  for (const Picture& tile : split_picture(picture, config.pictures).pictures) {
    const std::vector<float> some = encoder.encode(tile).rows;
    rows.insert(rows.end(), some.begin(), some.end());
  }
  return rows;
}

std::vector<float> encode(ImageEncoder& encoder, const ImageConfig& config, const std::vector<Picture>& pictures) {
  std::vector<float> rows;
  for (const Picture& picture : pictures) {
    const std::vector<float> some = encode(encoder, config, picture);
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
        const std::vector<float> rows = encode(encoder, model->config, pictures_of(golden));
        worst = std::max(worst, distance(wanted_rows(golden), rows));
      }
    std::printf("%s: %.1e of the spread\n", file.filename().c_str(), worst);
    return worst;
  }
  std::filesystem::path folder_ = golden_folder() / GetParam();
};

TEST_P(ImagesTest, EqualsTransformersInF16) { EXPECT_LT(worst_distance(folder_, Format::f16), 1e-3); }

TEST_P(ImagesTest, StaysCloseInQ8) { EXPECT_LT(worst_distance(folder_, Format::q8), 0.1); }

// A prompt's ids, with the encoder's rows where the token of the picture stands.
std::vector<PromptPart> parts_of(std::span<const uint32_t> ids, uint32_t image, std::span<const float> rows,
                                 size_t width) {
  std::vector<PromptPart> parts;
  size_t used = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != image) {
      parts.push_back({ids.subspan(i, 1), {}});
      continue;
    }
    parts.push_back({{}, rows.subspan(used, width)});
    used += width;
  }
  EXPECT_EQ(used, rows.size());
  return parts;
}

// The whole model: the prompt's ids, with the encoder's rows where "<image>" stands.
TEST_P(ImagesTest, PromptsContinueAsTransformersDoes) {
  const auto device = open_device();
  const auto images = load_image_model(device, open_image_model(folder_), Format::f16);
  const auto text = load_model(device, folder_, Format::f16);
  ImageEncoder encoder(*images);
  const json config = json::parse(std::ifstream(folder_ / "config.json"));
  const uint32_t image = config[config.contains("image_token_id") ? "image_token_id" : "image_token_index"];
  for (const json& golden : read_goldens(folder_)) {
    SCOPED_TRACE(golden["picture"].get<std::string>());
    const std::vector<float> rows = encode(encoder, images->config, pictures_of(golden));
    const std::vector<uint32_t> ids = golden["ids"];
    Session session(*text, 512, {});
    session.set_sampling(greedy());
    session.prompt_parts(parts_of(ids, image, rows, text->config.width));
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

INSTANTIATE_TEST_SUITE_P(Models, ImagesTest, testing::Values("idefics3", "idefics3-rest", "gemma3"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// llama.cpp's file of the encoder gives the same rows.
using ImageFilesTest = GpuTest;
TEST_F(ImageFilesTest, Mmproj) {
  for (const char* name : {"idefics3", "gemma3"}) {
    const std::filesystem::path folder = golden_folder() / name;
    const auto model = load_image_model(open_device(), open_image_model(folder / "mmproj.gguf"), Format::f16);
    EXPECT_EQ(model->config.pictures.longest_edge, model->config.kind == ImageKind::pooled ? 0u : 144u);
    ImageEncoder encoder(*model);
    for (const json& golden : read_goldens(folder))
      EXPECT_LT(distance(wanted_rows(golden), encode(encoder, model->config, pictures_of(golden))), 1e-3) << name;
    EXPECT_THROW(encoder.encode({7, 7, std::vector<uint8_t>(147)}), Error);
  }
}

// Gemma 3's pictures see themselves whole: whatever is kept of another context, and wherever a prompt ends.
TEST_F(ImageFilesTest, PicturesAreComputedAsAWhole) {
  const std::filesystem::path folder = golden_folder() / "gemma3";
  const auto device = open_device();
  const auto images = load_image_model(device, open_image_model(folder), Format::f16);
  const auto text = load_model(device, folder, Format::f16);
  ImageEncoder encoder(*images);
  const json golden = read_goldens(folder)[2];  // with two pictures
  const uint32_t image = json::parse(std::ifstream(folder / "config.json"))["image_token_index"];
  const std::vector<float> rows = encode(encoder, images->config, pictures_of(golden));
  const std::vector<uint32_t> ids = golden["ids"];
  const std::vector<PromptPart> parts = parts_of(ids, image, rows, text->config.width);
  const auto logits_of = [&](Session& session, std::span<const PromptPart> prompt) {
    session.prompt_parts(prompt);
    return session.logits();
  };
  const auto wanted = golden["logits"].get<std::vector<double>>();
  const size_t end = static_cast<size_t>(std::find(ids.rbegin(), ids.rend(), image).base() - ids.begin());
  const auto prefix = [&](size_t count) { return std::span(parts).first(count); };

  Session session(*text, 512, {});
  EXPECT_LT(distance(golden["picture_logits"].get<std::vector<double>>(), logits_of(session, prefix(end))), 3e-3);
  EXPECT_EQ(session.computed_tokens(), end);
  EXPECT_LT(distance(wanted, logits_of(session, parts)), 3e-3) << "after a prompt that ends with a picture";
  logits_of(session, prefix(end - 40));
  EXPECT_LT(distance(wanted, logits_of(session, parts)), 3e-3) << "after a part of a picture";
  std::vector<float> other(rows);
  // The last token's row: all others of the picture see it.
  for (uint32_t i = 0; i < text->config.width; ++i) other[other.size() - 1 - i] *= -3;
  Session fresh(*text, 512, {});
  const std::vector<PromptPart> changed = parts_of(ids, image, other, text->config.width);
  const std::vector<float> anew = logits_of(fresh, changed);
  EXPECT_GT(distance(wanted, anew), 3e-3);
  EXPECT_LT(distance(std::vector<double>(anew.begin(), anew.end()), logits_of(session, changed)), 1e-4);

  Session copy(*text, 512, {});
  copy.prompt_parts(parts);
  EXPECT_LT(copy.copy_prefix(session), end) << "not a picture with another row";
  EXPECT_LT(distance(wanted, copy.logits()), 3e-3);
  EXPECT_THROW(copy.lens({0, 1, {0}, false}, [](const LensRow&) { return true; }), Error);
  const std::vector<float> many(97 * text->config.width, 0.5f);  // the window has 96
  const std::vector<uint32_t> begin = {*text->config.picture_token};
  const PromptPart large[] = {{begin, {}}, {{}, many}};
  EXPECT_THROW(copy.prompt_parts(large), Error);
  copy.prompt_parts(std::span(large).subspan(1));  // rows that no picture begins
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
