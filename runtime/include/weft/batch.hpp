// Sessions that generate together and come and go, in C++: a thin, header-only face over batch.h, as weft.hpp is over
// weft.h.
#ifndef WEFT_BATCH_HPP
#define WEFT_BATCH_HPP

#include <weft/batch.h>

#include <algorithm>
#include <map>
#include <weft/weft.hpp>

namespace weft::api {

// Sessions as Session's constructor makes them, whose caches lie side by side, for batches; see
// weft_session_create_group.
inline std::vector<Session> make_session_group(const Model& model, std::size_t count,
                                               const weft_session_options& options) {
  std::vector<weft_session*> made(std::min<std::size_t>(count, WEFT_MAX_BATCH));  // more are refused
  std::vector<Session> sessions;
  sessions.reserve(made.size());  // what may fail for want of memory comes first
  detail::check(
      [&](weft_error* error) { return weft_session_create_group(model.get(), &options, made.data(), count, error); });
  for (weft_session* one : made) sessions.emplace_back(model, one);
  return sessions;
}

inline std::vector<Session> make_session_group(const Model& model, std::size_t count, std::uint32_t context = 0,
                                               weft_type kv = WEFT_TYPE_FILE,
                                               weft_policy policy = WEFT_POLICY_THROUGHPUT) {
  return make_session_group(model, count, session_options(context, kv, policy));
}

// A session that has ended.
struct BatchEnd {
  Session& session;
  weft_stop stop;              // why, if it has not failed
  std::exception_ptr failure;  // what its callback threw, or a Failure of this session alone; null: none
};

// See weft_batch. May be used by one thread at a time.
class Batch {
 public:
  explicit Batch(const Model& model) {
    weft_batch* batch = nullptr;
    detail::check([&](weft_error* error) { return weft_batch_create(model.get(), &batch, error); });
    handle_.reset(batch);
  }

  // Adds a session, which from the next step on generates as Session::generate would. It belongs to the batch until
  // step() says that it has ended, or throws, and must not be moved or destroyed before that; see weft_batch_add.
  void add(Session& session, std::uint32_t max_tokens = 0, TokenCallback callback = {},
           bool ignore_stop_tokens = false) {
    auto member = std::make_unique<Member>(session, std::move(callback));
    const weft_generate_options options = member->state.options(max_tokens, ignore_stop_tokens);
    auto& place = members_[session.get()];  // what can fail for want of memory comes first
    try {
      detail::check([&](weft_error* error) { return weft_batch_add(get(), session.get(), &options, error); });
    } catch (...) {
      if (!place) members_.erase(session.get());
      throw;
    }
    place = std::move(member);
  }

  // Computes a part of the prompts, or the next tokens; see weft_batch_step. Returns the sessions that have ended,
  // which have left the batch. If it throws, all have left it.
  std::vector<BatchEnd> step() {
    std::vector<weft_batch_end> ended(WEFT_MAX_BATCH);
    std::size_t count = 0;
    try {
      detail::check([&](weft_error* error) { return weft_batch_step(get(), ended.data(), &count, error); });
    } catch (const Failure& failure) {
      // A step that was refused, in a callback of another one, has changed nothing; else all have left.
      if (failure.status() != WEFT_INVALID_ARGUMENT) members_.clear();
      throw;
    }
    std::vector<BatchEnd> result;
    for (std::size_t i = 0; i < count; ++i) {
      const auto found = members_.find(ended[i].session);
      Member& member = *found->second;
      std::exception_ptr failure = member.state.thrown;
      if (!failure && ended[i].error.code != WEFT_OK) failure = std::make_exception_ptr(Failure(ended[i].error));
      result.push_back({member.session, ended[i].stop, failure});
      members_.erase(found);
    }
    return result;
  }

  // How many sessions it has.
  std::size_t size() const noexcept { return members_.size(); }
  // The C handle, which this object owns.
  weft_batch* get() const noexcept { return handle_.get(); }

 private:
  struct Member {
    Member(Session& of, TokenCallback told) : session(of), callback(std::move(told)), state(of.callbacks(callback)) {}
    Session& session;
    const TokenCallback callback;
    detail::Callbacks state;
  };
  struct Free {
    void operator()(weft_batch* batch) const noexcept { weft_batch_free(batch); }
  };
  std::map<weft_session*, std::unique_ptr<Member>> members_;  // outlive the handle, which has their addresses
  std::unique_ptr<weft_batch, Free> handle_;
};

// Copies what `from` has computed of both contexts' longest common prefix; see weft_session_copy_prefix. Returns the
// tokens of the session's context that are computed now.
inline std::size_t copy_prefix(Session& session, const Session& from) {
  std::size_t computed = 0;
  detail::check(
      [&](weft_error* error) { return weft_session_copy_prefix(session.get(), from.get(), &computed, error); });
  return computed;
}

}  // namespace weft::api
#endif
