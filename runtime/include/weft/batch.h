/* Weft: sessions that generate together, and join and leave between tokens, as a server needs it. weft_generate_batch
 * of weft.h is for sessions that begin together. Errors, ownership and units are as weft.h documents them. */
#ifndef WEFT_BATCH_H
#define WEFT_BATCH_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sessions of one model that generate together. May be used by one thread at a time. */
typedef struct weft_batch weft_batch;

/* The most sessions of a batch. */
#define WEFT_MAX_BATCH 64

/* Creates a batch without sessions. The model must outlive it. */
WEFT_API weft_status weft_batch_create(const weft_model* model, weft_batch** batch, weft_error* error);
/* Frees a batch. NULL is allowed. Its sessions leave it; they keep the tokens that they have generated. */
WEFT_API void weft_batch_free(weft_batch* batch);

/* Adds a session, which from the next step on generates as weft_session_generate would with these options. It belongs
 * to the batch until weft_batch_step says that it has ended, or fails. Until then only getters, in the thread of the
 * batch, and weft_session_cancel may be called with it; it is freed after that, or after the batch.
 *
 * WEFT_INVALID_ARGUMENT for a session of another model, with an empty context or already in the batch, and if the batch
 * has WEFT_MAX_BATCH sessions; WEFT_UNSUPPORTED for a session of an encoder-decoder. */
WEFT_API weft_status weft_batch_add(weft_batch* batch, weft_session* session, const weft_generate_options* options,
                                    weft_error* error);

/* A session that has ended. */
typedef struct weft_batch_end {
  weft_session* session;
  weft_stop stop;   /* why it ended, if error.code is WEFT_OK */
  weft_error error; /* what failed for this session alone; the others go on */
} weft_batch_end;

/* Computes a part of the prompts that are not complete, oldest first: at most the plan's chunk_tokens tokens, so that
 * long prompts delay the others' tokens by no more than that. Then computes the next token of each session whose prompt
 * is complete, with a callback for each token. One pass computes the tokens of all sessions without a grammar, as
 * weft_generate_batch says; each session with a grammar has a pass of its own. When a session joins or leaves, a step
 * may bring several tokens of a session.
 *
 * The sessions that have ended leave the batch: `ended` gets one entry for each, and *count is their number. ended has
 * room for WEFT_MAX_BATCH entries. Does nothing if the batch is empty.
 *
 * If a pass of several sessions fails, so does the call: all sessions leave the batch. */
WEFT_API weft_status weft_batch_step(weft_batch* batch, weft_batch_end* ended, size_t* count, weft_error* error);

#ifdef __cplusplus
}
#endif
#endif
