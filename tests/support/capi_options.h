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
