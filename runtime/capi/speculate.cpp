// The C API: guessing tokens ahead.
#include "capi/speculate.h"

#include "session/assistant.h"
#include "session/draft_model.h"
#include "session/lookup.h"
#include "session/medusa.h"
#include "weft/speculate.h"

using namespace weft;
using namespace weft::capi;

namespace {

struct Destroy {
  void operator()(weft_session* session) const noexcept { destroy(session); }
};

// A draft model with its session, which is a user of that model's device like any other.
class OwnDraft : public Drafter {
 public:
  OwnDraft(const weft_model& model, const Session& of) : session_(make(model, of)), draft_(session_->session, of) {}

  void begin(std::span<const uint32_t> ids) override {
    if (draft_.lost() && session_->model->recovers) try_recovery();
    draft_.begin(ids);
  }
  void append(uint32_t id) override { draft_.append(id); }
  std::span<const uint32_t> draft(size_t most) override {
    std::optional<InUse> use;
    try {
      use.emplace(session_.get());
    } catch (const Error&) {  // its model is brought to another device at this moment
      return {};
    }
    recoveries_ = session_->model->recoveries;
    return draft_.draft(most);
  }
  bool learns_costs() const override { return true; }
  void learn(const PassCosts& costs) override { draft_.learn(costs); }
  void passed(uint32_t tokens, double seconds) override { draft_.passed(tokens, seconds); }
  size_t resting() const override { return draft_.resting(); }

 private:
  static weft_session* make(const weft_model& model, const Session& of) {
    const auto lock = lock_users(model);
    need_weights(model);
    const uint32_t context = std::min(of.context(), model.model.config.context);
    return new weft_session(&model, context, Format::f16, of.policy(), &of.duty());
  }
  // Without its device there are no guesses, which is no failure.
  void try_recovery() noexcept {
    try {
      const InUse use(session_.get());
      recover(*session_->model, recoveries_, session_.get());
    } catch (...) {
    }
  }

  std::unique_ptr<weft_session, Destroy> session_;
  DraftModel draft_;
  uint64_t recoveries_ = 0;
};

}  // namespace

std::unique_ptr<Drafter> capi::make_drafter(weft_session& session, const RequestState& request) {
  const auto open = [](const std::string& path) {
    return std::make_shared<const ModelFile>(open_model(std::filesystem::path(path)));
  };
  switch (request.speculation) {
    case WEFT_SPECULATE_OFF:
      return nullptr;
    case WEFT_SPECULATE_LOOKUP:
      return std::make_unique<Lookup>();
    case WEFT_SPECULATE_DRAFT:
      if (request.draft->tokenizer.fingerprint() != session.model->tokenizer.fingerprint())
        throw Error(Code::invalid_argument, "its tokenizer is not that of the session's model", "draft",
                    "a draft needs the same tokens with the same ids");
      return std::make_unique<OwnDraft>(*request.draft, session.session);
    case WEFT_SPECULATE_MEDUSA:
      return std::make_unique<Medusa>(session.session, open(request.medusa));
    case WEFT_SPECULATE_ASSISTANT:
      return std::make_unique<Assistant>(session.session, open(request.assistant));
    default:
      throw Error(Code::invalid_argument, "it is " + std::to_string(request.speculation) + ", no kind of guesses",
                  "speculation");
  }
}

void weft_session_get_speculation_stats(const weft_session* session, weft_speculation_stats* stats, size_t size) {
  weft_speculation_stats sums = {};
  if (session) {
    const SessionStats& from = session->session.stats();
    sums = {from.checks, from.drafted_tokens, from.accepted_tokens};
  }
  write_struct(sums, stats, size);
}
