/* Weft: sessions that generate together: from the beginning (weft_generate_batch), or joining and leaving between
 * tokens, as a server needs it (weft_batch). Errors, ownership and units are as weft.h documents them. This header may
 * still change. */
#ifndef WEFT_BATCH_H
#define WEFT_BATCH_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most sessions of a batch. */
#define WEFT_MAX_BATCH 64

/* A session of a batch. */
typedef struct weft_batch_entry {
  weft_session* session;
  const weft_generate_options* options;
  weft_stop stop; /* set when the call succeeds: why the session ended */
} weft_batch_entry;

/* Generates with 1 to 64 sessions of one model together, as weft_session_generate would with each, and returns when the
 * last has ended. One pass computes a token of each session, or several where guesses are checked (speculate.h). Matrix
 * products then read the weights once for many sessions: the plan's tile_tokens, or block_tokens (4, 8 or 16) if it has
 * no tiles. Prompts are computed one after another. The generated tokens are those that each session would generate
 * alone, up to rounding. If one session has WEFT_POLICY_POLITE, the whole batch has. Callbacks for one pass come in the
 * order of the entries, all of a session together.
 *
 * WEFT_INVALID_ARGUMENT for a wrong count, a session that is given twice, of another model, or with an empty context;
 * WEFT_UNSUPPORTED for a session with a grammar or of an encoder-decoder. Nothing is generated then, but requests of
 * entries (options.request) may have been set. */
WEFT_API weft_status weft_generate_batch(weft_batch_entry* entries, size_t count, weft_error* error);

/* Sessions of one model that generate together. May be used by one thread at a time. */
typedef struct weft_batch weft_batch;

/* Creates `count` sessions, 1 to WEFT_MAX_BATCH, each as weft_session_create would. Their caches lie side by side, so
 * that a batch computes the attention of those of one such call in one dispatch a layer instead of one each. The memory
 * of all their caches is taken now, and given back when the last of the sessions is freed; in all else each is a
 * session by itself. A failed call makes none. Errors as of weft_session_create; WEFT_INVALID_ARGUMENT for
 * another count. */
WEFT_API weft_status weft_session_create_group(const weft_model* model, const weft_session_options* options,
                                               weft_session** sessions, size_t count, weft_error* error);

/* Creates a batch without sessions. */
WEFT_API weft_status weft_batch_create(const weft_model* model, weft_batch** batch, weft_error* error);
/* Frees a batch. NULL is allowed. Its sessions leave it; they keep the tokens that they have generated. In a
 * callback of one of its sessions it does nothing. */
WEFT_API void weft_batch_free(weft_batch* batch);

/* Adds a session, which from the next step on generates as weft_session_generate would with these options, which are
 * copied; their request is set by this call. It belongs to the batch until weft_batch_step returns it as ended, or that
 * call fails. Until then only getters, in the thread of the batch, and weft_session_cancel may be called with it:
 * functions that change it are WEFT_INVALID_ARGUMENT, and weft_session_free does nothing. Free it afterwards, or after
 * the batch.
 *
 * WEFT_INVALID_ARGUMENT for a session of another model, with an empty context or in use, in a callback of this batch,
 * and if the batch has WEFT_MAX_BATCH sessions; WEFT_UNSUPPORTED for a session of an encoder-decoder. */
WEFT_API weft_status weft_batch_add(weft_batch* batch, weft_session* session, const weft_generate_options* options,
                                    weft_error* error);

/* A session that has ended. */
typedef struct weft_batch_end {
  weft_session* session;
  weft_stop stop;   /* why it ended, if error.code is WEFT_OK */
  weft_error error; /* what failed for this session alone; the others go on */
} weft_batch_end;

/* Sets the part of the time that tokens get, at least, while prompts wait: 0 to 0.95. With 0, the default, a step
 * computes a pass of prompts and one of tokens. With 0.5, after a pass of a long prompt that took 300 ms the steps of
 * the next 300 ms compute tokens only. Prompts that one pass completes may take up to a second in advance.
 * WEFT_INVALID_ARGUMENT for another number, or while the batch is in use. */
WEFT_API weft_status weft_batch_set_token_share(weft_batch* batch, double share, weft_error* error);

/* Computes a part of the prompts that are not complete: at most the plan's chunk_tokens tokens, so that long prompts
 * delay the others' tokens by no more than that. The prompt comes first of which the least is left; after one has
 * overtaken the oldest, that is next: short prompts hardly wait, and the oldest gets half of the passes. Then computes
 * the next token of each session whose prompt is complete, with a callback for each token. One pass computes the tokens
 * of all sessions without a grammar, as weft_generate_batch says; each session with a grammar has a pass of its own. A
 * step may bring several tokens of a session: where guesses are checked (speculate.h), and when a session joins or
 * leaves.
 *
 * The sessions that have ended leave the batch: `ended` gets one entry for each, and *count is their number. ended has
 * room for WEFT_MAX_BATCH entries. Does nothing if the batch is empty.
 *
 * If a pass of several sessions fails, so does the call: all sessions leave the batch. */
WEFT_API weft_status weft_batch_step(weft_batch* batch, weft_batch_end* ended, size_t* count, weft_error* error);

/* Copies, on the device, what `from` has computed of the longest common prefix of both contexts, if that is more than
 * `session` has computed. Call it after weft_session_prompt: the next call that computes the context then begins after
 * the prefix. weft_stats.reused_tokens counts the tokens that it saves. *computed (computed may be NULL): the tokens of
 * the session's context that are computed now.
 *
 * WEFT_INVALID_ARGUMENT changes nothing. If the copy fails, nothing of the session's context is computed; a lost device
 * is not opened again by this call (recover.h). `from` may belong to a batch, whose thread must then make this call; no
 * other thread may use it. WEFT_INVALID_ARGUMENT if the session is in use or has an empty context, or if both differ in
 * their model, options.context or options.kv. */
WEFT_API weft_status weft_session_copy_prefix(weft_session* session, const weft_session* from, size_t* computed,
                                              weft_error* error);

/* The tokens at the beginning of the session's context that are computed, which is what weft_session_copy_prefix can
 * copy of it; 0 for NULL. A getter: for a session of a batch too, in the thread of the batch. */
WEFT_API size_t weft_session_computed_tokens(const weft_session* session);

#ifdef __cplusplus
}
#endif
#endif
