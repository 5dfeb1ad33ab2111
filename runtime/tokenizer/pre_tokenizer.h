// Cutting a normalized text into the pieces that BPE merges within: the "pre_tokenizer" of a tokenizer.json, or the
// named pre-tokenisers of GGUF ("tokenizer.ggml.pre").
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_object.h"
#include "base/regex.h"

namespace weft {

// Constant after construction; any number of threads.
class PreTokenizer {
 public:
  // A text and where its pieces end; between two ends nothing is left out.
  struct Pieces {
    std::string text;
    std::vector<size_t> ends;  // ascending, the last is text.size(); empty for an empty text
    // One entry for each piece that begins where all that is encoded begins; such pieces come first. The entry counts
    // the bytes at the piece's front that stand for the first character.
    std::vector<size_t> origins;
  };

  // Leaves the text in one piece.
  PreTokenizer() = default;
  // From the "pre_tokenizer" object. Throws Error(unsupported) naming a type Weft does not know, or
  // Error(bad_file).
  [[gnu::cold]] static PreTokenizer from_json(const JsonObject& pre_tokenizer);
  // The byte-level pre-tokeniser GGUF calls by this name. Throws Error(unsupported) for a name Weft does not know.
  [[gnu::cold]] static PreTokenizer from_name(const std::string& name, const std::string& place);

  // BERT's: words and single punctuation marks.
  [[gnu::cold]] static PreTokenizer bert();

  // Gemma 4's in GGUF: lines, and runs of newlines.
  [[gnu::cold]] static PreTokenizer lines();

  // The names from_name() gives a pre-tokeniser of these very patterns for, in its order; none if there is no such
  // name.
  [[gnu::cold]] std::vector<std::string> gguf_names() const;

  // True if a step spells bytes in the alphabet of byte_level.h.
  bool has_byte_level() const;
  // If the last step does so: drops it, as a model can work on the bytes themselves, and returns true.
  bool leave_bytes();

  // origin: how many bytes at the front of the text stand for the first character of all that is encoded; 0 if
  // something was encoded before (Metaspace may put a mark only before the first character). Throws Error(bad_file) if
  // the steps make the text too long.
  Pieces split(std::string text, size_t origin) const;

 private:
  enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
  enum class Kind { split, fixed_length, prefix_space, metaspace, byte_level };
  enum class Prefix { never, first, always };
  struct Step {
    Kind kind = Kind::split;
    std::optional<Regex> regex;  // split: what to split at ...
    std::string literal;         // ... or this text; metaspace: the space mark
    Behavior behavior = Behavior::isolated;
    bool invert = false;             // split: what the pattern does not match is the delimiter
    Prefix prefix = Prefix::always;  // metaspace
    size_t length = 0;               // fixed_length: characters
  };

  [[gnu::cold]] void add_json(const JsonObject& json, int depth);
  [[gnu::cold]] void add_split(const JsonObject& json);
  [[gnu::cold]] void add_byte_level(const JsonObject& json);
  [[gnu::cold]] void add_metaspace(const JsonObject& json);
  [[gnu::cold]] void add_bert(const std::string& place);
  [[gnu::cold]] void add_regex(const std::string& pattern, Behavior behavior, const std::string& place);
  static Behavior behavior_named(const std::string& name, const std::string& place);
  static Pieces split_step(const Step& step, Pieces pieces);
  static std::vector<Span> parts_of(const Step& step, std::string_view piece);
  static Pieces rewrite_step(const Step& step, const Pieces& pieces);

  std::vector<Step> steps_;
  bool bytes_left_ = false;  // see leave_bytes()
};

}  // namespace weft
