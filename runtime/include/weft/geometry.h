/* Weft: what a model's vocabulary table looks like, and the states that it is multiplied with. Errors, ownership,
 * threads and units are as weft.h documents them. All of these are WEFT_UNSUPPORTED for encoders.
 * This header may still change. */
#ifndef WEFT_GEOMETRY_H
#define WEFT_GEOMETRY_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reads rows of the output table, which logits are products with, for `count` ids, to rows (count, width). They have no
 * scale, unlike those of weft_model_rows (soft.h), which are of the other table if the model has two.
 *
 * WEFT_INVALID_ARGUMENT for an id outside the vocabulary. */
WEFT_API weft_status weft_table_rows(const weft_model* model, const uint32_t* ids, size_t count, float* rows,
                                     weft_error* error);

/* Computes the product of every row of that table with each vector of vectors (count, width), on the device, to dots
 * (count, vocab_size): logits without bias, scale and soft cap. If the call fails, some of dots may have been
 * written. */
WEFT_API weft_status weft_table_dots(const weft_model* model, const float* vectors, size_t count, float* dots,
                                     weft_error* error);

/* Computes the hidden states after the final norm for `count` ids, to states (count, width): what the table is
 * multiplied with after each of them. It takes memory for a session of so many tokens while it runs.
 *
 * WEFT_INVALID_ARGUMENT for an id outside the vocabulary; WEFT_CONTEXT_FULL for as many ids as the model's context or
 * more; WEFT_UNSUPPORTED for an encoder-decoder. */
WEFT_API weft_status weft_table_states(const weft_model* model, const uint32_t* ids, size_t count, float* states,
                                       weft_error* error);

#ifdef __cplusplus
}
#endif
#endif
