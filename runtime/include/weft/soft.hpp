// Soft tokens in C++: a thin, header-only face over soft.h, as weft.hpp is over weft.h.
#ifndef WEFT_SOFT_HPP
#define WEFT_SOFT_HPP

#include <weft/soft.h>

#include <stdexcept>

#include <weft/weft.hpp>

namespace weft::api {

// Ids or rows of a prompt; one of both is empty.
struct PromptPart {
  std::vector<std::uint32_t> ids;
  std::vector<float> rows;  // (soft tokens, width)
};

// Rows of the vocabulary table, (ids, width), as the network reads them; see weft_model_rows.
inline std::vector<float> rows(const Model& model, const std::vector<std::uint32_t>& ids) {
  std::vector<float> values(ids.size() * model.info().width);
  detail::check(
      [&](weft_error* error) { return weft_model_rows(model.get(), ids.data(), ids.size(), values.data(), error); });
  return values;
}

// Makes the session's context exactly these parts of prompts for the model's width; see weft_session_prompt_parts.
// Throws std::invalid_argument for rows of another width, and for a part with ids and rows.
inline void prompt(Session& session, const std::vector<PromptPart>& parts, std::uint32_t width) {
  std::vector<weft_prompt_part> list;
  for (const PromptPart& part : parts) {
    if (part.rows.size() % width != 0 || (!part.ids.empty() && !part.rows.empty()))
      throw std::invalid_argument("a part is neither ids nor whole rows");
    if (part.rows.empty())
      list.push_back({part.ids.data(), nullptr, part.ids.size()});
    else
      list.push_back({nullptr, part.rows.data(), part.rows.size() / width});
  }
  detail::check(
      [&](weft_error* error) { return weft_session_prompt_parts(session.get(), list.data(), list.size(), error); });
}

}  // namespace weft::api

#endif
