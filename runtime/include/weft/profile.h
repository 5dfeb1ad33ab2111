/* Weft: where the device's time goes. Errors, ownership and threads are as weft.h documents them.
 * This header may still change. */
#ifndef WEFT_PROFILE_H
#define WEFT_PROFILE_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Measures where the device's time goes in one pass over the network. The pass computes the last `tokens` tokens of the
 * context: 1 as in decoding, more as in a prompt's last chunk (at most what the context has and one pass takes). It
 * runs `repeat` times (>= 1) with a timestamp after every dispatch; the run of median length is reported. *json: an
 * object, which the caller frees:
 *
 *   tokens             tokens in the pass
 *   position           position of the first of them
 *   stages             array of {name, seconds, dispatches, bytes, multiplies}, in the order of the pass
 *     bytes            bytes of weights and cache that the stage must read; 0: not known
 *     multiplies       multiplications of a weight with an activation; 0: not known
 *   dispatches         sum over the stages
 *   device_seconds     sum over the stages
 *   between_seconds    sum of the times from the last dispatch of a command buffer to the first of the next: a profile
 *                      has a command buffer for each layer, other passes often have one in all
 *   submitted_seconds  from before the submission until the CPU sees its end
 *
 * The context does not change, nor does what will be generated. WEFT_UNSUPPORTED if the device has no timestamps;
 * WEFT_CONTEXT_FULL if the context has no room for one more token; WEFT_INVALID_ARGUMENT if tokens or repeat is 0 or
 * the context is empty. */
WEFT_API weft_status weft_session_profile(weft_session* session, uint32_t tokens, uint32_t repeat, char** json,
                                          weft_error* error);

/* The same for one token at `position`, without computing the tokens before it: their keys and values are zeros, which
 * take as much time. Empties the context and the statistics first. WEFT_CONTEXT_FULL if position + 2 is more than the
 * context holds; WEFT_UNSUPPORTED for an encoder-decoder or without timestamps. */
WEFT_API weft_status weft_session_profile_after(weft_session* session, uint32_t position, uint32_t repeat, char** json,
                                                weft_error* error);

#ifdef __cplusplus
}
#endif
#endif
