/* Weft: guessing several tokens ahead and checking them in one pass (Leviathan et al. 2023; Chen et al. 2023). Errors,
 * ownership, threads and units are as weft.h documents them.
 * This header may still change. */
#ifndef WEFT_SPECULATE_H
#define WEFT_SPECULATE_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* weft_request.speculation says where guesses come from; a session checks them from its next weft_session_generate on.
 * How much is guessed follows what passes of several tokens have taken and how often guesses were right, so nothing is
 * guessed where it does not pay.
 *
 * WEFT_SPECULATE_LOOKUP: the text is taken to go on as it did where the context had the same tokens before (Saxena
 * 2023, "Prompt lookup decoding"), which pays for rewriting, code, and answers from a page; nothing else is loaded.
 *
 * WEFT_SPECULATE_DRAFT: a second model guesses: a smaller one with the same tokenizer, which generates several tokens
 * in the time of one. It gets a session of its own, on the device that it was loaded on, and draws with this session's
 * sampling, seed and policy. It reads the whole prompt too. If its device is lost, the session goes on without guesses
 * until weft_model_recover brings the draft back, or the next generate does for a draft with weft_model_set_recovery.
 * WEFT_INVALID_ARGUMENT for a draft with another tokenizer, WEFT_UNSUPPORTED if one of the models is no decoder,
 * WEFT_OUT_OF_MEMORY.
 *
 * WEFT_SPECULATE_MEDUSA: Medusa heads guess (Cai et al. 2024): small matrices that were trained for the session's
 * model, on its own hidden states, and are projected on its own vocabulary table. A pass checks their guesses as a
 * tree, where the model's layers allow it (docs/speculation.md). They are loaded from a GGUF file (docs/formats.md) to
 * the model's device for this session, and again after weft_model_recover. WEFT_INVALID_ARGUMENT for heads of a model
 * of another width, WEFT_BAD_FILE for a file that is none or has a number that is not finite, WEFT_NOT_FOUND, WEFT_IO,
 * WEFT_OUT_OF_MEMORY.
 *
 * WEFT_SPECULATE_ASSISTANT: the drafter of a Gemma 4 guesses, Transformers' gemma4_assistant: a small network that was
 * trained for the session's model, on its last states, and that attends to the keys and values of its session. It is
 * loaded from a Hugging Face folder to the model's device for this session, and again after weft_model_recover.
 * WEFT_INVALID_ARGUMENT for a drafter of another model: another width, vocabulary, window or shape of caches, or no
 * Gemma 4; WEFT_BAD_FILE for a file or folder that is none, WEFT_UNSUPPORTED, WEFT_NOT_FOUND, WEFT_IO,
 * WEFT_OUT_OF_MEMORY.
 *
 * With a draft, Medusa heads or a drafter, a session without a context generates some 20 tokens when they are set, for
 * at most a second, to learn how long checks take; not with a limited duty (duty.h).
 *
 * The tokens are those without guesses, with every head and sampling: each is chosen as it would be alone, and a guess
 * only saves the pass if it is what was chosen. So the distribution is the model's. As in batches, sums are added up in
 * another order, and logits that are equal up to rounding may come out the other way; with
 * weft_model_options.int8_inputs also logits that differ by more, where a check rounds its inputs and a pass of one
 * token does not. While a session has a grammar and a keep-list together, nothing is guessed.
 *
 * In a batch one pass checks the guesses of all sessions, as many of each as make the most tokens a second of all
 * sessions together. There only WEFT_SPECULATE_LOOKUP guesses, and only in batches of at most WEFT_MAX_BATCH / 2
 * sessions; the others have no effect. A session with a grammar, which has passes of its own in a weft_batch, guesses
 * there as it does alone, in all ways. */

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
