/* Weft: converting models. This header is the ABI of libweft_convert, a library of its own: programs that only run
 * models do not need it. It needs no device. The rules of weft.h for errors, ownership and text hold here too. */
#ifndef WEFT_CONVERT_H
#define WEFT_CONVERT_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_convert_options {
  weft_type type;                          /* of the matrices: WEFT_TYPE_Q8, WEFT_TYPE_Q4 or WEFT_TYPE_F16 */
  weft_type vocab_type;                    /* of the vocabulary table; WEFT_TYPE_FILE: as type */
  int replace;                             /* 1: replace a file that is there already, when the new one is whole */
  int (*progress)(void* user, float done); /* as in weft_model_options */
  void* user;
} weft_convert_options;

WEFT_API weft_convert_options weft_convert_options_default(void); /* q8 for everything, nothing is replaced */

/* Writes a GGUF file of Q8_0, Q4_1 or F16 from a GGUF file or a Hugging Face folder of any family that GGUF has, on the
 * CPU; llama.cpp opens it too. Numbers are rounded as when a model is loaded with that type. Vectors stay F32; matrices
 * whose rows are no multiple of 32 become F16 instead. Two vocabulary tables that WEFT_TIE_AUTO makes one are written
 * as one. out is written whole, or not changed. report (may be NULL): a JSON object of tensor_bytes, types and
 * tensors, with errors as in weft_model_describe. */
WEFT_API weft_status weft_convert(const char* in, const char* out, const weft_convert_options* options, char** report,
                                  weft_error* error);

#ifdef __cplusplus
}
#endif
#endif
