// The C API: soft tokens, and rows of the vocabulary table.
#include "capi/soft.h"

#include "model/table_rows.h"

using namespace weft;
using namespace weft::capi;

static_assert(WEFT_SOFT_TOKEN == SOFT_ID);

weft_status weft_model_rows(const weft_model* model, const uint32_t* ids, size_t count, float* rows,
                            weft_error* error) {
  return guard(error, [&] {
    require(model && ((ids && rows) || count == 0), "model, ids or rows", "it is NULL");
    const Config& config = model->model.config;
    check_ids({ids, count}, config.vocab);
    const std::vector<float> values = with_weights(*model, [&] {
      return table_rows(model->model, *model->model.weights.embedding, {ids, count}, config.embedding_scale);
    });
    std::copy(values.begin(), values.end(), rows);
  });
}

std::vector<PromptPart> weft::capi::prompt_parts_of(const weft_session& session,
                                                    std::span<const weft_prompt_part> parts) {
  const size_t width = session.model->model.config.width;
  std::vector<PromptPart> list;
  for (const weft_prompt_part& part : parts) {
    require(part.count == 0 || (part.ids != nullptr) != (part.rows != nullptr), "parts",
            "one has ids and rows, or none of both");
    if (part.count > session.session.context())
      throw Error(Code::context_full,
                  "a part has " + std::to_string(part.count) + " tokens, the session holds " +
                      std::to_string(session.session.context()),
                  "context", "create the session with a larger context");
    list.push_back({part.ids ? std::span(part.ids, part.count) : std::span<const uint32_t>(),
                    part.rows ? std::span(part.rows, part.count * width) : std::span<const float>()});
  }
  return list;
}

weft_status weft_session_prompt_parts(weft_session* session, const weft_prompt_part* parts, size_t count,
                                      weft_error* error) {
  return guard(error, [&] {
    require(session && (parts || count == 0), "session or parts", "it is NULL");
    const InUse use(session);
    const std::vector<PromptPart> list = prompt_parts_of(*session, std::span(parts, count));
    with_recovery(*session, [&] { session->session.prompt_parts(list); });
    session->begin_answer();
  });
}
