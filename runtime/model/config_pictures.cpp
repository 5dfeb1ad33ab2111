#include "model/config_pictures.h"

#include <algorithm>

#include "base/error.h"
#include "model/config_mixers.h"

namespace weft {
namespace {

constexpr uint32_t kMostPictureRows = 1u << 14;

// Pairs of time, rows and columns. GGUF files have a fourth number, which is 0.
RopePosition read_sections(const JsonObject& values, const std::string& key) {
  const std::string expected = "3 numbers up to 4096, and perhaps a 0";
  const JsonValue& given = values.at(key);
  if (!given.is_array() || given.size() < 3 || given.size() > 4) values.refuse(key, expected);
  RopePosition sections = {};
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].is_number_unsigned() || given[i].get<uint64_t>() > (i < 3 ? 4096 : 0)) values.refuse(key, expected);
    if (i < 3) sections[i] = given[i].get<uint32_t>();
  }
  return sections;
}

void set_axes(Config& c, const JsonObject& values, const std::string& key) {
  const RopePosition sections = values.has(key) ? read_sections(values, key) : RopePosition{24, 20, 20};
  Rope& rope = c.ropes.front();
  rope.axes = interleaved_axes(sections, rope.frequencies.size());
}

// The id of a token in a GGUF file's vocabulary.
std::optional<uint32_t> find_token(const JsonObject& values, const char* text) {
  const char* const key = "tokenizer.ggml.tokens";
  if (!values.has(key)) return std::nullopt;
  const JsonValue::Array& tokens = values.array(key);
  const auto found = std::ranges::find_if(tokens, [&](const JsonValue& token) { return token == text; });
  if (found == tokens.end()) return std::nullopt;
  return static_cast<uint32_t>(found - tokens.begin());
}

}  // namespace

// The files do not say whether there are pictures: the smaller models of Gemma 3 have none.
void read_gguf_pictures(Config& c, const JsonObject& values) {
  if (c.family == "gemma3" && c.layers != 18 && c.layers != 26) {
    c.picture_token = find_token(values, "<start_of_image>");
    if (c.picture_token) c.picture_rows = 256;
  }
  if (c.family == "qwen3vl") {
    set_axes(c, values, "qwen3vl.rope.dimension_sections");
    c.deepstack = values.integer("qwen3vl.n_deepstack_layers", 0, c.layers, 0);
    c.grid_token = find_token(values, "<|vision_start|>");
  }
}

// The folder of a text model alone has no begin of a picture, nor rows for one.
void read_pictures(Config& c, const JsonObject& values) {
  if (c.family == "gemma3_text") {
    c.picture_rows = values.integer("mm_tokens_per_image", 1, kMostPictureRows, 0);
    if (c.picture_rows > 0)
      c.picture_token = values.integer(values.either({"boi_token_index", "boi_token_id"}), 0, UINT32_MAX, 255999);
  }
  if (c.family == "qwen3_vl_text") {
    const std::string key = values.either({"rope_parameters", "rope_scaling"});
    const JsonObject rope = values.has(key) ? values.object(key) : values;
    if (!rope.flag("mrope_interleaved", true)) unsupported("not supported: 'mrope_interleaved' false", rope);
    set_axes(c, rope, "mrope_section");
    if (!values.is_given("vision_start_token_id")) return;
    c.grid_token = values.integer("vision_start_token_id", 0, UINT32_MAX);
    c.deepstack = values.integer("deepstack_layers", 0, c.layers, 0);
  }
}

}  // namespace weft
