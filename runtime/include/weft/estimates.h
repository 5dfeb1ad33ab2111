/* Weft: what a head that reads less than the vocabulary table knows of each token's logit. For measuring such heads;
 * docs/heads.md explains them. Errors, ownership, threads and units are as weft.h documents them.
 * This header may still change. */
#ifndef WEFT_ESTIMATES_H
#define WEFT_ESTIMATES_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_head_estimate {
  float logit;    /* of the token: every bit of its row times the hidden state, before a soft cap */
  float estimate; /* of the logit, by the part of the row that the head reads first */
  float bound;    /* what the head takes for the most that the logit can be; INFINITY: it computed the row at once */
} weft_head_estimate;

/* For each token that could come next after the context: its logit, and what the session's head (weft_request.head:
 * certified, sure or fast) makes of it from the part of every row that it reads first. `count` rows, which must be
 * vocab_size; rows[i] is token i. The context and the settings stay as they are.
 *
 * *deviations (may be NULL) is how many standard deviations a bound is above its estimate, if what the head does not
 * read were at a random angle to the hidden state. So (logit - estimate) / (bound - estimate) * *deviations is the
 * estimate's error in standard deviations.
 *
 * WEFT_INVALID_ARGUMENT for another count or an empty context. WEFT_UNSUPPORTED for a head that estimates no logits
 * (full, auto, keep-lists), for a grammar, with log-probabilities, and for sampling that needs every row (typical_p
 * without top_k, or top_k above 128). */
WEFT_API weft_status weft_session_head_estimates(weft_session* session, weft_head_estimate* rows, size_t count,
                                                 float* deviations, weft_error* error);

#ifdef __cplusplus
}
#endif
#endif
