#include "tokenizer/bpe.h"

#include <algorithm>

#include "base/utf8.h"
#include "base/wanted.h"

namespace weft {

namespace {

constexpr uint32_t kEnd = UINT32_MAX;  // no neighbour

uint64_t pair_key(uint32_t left, uint32_t right) { return (uint64_t{left} << 32) | right; }

}  // namespace

void Bpe::index(const std::vector<std::string>& texts) {
  ids_.reserve(texts.size());
  for (size_t id = 0; id < texts.size(); ++id) {
    if (!texts[id].empty()) ids_.emplace(texts[id], static_cast<uint32_t>(id));
  }
}

Bpe::Bpe(const BpeOptions& options, const std::vector<std::string>& texts, const std::array<uint32_t, 256>& byte_ids,
         const std::vector<Merge>& merges)
    : options_(options), byte_ids_(byte_ids) {
  index(texts);
  merges_.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& m = merges[rank];
    merges_.emplace(pair_key(m.left, m.right), Ranked{static_cast<double>(rank), m.result});
  }
}

Bpe::Bpe(const BpeOptions& options, const std::vector<std::string>& texts, const std::array<uint32_t, 256>& byte_ids,
         std::vector<float> scores)
    : options_(options), byte_ids_(byte_ids), scores_(std::move(scores)) {
  index(texts);
}

uint32_t Bpe::find(std::string_view text) const {
  const auto it = ids_.find(text);
  return it == ids_.end() ? kNone : it->second;
}

std::optional<Bpe::Ranked> Bpe::merged(std::string_view piece, const Symbol& left, const Symbol& right) const {
  if (!scores_.empty()) {
    const uint32_t id = find(piece.substr(left.begin, left.length + right.length));
    if (id == kNone) return std::nullopt;
    return Ranked{-static_cast<double>(scores_[id]), id};
  }
  if (left.id == kNone || right.id == kNone) return std::nullopt;
  const auto it = merges_.find(pair_key(left.id, right.id));
  if (it == merges_.end()) return std::nullopt;
  return it->second;
}

void Bpe::start(std::string_view piece, std::vector<Symbol>& symbols) const {
  symbols.clear();
  WantedRounds rounds;
  for (size_t at = 0; at < piece.size();) {
    rounds.next();
    const size_t length = options_.byte_level ? 1 : first_utf8(piece.substr(at)).size;
    const auto index = static_cast<uint32_t>(symbols.size());
    symbols.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(length), index == 0 ? kEnd : index - 1,
                       index + 1, find(piece.substr(at, length))});
    at += length;
  }
  if (!symbols.empty()) symbols.back().next = kEnd;
}

void Bpe::merge(std::string_view piece, Scratch& scratch) const {
  auto& symbols = scratch.symbols_;
  auto& heap = scratch.heap_;
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  };
  heap.clear();
  const auto add = [&](uint32_t left) {
    const uint32_t right = left == kEnd ? kEnd : symbols[left].next;
    if (right == kEnd) return;
    const auto ranked = merged(piece, symbols[left], symbols[right]);
    if (!ranked) return;
    heap.push_back({ranked->rank, left, right, symbols[left].length + symbols[right].length, ranked->result});
    std::push_heap(heap.begin(), heap.end(), later);
  };
  WantedRounds rounds;
  for (uint32_t i = 0; i < symbols.size(); ++i) {
    rounds.next();
    add(i);
  }
  while (!heap.empty()) {
    rounds.next();
    std::pop_heap(heap.begin(), heap.end(), later);
    const Candidate best = heap.back();
    heap.pop_back();
    Symbol& left = symbols[best.left];
    Symbol& right = symbols[best.right];
    // Either may have been merged elsewhere since; symbols only grow, so an equal length means both are as they were.
    if (left.length == 0 || right.length == 0 || left.next != best.right || left.length + right.length != best.length) {
      continue;
    }
    left.length = best.length;
    left.id = best.result;
    left.next = right.next;
    right.length = 0;
    if (left.next != kEnd) symbols[left.next].previous = best.left;
    add(left.previous);
    add(best.left);
  }
}

void Bpe::emit(std::string_view piece, const std::vector<Symbol>& symbols, std::vector<uint32_t>& ids) const {
  bool after_unknown = false;
  for (uint32_t i = symbols.empty() ? kEnd : 0; i != kEnd; i = symbols[i].next) {
    const Symbol& symbol = symbols[i];
    if (symbol.id != kNone) {
      ids.push_back(symbol.id);
      after_unknown = false;
      continue;
    }
    const std::string_view text = piece.substr(symbol.begin, symbol.length);
    const auto byte_id = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
    const auto known = [&](char c) { return byte_id(c) != kNone; };
    if (options_.byte_fallback && std::all_of(text.begin(), text.end(), known)) {
      for (const char c : text) ids.push_back(byte_id(c));
      after_unknown = false;
    } else if (options_.unknown) {
      if (!after_unknown || !options_.fuse_unknown) ids.push_back(*options_.unknown);
      after_unknown = true;
    }
  }
}

void Bpe::encode(std::string_view piece, Scratch& scratch, std::vector<uint32_t>& ids) const {
  if (piece.empty()) return;
  if (options_.ignore_merges) {
    if (const uint32_t id = find(piece); id != kNone) {
      ids.push_back(id);
      return;
    }
  }
  start(piece, scratch.symbols_);
  if (scratch.symbols_.size() > 1) merge(piece, scratch);
  emit(piece, scratch.symbols_, ids);
}

}  // namespace weft
