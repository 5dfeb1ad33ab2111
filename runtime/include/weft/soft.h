/* Weft: soft tokens, prompts of ids and rows of floats: learnt prompts, patches of an image, frames of a sound. Errors,
 * ownership, threads and units are as weft.h documents them.
 * This header may still change. */
#ifndef WEFT_SOFT_H
#define WEFT_SOFT_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The n-th soft token of a context, from 0, has the id WEFT_SOFT_TOKEN + n where a function tells the context's ids. No
 * function takes such an id. */
#define WEFT_SOFT_TOKEN 0x80000000u

/* Tokens of a prompt: by their ids, or soft ones by their rows. Exactly one of the pointers is not NULL. */
typedef struct weft_prompt_part {
  const uint32_t* ids; /* (count) */
  const float* rows;   /* (count, weft_model_info.width) */
  size_t count;
} weft_prompt_part;

/* Reads rows of the vocabulary table for `count` ids to rows (count, width): row = table[id] * scale, the input of the
 * network for that token, before what the model adds for its position and before a norm of the embedding. scale is the
 * family's scale of embeddings: sqrt(width) for Gemma, 1 for most. The values are those of the device's table, whose
 * type may round the file's.
 *
 * WEFT_INVALID_ARGUMENT for an id outside the vocabulary. */
WEFT_API weft_status weft_model_rows(const weft_model* model, const uint32_t* ids, size_t count, float* rows,
                                     weft_error* error);

/* Makes the session's context exactly these parts, one after the other, with at least one token: weft_session_prompt
 * for ids and rows. A row is what weft_model_rows tells: a soft token with an id's row gives the very bits that the id
 * gives. The session copies the rows.
 *
 * The longest common prefix that the session has computed is reused; soft tokens are the same if all bits of their
 * rows are. A saved session has its rows, and a session whose device was lost (recover.h) computes them again.
 * Rows are a picture if they follow a Gemma 3 model's "<start_of_image>": they see each other, not only what is before
 * them. A Qwen3-VL model's pictures have a height and a width: weft_session_prompt_images of image.h takes them, and
 * this function refuses them.
 *
 * Penalties, the prompt's tokens of a keep-list and speculation see no soft tokens: they have no id that could be
 * generated.
 *
 * WEFT_INVALID_ARGUMENT for an id outside the vocabulary, and for rows with a value that is not finite;
 * WEFT_CONTEXT_FULL if the context cannot hold the tokens and one more; WEFT_UNSUPPORTED for an encoder-decoder, for
 * more rows than one binding of the device reaches, and for rows after a Qwen3-VL model's "<|vision_start|>". The
 * session then keeps what was set before. */
WEFT_API weft_status weft_session_prompt_parts(weft_session* session, const weft_prompt_part* parts, size_t count,
                                               weft_error* error);

#ifdef __cplusplus
}
#endif
#endif
