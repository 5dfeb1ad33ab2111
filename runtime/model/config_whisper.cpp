#include "model/config_whisper.h"

#include <array>

#include "format/huggingface.h"
#include "model/spoken_languages.h"

namespace weft {
namespace {

constexpr uint32_t kMostPositions = 1u << 14, kMostBands = 1024;
constexpr uint32_t kRowsOfMultilingual = 51865;  // OpenAI's program tells them by it

// Defaults of Transformers for callers without arguments. Both keys may be missing or null.
void read_task(SpeechConfig& speech, const JsonObject& generation) {
  const auto given = [&](const char* key) { return generation.has(key) && !generation.at(key).is_null(); };
  if (const char* const key = "language"; given(key)) {
    const auto code = language_code(generation.text(key, ""));
    if (!code) generation.refuse(key, "a language's code, token or English name", generation.at(key));
    speech.language = *code;
  }
  if (const char* const key = "task"; given(key)) {
    const std::string task = generation.text(key, "");
    if (task != "transcribe" && task != "translate")
      generation.refuse(key, "'transcribe' or 'translate'", generation.at(key));
    speech.translate = task == "translate";
  }
}

// generation_config.json has these settings; that of older files lacks some, which config.json has.
SpeechConfig read_speech(const ModelFile& file, const JsonObject& values) {
  const JsonObject generation = file.generation_config.is_null()
                                    ? values
                                    : JsonObject(file.generation_config, place_of(file, "generation_config.json"));
  const auto is_given = [](const JsonObject& from, const char* key) {
    return from.has(key) && !from.at(key).is_null();
  };
  SpeechConfig speech;
  speech.multilingual = values.integer("vocab_size", 1, UINT32_MAX, kRowsOfMultilingual) >= kRowsOfMultilingual;
  if (const char* key = "is_multilingual"; is_given(generation, key)) speech.multilingual = generation.flag(key, true);
  if (speech.multilingual && !file.generation_config.is_null()) read_task(speech, generation);
  if (const char* key = "max_initial_timestamp_index"; is_given(generation, key))
    speech.latest_first_time = generation.integer(key, 0, kMostPositions);
  if (const char* key = "alignment_heads"; is_given(generation, key))
    for (const JsonValue& pair : generation.array(key)) {
      const bool right = pair.is_array() && pair.size() == 2 && pair[0].is_number_unsigned() &&
                         pair[1].is_number_unsigned() && pair[0].get<uint64_t>() <= UINT32_MAX &&
                         pair[1].get<uint64_t>() <= UINT32_MAX;
      if (!right) generation.refuse(key, "pairs of a layer and a head", pair);
      speech.aligned_heads.emplace_back(pair[0].get<uint32_t>(), pair[1].get<uint32_t>());
    }
  const char* const key = "suppress_tokens";
  const JsonObject& from = is_given(generation, key) ? generation : values;
  if (!is_given(from, key)) return speech;
  for (const JsonValue& id : from.array(key)) {
    if (!id.is_number_integer() || id.get<double>() < -1 || id.get<double>() > UINT32_MAX) from.refuse(key, "ids", id);
    if (id.is_number_unsigned()) speech.suppressed.push_back(id.get<uint32_t>());
  }
  return speech;
}

}  // namespace

void read_whisper(Config& c, const ModelFile& file, const JsonObject& values) {
  Config encoder = *c.encoder;
  encoder.context = values.integer("max_source_positions", 1, kMostPositions, 1500);
  encoder.bands = values.integer("num_mel_bins", 1, kMostBands, 80);
  c.encoder = std::make_shared<const Config>(std::move(encoder));
  c.context = values.integer("max_target_positions", 2, kMostPositions, 448);
  c.speech = std::make_shared<const SpeechConfig>(read_speech(file, values));
  c.embedding_scale = 1;  // whatever scale_embedding says: Transformers does not use it
}

}  // namespace weft
