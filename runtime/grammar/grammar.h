// Context-free grammars over bytes, which generated text has to match.
//
// A grammar is a recursive transition network (Woods, "Transition network grammars for natural language analysis", CACM
// 1970): one small automaton a rule, whose transitions either read a byte or call a rule and continue after it.
// Characters are UTF-8 sequences in it, so every text of a grammar is valid UTF-8.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// Constant after construction: any number of threads may use one.
//
// The three makers throw an Error that names the place for everything that could make a generation fail later: a
// missing rule, a rule that can never end, left recursion, too much memory. From every state the end of the text can be
// reached.
class Grammar {
 public:
  // GBNF, as llama.cpp describes it (https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md), at most 1
  // MiB of it, and "%json SCHEMA" for the values of a JSON schema, which is an object. The text has to match the rule
  // `root`. place: the file's name; errors add ":LINE:COLUMN". Throws Error(bad_file), and Error(unsupported) for the
  // tokens ("<think>") of newer descriptions.
  static Grammar from_gbnf(std::string_view text, const std::string& place);

  // A JSON Schema (draft 2020-12); json_schema.cpp says what is supported and how JSON is then written. place:
  // the file's name; errors add ":LINE". Throws Error(bad_file), and Error(unsupported) naming a keyword.
  static Grammar from_json_schema(std::string_view text, const std::string& place);

  // A regular expression that the whole text has to match; see grammar/regex_grammar.h for its syntax. place: for
  // errors.
  static Grammar from_regex(std::string_view pattern, const std::string& place);

  struct Edge {
    uint8_t low = 0, high = 0;  // the bytes it reads, both included
    uint32_t target = 0;
  };
  struct Call {
    uint32_t start = 0;  // the called rule's first state
    uint32_t next = 0;   // the state after the call
  };

  // The first state of the root rule.
  uint32_t start() const { return start_; }
  // Ascending by low; several may read the same byte.
  std::span<const Edge> edges(uint32_t state) const {
    return std::span(edges_).subspan(states_[state].edges, states_[state + 1].edges - states_[state].edges);
  }
  std::span<const Call> calls(uint32_t state) const {
    return std::span(calls_).subspan(states_[state].calls, states_[state + 1].calls - states_[state].calls);
  }
  // The state's rule may end here.
  bool is_final(uint32_t state) const { return states_[state].final; }
  // The state's rule ends here: nothing leaves the state.
  bool is_end(uint32_t state) const { return is_final(state) && edges(state).empty() && calls(state).empty(); }
  // Name of a state's rule as the grammar's author knows it, for errors.
  const std::string& rule_name(uint32_t state) const { return names_[states_[state].rule]; }

  // Bytes that all edges treat alike are one class.
  uint32_t byte_class_count() const { return class_count_; }
  uint32_t byte_class(uint8_t byte) const { return classes_[byte]; }

  // As given to the maker.
  const std::string& place() const { return place_; }

 private:
  friend class GrammarBuilder;
  Grammar() = default;

  struct State {
    uint32_t edges = 0, calls = 0;  // where its own begin; they end where the next state's begin
    uint32_t rule = 0;
    bool final = false;
  };
  std::vector<State> states_;  // one more than there are
  std::vector<Edge> edges_;
  std::vector<Call> calls_;
  std::vector<std::string> names_;  // by rule
  std::array<uint8_t, 256> classes_{};
  uint32_t class_count_ = 0, start_ = 0;
  std::string place_;
};

}  // namespace weft
