/* Weft: what a server needs to know of texts besides weft.h. Errors, ownership, threads and units are as weft.h
 * documents them. */
#ifndef WEFT_TEXT_H
#define WEFT_TEXT_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns what a token stands for. Of an ordinary token, *control is 0 and the bytes are its part of a text: possibly
 * only a part of a UTF-8 character, or none. Of a control token, *control is 1 and the bytes are its name as the
 * model's file spells it, such as "<|im_end|>". Writes at most capacity bytes and sets *count to the number there are.
 * bytes may be NULL if capacity is 0. WEFT_INVALID_ARGUMENT if id is not below vocab_size. */
WEFT_API weft_status weft_token_bytes(const weft_model* model, uint32_t id, char* bytes, size_t capacity, size_t* count,
                                      int* control, weft_error* error);

#ifdef __cplusplus
}
#endif
#endif
