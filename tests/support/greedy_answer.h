// A model's greedy answer through the C API, from its load to its end.
#pragma once

#include <weft/weft.h>

#include <filesystem>
#include <vector>

#include "support/capi_options.h"

namespace weft {

// The ids of the prompt and of up to `count` tokens after them; empty: the load or the session failed, and *error has
// the reason. look: called with the model when everything is loaded.
template <class Look>
std::vector<uint32_t> greedy_answer(const std::filesystem::path& file, const weft_model_options& options,
                                    const weft_session_options& settings, std::vector<uint32_t> ids, uint32_t count,
                                    weft_error* error, const Look& look) {
  weft_model* model = nullptr;
  weft_session* session = nullptr;
  if (weft_model_load(file.c_str(), &options, &model, error) == WEFT_OK &&
      weft_session_create(model, &settings, &session, error) == WEFT_OK) {
    look(model);
    const weft_generate_options generate = test::generate_options(count);
    test::set_greedy(session, error);
    weft_session_prompt(session, ids.data(), ids.size(), error);
    ids.resize(ids.size() + count);
    size_t all = 0;
    if (weft_session_generate(session, &generate, nullptr, error) == WEFT_OK)
      weft_session_get_ids(session, ids.data(), ids.size(), &all, error);
    ids.resize(all);
  } else {
    ids.clear();
  }
  weft_session_free(session);
  weft_model_free(model);
  return ids;
}

}  // namespace weft
