#include "model/assistant.h"

#include "base/error.h"
#include "format/huggingface.h"

namespace weft {
namespace {

[[noreturn]] void refuse(const ModelFile& file, const std::string& sentence) {
  throw Error(Code::invalid_argument, sentence, place_of(file, "config.json"),
              "a drafter belongs to the Gemma 4 that it was trained for");
}

void need_same(const ModelFile& file, const char* key, uint32_t own, const char* of_target, uint32_t target) {
  if (own == target) return;
  refuse(file, std::string("'") + key + "' is " + std::to_string(own) + ", the session's model has " + of_target +
                   " of " + std::to_string(target));
}

// The last layer of a kind that has a cache of its own.
uint32_t last_of(const Config& target, bool windowed, const ModelFile& file) {
  for (uint32_t layer = target.layers; layer-- > 0;)
    if (!target.attention_of(layer).source && (target.attention_of(layer).window > 0) == windowed) return layer;
  refuse(file, std::string("'layer_types' has layers ") + (windowed ? "with" : "without") +
                   " a window, the session's model has none of these that have a cache");
}

}  // namespace

void fit_assistant(Config& config, const Config& target, const ModelFile& file) {
  if (!target.traits->gemma4 || target.layer_kind.sees_all)
    refuse(file,
           "'model_type' is 'gemma4_assistant', which guesses for a Gemma 4, the session's model is of the family '" +
               target.family + "'");
  need_same(file, "backbone_hidden_size", config.backbone, "states", target.width);
  need_same(file, "vocab_size", config.vocab, "a vocabulary", target.vocab);
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    AttentionConfig& own = std::get<AttentionConfig>(config.layer_configs[layer].mixer);
    const bool windowed = own.window > 0;
    own.source = last_of(target, windowed, file);
    const AttentionConfig& read = target.attention_of(*own.source);
    const ops::HeadShape &shape = config.shape_of(own), &cached = target.shape_of(read);
    if (windowed) need_same(file, "sliding_window", own.window, "windows", read.window);
    need_same(file, windowed ? "head_dim" : "global_head_dim", shape.head_dim, "keys", cached.head_dim);
    if (shape.kv_heads != cached.kv_heads)
      refuse(file, std::string("'") + (windowed ? "num_key_value_heads" : "num_global_key_value_heads") + "' is " +
                       std::to_string(shape.kv_heads) + ", the session's model has caches of " +
                       std::to_string(cached.kv_heads) + " heads");
    // The token that a guess follows has no key yet. Transformers' mask counts the window from the key before it, and
    // both ends belong to it: one key more than the target's window.
    if (windowed) ++own.window;
  }
}

}  // namespace weft
