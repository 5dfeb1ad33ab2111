// Qwen3-VL: the encoder of pictures, tokens with three positions, and rows that are added after layers, against
// Transformers: tests/tools/qwen3_vl_goldens.py.
#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "model/fingerprint.h"
#include "run/image_encoder.h"
#include "session/batch.h"
#include "session/lookup.h"
#include "support/closeness.h"
#include "support/json_value.h"
#include "support/model_test.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

using nlohmann::json;
using Ids = std::vector<uint32_t>;

const std::filesystem::path kFolder = source_folder() / "tests/model/golden_images/qwen3-vl";

// A prompt of Transformers' with the rows that its encoder made.
struct Golden {
  explicit Golden(const json& from) : golden(from), ids(from["ids"].get<Ids>()) {
    const json config = json::parse(std::ifstream(kFolder / "config.json"));
    image = config["image_token_id"];
    const size_t width = config["text_config"]["hidden_size"], layers = 2;
    std::vector<float> all;
    for (const json& row : golden.value("rows", json::array()))
      for (const json& value : row) all.push_back(value);
    size_t first = 0;  // row of the picture
    for (const json& grid : golden["grids"]) {
      grids.push_back({grid[0], grid[1]});
      const size_t count = size_t{grids.back().height} * grids.back().width;
      rows.emplace_back(all.begin() + static_cast<ptrdiff_t>(first * width),
                        all.begin() + static_cast<ptrdiff_t>((first + count) * width));
      added.emplace_back();
      for (size_t layer = 0; layer < layers; ++layer)
        for (size_t row = first; row < first + count; ++row)
          for (const json& value : golden["deepstack"][layer][row]) added.back().push_back(value);
      first += count;
    }
  }

  std::vector<PromptPart> parts() const {
    std::vector<PromptPart> result;
    size_t picture = 0;
    for (size_t i = 0; i < ids.size();) {
      size_t end = i;
      while (end < ids.size() && ids[end] != image) ++end;
      if (end > i) result.push_back({std::span(ids).subspan(i, end - i), {}});
      if (end < ids.size()) {
        result.push_back({{}, rows[picture], grids[picture], added[picture]});
        end += size_t{grids[picture].height} * grids[picture].width;
        ++picture;
      }
      i = end;
    }
    return result;
  }

  std::vector<double> logits() const { return golden["logits"]; }

  json golden;
  Ids ids;
  uint32_t image = 0;
  std::vector<PictureGrid> grids;
  std::vector<std::vector<float>> rows, added;
};

std::vector<Golden> goldens() {
  std::vector<Golden> all;
  for (const json& golden : json::parse(std::ifstream(kFolder / "reference.json"))) all.emplace_back(golden);
  return all;
}

Ids go_on(Session& session, uint32_t count) {
  Ids out;
  session.generate(count, true, [&](uint32_t id) {
    out.push_back(id);
    return true;
  });
  return out;
}

class Qwen3VlTest : public GpuTest {
 protected:
  const Model& model() {
    if (!model_) model_ = load_model(open_device(), kFolder, Format::f16);
    return *model_;
  }
  std::unique_ptr<Session> session(StatePlace place = {}) {
    auto made = std::make_unique<Session>(model(), 256, std::vector<uint32_t>(), Format::f16, Policy::throughput,
                                          nullptr, std::move(place));
    made->set_sampling(greedy());
    return made;
  }
  std::unique_ptr<Model> model_;
};

TEST_F(Qwen3VlTest, PromptsContinueAsTransformersDoes) {
  for (const char* file : {"", "text.gguf"}) {
    model_ = load_model(open_device(), kFolder / file, Format::f16);
    EXPECT_EQ(model().config.deepstack, 2u);
    for (const Golden& golden : goldens()) {
      const auto one = session();
      one->prompt_parts(golden.parts());
      const double off = distance(golden.logits(), one->logits());
      std::printf("%s %zu pictures: logits %.1e of the spread\n", file, golden.grids.size(), off);
      EXPECT_LT(off, 2e-3);
      EXPECT_EQ(json(go_on(*one, 32)), golden.golden["greedy"]);
    }
  }
}

// Pictures of any sides, one after the other in the same encoder.
TEST_F(Qwen3VlTest, TheEncoderEqualsTransformers) {
  for (const char* file : {"", "mmproj.gguf"}) {
    const auto images = load_image_model(open_device(), open_image_model(kFolder / file), Format::f16);
    ImageEncoder encoder(*images);
    double worst = 0, worst_added = 0;
    for (const Golden& golden : goldens())
      for (size_t i = 0; i < golden.grids.size(); ++i) {
        const std::filesystem::path path = kFolder.parent_path() / "pictures" / golden.golden["pictures"][i];
        const Tiles tiles = split_picture(decode_picture(read_file(path), path.string()), images->config.pictures);
        const EncodedTile tile = encoder.encode(tiles.pictures.at(0));
        EXPECT_EQ((PictureGrid{tile.height, tile.width}), golden.grids[i]);
        const auto& rows = golden.rows[i];
        const auto& added = golden.added[i];
        worst = std::max(worst, distance(std::vector<double>(rows.begin(), rows.end()), tile.rows));
        worst_added = std::max(worst_added, distance(std::vector<double>(added.begin(), added.end()), tile.deepstack));
      }
    std::printf("%s: rows %.1e, those of layers %.1e of the spread\n", file, worst, worst_added);
    EXPECT_LT(worst, 2e-3);
    EXPECT_LT(worst_added, 2e-3);
    EXPECT_THROW(encoder.encode({8, 12, std::vector<uint8_t>(288)}), Error);
  }
}

TEST_F(Qwen3VlTest, EncodersThatCannotBeRun) {
  const auto device = open_device();
  for (const char* file : {"", "mmproj.gguf"}) {
    const size_t count = open_image_model(kFolder / file).tensors.size();
    ASSERT_GT(count, 60u);
    for (size_t i = 0; i < count; ++i) {
      ModelFile opened = open_image_model(kFolder / file);
      const std::string name = opened.tensors[i].name;
      opened.tensors.erase(opened.tensors.begin() + static_cast<ptrdiff_t>(i));
      opened.index.clear();
      for (size_t place = 0; place < opened.tensors.size(); ++place) opened.index[opened.tensors[place].name] = place;
      EXPECT_THROW(load_image_model(device, opened, Format::f16), Error) << name;
    }
  }
  const auto code_of = [](const auto& change) {
    ModelFile file = open_image_model(kFolder);
    change(file.metadata["vision_config"], file.preprocessor);
    try {
      read_image_config(file);
    } catch (const Error& error) {
      return error.code();
    }
    return Code::internal;  // read
  };
  using Json = JsonValue;
  EXPECT_EQ(code_of([](Json&, Json&) {}), Code::internal);
  EXPECT_EQ(code_of([](Json& c, Json&) { c["temporal_patch_size"] = 1; }), Code::unsupported);
  EXPECT_EQ(code_of([](Json& c, Json&) { c["hidden_act"] = "silu"; }), Code::unsupported);
  EXPECT_EQ(code_of([](Json& c, Json&) { c["num_heads"] = 4; }), Code::unsupported);  // heads of 6
  EXPECT_EQ(code_of([](Json& c, Json&) { c["num_position_embeddings"] = 35; }), Code::bad_file);
  EXPECT_EQ(code_of([](Json& c, Json&) { c["deepstack_visual_indexes"] = Json({2u, 0u}); }), Code::bad_file);
  EXPECT_EQ(code_of([](Json& c, Json&) { c["deepstack_visual_indexes"] = Json({0u, 4u}); }), Code::bad_file);
  EXPECT_EQ(code_of([](Json& c, Json& p) {  // the smallest picture has 2^32 pixels
              c["spatial_merge_size"] = p["merge_size"] = 64;
              c["patch_size"] = p["patch_size"] = 1024;
            }),
            Code::unsupported);
  ModelFile both = open_image_model(kFolder);  // older names come before "size", as in Transformers
  both.preprocessor["max_pixels"] = 400;
  EXPECT_EQ(read_image_config(both).pictures.most_pixels, 400u);
  EXPECT_EQ(code_of([](Json&, Json& p) { p["resample"] = 2; }), Code::unsupported);
  EXPECT_EQ(code_of([](Json&, Json& p) { p["patch_size"] = 8; }), Code::bad_file);
  EXPECT_EQ(code_of([](Json&, Json& p) { p = nullptr; }), Code::not_found);
}

// However a prompt is cut into passes, and whatever positions the session had before.
TEST_F(Qwen3VlTest, PassesOfAnyLength) {
  const std::vector<Golden> all = goldens();
  for (const uint32_t chunk : {1u, 7u, 64u}) {
    const auto device = Device::open({}, [&](const Caps&) {
      Plan plan = open_device()->plan();
      plan.chunk_tokens = chunk;
      return plan;
    });
    model_ = load_model(device, kFolder, Format::f16);
    const auto one = session();
    for (const size_t i : {2u, 0u, 3u, 1u}) {
      one->prompt_parts(all[i].parts());
      EXPECT_LT(distance(all[i].logits(), one->logits()), 2e-3) << chunk << " tokens a pass, prompt " << i;
    }
  }
}

TEST_F(Qwen3VlTest, APictureOfOtherSidesIsAnotherPicture) {
  const Golden golden = goldens()[0];
  const std::vector<PromptPart> parts = golden.parts();
  const auto one = session(), fresh = session(), copy = session();
  one->prompt_parts(parts);
  const std::vector<float> first = one->logits();
  std::vector<PromptPart> other = parts;
  std::swap(other[1].grid.height, other[1].grid.width);  // the same rows
  const uint64_t before = one->stats().reused_tokens;
  one->prompt_parts(other);
  EXPECT_EQ(one->stats().reused_tokens - before, other[0].ids.size());
  fresh->prompt_parts(other);
  const std::vector<float> want = fresh->logits(), got = one->logits();
  EXPECT_LT(distance(std::vector<double>(want.begin(), want.end()), got), 1e-4);
  EXPECT_GT(distance(std::vector<double>(first.begin(), first.end()), got), 1e-2);
  copy->prompt_parts(parts);
  EXPECT_EQ(copy->copy_prefix(*one), other[0].ids.size());
  EXPECT_LT(distance(golden.logits(), copy->logits()), 2e-3);
  // Rows that are added after the last such layer count, too.
  std::vector<float> added = golden.added[0];
  added.back() += 1;
  other = parts;
  other[1].deepstack = added;
  fresh->prompt_parts(other);
  EXPECT_EQ(fresh->copy_prefix(*copy), parts[0].ids.size() + parts[1].rows.size() / 32 - 1);
  // A prefix with the picture, and text after it.
  other = parts;
  const Ids more = {1, 2, 3};
  other.back().ids = other.back().ids.first(1);
  other.push_back({more, {}});
  EXPECT_EQ(
      [&] {
        const uint64_t reused = copy->stats().reused_tokens;
        copy->prompt_parts(other);
        return copy->stats().reused_tokens - reused;
      }(),
      golden.ids.size() - parts.back().ids.size() + 1);
  const auto anew = session();
  anew->prompt_parts(other);
  const std::vector<float> wanted = anew->logits();
  EXPECT_LT(distance(std::vector<double>(wanted.begin(), wanted.end()), copy->logits()), 1e-3);
}

TEST_F(Qwen3VlTest, SavedSessionsKeepPictures) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "session";
  const Golden golden = goldens()[2];
  const auto one = session();
  one->prompt_parts(golden.parts());
  go_on(*one, 3);
  one->save(path, "");
  const Ids want = go_on(*one, 20);
  EXPECT_EQ(json(want)[0], golden.golden["greedy"][3]);
  const auto other = session();
  other->restore(path);
  EXPECT_EQ(go_on(*other, 20), want);
  other->restore(path);
  other->leave_device();
  other->enter_device();  // computes the context again
  EXPECT_EQ(go_on(*other, 20), want);
  other->restore(path);
  const uint64_t before = other->stats().reused_tokens;
  other->prompt_parts(golden.parts());
  EXPECT_EQ(other->stats().reused_tokens - before, golden.ids.size() - 1);

  std::ifstream file(path, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(file), {}};
  const size_t at = good.find("\"pictures\":[[");
  ASSERT_NE(at, good.npos);
  const size_t end = good.find(']', at) + 1;  // of the first picture
  const std::string first = good.substr(at + 12, end - at - 12);
  ASSERT_EQ(first.front(), '[');
  const auto filled = [&](std::string wrong) {  // the header keeps its length
    wrong.resize(std::max(wrong.size(), first.size()), ' ');
    return wrong;
  };
  for (const char* wrong : {"[99,9,9]", "[0,0,0]", "[-1,2]", "[1,2]", "7", "{}"}) {
    if (std::string_view(wrong).size() > first.size()) continue;
    std::string bytes = good;
    bytes.replace(at + 12, first.size(), filled(wrong));
    Fingerprint sum;
    sum.add(std::as_bytes(std::span(bytes)).first(bytes.size() - 8));
    const uint64_t value = sum.value();
    std::memcpy(&bytes[bytes.size() - 8], &value, 8);
    EXPECT_THROW(other->restore(std::as_bytes(std::span(bytes)), "changed"), Error) << wrong;
  }
}

// Sessions whose caches lie side by side, each with its own positions.
TEST_F(Qwen3VlTest, Batches) {
  const std::vector<Golden> all = goldens();
  const auto group = std::make_shared<StateGroup>(4);
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<Ids> out(4);
  std::vector<BatchEntry> entries;
  for (size_t i = 0; i < 4; ++i) {
    const Golden& golden = all[i == 3 ? 3 : 3 - i];  // two of text, one of each other
    sessions.push_back(session({group, static_cast<uint32_t>(i)}));
    sessions.back()->prompt_parts(golden.parts());
  }
  for (size_t i = 0; i < 4; ++i)
    entries.push_back({*sessions[i], 32, true, [&, i](uint32_t id) {
                         out[i].push_back(id);
                         return true;
                       }});
  generate_batch(entries);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(json(out[i]), all[i == 3 ? 3 : 3 - i].golden["greedy"]) << i;
}

// Drafts that the text before offers, in passes that check several tokens.
TEST_F(Qwen3VlTest, Drafts) {
  const Golden golden = goldens()[2];
  const auto one = session();
  one->set_drafter(std::make_unique<Lookup>());
  one->prompt_parts(golden.parts());
  EXPECT_EQ(json(go_on(*one, 32)), golden.golden["greedy"]);
}

TEST_F(Qwen3VlTest, Refuses) {
  const Golden golden = goldens()[0];
  const auto one = session();
  one->prompt_parts(golden.parts());
  const auto code_of = [&](const auto& change) {
    std::vector<PromptPart> parts = golden.parts();
    change(parts[1]);
    try {
      one->prompt_parts(parts);
    } catch (const Error& error) {
      return error.code();
    }
    return Code::internal;
  };
  EXPECT_EQ(code_of([](PromptPart& part) { part.grid = {}, part.deepstack = {}; }), Code::unsupported);
  EXPECT_EQ(code_of([](PromptPart& part) { part.grid.height = 3; }), Code::invalid_argument);
  EXPECT_EQ(code_of([](PromptPart& part) { part.deepstack = {}; }), Code::invalid_argument);
  EXPECT_LT(distance(golden.logits(), one->logits()), 2e-3) << "what was refused changed nothing";
  // Rows that no picture begins with are soft tokens as in other models.
  std::vector<PromptPart> plain = golden.parts();
  plain.erase(plain.begin());
  plain[0].grid = {};
  plain[0].deepstack = {};
  one->prompt_parts(plain);
  const std::vector<float> logits = one->logits();
  one->reset();
  plain[0].grid = golden.grids[0];
  plain[0].deepstack = golden.added[0];
  one->prompt_parts(plain);
  EXPECT_GT(distance(std::vector<double>(logits.begin(), logits.end()), one->logits()), 1e-2);
}

// The lens takes states after what is added to them.
TEST_F(Qwen3VlTest, Lens) {
  const Golden golden = goldens()[0];
  const auto one = session();
  one->prompt_parts(golden.parts());
  std::vector<float> logits;
  const size_t last = golden.ids.size() - 1;
  one->lens({last, 1, {4}, true}, [&](const LensRow& row) {
    logits.assign(row.logits.begin(), row.logits.end());
    return true;
  });
  EXPECT_LT(distance(golden.logits(), logits), 2e-3);
}

}  // namespace
}  // namespace weft::test
