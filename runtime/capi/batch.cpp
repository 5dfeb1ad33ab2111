// The C API: sessions that generate together.
#include "weft/batch.h"

#include <algorithm>
#include <list>
#include <map>

#include "capi/handles.h"
#include "session/batch.h"
#include "session/continuous_batch.h"

using namespace weft;
using namespace weft::capi;

struct weft_batch : DeviceUser {
  explicit weft_batch(const weft_model* of) : DeviceUser(of), batch(of->model) {}
  void leave_device() override { batch.leave_device(); }
  void enter_device() override {}

  struct Member {
    Member(weft_session* added, const weft_generate_options& given)
        : session(added), use(added), options(given), call(*added, options) {}
    weft_session* session;
    InUse use;
    weft_generate_options options;
    GenerateCall call;
  };
  std::list<Member> members;  // before the batch, whose callbacks refer to them
  ContinuousBatch batch;
};

weft_status weft_session_create_group(const weft_model* model, const weft_session_options* options,
                                      weft_session** sessions, size_t count, weft_error* error) {
  return guard(error, [&] {
    require(model && sessions, "model or sessions", "it is NULL");
    require(count >= 1 && count <= kMostBatchSlots, "count", "a group has 1 to WEFT_MAX_BATCH sessions");
    const SessionSettings settings = settings_of(model->model.config, read_struct(options));
    const auto lock = lock_users(*model);
    need_weights(*model);
    const auto group = std::make_shared<StateGroup>(static_cast<uint32_t>(count));
    std::vector<std::unique_ptr<weft_session>> made;
    for (uint32_t slot = 0; slot < count; ++slot)
      made.push_back(std::make_unique<weft_session>(model, settings.context, settings.cache, settings.policy, nullptr,
                                                    StatePlace{group, slot}));
    for (size_t i = 0; i < count; ++i) sessions[i] = made[i].release();
  });
}

weft_status weft_generate_batch(weft_batch_entry* entries, size_t count, weft_error* error) {
  return guard(error, [&] {
    require(entries || count == 0, "entries", "it is NULL");
    struct Entry {
      Entry(weft_session* of, const weft_generate_options& given) : session(*of), options(given), call(*of, options) {}
      weft_session& session;
      const weft_generate_options options;
      const GenerateCall call;
    };
    std::map<weft_session*, InUse> uses;  // one that is given twice is refused by generate_batch
    std::list<Entry> all;
    std::vector<BatchEntry> list;
    for (const weft_batch_entry& entry : std::span(entries, count)) {
      require(entry.session && entry.options, "session or options", "it is NULL");
      if (!uses.contains(entry.session)) uses.try_emplace(entry.session, entry.session);
      Entry& own = all.emplace_back(entry.session, read_struct(entry.options));
      if (own.options.request) set_request(own.session, own.options.request);
      refuse_reasoning(own.session);
      list.push_back({own.session.session, own.options.max_tokens, own.options.ignore_stop_tokens != 0,
                      teller(own.session, own.options)});
    }
    const std::vector<Stop> stops = generate_batch(list);
    auto stop = stops.begin();
    auto entry = entries;
    for (const Entry& own : all) (entry++)->stop = end(own.session, own.options, *stop++);
  });
}

weft_status weft_batch_create(const weft_model* model, weft_batch** batch, weft_error* error) {
  return guard(error, [&] {
    require(model && batch, "model or batch", "it is NULL");
    const auto lock = lock_users(*model);
    *batch = new weft_batch(model);
  });
}

void weft_batch_free(weft_batch* batch) { destroy(batch); }

weft_status weft_batch_add(weft_batch* batch, weft_session* session, const weft_generate_options* options,
                           weft_error* error) {
  static_assert(WEFT_MAX_BATCH == kMostBatchSlots);
  return guard(error, [&] {
    require(batch && session && options, "batch, session or options", "it is NULL");
    const InUse use(batch, "batch");
    batch->members.emplace_back(session, read_struct(options));
    const weft_generate_options& kept = batch->members.back().options;
    try {
      if (kept.request) set_request(*session, kept.request);
      refuse_reasoning(*session);
      batch->batch.add({session->session, kept.max_tokens, kept.ignore_stop_tokens != 0, teller(*session, kept)});
    } catch (...) {
      batch->members.pop_back();
      throw;
    }
  });
}

weft_status weft_batch_set_token_share(weft_batch* batch, double share, weft_error* error) {
  return guard(error, [&] {
    require(batch, "batch", "it is NULL");
    const InUse use(batch, "batch");
    batch->batch.set_token_share(share);
  });
}

size_t weft_session_computed_tokens(const weft_session* session) {
  if (!session || is_inherited(*session->model)) return 0;
  const auto lock = lock_to_read(*session);
  return session->session.computed_tokens();
}

weft_status weft_session_copy_prefix(weft_session* session, const weft_session* from, size_t* computed,
                                     weft_error* error) {
  return guard(error, [&] {
    require(session && from, "session or from", "it is NULL");
    const InUse use(session);
    const size_t count = session->session.copy_prefix(from->session);
    if (computed) *computed = count;
  });
}

weft_status weft_batch_step(weft_batch* batch, weft_batch_end* ended, size_t* count, weft_error* error) {
  return guard(error, [&] {
    require(batch && ended && count, "batch, ended or count", "it is NULL");
    const InUse use(batch, "batch");
    std::vector<ContinuousBatch::Ended> list;
    try {
      list = batch->batch.step();
    } catch (...) {
      batch->members.clear();
      throw;
    }
    *count = 0;
    for (const ContinuousBatch::Ended& one : list) {
      const auto member = std::ranges::find_if(
          batch->members, [&](const auto& candidate) { return &candidate.session->session == one.session; });
      weft_batch_end& entry = ended[(*count)++];
      entry = {member->session, WEFT_STOP_CALLER, {}};
      guard(&entry.error, [&] {  // what fails here is this session's failure, too
        if (!one.stop) std::rethrow_exception(one.failure);
        entry.stop = end(*member->session, member->options, *one.stop);
      });
      batch->members.erase(member);
    }
  });
}
