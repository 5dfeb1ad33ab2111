/* Weft: how far a long prompt is. Errors, ownership, threads and units are as weft.h documents them. */
#ifndef WEFT_PROGRESS_H
#define WEFT_PROGRESS_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Receives how many of the prompt's tokens have been computed: `done` of `all`, where all > 0. Tokens that are reused
 * from earlier calls do not count. Return 0 to continue, non-zero to end the generate with WEFT_STOP_CALLER. It may
 * call what a weft_token_callback may call. */
typedef int (*weft_prompt_callback)(void* user, uint32_t done, uint32_t all);

/* Has each later generate of the session, in a batch too, tell its progress in the prompt: before each pass but the
 * last (the plan's chunk_tokens tokens a pass), and with done == all before the first token. callback NULL: none (the
 * default). It may be called on any thread that generates with the session. With a callback, at most one pass is in
 * flight when the next one is submitted.
 *
 * If the callback, or weft_session_cancel, ends a generate in its prompt, the generate returns WEFT_OK with
 * WEFT_STOP_CALLER and no token. It returns after the passes that are in flight: at most one with a callback, else at
 * most the plan's run_ahead + 1. The context keeps all its ids, and what has been computed of them: the next generate
 * computes the rest and gives the tokens that it would have given, and a weft_session_prompt that shares a prefix
 * reuses it. The statistics do not count the tokens of a prompt that was ended. The encoder of an encoder-decoder reads
 * its input in one pass, which is not reported and cannot be ended. */
WEFT_API weft_status weft_session_set_prompt_callback(weft_session* session, weft_prompt_callback callback, void* user,
                                                      weft_error* error);

/* Forgets a weft_session_cancel that came when nothing was running: else the next generate ends at its start. NULL is
 * allowed. May be called from any thread; while a generate runs it takes back a cancel that the generate has not seen
 * yet. */
WEFT_API void weft_session_clear_cancel(weft_session* session);

#ifdef __cplusplus
}
#endif
#endif
