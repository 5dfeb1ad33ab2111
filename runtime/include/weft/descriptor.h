/* Weft: what has no path. A model in a part of an open file (an uncompressed asset in an Android package, a document
 * that the user has picked, a file that was received from another process) or in memory, and a saved session in an open
 * file. Errors, ownership, threads and units are as weft.h documents them.
 * This header may still change. */
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

/* Loads a GGUF file that is `length` bytes of memory, at any address. They are not copied, and must stay as they are
 * until the model is freed, and its sessions and encoders too: its layers may be loaded after this returns, and a
 * recovery (recover.h) loads it again. Otherwise as weft_model_load. A model that is only in a stream needs less memory
 * through weft_model_load_fd, as a file without a name (O_TMPFILE).
 *
 * WEFT_UNSUPPORTED for bytes that are not a GGUF file; and as weft_model_load. */
WEFT_API weft_status weft_model_load_memory(const void* bytes, size_t length, const weft_model_options* options,
                                            weft_model** model, weft_error* error);

/* As weft_session_save, at the position of an open descriptor, which may be a pipe or a socket and stays
 * open. A regular file is cut off after it. It is written part by part, in the memory of a layer's state: if it
 * fails, the parts that were written stay, and weft_session_restore refuses them. The bytes are those of
 * weft_session_save: weft_session_restore reads a file that begins with them. If the device is lost when a pipe or a
 * socket has a part, the call fails with WEFT_DEVICE_LOST, whatever weft_model_set_recovery says. The session is in use
 * until a slow reader has taken everything.
 *
 * WEFT_INVALID_ARGUMENT also for a descriptor that is not open for writing; WEFT_IO also if nobody reads a pipe
 * (SIGPIPE is not raised). */
WEFT_API weft_status weft_session_save_fd(const weft_session* session, int descriptor, const char* note,
                                          weft_error* error);

/* As weft_session_restore, from the position of an open descriptor up to its end. A pipe or a socket is
 * waited for until its other side is closed. The session is in use from then on only: if another call uses it at that
 * time, WEFT_INVALID_ARGUMENT, and what was read is lost. WEFT_INVALID_ARGUMENT also for a descriptor that is not open
 * for reading. */
WEFT_API weft_status weft_session_restore_fd(weft_session* session, int descriptor, char** note, weft_error* error);

#ifdef __cplusplus
}
#endif
#endif
