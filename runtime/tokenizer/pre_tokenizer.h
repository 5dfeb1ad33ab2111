// Cutting a normalized text into the pieces that BPE merges within: the "pre_tokenizer" of a tokenizer.json, or the
// named pre-tokenisers of GGUF ("tokenizer.ggml.pre").
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/regex.h"

namespace weft {

// Constant after construction; any number of threads.
class PreTokenizer {
 public:
  // A text and where its pieces end; between two ends nothing is left out.
  struct Pieces {
    std::string text;
    std::vector<size_t> ends;  // ascending, the last is text.size(); empty for an empty text
  };

  // Leaves the text in one piece.
  PreTokenizer() = default;
  // From the "pre_tokenizer" object (null: one piece). Throws Error(unsupported) naming a type Weft does not know, or
  // Error(bad_file).
  static PreTokenizer from_json(const nlohmann::json& pre_tokenizer, const std::string& place);
  // The byte-level pre-tokeniser GGUF calls by this name. Throws Error(unsupported) for a name Weft does not know.
  static PreTokenizer from_name(const std::string& name, const std::string& place);

  // BERT's: words and single punctuation marks.
  static PreTokenizer bert();

  // The names from_name() gives a pre-tokeniser of these very patterns for, in its order; none if there is no such
  // name.
  std::vector<std::string> gguf_names() const;

  // True where pieces are to be merged byte by byte, false where character by character.
  bool byte_level() const { return byte_level_; }

  // first: the text is the beginning of all that is encoded (some put a space mark only there).
  Pieces split(std::string text, bool first) const;

 private:
  enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
  enum class Kind { split, prefix_space, metaspace };
  enum class Prefix { never, first, always };
  struct Step {
    Kind kind = Kind::split;
    std::optional<Regex> regex;  // split: what to split at ...
    std::string literal;         // ... or this text; metaspace: the space mark
    Behavior behavior = Behavior::isolated;
    bool invert = false;             // split: what the pattern does not match is the delimiter
    Prefix prefix = Prefix::always;  // metaspace
  };

  void add_json(const nlohmann::json& json, const std::string& place, int depth);
  void add_split(const nlohmann::json& json, const std::string& place);
  void add_byte_level(const nlohmann::json& json, const std::string& place);
  void add_metaspace(const nlohmann::json& json, const std::string& place);
  void add_regex(const std::string& pattern, Behavior behavior, const std::string& place);
  static Behavior behavior_named(const std::string& name, const std::string& place);
  static Pieces split_step(const Step& step, Pieces pieces);
  static Pieces prefix_step(const Step& step, const Pieces& pieces, bool first);

  std::vector<Step> steps_;
  bool byte_level_ = false;
};

}  // namespace weft
