#include "session/assistant.h"

namespace weft {
namespace {

// Initial cost estimate of a guess, in one-token passes of the session.
constexpr double kGuessedEach = 0.1;

}  // namespace

Assistant::Assistant(Session& of, std::shared_ptr<const ModelFile> file)
    : ChainDrafter(kGuessedEach),
      of_(of),
      file_(std::move(file)),
      network_(std::make_unique<AssistantNetwork>(of.model(), *file_, of.context())) {
  of.prepare_guesses(*network_);
}

void Assistant::begin(std::span<const uint32_t>) {
  begin_answer();
  if (!network_) network_ = std::make_unique<AssistantNetwork>(of_.model(), *file_, of_.context());
}

void Assistant::learn(const PassCosts& costs) {
  ChainDrafter::learn(costs);
  if (of_.ids().size() < 2 || !network_) return;
  make(1);  // for a driver that compiles kernels when they first run
  guesses_.clear();
}

void Assistant::make(size_t count) {
  const Stopwatch guessing = of_.stopwatch();
  for (const abi::Guess& one : of_.guess(*network_, static_cast<uint32_t>(count))) {
    if (one.id >= of_.model().config.vocab) break;  // no logit was a finite number
    guesses_.push_back(one.id);
  }
  each_.add(guessing.seconds() / static_cast<double>(count));
}

}  // namespace weft
