#include "chat/reader.h"

#include <algorithm>

namespace weft {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";
constexpr std::string_view kStart = "<|start|>", kChannel = "<|channel|>", kMessage = "<|message|>", kEnd = "<|end|>";
constexpr std::string_view kChannelEnds[] = {"<|end|>", "<|return|>", "<|call|>"};
constexpr std::string_view kRecipient = "to=functions.";

bool is_space(char c) { return kSpaces.find(c) != std::string_view::npos; }

// Place of `mark` in the text. Unless this is the last of the text, also a place where the mark may have begun; else
// npos.
size_t find_mark(std::string_view text, std::string_view mark, bool last) {
  const size_t found = text.find(mark);
  if (found != text.npos || last) return found;
  for (size_t tail = std::min(text.size(), mark.size() - 1); tail > 0; --tail)
    if (mark.starts_with(text.substr(text.size() - tail))) return text.size() - tail;
  return text.npos;
}

// Only spaces are between the line's begin and this place.
bool begins_line(std::string_view text, size_t at, bool line_begin) {
  while (at > 0 && (text[at - 1] == ' ' || text[at - 1] == '\t')) --at;
  return at == 0 ? line_begin : text[at - 1] == '\n';
}

// As find_mark(), for a `mark` that begins a line.
size_t find_line_mark(std::string_view text, std::string_view mark, bool line_begin, bool last) {
  for (size_t from = 0;;) {
    const size_t found = find_mark(text.substr(from), mark, last);
    if (found == text.npos || begins_line(text, from + found, line_begin))
      return found == text.npos ? found : from + found;
    from += found + 1;
  }
}

// Marks that stand in the text alone; not the headers of channels, which are read as such.
const ReasoningMarks* marks_of_text(std::string_view chat_template) {
  const ReasoningMarks* const marks = reasoning_marks(chat_template);
  return marks && marks->answer.empty() ? marks : nullptr;
}

}  // namespace

struct Reader::Mark {
  enum class Kind { section, reasoning, channel, wrapper };
  Kind kind = Kind::section;
  size_t at = 0;
  std::string_view text;
  const CallSection* section = nullptr;
};

Reader::Reader(ReaderOptions options)
    : options_(std::move(options)),
      reasoning_(marks_of_text(options_.chat_template)),
      channels_(has_channels(options_.chat_template)),
      held_(options_.begun) {}

std::vector<Reader::Event> Reader::push(std::string_view text) {
  held_ += text;
  return held_.size() < next_try_ ? std::vector<Event>() : read(false);
}

std::vector<Reader::Event> Reader::finish() { return read(true); }

std::vector<Reader::Event> Reader::read(bool last) {
  next_try_ = 0;
  while (!held_.empty() && step(last)) {
  }
  return std::exchange(events_, {});
}

bool Reader::step(bool last) {
  switch (mode_) {
    case Mode::reasoning:
      return read_reasoning(last);
    case Mode::section:
      return read_section(last);
    default:
      return section_ ? try_section(*section_, last) : read_answer(last);
  }
}

void Reader::drop(size_t length) {
  held_.erase(0, length);
  offset_ += length;
}

// Told text must have been dropped from `held_` before.
void Reader::emit(Kind kind, std::string text, std::string name) {
  const size_t begun = options_.begun.size();
  events_.push_back({kind, std::move(text), std::move(name), offset_ > begun ? offset_ - begun : 0});
}

void Reader::tell_text(size_t length) {
  std::string text = held_.substr(0, length);
  // The model has not written what the prompt ends with.
  if (offset_ < options_.begun.size()) text.erase(0, options_.begun.size() - offset_);
  if (const size_t line = text.find_last_of('\n'); line != text.npos) {
    line_begin_ = text.find_first_not_of(" \t", line + 1) == text.npos;
  } else if (text.find_first_not_of(" \t") != text.npos) {
    line_begin_ = false;
  }
  if (drops_spaces_) text.erase(0, text.find_first_not_of(kSpaces));
  drop(length);
  if (text.empty()) return;
  if (drops_spaces_ && said_) text.insert(0, "\n");  // of texts with a call between them
  drops_spaces_ = false;
  said_ = true;
  emit(Kind::text, std::move(text));
}

bool Reader::allows(const CallSection& section) const {
  return section.sign.empty() || options_.chat_template.find(section.sign) != std::string::npos;
}

// The first mark in `held_`, or the place where one may have begun; of several the longest.
std::optional<Reader::Mark> Reader::next_mark(bool last) const {
  std::optional<Mark> best;
  const auto consider = [&](Mark::Kind kind, size_t at, std::string_view text, const CallSection* section = nullptr) {
    if (at == std::string::npos) return;
    if (!best || at < best->at || (at == best->at && text.size() > best->text.size())) best = {kind, at, text, section};
  };
  if (reasoning_ && !said_) {
    const size_t at = find_mark(held_, reasoning_->open, last);
    if (held_.find_first_not_of(kSpaces) >= std::min(at, held_.size()))
      consider(Mark::Kind::reasoning, at, reasoning_->open);
  }
  if (channels_) {
    for (const std::string_view mark : {kStart, kChannel})
      consider(Mark::Kind::channel, find_mark(held_, mark, last), mark);
    for (const std::string_view mark : kChannelEnds) consider(Mark::Kind::wrapper, find_mark(held_, mark, last), mark);
  }
  for (const Wrapper& wrapper : wrappers())
    if (options_.chat_template.find(wrapper.sign) != std::string::npos)
      consider(Mark::Kind::wrapper, find_mark(held_, wrapper.text, last), wrapper.text);
  if (options_.tools.empty()) return best;
  for (const CallSection& section : call_sections()) {
    if (!allows(section)) continue;
    const size_t at = section.begins_line ? find_line_mark(held_, section.open, line_begin_, last)
                                          : find_mark(held_, section.open, last);
    consider(Mark::Kind::section, at, section.open, &section);
  }
  return best;
}

bool Reader::read_answer(bool last) {
  const std::optional<Mark> mark = next_mark(last);
  // Spaces before a mark are none of the text; at the end of what there is they wait.
  const bool waits = !last && (!options_.tools.empty() || reasoning_ || channels_);
  if (size_t length = mark ? mark->at : held_.size(); length > 0) {
    const size_t whole = length;
    while ((mark || waits) && length > 0 && is_space(held_[length - 1])) --length;
    if (length > 0) return tell_text(length), true;
    if (!mark) return last ? (tell_text(whole), false) : false;
  }
  const bool complete = std::string_view(held_).substr(mark->at).starts_with(mark->text);
  if (!complete) return last ? (tell_text(held_.size()), false) : false;
  switch (mark->kind) {
    case Mark::Kind::section:
      section_ = mark->section;
      // A mark that begins a line stays there.
      return try_section(*section_, last);
    case Mark::Kind::channel:
      return drop(mark->at), read_channel(last);
    case Mark::Kind::reasoning:
      mode_ = Mode::reasoning;
      reasoning_end_ = reasoning_->close;
      drops_spaces_ = true;
      [[fallthrough]];
    default:
      drop(mark->at + mark->text.size());
      return drops_spaces_ = true;
  }
}

bool Reader::read_reasoning(bool last) {
  const size_t end = find_mark(held_, reasoning_end_, last);
  size_t length = std::min(end, held_.size());
  const size_t whole = length;
  while (length > 0 && is_space(held_[length - 1])) --length;
  std::string text = held_.substr(0, length);
  if (offset_ < options_.begun.size()) text.erase(0, options_.begun.size() - offset_);
  if (drops_spaces_) text.erase(0, text.find_first_not_of(kSpaces));
  if (length > 0) {
    drop(length);
    if (!text.empty()) {
      drops_spaces_ = false;
      emit(Kind::reasoning, std::move(text));
    }
    return true;
  }
  if (end == std::string::npos || !std::string_view(held_).substr(end).starts_with(reasoning_end_)) {
    if (last) drop(held_.size());
    return false;
  }
  drop(whole + reasoning_end_.size());
  mode_ = Mode::answer;
  return drops_spaces_ = line_begin_ = true;
}

// "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{...}<|call|>"
bool Reader::read_channel(bool last) {
  const size_t end = held_.find(kMessage);
  if (end == std::string::npos) {
    if (last) drop(held_.size());
    return false;
  }
  const std::string_view header = std::string_view(held_).substr(0, end);
  if (const size_t to = header.find(kRecipient); to != header.npos) {
    const std::string_view rest = header.substr(to + kRecipient.size());
    const std::string name(rest.substr(0, rest.find_first_of(" <\n")));
    const size_t begin = end + kMessage.size();
    const Extent arguments = json_extent(held_, begin);
    const bool known = std::ranges::any_of(options_.tools, [&](const Tool& tool) { return tool.name == name; });
    if (known && arguments.progress == Progress::more && !last) return false;
    if (known && arguments.progress == Progress::done) {
      ReadCall read = {Progress::done, arguments.end, {name, {}}, begin};
      const size_t first = skip_space(held_, begin);
      read.call.arguments = held_.substr(first, arguments.end - first);
      tell_call(read);
      drops_spaces_ = true;
      return true;
    }
  }
  if (header.find("analysis") != header.npos) {
    mode_ = Mode::reasoning;
    reasoning_end_ = kEnd;
  }
  drop(end + kMessage.size());
  return drops_spaces_ = true;
}

// The end of what there is where a mark may have begun.
size_t Reader::skip_between(const CallSection& section, size_t at, std::string_view others, bool last) const {
  const std::string_view text = held_;
  for (;;) {
    while (at < text.size() && (is_space(text[at]) || others.find(text[at]) != others.npos)) ++at;
    const size_t before = at;
    for (std::string_view marks = section.between; !marks.empty();) {
      const size_t space = std::min(marks.find(' '), marks.size());
      const std::string_view mark = marks.substr(0, space), rest = text.substr(at);
      if (rest.starts_with(mark)) {
        at += mark.size();
      } else if (!last && mark.starts_with(rest)) {
        return text.size();
      }
      marks.remove_prefix(std::min(space + 1, marks.size()));
    }
    if (at == before) return at;
  }
}

// The mark at the begin of `held_` begins calls, or is text.
bool Reader::try_section(const CallSection& section, bool last) {
  size_t at = 0;
  while (at < held_.size() && is_space(held_[at])) ++at;
  const size_t mark = at;
  if (!section.includes_open) at += section.open.size();
  if (section.open == "```") {
    const size_t word = at;
    while (at < held_.size() && ((held_[at] >= 'a' && held_[at] <= 'z') || held_[at] == '_')) ++at;
    if (at < held_.size() && at > word && !is_space(held_[at])) at = word;
  }
  if (section.open != "{") at = skip_between(section, at, "[", last);
  const Progress call = try_call(section, at, last);
  if (call == Progress::done && section_) mode_ = Mode::section;
  if (call == Progress::wrong) {
    section_ = nullptr;
    tell_text(mark + section.open.size());
  }
  return call != Progress::more;
}

// Reads the call at this place of `held_`. done: the call was passed on, or, with `section_` reset, the part of it that
// was there.
Progress Reader::try_call(const CallSection& section, size_t begin, bool last) {
  ReadCall read = {Progress::more, begin, {}};
  if (begin < held_.size()) read = read_call(held_, begin, options_.tools, section.forms);
  if (read.progress == Progress::done) {
    tell_call(read);
  } else if (read.progress == Progress::more && !last) {
    next_try_ = held_.size() + held_.size() / 64;
    tell_early(read);
    return Progress::more;
  } else if (call_open_) {
    drop(std::min(held_.size(), read.arguments + told_));
    told_ = 0;
    call_open_ = false;
    mode_ = Mode::answer;
    section_ = nullptr;
  } else {
    return Progress::wrong;
  }
  return Progress::done;
}

void Reader::tell_early(const ReadCall& read) {
  const std::string& arguments = read.call.arguments;
  if (read.call.name.empty() || arguments.size() <= told_ || arguments.size() < options_.told_early) return;
  if (!options_.several_calls && calls_ > (call_open_ ? 1 : 0)) return;
  const size_t end = offset_ + held_.size(), begun = std::min(options_.begun.size(), end);
  if (call_open_) {
    events_.push_back({Kind::arguments, arguments.substr(told_), {}, end - begun});
  } else {
    events_.push_back({Kind::call, arguments, read.call.name, end - begun});
    ++calls_;
  }
  call_open_ = true;
  told_ = arguments.size();
}

void Reader::tell_call(const ReadCall& read) {
  drop(read.end);
  line_begin_ = false;
  const bool counts = call_open_ || options_.several_calls || calls_ == 0;
  if (call_open_) {
    emit(Kind::arguments, read.call.arguments.substr(told_));
  } else if (counts) {
    emit(Kind::call, read.call.arguments, read.call.name);
    ++calls_;
  }
  told_ = 0;
  call_open_ = false;
}

// After a call.
bool Reader::read_section(bool last) {
  const CallSection& section = *section_;
  const auto leave = [&](size_t length) {
    drop(length);
    mode_ = Mode::answer;
    section_ = nullptr;
    return drops_spaces_ = line_begin_ = true;
  };
  const std::string_view close = section.close;
  const size_t begin = skip_space(held_, 0);
  for (size_t at = begin;;) {
    if (at == held_.size()) return last && leave(at);
    const std::string_view rest = std::string_view(held_).substr(at);
    if (!close.empty() && rest.starts_with(close)) return leave(at + close.size());
    if (!close.empty() && close.starts_with(rest)) return last && leave(held_.size());
    if (const size_t next = skip_between(section, at, ",;]", last); next != at) {
      at = next;
      continue;
    }
    const Progress call = try_call(section, at, last);
    return call == Progress::wrong ? leave(section.open == "{" ? begin : at) : call == Progress::done;
  }
}

}  // namespace weft
