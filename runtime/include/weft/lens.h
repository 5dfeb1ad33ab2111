/* Weft: the logit lens and the tuned lens, which show what a model would say after each of its layers. Errors,
 * ownership, threads and units are as weft.h documents them.
 * This header may still change. */
#ifndef WEFT_LENS_H
#define WEFT_LENS_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The model after one layer, at one token of the context. The pointers are valid during the callback only. */
typedef struct weft_lens_row {
  uint32_t layer;      /* 0: the embedding; i: after the i-th layer; at most weft_model_info.layers */
  uint32_t position;   /* of the token, from 0 */
  const float* hidden; /* (width) the residual stream there */
  /* (vocab_size) what the model's final norm, vocabulary table and all that follows the table (bias, scale, soft cap)
   * make of `hidden`: unnormalised log-probabilities (natural) of the next token. NULL if they were not asked for. */
  const float* logits;
} weft_lens_row;

/* Return 0 to continue, non-zero to end the call with WEFT_CANCELLED. It may call nothing that changes the session. */
typedef int (*weft_lens_callback)(void* user, const weft_lens_row* row);

typedef struct weft_lens_options {
  size_t size;        /* of this struct, by weft_lens_options_default */
  uint32_t first;     /* position of the first token */
  uint32_t count;     /* tokens; 0: all to the end of the context */
  int without_logits; /* 1: logits are NULL, which spares most of the time */
  /* (layer_count) the layers, in the order in which the rows of a token come; one may be named twice. NULL, with
   * layer_count 0: all, from 0 to weft_model_info.layers. */
  const uint32_t* layers;
  size_t layer_count;
} weft_lens_options;

/* zeros: everything */
static inline weft_lens_options weft_lens_options_default(void) {
  weft_lens_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  return options;
}

/* Computes the hidden states of the session's context and tells them row by row: token after token, and of each token
 * the layers in the order of the options. options may be NULL: the defaults, which are everything.
 *
 * logits = W norm(hidden), with the model's own final norm and its vocabulary table W, is the logit lens
 * (nostalgebraist 2020, "interpreting GPT: the logit lens"). After the last layer these are the model's logits: as
 * weft_session_logits gives them after that token, but for rounding. Heads, biases, penalties and grammars change
 * nothing here.
 *
 * hidden is read before the final norm. A model whose norms come after its branches (BART) has no other norm than those
 * of its layers: there hidden is always normed, after the last layer too, and logits = W hidden.
 *
 * The context and the settings stay as they are; tokens before `first` that were computed before are not computed
 * again. Tokens after the last requested one are computed again by the next call that needs them. The context of an
 * encoder-decoder is the decoder's: its start token, then what it wrote. Beside the session the call takes, for its
 * duration, memory for 64 hidden states (the plan's chunk_tokens) of each layer that is asked for, and for the logits
 * of at most 16 rows (block_tokens).
 *
 * WEFT_INVALID_ARGUMENT for an empty context, positions after it, a layer that the model does not have, and layers
 * NULL with a layer_count above 0, or the reverse. If the device is lost and opened again by itself (recover.h), no
 * row is told twice. */
WEFT_API weft_status weft_session_lens(weft_session* session, const weft_lens_options* options,
                                       weft_lens_callback callback, void* user, weft_error* error);

/* Makes weft_session_lens a tuned lens (Belrose et al. 2023, arXiv 2303.08112) from now on: of the state h after layer
 * i, the logits are W norm(h + A_i h + b_i); after the last layer they stay the model's. Row and `hidden` stay as they
 * are.
 *
 * folder: config.json as the Python package tuned-lens writes it, and params.safetensors with A_i and b_i as the
 * tensors "i.weight" (width, width) and "i.bias" (width), i from 0 (the embedding) to layers - 1, of F32, F16 or BF16.
 * NULL: the logit lens again. The files are mapped, and must stay as they are. The device has the translators of the
 * layers that are asked for, as f16, during a call of weft_session_lens only.
 *
 * WEFT_INVALID_ARGUMENT for translators of a model of another width or number of layers, WEFT_BAD_FILE for a tensor
 * that is missing, of another shape, or with a number that is not finite, WEFT_UNSUPPORTED for another type of tensors
 * and for a number above f16's 65504. The session is then as it was. */
WEFT_API weft_status weft_session_set_tuned_lens(weft_session* session, const char* folder, weft_error* error);

#ifdef __cplusplus
}
#endif
#endif
