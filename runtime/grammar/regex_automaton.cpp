// Rabin and Scott's construction over Thompson's automaton. An assertion is a transition that reads nothing and that
// only some neighbours of the place allow. A lookahead starts an automaton of its own, which runs beside the pattern's
// from there on and must accept the rest of the text.
#include "grammar/regex_automaton.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/wanted.h"

namespace weft {
namespace {

using Kind = RegexTree::Kind;

constexpr size_t kMaxStates = size_t{1} << 13, kMaxNodes = size_t{1} << 16, kMaxWork = size_t{1} << 22;
constexpr uint32_t kNone = UINT32_MAX;

const CodePointSet& word_characters() {
  static const CodePointSet set{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return set;
}

// A node reads a character, or leads on for free if its assertion holds.
struct Node {
  CodePointSet read;  // empty: nothing is read
  uint32_t to = kNone;
  std::vector<uint32_t> free;
  Kind assertion = Kind::sequence;  // of the free transitions; sequence: none
  uint32_t ahead = 0;               // its lookahead
};

class Construction {
 public:
  explicit Construction(const std::string& place) : place_(place) {}

  TextAutomaton run(const RegexTree& tree, bool from_start, bool to_end) {
    const uint32_t first = node(), last = node();
    nodes_[last].read = to_end ? CodePointSet() : CodePointSet::all();
    nodes_[last].to = last;
    uint32_t begin = add(tree, last);
    if (!from_start) {
      nodes_[first].read = CodePointSet::all();
      nodes_[first].to = first;
      const uint32_t either = node();
      nodes_[either].free = {first, begin};
      // The loop leads back to the choice, so that the pattern may begin after each character.
      nodes_[first].to = either;
      begin = either;
    }
    last_ = last;
    return determinise(begin);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { throw Error(Code::unsupported, what, place_); }

  uint32_t node() {
    check_wanted();
    nodes_.emplace_back();
    if (nodes_.size() > kMaxNodes)
      refuse("a pattern's repetitions need more than " + std::to_string(kMaxNodes) + " states");
    return static_cast<uint32_t>(nodes_.size() - 1);
  }

  // A node from which a text of the tree leads to `next`.
  uint32_t add(const RegexTree& tree, uint32_t next) {
    switch (tree.kind) {
      case Kind::characters: {
        const uint32_t made = node();
        nodes_[made].read = tree.set;
        nodes_[made].to = next;
        return made;
      }
      case Kind::sequence:
        for (size_t i = tree.parts.size(); i-- > 0;) next = add(tree.parts[i], next);
        return next;
      case Kind::choice: {
        const uint32_t made = node();
        for (const RegexTree& part : tree.parts) {
          const uint32_t option = add(part, next);
          nodes_[made].free.push_back(option);
        }
        return made;
      }
      case Kind::repeat:
        return add_repeat(tree, next);
      default:
        return add_assertion(tree, next);
    }
  }

  uint32_t add_repeat(const RegexTree& tree, uint32_t next) {
    uint32_t at = next;
    if (tree.most == UINT32_MAX) {
      const uint32_t loop = node();
      const uint32_t body = add(tree.parts[0], loop);
      nodes_[loop].free = {body, next};
      at = loop;
    } else {
      for (uint32_t i = tree.least; i < tree.most; ++i) {
        const uint32_t body = add(tree.parts[0], at);
        if (body == at) break;  // it matches the empty text alone, however often
        const uint32_t either = node();
        nodes_[either].free = {body, next};
        at = either;
      }
    }
    for (uint32_t i = 0; i < tree.least; ++i) {
      const uint32_t body = add(tree.parts[0], at);
      if (body == at) break;
      at = body;
    }
    return at;
  }

  uint32_t add_assertion(const RegexTree& tree, uint32_t next) {
    const uint32_t made = node();
    nodes_[made].free = {next};
    nodes_[made].assertion = tree.kind;
    if (!tree.is(Kind::followed) && !tree.is(Kind::not_followed)) return made;
    if (looks_back(tree.parts[0])) refuse("'^' and word boundaries within a lookahead are not supported");
    nodes_[made].ahead = static_cast<uint32_t>(aheads_.size());
    aheads_.emplace_back();
    TextAutomaton ahead = Construction(place_).run(tree.parts[0], true, false);
    aheads_[nodes_[made].ahead] = tree.is(Kind::followed) ? std::move(ahead) : complement(ahead);
    return made;
  }

  static bool looks_back(const RegexTree& tree) {
    if (tree.is(Kind::begin) || tree.is(Kind::boundary) || tree.is(Kind::no_boundary)) return true;
    return std::any_of(tree.parts.begin(), tree.parts.end(), looks_back);
  }

  // A place in the pattern, and the places in the lookaheads that have begun.
  struct Place {
    uint32_t node = 0;
    std::set<std::pair<uint32_t, uint32_t>> aheads;  // which, and its state
    auto operator<=>(const Place&) const = default;
  };
  using PlaceId = uint32_t;                         // an index of places_: states have many places, often the same
  enum class Side : uint8_t { edge, word, other };  // of a place in the text: its end, or a character
  struct State {
    std::vector<PlaceId> places;  // before assertions; ascending
    Side before = Side::edge;
    auto operator<=>(const State&) const = default;
  };

  PlaceId id(Place place) {
    const auto [slot, is_new] = place_ids_.try_emplace(std::move(place), static_cast<PlaceId>(places_.size()));
    if (is_new) places_.push_back(&slot->first);
    return slot->second;
  }

  bool holds(Kind assertion, Side before, Side after) const {
    const bool boundary = (before == Side::word) != (after == Side::word);
    switch (assertion) {
      case Kind::begin:
        return before == Side::edge;
      case Kind::end:
        return after == Side::edge;
      case Kind::boundary:
        return boundary;
      case Kind::no_boundary:
        return !boundary;
      default:
        return true;
    }
  }

  // All places that these reach without reading, between two neighbours.
  std::vector<PlaceId> reached(const State& state, Side after) {
    std::vector<PlaceId> found, waiting = state.places;
    ++round_;
    while (!waiting.empty()) {
      const PlaceId at = waiting.back();
      waiting.pop_back();
      work();
      if (seen_.size() < places_.size()) seen_.resize(places_.size());
      if (std::exchange(seen_[at], round_) == round_) continue;
      found.push_back(at);
      Place place = *places_[at];
      const Node& node = nodes_[place.node];
      if (node.free.empty() || !holds(node.assertion, state.before, after)) continue;
      if (node.assertion == Kind::followed || node.assertion == Kind::not_followed) {
        if (aheads_[node.ahead].empty()) continue;
        if (!accepts_all(node.ahead, 0)) place.aheads.insert({node.ahead, 0});
      }
      for (const uint32_t next : node.free) waiting.push_back(id({next, place.aheads}));
    }
    return found;
  }

  bool accepts_all(uint32_t ahead, uint32_t state) const {
    const auto& at = aheads_[ahead].states[state];
    return at.final && at.edges.size() == 1 && at.edges[0].target == state && at.edges[0].on.inverse().empty();
  }

  bool may_end(const State& state) {
    for (const PlaceId reached_place : reached(state, Side::edge)) {
      const Place& place = *places_[reached_place];
      const auto accepts = [&](const auto& ahead) { return aheads_[ahead.first].states[ahead.second].final; };
      if (place.node == last_ && std::all_of(place.aheads.begin(), place.aheads.end(), accepts)) return true;
    }
    return false;
  }

  struct Move {
    CodePointSet on;
    PlaceId to = 0;
  };
  // Moves of a place whose lookaheads each take the character, too.
  void add_moves(const Place& place, const CodePointSet& characters, std::vector<Move>& moves) {
    const Node& node = nodes_[place.node];
    CodePointSet on = node.read.intersected(characters);
    if (on.empty()) return;
    if (place.aheads.empty()) return moves.push_back({std::move(on), id({node.to, {}})});
    std::vector<std::pair<CodePointSet, Place>> made = {{std::move(on), {node.to, {}}}};
    for (const auto& [ahead, state] : place.aheads) {
      std::vector<std::pair<CodePointSet, Place>> both;
      for (const auto& [characters_before, to] : made) {
        for (const auto& edge : aheads_[ahead].states[state].edges) {
          work();
          CodePointSet common = characters_before.intersected(edge.on);
          if (common.empty()) continue;
          both.emplace_back(std::move(common), to);
          if (!accepts_all(ahead, edge.target)) both.back().second.aheads.insert({ahead, edge.target});
        }
      }
      made = std::move(both);
    }
    for (auto& [common, to] : made) moves.push_back({std::move(common), id(std::move(to))});
  }

  TextAutomaton determinise(uint32_t begin) {
    has_boundaries_ = std::any_of(nodes_.begin(), nodes_.end(), [](const Node& node) {
      return node.assertion == Kind::boundary || node.assertion == Kind::no_boundary;
    });
    TextAutomaton made;
    number({{id({begin, {}})}, Side::edge});
    for (size_t i = 0; i < order_.size(); ++i) {
      const State state = *order_[i];
      made.states.push_back({{}, may_end(state)});
      for (const Side side : {Side::word, Side::other}) {
        if (side == Side::word && !has_boundaries_) continue;  // the other side has all characters
        const CodePointSet characters = side == Side::word ? word_characters()
                                        : has_boundaries_  ? word_characters().inverse()
                                                           : CodePointSet::all();
        std::vector<Move> moves;
        for (const PlaceId place : reached(state, side)) add_moves(*places_[place], characters, moves);
        add_edges(moves, side, made.states.back());
      }
    }
    return trimmed(made);
  }

  // Divides the characters by where they lead.
  void add_edges(const std::vector<Move>& moves, Side side, TextAutomaton::State& state) {
    std::map<char32_t, std::pair<std::vector<size_t>, std::vector<size_t>>> bounds;  // moves that begin and end
    for (size_t i = 0; i < moves.size(); ++i) {
      for (const CodePointRange range : moves[i].on.ranges()) {
        bounds[range.low].first.push_back(i);
        bounds[range.high + 1].second.push_back(i);
      }
    }
    std::map<uint32_t, std::vector<CodePointRange>> targets;
    std::set<size_t> open;
    char32_t low = 0;
    for (const auto& [at, changes] : bounds) {
      if (!open.empty()) {
        State next{{}, side};
        for (const size_t move : open) next.places.push_back(moves[move].to);
        std::ranges::sort(next.places);
        next.places.erase(std::unique(next.places.begin(), next.places.end()), next.places.end());
        work(open.size());
        targets[number(std::move(next))].push_back({low, at - 1});
      }
      for (const size_t move : changes.second) open.erase(move);
      for (const size_t move : changes.first) open.insert(move);
      low = at;
    }
    for (auto& [target, ranges] : targets) state.edges.push_back({CodePointSet(std::move(ranges)), target});
  }

  uint32_t number(State state) {
    const auto [slot, is_new] = numbers_.try_emplace(std::move(state), static_cast<uint32_t>(order_.size()));
    if (is_new) {
      order_.push_back(&slot->first);
      if (order_.size() > kMaxStates) refuse("the pattern needs more than " + std::to_string(kMaxStates) + " states");
    }
    return slot->second;
  }

  void work(size_t steps = 1) {
    work_ += steps;
    rounds_.next();
    if (work_ > kMaxWork) refuse("the pattern is too intricate: its parts overlap in too many ways");
  }

  const std::string& place_;
  std::vector<Node> nodes_;
  std::vector<TextAutomaton> aheads_;
  uint32_t last_ = 0;
  bool has_boundaries_ = false;
  std::map<Place, PlaceId> place_ids_;
  std::vector<const Place*> places_;
  std::vector<size_t> seen_;  // for each place, the last round of reached() that found it
  size_t round_ = 0;
  std::map<State, uint32_t> numbers_;
  std::vector<const State*> order_;
  size_t work_ = 0;
  WantedRounds rounds_;
};

}  // namespace

TextAutomaton regex_automaton(const RegexTree& tree, bool search, const std::string& place) {
  return Construction(place).run(tree, !search, !search);
}

}  // namespace weft
