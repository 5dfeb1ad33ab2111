/* Weft: guessing several tokens ahead and checking them in one pass (Leviathan et al. 2023; Chen et al. 2023). Errors,
 * ownership, threads and units are as weft.h documents them. */
#ifndef WEFT_SPECULATE_H
#define WEFT_SPECULATE_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where guesses come from. WEFT_SPECULATE_LOOKUP: the context itself. The text is taken to go on as it did where it had
 * the same tokens before (Saxena 2023, "Prompt lookup decoding"), which pays for rewriting, code, and answers from a
 * page; nothing else is loaded. */
typedef enum weft_speculation WEFT_ENUM { WEFT_SPECULATE_OFF = 0, WEFT_SPECULATE_LOOKUP = 1 } weft_speculation;

/* Has weft_session_generate check guesses from its next call on; off by default. How much is guessed follows what
 * passes of several tokens have taken and how often guesses were right, so nothing is guessed where it does not pay.
 *
 * The tokens are those without guesses, with every head and sampling: each is chosen as it would be alone, and a guess
 * only saves the pass if it is what was chosen. So the distribution is the model's. As in batches, sums are added up in
 * another order, and logits that are equal up to rounding may come out the other way; with
 * weft_model_options.int8_inputs also logits that differ by more, where a check rounds its inputs and a pass of one
 * token does not. While a session has a grammar and a keep-list together, nothing is guessed.
 *
 * In a batch one pass checks the guesses of all sessions, as many of each as make the most tokens a second of all
 * sessions together. There only WEFT_SPECULATE_LOOKUP guesses, and only in batches of at most WEFT_MAX_BATCH / 2
 * sessions; weft_session_set_draft and weft_session_set_medusa have no effect. A session with a grammar, which has
 * passes of its own in a weft_batch, guesses there as it does alone, in all three ways.
 *
 * The kind replaces an earlier one, a draft model too. WEFT_INVALID_ARGUMENT for an unknown kind. */
WEFT_API weft_status weft_session_set_speculation(weft_session* session, weft_speculation kind, weft_error* error);

/* Has a second model guess: a smaller one with the same tokenizer, which generates several tokens in the time of one.
 * The rules of weft_session_set_speculation hold here too; whichever of the two was called last counts. The draft gets
 * a session of its own, on the device that it was loaded on, and draws with this session's sampling, seed and policy.
 * It reads the whole prompt too. The draft may be freed before the session.
 *
 * If the draft's device is lost, the session goes on without guesses until weft_model_recover brings the draft back, or
 * the next generate does for a draft with weft_model_set_recovery.
 *
 * WEFT_INVALID_ARGUMENT for a draft with another tokenizer, WEFT_UNSUPPORTED if one of the models is no decoder,
 * WEFT_OUT_OF_MEMORY. */
WEFT_API weft_status weft_session_set_draft(weft_session* session, const weft_model* draft, weft_error* error);

/* Has Medusa heads guess (Cai et al. 2024): small matrices that were trained for the session's model, on its own hidden
 * states, and are projected on its own vocabulary table. A pass checks their guesses as a tree, where the model's
 * layers allow it (docs/speculation.md). path: a GGUF file of them (docs/formats.md). The rules of
 * weft_session_set_speculation hold here too; whichever of the three was called last counts. The heads are loaded to
 * the model's device for this session, and again after weft_model_recover.
 *
 * WEFT_INVALID_ARGUMENT for heads of a model of another width, WEFT_BAD_FILE for a file that is none or has a number
 * that is not finite, WEFT_NOT_FOUND, WEFT_IO, WEFT_OUT_OF_MEMORY. */
WEFT_API weft_status weft_session_set_medusa(weft_session* session, const char* path, weft_error* error);

/* Sums since the session was created or reset. A guessed token is accepted if it is what was chosen. Each pass that
 * checks guesses generates the tokens accepted in it, and one more. */
typedef struct weft_speculation_stats {
  uint64_t passes; /* that checked guesses */
  uint64_t drafted_tokens, accepted_tokens;
} weft_speculation_stats;

/* Writes the sums to *stats. size: sizeof *stats. stats may be NULL: nothing is written. */
WEFT_API void weft_session_get_speculation_stats(const weft_session* session, weft_speculation_stats* stats,
                                                 size_t size);

#ifdef __cplusplus
}
#endif
#endif
