// The C API's reasoning.
#include "weft/reasoning.h"

#include <algorithm>
#include <utility>

#include "capi/handles.h"

using namespace weft;
using namespace weft::capi;

namespace {

bool is_mark(std::string_view name) {
  static const std::vector<std::string> all = marks();
  return std::ranges::find(all, name) != all.end();
}

}  // namespace

std::string Reasoning::begin(std::span<const uint32_t> context, bool grammar) {
  if (reader_) return {};
  constexpr size_t kTail = 64;  // tokens: a mark may be as many characters
  std::string end;
  for (const uint32_t id : context.last(std::min(context.size(), kTail)))
    if (!is_soft(id)) end += tokenizer_.is_control(id) ? tokenizer_.spelling(id) : tokenizer_.bytes(id);
  ReaderOptions options;
  options.chat_template = tokenizer_.chat_template();
  options.begun = begun_part(end, options.chat_template);
  const std::optional<bool> resumed = std::exchange(resumed_, std::nullopt);
  if (resumed) options.begun = *resumed && marks_ ? std::string(marks_->open) : "";
  std::string more;
  const bool headed = marks_ && !marks_->answer.empty();
  if (headed && grammar && !options.begun.empty() && options.begun != marks_->open)
    options.begun += more = marks_->open;
  begun_ = marks_ && options.begun.ends_with(marks_->open);
  reader_.emplace(std::move(options));
  reader_->push({});
  tokens_ = 0;
  return more;
}

Reasoning::Told Reasoning::push(uint32_t id, const std::string& text) {
  ++tokens_;
  const bool mark = tokenizer_.is_control(id) && is_mark(tokenizer_.spelling(id));
  return tell(reader_->push(mark ? text + tokenizer_.spelling(id) : text));
}

Reasoning::Told Reasoning::tell(const std::vector<Reader::Event>& events) const {
  Told told;
  for (const Reader::Event& event : events) {
    if (event.kind == Reader::Kind::reasoning)
      told.go_on = (!callback_ || callback_(user_, event.text.data(), event.text.size()) == 0) && told.go_on;
    else
      told.answer += event.text;
  }
  return told;
}

std::string Reasoning::close(const std::string& rest) {
  const std::string text = closing(*marks_);
  tell(reader_->push(rest + text));
  return text;
}

std::string Reasoning::begin_answer() {
  std::string text(marks_->answer);
  tell(reader_->push(text));
  return text;
}

// Takes the grammar away while the model reasons, and gives it back.
static void set_grammar_aside(weft_session& session, bool aside) {
  if (aside)
    session.session.set_matcher(nullptr);
  else if (session.grammar && !session.session.has_grammar())
    session.session.set_matcher(make_matcher(*session.model, session.grammar));
}

void weft_session::begin_answer() {
  ++answers;
  decoder.finish();
  if (!reasoning) return;
  reasoning->reset();
  set_grammar_aside(*this, false);
}

void capi::refuse_reasoning(const weft_session& session) {
  if (session.reasoning)
    throw Error(Code::unsupported, "the session separates reasoning, which a batch does not", "session",
                "set a request without separate_reasoning");
}

Stop capi::generate_reasoned(weft_session& session, const weft_generate_options& options,
                             const std::function<bool(uint32_t)>& tell_one) {
  Reasoning& reasoning = *session.reasoning;
  // False: there is no room.
  const auto append = [&](const std::string& text) {
    if (text.empty()) return true;
    const std::vector<uint32_t> ids = session.model->tokenizer.encode(text, Special::parse);
    if (session.session.ids().size() + ids.size() >= session.session.context()) return false;
    session.session.append(ids);
    return true;
  };
  if (!append(reasoning.begin(session.session.ids(), session.grammar != nullptr))) return Stop::context;
  for (uint32_t told = 0;;) {
    const bool aside = reasoning.begun() && reasoning.reasons();
    set_grammar_aside(session, aside);
    bool wanted = true, pauses = false;
    const Stop reason = generate(session, options, told, [&](uint32_t id) {
      ++told;
      wanted = tell_one(id) && !session.session.cancelled();
      pauses = wanted && (reasoning.exhausted() || (aside && session.grammar && !reasoning.reasons()));
      return wanted && !pauses;
    });
    // A model that ends its answer within the reasoning has not given what the grammar wants.
    const bool early = reason == Stop::token && wanted && aside && session.grammar && reasoning.reasons();
    if (!early && (reason != Stop::caller || !pauses)) return reason;
    if (early) session.session.drop_last();  // the stop token: the text goes on
    if (!append(reasoning.reasons() ? reasoning.close(session.decoder.finish()) : reasoning.begin_answer()))
      return Stop::context;
    if (options.max_tokens > 0 && told >= options.max_tokens) return Stop::length;
  }
}
