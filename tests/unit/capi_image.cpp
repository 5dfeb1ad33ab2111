// weft/image.h: pictures in prompts, with the tiny models of tests/tools/image_goldens.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "support/source_folder.h"
#include "weft/image.hpp"
#include "weft/soft.hpp"

namespace weft::api {
namespace {

using nlohmann::json;

std::string golden(const std::string& name) { return (source_folder() / "tests/model/golden_images" / name).string(); }

json goldens() { return json::parse(std::ifstream(golden("idefics3/reference.json"))); }

class ImageApi : public testing::Test {
 protected:
  static Model load(const std::string& name, weft_type type = WEFT_TYPE_F16) {
    ModelOptions options;
    options.type = type;
    return Model(golden(name), options);
  }
  static std::vector<std::uint32_t> go_on(Session& session, std::uint32_t count) {
    weft_sampling sampling = weft_sampling_default();
    sampling.temperature = 0;
    session.set_sampling(sampling);
    std::vector<std::uint32_t> out;
    session.generate(
        count,
        [&](std::uint32_t id, std::string_view) {
          if (id != WEFT_NO_TOKEN) out.push_back(id);
          return true;
        },
        true);
    return out;
  }
  template <class Call>
  static weft_status status_of(const Call& call) {
    try {
      call();
    } catch (const Failure& failure) {
      EXPECT_FALSE(failure.sentence().empty());
      return failure.status();
    }
    return WEFT_OK;
  }
  Model model_ = load("idefics3");
};

// The ids of Transformers' processor, its greedy ids after them, and the chat template's ids before.
TEST_F(ImageApi, PromptsAreTransformersPrompts) {
  ImageEncoder encoder(model_, golden("idefics3"));
  for (const json& wanted : goldens()) {
    const Image image = encoder.encode(golden("pictures/" + wanted["picture"].get<std::string>()));
    const std::vector<std::uint32_t> prompt = model_.apply_chat_template_json(
        R"({"messages": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is in the picture?"}]}]})");
    EXPECT_EQ(json(prompt), wanted["prompt"]);
    Session session(model_, 512);
    api::prompt(session, prompt, encoder.token(), {image});
    std::vector<std::uint32_t> ids = session.ids();
    for (std::uint32_t& id : ids)
      if (id >= WEFT_SOFT_TOKEN) id = encoder.token();
    EXPECT_EQ(json(ids), wanted["ids"]);
    EXPECT_EQ(ids.size(), prompt.size() - 1 + image.tokens());
    EXPECT_EQ(json(go_on(session, static_cast<std::uint32_t>(wanted["greedy"].size()))), wanted["greedy"]);
  }
}

TEST_F(ImageApi, MemoryAndMmprojGiveTheSameRows) {
  const std::string file = golden("pictures/rgb70x50.png");
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(stream)), {});
  ImageEncoder folder(model_, golden("idefics3")), mmproj(model_, golden("idefics3/mmproj.gguf"));
  const Image a = folder.encode(file), b = folder.encode(bytes.data(), bytes.size()), c = mmproj.encode(file);
  const std::uint32_t width = model_.info().width;
  ASSERT_EQ(a.parts().size(), b.parts().size());
  for (std::size_t i = 0; i < a.parts().size(); ++i) {
    const weft_prompt_part one = a.parts()[i];
    for (const weft_prompt_part& other : {b.parts()[i], c.parts()[i]}) {
      ASSERT_EQ(one.count, other.count);
      ASSERT_EQ(one.ids == nullptr, other.ids == nullptr);
      const std::size_t size = one.count * (one.ids ? 4 : width * 4);
      EXPECT_EQ(std::memcmp(one.ids ? static_cast<const void*>(one.ids) : one.rows,
                            other.ids ? static_cast<const void*>(other.ids) : other.rows, size),
                0);
    }
  }
}

// A device that was lost and opened again has the encoder again.
TEST_F(ImageApi, TheEncoderSurvivesRecovery) {
  ImageEncoder encoder(model_, golden("idefics3"));
  const std::string file = golden("pictures/rgb1x1.png");
  const Image before = encoder.encode(file);
  model_.recover();
  const Image after = encoder.encode(file);
  const weft_prompt_part a = before.parts()[1], b = after.parts()[1];
  EXPECT_EQ(std::memcmp(a.rows, b.rows, a.count * model_.info().width * 4), 0);
}

TEST_F(ImageApi, Refusals) {
  const auto open = [&](const std::string& path) { return status_of([&] { ImageEncoder(model_, path); }); };
  EXPECT_EQ(open(golden("nowhere")), WEFT_NOT_FOUND);
  EXPECT_EQ(open(golden("idefics3-rest")), WEFT_INVALID_ARGUMENT);  // of another width
  EXPECT_EQ(open(golden("pictures/rgb1x1.png")), WEFT_UNSUPPORTED);
  EXPECT_EQ(open(golden("../golden_encoders/bert")), WEFT_UNSUPPORTED);
  EXPECT_EQ(open(golden("../golden_encoders/bert/model.gguf")), WEFT_UNSUPPORTED);
  const Model other(golden("../../../apps/pocket/pocket.gguf"));
  EXPECT_EQ(status_of([&] { ImageEncoder(other, golden("idefics3")); }), WEFT_INVALID_ARGUMENT);

  ImageEncoder encoder(model_, golden("idefics3"));
  EXPECT_EQ(status_of([&] { encoder.encode(golden("nowhere.png")); }), WEFT_NOT_FOUND);
  EXPECT_EQ(status_of([&] { encoder.encode(golden("idefics3/config.json")); }), WEFT_UNSUPPORTED);
  EXPECT_EQ(status_of([&] { encoder.encode("\x89PNG\r\n\x1a\n", 8); }), WEFT_BAD_FILE);
  EXPECT_EQ(status_of([&] { encoder.encode(nullptr, 0); }), WEFT_UNSUPPORTED);

  const Image image = encoder.encode(golden("pictures/rgb1x1.png"));
  Session session(model_, 512);
  EXPECT_EQ(status_of([&] { prompt(session, {1, 2}, encoder.token(), {image}); }), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(status_of([&] { prompt(session, {1, encoder.token()}, encoder.token(), {}); }), WEFT_INVALID_ARGUMENT);
}

// Qwen3-VL's pictures have sides and rows of layers, which a part does not hold.
TEST_F(ImageApi, PicturesWithSides) {
  const Model model = load("qwen3-vl");
  ImageEncoder encoder(model, golden("qwen3-vl"));
  std::ifstream file(golden("qwen3-vl/reference.json"));
  for (const json& wanted : json::parse(file)) {
    std::vector<Image> images;
    for (const json& name : wanted["pictures"])
      images.push_back(encoder.encode(golden("pictures/" + name.get<std::string>())));
    Session session(model, 256);
    api::prompt(session, wanted["prompt"], encoder.token(), images);
    std::vector<std::uint32_t> ids = session.ids();
    for (std::uint32_t& id : ids)
      if (id >= WEFT_SOFT_TOKEN) id = encoder.token();
    EXPECT_EQ(json(ids), wanted["ids"]);
    EXPECT_EQ(json(go_on(session, 32)), wanted["greedy"]);
  }
  const Image image = encoder.encode(golden("pictures/rgb70x50.png"));
  const std::vector<std::uint32_t> begin = model.tokenize("<|vision_start|>", false, true);
  std::vector<weft_prompt_part> parts = {{begin.data(), nullptr, 1}, image.parts().at(0)};
  Session session(model, 256);
  weft_error error;
  EXPECT_EQ(weft_session_prompt_parts(session.get(), parts.data(), 2, &error), WEFT_UNSUPPORTED);
  EXPECT_NE(std::string(error.hint).find("weft_session_prompt_images"), std::string::npos);
  EXPECT_EQ(status_of([&] { prompt_images(session, parts, {image}); }), WEFT_OK);
  EXPECT_EQ(status_of([&] { prompt_images(session, parts, {}); }), WEFT_UNSUPPORTED);
  parts[1].count -= 1;
  EXPECT_EQ(status_of([&] { prompt_images(session, parts, {image}); }), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(status_of([&] { ImageEncoder(model_, golden("qwen3-vl")); }), WEFT_INVALID_ARGUMENT);
  // Images of another family, whose rows may be shorter.
  Session other(model_, 256);
  EXPECT_EQ(status_of([&] { prompt_images(other, image.parts(), {image}); }), WEFT_UNSUPPORTED);
  const Model narrow = load("idefics3-rest");
  using Pair = std::pair<const Model*, const char*>;
  for (const auto& [of, folder] : {Pair{&model_, "idefics3"}, Pair{&narrow, "idefics3-rest"}}) {
    ImageEncoder another(*of, golden(folder));
    const Image tiles = another.encode(golden("pictures/rgb1x1.png"));
    EXPECT_EQ(status_of([&] { prompt_images(session, tiles.parts(), {tiles}); }), WEFT_UNSUPPORTED) << folder;
  }
  EXPECT_EQ(status_of([&] { ImageEncoder(model, golden("idefics3")); }), WEFT_INVALID_ARGUMENT);
}

// The text of a message reaches a template that wants a list of parts, and cannot place a picture.
TEST_F(ImageApi, TextsAlone) {
  const std::vector<std::uint32_t> ids = model_.apply_chat_template({{"user", "Hi <image>"}});
  EXPECT_EQ(model_.detokenize(ids).find("User: Hi <image>"), 0u);
  const std::uint32_t token = ImageEncoder(model_, golden("idefics3")).token();
  EXPECT_EQ(std::count(ids.begin(), ids.end(), token), 0);
}

}  // namespace
}  // namespace weft::api
