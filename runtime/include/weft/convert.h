/* Weft: converting models. This header is the ABI of libweft_convert, a library of its own: programs that only run
 * models do not need it. It needs no device. The rules of weft.h for errors, ownership and text hold here too.
 * This header may still change. */
#ifndef WEFT_CONVERT_H
#define WEFT_CONVERT_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Types of files; weft_file_type_name() gives the name that llama.cpp's llama-quantize has for each. The first three
 * have the values of weft_type. The matrices have the type of the name, K types in blocks of 256 values. The table that
 * makes the logits is Q6_K in files of Q4_0, IQ4_NL and the K types, and Q8_0 in those of MXFP4. "_M": attn_v and
 * ffn_down of half of the layers are Q6_K, and matrices of queries, keys and values in one have one bit more. */
typedef enum weft_file_type WEFT_ENUM {
  WEFT_FILE_TYPE_DEFAULT = 0, /* for vocab_type: as type says */
  WEFT_FILE_TYPE_F16 = 1,
  WEFT_FILE_TYPE_Q8_0 = 2,
  WEFT_FILE_TYPE_Q4_1 = 3,
  WEFT_FILE_TYPE_Q4_0 = 4,
  WEFT_FILE_TYPE_IQ4_NL = 5,
  WEFT_FILE_TYPE_MXFP4 = 6,
  WEFT_FILE_TYPE_Q4_K_S = 7,
  WEFT_FILE_TYPE_Q4_K_M = 8,
  WEFT_FILE_TYPE_Q5_K_S = 9,
  WEFT_FILE_TYPE_Q5_K_M = 10,
  WEFT_FILE_TYPE_Q6_K = 11
} weft_file_type;

/* "q4_k_m"; NULL for a value that is no type, as the one after the last. Static. */
WEFT_API const char* weft_file_type_name(weft_file_type type);

typedef struct weft_convert_options {
  size_t size;               /* of this struct, by weft_convert_options_default */
  weft_file_type type;       /* not WEFT_FILE_TYPE_DEFAULT */
  weft_file_type vocab_type; /* of the vocabulary table; WEFT_FILE_TYPE_DEFAULT: as type says */
  int replace;               /* 1: replace a file that is there already, when the new one is whole */
  /* Importance matrix of this model, which says how much an error of each column matters: a GGUF file as `weft imatrix`
   * and llama.cpp's llama-imatrix write it, or the latter's older format; NULL: all columns matter alike. F16, Q8_0 and
   * Q4_1 do not use it. */
  const char* importance;
  int (*progress)(void* user, float done); /* as in weft_model_options */
  void* user;
} weft_convert_options;

/* q8 for everything, nothing is replaced */
static inline weft_convert_options weft_convert_options_default(void) {
  weft_convert_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.type = WEFT_FILE_TYPE_Q8_0;
  return options;
}

/* Writes a GGUF file of another type from a GGUF file or a Hugging Face folder of any family that GGUF has, on all
 * cores of the CPU; llama.cpp opens it too. Numbers become F16, Q8_0 and Q4_1 as when a model is loaded with that type.
 * For the other types each block gets the scales and integers of a small squared error, weighted by `importance`;
 * tensors that have the type already stay as they are. Vectors stay F32. Matrices whose rows are no multiple of 256
 * become Q5_0 instead of Q4_K, Q5_1 instead of Q5_K and Q8_0 instead of Q6_K, as llama.cpp has it; those that are no
 * multiple of 32 become F16. Two vocabulary tables that WEFT_TIE_AUTO makes one are written as one. out is written
 * whole, or not changed. report (may be NULL): a JSON object of tensor_bytes, types and tensors, with errors as in
 * weft_model_describe; "weighted" says of a tensor whether importance was used. WEFT_INVALID_ARGUMENT for an importance
 * matrix of another model, naming the tensor. */
WEFT_API weft_status weft_convert(const char* in, const char* out, const weft_convert_options* options, char** report,
                                  weft_error* error);

#ifdef __cplusplus
}
#endif
#endif
