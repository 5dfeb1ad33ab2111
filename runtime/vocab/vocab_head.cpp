#include "vocab/vocab_head.h"

#include <charconv>

#include "base/error.h"
#include "vocab/keep.h"

namespace weft {
namespace {

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw Error(Code::invalid_argument, "\"" + std::string(text) + "\" " + why, "head",
              "full, certified, fast, fast:N, keep:LIST, or one of the first followed by +keep:LIST");
}

}  // namespace

VocabHead parse_vocab_head(std::string_view text, const Tokenizer& tokenizer) {
  constexpr std::string_view kKeep = "keep:", kFast = "fast:";
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
  if (mode == "certified") {
    head.mode = VocabHead::Mode::certified;
  } else if (mode == "fast" || mode.starts_with(kFast)) {
    head.mode = VocabHead::Mode::fast;
    if (mode != "fast") {
      const std::string_view digits = mode.substr(kFast.size());
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), head.fast_rows);
      if (error != std::errc() || end != digits.data() + digits.size() || head.fast_rows < 1 ||
          head.fast_rows > VocabHead::kMostFastRows)
        refuse(text, "asks for \"" + std::string(digits) + "\" rows, expected 1 to " +
                         std::to_string(VocabHead::kMostFastRows));
    }
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

double RowsRead::bytes(const Matrix& table) const {
  const PlaneBytes row = plane_bytes(table.format, table.cols);
  const double all = static_cast<double>(positions);
  double sum = static_cast<double>(exact) * row.whole;
  if (mode < HEAD_ALL) sum += all * row.estimates[mode];
  if (mode == HEAD_SWEEP) sum += static_cast<double>(refined) * row.refine_half;
  return sum + static_cast<double>(rest) * row.refine_rest;
}

}  // namespace weft
