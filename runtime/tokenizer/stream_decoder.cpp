#include "tokenizer/tokenizer.h"

#include <utility>

#include "base/utf8.h"

namespace weft {

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

std::string StreamDecoder::push(uint32_t id) {
  pending_ += tokenizer_.bytes(id);
  std::string out;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const size_t good = valid_utf8_prefix(rest);
    out += rest.substr(0, good);
    rest.remove_prefix(good);
    const Utf8Char c = first_utf8(rest);
    if (rest.empty() || c.incomplete) break;
    out += kReplacement;
    rest.remove_prefix(c.size);
  }
  pending_ = std::string(rest);
  return out;
}

std::string StreamDecoder::finish() { return replace_invalid_utf8(std::exchange(pending_, {})); }

}  // namespace weft
