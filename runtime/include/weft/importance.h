/* Weft: importance matrices, which tell weft_convert (convert.h) and llama.cpp's llama-quantize how much a rounding
 * error of each column of a matrix matters: the mean of the squared inputs that it is multiplied by. Errors, owners,
 * threads and units are as weft.h documents them.
 * This header may still change. */
#ifndef WEFT_IMPORTANCE_H
#define WEFT_IMPORTANCE_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_importance_options {
  size_t size;      /* of this struct, by weft_importance_options_default */
  const char* name; /* of the text, which the file has; NULL: "text" */
  /* The text is cut into parts of so many tokens, or of the model's context less one if that is fewer, each with a
   * context of its own; 0: 512. imatrix.chunk_size of the file is the number that was used. */
  uint32_t part_tokens;
  int replace;                             /* 1: replace a file that is there already, when the new one is whole */
  int (*progress)(void* user, float done); /* as in weft_model_options */
  void* user;
} weft_importance_options;

/* zeros */
static inline weft_importance_options weft_importance_options_default(void) {
  weft_importance_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  return options;
}

/* Measures a decoder's products over a text and writes the GGUF file `out` in llama.cpp's format: general.type
 * "imatrix", and for the weights NAME of each product of the layers NAME.in_sum2 and NAME.counts, with GGUF's names.
 * Weights of experts and vocabulary tables are not measured. Each part begins with the token that texts of this model
 * begin with, if there is one. text: UTF-8; its control tokens are plain text. tokens (may be NULL): how many were
 * read.
 *
 * Takes device memory for the inputs of one chunk of tokens of all products. WEFT_UNSUPPORTED for encoders and
 * encoder-decoders, for contexts below 3 tokens, and for folders of Qwen 3.5; WEFT_INVALID_ARGUMENT for a text without
 * tokens, and for a file that is there without `replace`. `out` is opened before anything is measured. */
WEFT_API weft_status weft_measure_importance(const weft_model* model, const char* text,
                                             const weft_importance_options* options, const char* out, uint64_t* tokens,
                                             weft_error* error);

#ifdef __cplusplus
}
#endif

#endif
