/* Weft: loading a model that has no path: an uncompressed asset in an Android package, a document that the user has
 * picked, a file that was received from another process. Errors, ownership, threads and units are as weft.h documents
 * them. */
#ifndef WEFT_DESCRIPTOR_H
#define WEFT_DESCRIPTOR_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Loads a GGUF file that is `length` bytes from byte `offset` on of an open file; length 0: up to the file's end. Any
 * offset is allowed. The bytes are mapped, not copied. The descriptor must be readable; its position is neither used
 * nor changed. It is duplicated: the caller may close it when this returns. Otherwise as weft_model_load, also in what
 * it says about early returns and about a file that changes. Errors name the descriptor and the bytes as their place.
 *
 * WEFT_INVALID_ARGUMENT for a descriptor that is not open and for bytes beyond the file's end; WEFT_IO for what is not
 * a regular file, such as a pipe, and for a descriptor that was opened for writing only; WEFT_UNSUPPORTED for bytes
 * that are not a GGUF file; and as weft_model_load. */
WEFT_API weft_status weft_model_load_fd(int descriptor, uint64_t offset, uint64_t length,
                                        const weft_model_options* options, weft_model** model, weft_error* error);

#ifdef __cplusplus
}
#endif
#endif
