// Structs of the C API in one expression, for tests.
#pragma once

#include "weft/speculate.h"

namespace weft::test {

inline weft_generate_options generate_options(uint32_t max_tokens, int ignore_stop_tokens = 1,
                                              weft_token_callback callback = nullptr, void* user = nullptr) {
  weft_generate_options options = weft_generate_options_default();
  options.max_tokens = max_tokens;
  options.ignore_stop_tokens = ignore_stop_tokens;
  options.callback = callback;
  options.user = user;
  return options;
}

inline weft_session_options session_options(uint32_t context, weft_type kv = WEFT_TYPE_FILE,
                                            weft_policy policy = WEFT_POLICY_THROUGHPUT,
                                            weft_type kv_values = WEFT_TYPE_FILE) {
  weft_session_options options = weft_session_options_default();
  options.context = context;
  options.kv = kv;
  options.policy = policy;
  options.kv_values = kv_values;
  return options;
}

// Has a session generate by the default request with some changes; its sampling and biases stay unless they change too.
template <class Change>
weft_status change_request(weft_session* session, const Change& change, weft_error* error = nullptr) {
  weft_request request = weft_request_default();
  request.keep_sampling = request.keep_biases = 1;
  change(request);
  return weft_session_set_request(session, &request, error);
}

// The default request but for its sampling.
inline weft_status set_sampling(weft_session* session, const weft_sampling& sampling, weft_error* error = nullptr) {
  weft_request request = weft_request_default();
  request.sampling = &sampling;
  return weft_session_set_request(session, &request, error);
}
inline weft_status set_greedy(weft_session* session, weft_error* error = nullptr) {
  weft_sampling sampling = weft_sampling_default();
  sampling.temperature = 0;
  return set_sampling(session, sampling, error);
}

// draft: for WEFT_SPECULATE_DRAFT.
inline weft_status speculate(weft_session* session, weft_speculation kind, const weft_model* draft, weft_error* error) {
  return change_request(
      session, [&](weft_request& request) { request.speculation = kind, request.draft = draft; }, error);
}

inline weft_model_info info_of(const weft_model* model) {
  weft_model_info info;
  weft_model_get_info(model, &info, sizeof info);
  return info;
}

inline weft_stats stats_of(const weft_session* session) {
  weft_stats stats;
  weft_session_get_stats(session, &stats, sizeof stats);
  return stats;
}

inline weft_speculation_stats speculation_stats_of(const weft_session* session) {
  weft_speculation_stats stats;
  weft_session_get_speculation_stats(session, &stats, sizeof stats);
  return stats;
}

}  // namespace weft::test
