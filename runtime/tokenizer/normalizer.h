// Changes that a tokenizer makes to a text before splitting it: the "normalizer" of a tokenizer.json.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_object.h"
#include "base/regex.h"
#include "tokenizer/charsmap.h"

namespace weft {

// Constant after construction; any number of threads.
class Normalizer {
 public:
  // Leaves every text as it is.
  Normalizer() = default;
  // From the "normalizer" object. Throws Error(unsupported) naming a type Weft does not know, or
  // Error(bad_file).
  [[gnu::cold]] static Normalizer from_json(const JsonObject& normalizer);
  // SentencePiece's normalizer: every space becomes U+2581; with prefix, one more is put before a text that is not
  // empty.
  [[gnu::cold]] static Normalizer sentencepiece(bool prefix);
  // Unicode normalization form C.
  static Normalizer nfc();
  // SentencePiece as T5 uses it: first the precompiled map, if given; then, with collapse, removes white space at both
  // ends and repeated spaces; then as sentencepiece(prefix).
  [[gnu::cold]] static Normalizer sentencepiece(bool prefix, bool collapse, std::optional<Charsmap> map);
  // BERT's for lower case: removes control characters, puts spaces around ideographs, removes accents.
  [[gnu::cold]] static Normalizer bert_uncased();

  struct Text {
    std::string text;
    size_t origin = 0;  // how many bytes at its front stand for the first character of the text before
    std::string plain;  // if it was given: one byte for each of the text's
  };
  // plain: empty, or a mark for each byte of the text, which follows that byte. If a step makes one character of
  // several with different marks, all bytes are marked '\1'. Throws Error(bad_file) if the steps make the text too
  // long.
  Text apply(std::string_view text, std::string_view plain = {}) const;

  // True if a step spells bytes in the alphabet of byte_level.h.
  bool has_byte_level() const;

 private:
  enum class Kind {
    prepend,
    replace,
    strip_left,
    strip_right,
    lowercase,
    nfc,
    nfd,
    nfkc,
    nfkd,
    clean,
    space_ideographs,
    strip_nonspacing,
    strip_accents,
    nmt,
    byte_level,
    charsmap
  };
  struct Step {
    Kind kind;
    std::string from, to;        // replace: `from` becomes `to`; prepend: `to`
    std::optional<Regex> regex;  // replace: instead of from
    std::shared_ptr<const Charsmap> map;
  };

  [[gnu::cold]] void add_json(const JsonObject& normalizer, int depth);
  [[gnu::cold]] void add_charsmap(const JsonObject& normalizer);
  [[gnu::cold]] void add_bert(const JsonObject& normalizer);
  [[gnu::cold]] void add_replace(const JsonObject& normalizer);

  static std::string change(const Step& step, std::string_view text);
  static Text replace(const Step& step, const Text& in);
  static std::string change_plain(const Step& step, const Text& in, const std::string& changed);

  std::vector<Step> steps_;
};

}  // namespace weft
