// The C API: the vocabulary table's rows, products and states.
#include "weft/geometry.h"

#include <algorithm>

#include "capi/handles.h"
#include "model/table_rows.h"
#include "run/hidden_states.h"

using namespace weft;
using namespace weft::capi;

static void require_decoder(const weft_model& model) {
  if (model.model.config.layer_kind.sees_all)
    throw Error(Code::unsupported, "the family '" + model.model.config.family + "' reads texts and writes none",
                "model");
}

weft_status weft_table_rows(const weft_model* model, const uint32_t* ids, size_t count, float* rows,
                            weft_error* error) {
  return guard(error, [&] {
    require(model && ((ids && rows) || count == 0), "model, ids or rows", "it is NULL");
    require_decoder(*model);
    check_ids({ids, count}, model->model.config.vocab);
    const std::vector<float> values = with_weights(*model, [&] {
      return table_rows(model->model, model->model.weights.output_table(), {ids, count}, 1);
    });
    std::ranges::copy(values, rows);
  });
}

weft_status weft_table_dots(const weft_model* model, const float* vectors, size_t count, float* dots,
                            weft_error* error) {
  return guard(error, [&] {
    require(model && ((vectors && dots) || count == 0), "model, vectors or dots", "it is NULL");
    require_decoder(*model);
    with_weights(*model, [&] {
      table_dots(model->model, {vectors, count * model->model.config.width}, dots);
      return 0;
    });
  });
}

weft_status weft_table_states(const weft_model* model, const uint32_t* ids, size_t count, float* states,
                              weft_error* error) {
  return guard(error, [&] {
    require(model && ((ids && states) || count == 0), "model, ids or states", "it is NULL");
    require_decoder(*model);
    const Config& config = model->model.config;
    if (model->model.weights.encoder)
      throw Error(Code::unsupported, "the family '" + config.family + "' writes answers to a text", "model");
    check_ids({ids, count}, config.vocab, config.context - 1);
    if (count == 0) return;
    const std::vector<float> values = with_weights(*model, [&] { return hidden_states(model->model, {ids, count}); });
    std::ranges::copy(values, states);
  });
}
