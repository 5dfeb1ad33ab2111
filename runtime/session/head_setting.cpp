#include "session/head_setting.h"

#include <utility>

#include "base/error.h"
#include "base/number.h"
#include "keep/keep_list.h"

namespace weft {
namespace {

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw Error(
      Code::invalid_argument, "\"" + std::string(text) + "\" " + why, "head",
      "full, certified, sure, sure:P, fast, fast:SIGMA, auto, auto:sure, auto:fast, keep:LIST, or one of the first "
      "followed by +keep:LIST");
}

// The number after "sure:" or "fast:", above 0 and at most `most`.
double parse_number(std::string_view text, std::string_view number, const char* what, double most) {
  const double value = parse_double(std::string(number)).value_or(0);
  if (!(value > 0 && value <= most)) {
    refuse(text, "has \"" + std::string(number) + "\" for " + what + ", expected a number above 0, at most " +
                     number_text(most));
  }
  return value;
}

}  // namespace

VocabHead parse_vocab_head(std::string_view text, const Tokenizer& tokenizer) {
  constexpr std::string_view kKeep = "keep:", kSure = "sure:", kFast = "fast:", kAuto = "auto:";
  VocabHead head;
  head.name = text;
  std::string_view mode = text, list;
  const size_t plus = text.find("+keep:");
  const bool keeps = text.starts_with(kKeep) || plus != text.npos;
  if (text.starts_with(kKeep)) {
    list = text.substr(kKeep.size());
    mode = "full";
  } else if (plus != text.npos) {
    list = text.substr(plus + 1 + kKeep.size());
    mode = text.substr(0, plus);
  }
  if (mode == "auto") mode = "auto:certified";
  if (mode.starts_with(kAuto)) {
    head.automatic = true;
    mode = mode.substr(kAuto.size());
    if (mode == "full") refuse(text, "leaves nothing to choose from");
  }
  if (mode == "certified") {
    head.mode = VocabHead::Mode::certified;
  } else if (mode == "sure" || mode.starts_with(kSure)) {
    head.mode = VocabHead::Mode::sure;
    if (mode != "sure") head.probability = parse_number(text, mode.substr(kSure.size()), "the probability", 0.5);
  } else if (mode == "fast" || mode.starts_with(kFast)) {
    head.mode = VocabHead::Mode::fast;
    if (mode != "fast") head.deviations = parse_number(text, mode.substr(kFast.size()), "the deviations", 40);
  } else if (mode != "full") {
    refuse(text, "is no head");
  }
  if (keeps) {
    KeepList kept = make_keep_list(list, tokenizer);
    head.keep = std::move(kept.ids);
    head.keep_prompt = kept.add_prompt;
  }
  return head;
}

}  // namespace weft
