/* Weft: LoRA adapters (Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models"), small matrices that
 * change what a model says without a copy of its weights. Errors, ownership, threads and units are as weft.h documents
 * them.
 * This header may still change. */
#ifndef WEFT_ADAPTER_H
#define WEFT_ADAPTER_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_adapter weft_adapter;

/* Loads an adapter to the model's device. path: a GGUF file as llama.cpp's convert_lora_to_gguf.py writes it, or a
 * folder as PEFT writes it, with adapter_config.json and adapter_model.safetensors. Both kinds go with a model in
 * either format. scale: multiplies the scale of the file; 1 is usual. The file must stay as it is: weft_model_recover
 * reads it again. The model may be freed before the adapter.
 *
 * These errors name the tensor: WEFT_BAD_FILE for one whose shape does not fit the model or whose other half is
 * missing, WEFT_UNSUPPORTED for one that is for no product of the model's layers (embeddings, experts) and for a rank
 * above 1024. WEFT_UNSUPPORTED also for other methods than LoRA and for models that are no decoders.
 * WEFT_INVALID_ARGUMENT for an adapter of another architecture and for a scale that is not finite. WEFT_NOT_FOUND,
 * WEFT_IO, WEFT_OUT_OF_MEMORY. */
WEFT_API weft_status weft_adapter_load(const weft_model* model, const char* path, float scale, weft_adapter** adapter,
                                       weft_error* error);

/* Frees the adapter as soon as no session has it set. NULL does nothing. */
WEFT_API void weft_adapter_free(weft_adapter* adapter);

/* Bytes of device memory that the adapter takes, 0 for NULL. A session with an adapter also has some scratch, which
 * weft_stats.scratch_bytes counts. */
WEFT_API uint64_t weft_adapter_bytes(const weft_adapter* adapter);

/* Has the session use the adapter from its next call on; NULL: none. The session holds it: it may be freed at any time.
 * Sessions of one model may have different adapters, in a batch too. Nothing is loaded, but the session's context is
 * computed again when it is next needed.
 *
 * A saved session can be restored only with the adapter and scale that it was saved with. weft_session_copy_prefix
 * copies nothing between sessions with different adapters.
 *
 * WEFT_INVALID_ARGUMENT for an adapter that was loaded for another model, WEFT_OUT_OF_MEMORY; then nothing is
 * changed. */
WEFT_API weft_status weft_session_set_adapter(weft_session* session, const weft_adapter* adapter, weft_error* error);

#ifdef __cplusplus
}
#endif
#endif
