#include "reference/context_free.h"

#include <algorithm>
#include <optional>

namespace weft::reference {
namespace {

std::string utf8(char32_t c) {
  const auto byte = [](char32_t b) { return static_cast<char>(static_cast<unsigned char>(b)); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xC0 | c >> 6), byte(0x80 | (c & 63))};
  if (c < 0x10000) return {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63))};
  return {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 63)), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63))};
}

// Every character, in UTF-8: what an inverse set is checked against, one by one.
const std::set<std::string>& all_characters() {
  static const std::set<std::string> all = [] {
    std::set<std::string> made;
    for (char32_t c = 0; c <= 0x10FFFF; ++c) {
      if (c < 0xD800 || c > 0xDFFF) made.insert(made.end(), utf8(c));
    }
    return made;
  }();
  return all;
}

std::string name(size_t rule) { return rule == 0 ? "root" : "r" + std::to_string(rule); }

std::string print(const Expr& expr);

std::string print_all(const std::vector<Expr>& parts, const std::string& between) {
  std::string out = "(";
  for (size_t i = 0; i < parts.size(); ++i) out += (i == 0 ? "" : between) + print(parts[i]);
  return out + ")";
}

std::string print(const Expr& expr) {
  std::string out;
  switch (expr.kind) {
    case Expr::Kind::literal:
      return "\"" + expr.text + "\"";
    case Expr::Kind::set:
      out = expr.inverse ? "[^" : "[";
      for (const char32_t c : expr.members) out += utf8(c);
      return out + "]";
    case Expr::Kind::sequence:
      return print_all(expr.parts, " ");
    case Expr::Kind::choice:
      return print_all(expr.parts, " | ");
    case Expr::Kind::repeat:
      out = "(" + print(expr.parts[0]) + "){" + std::to_string(expr.least) + ",";
      return out + (expr.most == Expr::kUnbounded ? "" : std::to_string(expr.most)) + "}";
    case Expr::Kind::call:
      return name(expr.rule);
  }
  return out;
}

using Ends = std::set<size_t>;

// Finds by trial where a match of an expression may end.
class Recogniser {
 public:
  Recogniser(const ContextFree& grammar, std::string_view text) : grammar_(grammar), text_(text) {}

  Ends rule(size_t number, size_t at) {
    const auto known = memo_.find({number, at});
    if (known != memo_.end()) return known->second;
    if (!open_.insert({number, at}).second) {
      re_entered = true;
      return {};
    }
    Ends ends = match(grammar_.rules[number], at);
    open_.erase({number, at});
    return memo_[{number, at}] = ends;
  }

  bool ran_out = false;     // some way of matching had to stop for want of text
  bool re_entered = false;  // some rule called itself before anything was read

 private:
  Ends match(const Expr& expr, size_t at) {
    switch (expr.kind) {
      case Expr::Kind::literal:
        return characters({expr.text}, at);
      case Expr::Kind::set:
        return set(expr, at);
      case Expr::Kind::sequence: {
        Ends ends = {at};
        for (const Expr& part : expr.parts) ends = from_each(part, ends);
        return ends;
      }
      case Expr::Kind::choice: {
        Ends ends;
        for (const Expr& part : expr.parts) ends.merge(match(part, at));
        return ends;
      }
      case Expr::Kind::repeat:
        return repeat(expr, at);
      case Expr::Kind::call:
        return rule(expr.rule, at);
    }
    return {};
  }

  Ends from_each(const Expr& expr, const Ends& starts) {
    Ends ends;
    for (const size_t start : starts) ends.merge(match(expr, start));
    return ends;
  }

  Ends repeat(const Expr& expr, size_t at) {
    Ends reached = {at}, ends;
    for (unsigned i = 0; i < expr.least; ++i) reached = from_each(expr.parts[0], reached);
    // From here on a copy that reads nothing leads nowhere new.
    for (unsigned i = expr.least; !reached.empty(); ++i) {
      Ends fresh;
      for (const size_t end : reached) {
        if (ends.insert(end).second) fresh.insert(end);
      }
      if (expr.most != Expr::kUnbounded && i >= expr.most) break;
      reached = from_each(expr.parts[0], fresh);
    }
    return ends;
  }

  Ends characters(const std::vector<std::string>& alternatives, size_t at) {
    Ends ends;
    const std::string_view rest = text_.substr(at);
    for (const std::string& one : alternatives) {
      if (rest.starts_with(one)) {
        ends.insert(at + one.size());
      } else if (one.starts_with(rest)) {
        ran_out = true;
      }
    }
    return ends;
  }

  Ends set(const Expr& expr, size_t at) {
    std::vector<std::string> members;
    for (const char32_t c : expr.members) members.push_back(utf8(c));
    if (!expr.inverse) return characters(members, at);
    // Only characters that begin as the text goes on matter; in the sorted set they are one run, or a prefix of it.
    Ends ends;
    const std::string rest(text_.substr(at));
    const auto is_member = [&](const std::string& c) {
      return std::find(members.begin(), members.end(), c) != members.end();
    };
    for (size_t size = 1; size <= std::min<size_t>(4, rest.size()); ++size) {
      if (all_characters().contains(rest.substr(0, size)) && !is_member(rest.substr(0, size))) ends.insert(at + size);
    }
    for (auto it = all_characters().lower_bound(rest); it != all_characters().end() && it->starts_with(rest); ++it) {
      if (*it == rest || is_member(*it)) continue;
      ran_out = true;
      break;
    }
    return ends;
  }

  const ContextFree& grammar_;
  std::string_view text_;
  std::map<std::pair<size_t, size_t>, Ends> memo_;
  std::set<std::pair<size_t, size_t>> open_;
};

// True if an expression matches any text when only these rules do.
bool ends(const Expr& expr, const std::vector<bool>& rules) {
  const auto each = [&](const Expr& part) { return ends(part, rules); };
  switch (expr.kind) {
    case Expr::Kind::literal:
    case Expr::Kind::set:
      return true;
    case Expr::Kind::sequence:
      return std::all_of(expr.parts.begin(), expr.parts.end(), each);
    case Expr::Kind::choice:
      return std::any_of(expr.parts.begin(), expr.parts.end(), each);
    case Expr::Kind::repeat:
      return expr.least == 0 || each(expr.parts[0]);
    case Expr::Kind::call:
      return rules[expr.rule];
  }
  return false;
}

}  // namespace

std::string ContextFree::gbnf() const {
  std::string out;
  for (size_t rule = 0; rule < rules.size(); ++rule) out += name(rule) + " ::= " + print(rules[rule]) + "\n";
  return out;
}

bool ContextFree::is_left_recursive() const {
  Recogniser recogniser(*this, "");
  for (size_t rule = 0; rule < rules.size(); ++rule) recogniser.rule(rule, 0);
  return recogniser.re_entered;
}

bool ContextFree::has_endless_rule() const {
  std::vector<bool> known(rules.size(), false);
  for (size_t round = 0; round < rules.size(); ++round) {
    for (size_t rule = 0; rule < rules.size(); ++rule) known[rule] = ends(rules[rule], known);
  }
  return std::find(known.begin(), known.end(), false) != known.end();
}

Verdict judge(const ContextFree& grammar, std::string_view text) {
  Recogniser recogniser(grammar, text);
  const bool matches = recogniser.rule(0, 0).contains(text.size());
  return {matches, matches || recogniser.ran_out};
}

}  // namespace weft::reference
