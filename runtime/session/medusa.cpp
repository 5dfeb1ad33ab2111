#include "session/medusa.h"

#include <algorithm>

namespace weft {
namespace {

constexpr double kNewWeight = 1.0 / 32;
// Initial cost estimate of all guesses together, in one-token passes.
constexpr double kGuessedEach = 0.2;

}  // namespace

Medusa::Medusa(Session& of, std::shared_ptr<const ModelFile> file)
    : of_(of), file_(std::move(file)), heads_(std::make_unique<MedusaHeads>(of.model(), *file_)) {
  of.prepare_guesses(*heads_);
  // As if the shares were probabilities, which they nearly are where the heads were trained on such text.
  for (size_t i = 0; i < chances_.size(); ++i) chances_[i] = ((i == 0 ? 0 : kShareEnds[i - 1]) + kShareEnds[i]) / 2;
}

void Medusa::begin(std::span<const uint32_t>) {
  guesses_.clear();
  judged_ = 0;
  account_.begin();
  if (!heads_) heads_ = std::make_unique<MedusaHeads>(of_.model(), *file_);
}

void Medusa::learn(const PassCosts& costs) {
  account_ = GuessAccount(costs);
  if (of_.ids().empty()) return;
  ask();  // for a driver that compiles kernels when they first run
  guesses_.clear();
}

double& Medusa::chance(float share) {
  const auto range = std::ranges::upper_bound(kShareEnds, share);
  return chances_[std::min(static_cast<size_t>(range - kShareEnds.begin()), kShareEnds.size() - 1)];
}

void Medusa::append(uint32_t id) {
  account_.append();
  if (judged_ * MedusaHeads::kRanks >= guesses_.size()) return;
  const std::span<const abi::Guess> head = of_head(judged_);
  for (const abi::Guess& one : head) {
    double& known = chance(one.share);
    known += kNewWeight * ((one.id == id ? 1.0 : 0.0) - known);
  }
  judged_ = head.front().id == id ? judged_ + 1 : guesses_.size();
}

// False if nothing is guessed now.
bool Medusa::may_draft() {
  if (!account_.may_guess()) return false;
  if (!account_.overdrawn()) return true;
  account_.rest(0);
  return false;
}

// Spends the time of guesses that were made. Returns it in one-token passes.
double Medusa::spend() {
  const double spent = each_.known() ? each_.seconds() / account_.costs().one().seconds() : kGuessedEach;
  account_.spend(spent);
  return spent;
}

std::span<const uint32_t> Medusa::draft(size_t most) {
  if (!may_draft()) return {};
  guess();
  const auto right = [&](size_t i) { return chance(of_head(i).front().share); };
  return std::span(ids_).first(account_.costs().best_draft(std::min(most, ids_.size()), right, {.once = spend()}));
}

DraftTree Medusa::draft_tree(size_t most) {
  if (!may_draft()) return {};
  const DraftTree tree = guess_tree(most);
  return tree.first(account_.costs().best_tree(reached_, {.once = spend()}));
}

// Has the heads guess.
void Medusa::ask() {
  const Stopwatch guessing = of_.stopwatch();
  judged_ = 0;
  const std::span<const abi::Guess> all = of_.guess(*heads_);
  guesses_.assign(all.begin(), all.end());
  // No logit of a head was a finite number: those after it guess nothing either.
  size_t head = 0;
  while (head < all.size() && all[head].id < of_.model().config.vocab) head += MedusaHeads::kRanks;
  guesses_.resize(head);
  each_.add(guessing.seconds());
}

std::span<const uint32_t> Medusa::guess() {
  ask();
  ids_.clear();
  for (size_t i = 0; i < guesses_.size(); i += MedusaHeads::kRanks) ids_.push_back(guesses_[i].id);
  return ids_;
}

DraftTree Medusa::guess_tree(size_t most) {
  ask();
  grow(most);
  return {ids_, parents_};
}

// Takes the likeliest guess again and again, of those that follow the context or a guess that was taken. A head does
// not know what the heads before it guess, so its guesses are the same in all branches.
void Medusa::grow(size_t most) {
  ids_.clear();
  reached_.clear();
  parents_.clear();
  struct Open {
    size_t head, rank;
    uint8_t parent;
    double before, reached;  // probability of what it follows, and with itself
  };
  std::vector<Open> open;
  const auto add = [&](size_t head, size_t rank, uint8_t parent, double before) {
    if (head * MedusaHeads::kRanks >= guesses_.size() || rank >= MedusaHeads::kRanks) return;
    const abi::Guess& one = of_head(head)[rank];
    if (one.id < of_.model().config.vocab) open.push_back({head, rank, parent, before, before * chance(one.share)});
  };
  add(0, 0, 0, 1);
  while (ids_.size() < most && !open.empty()) {
    const auto best = std::ranges::max_element(open, {}, &Open::reached);
    const Open taken = *best;
    open.erase(best);
    ids_.push_back(of_head(taken.head)[taken.rank].id);
    reached_.push_back(taken.reached);
    parents_.push_back(taken.parent);
    add(taken.head, taken.rank + 1, taken.parent, taken.before);
    add(taken.head + 1, 0, static_cast<uint8_t>(ids_.size()), taken.reached);
  }
}

}  // namespace weft
