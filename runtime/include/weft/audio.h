/* Weft: speech, with models of the family Whisper. Errors, ownership, threads and units are as weft.h documents them.
 */
#ifndef WEFT_AUDIO_H
#define WEFT_AUDIO_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes down speech with a model, one thread at a time. It takes memory on the model's device, as a session does. */
typedef struct weft_listener weft_listener;

/* Creates a listener. WEFT_UNSUPPORTED for a model that is no Whisper, or whose tokenizer lacks Whisper's tokens;
 * WEFT_OUT_OF_MEMORY as weft_session_create. */
WEFT_API weft_status weft_listener_create(const weft_model* model, weft_listener** listener, weft_error* error);
WEFT_API void weft_listener_free(weft_listener* listener); /* as weft_session_free */

/* The samples of a recording: mono, 32-bit floats of about -1 to 1. */
#define WEFT_SAMPLES_PER_SECOND 16000

/* A stretch of speech. The text is valid during the callback only. */
typedef struct weft_heard {
  double begin, end; /* seconds from the recording's first sample */
  const char* text;  /* UTF-8, as the model writes it: most begin with a space */
  /* Mean of the natural logarithms of the tokens' probabilities, and the probability that nobody speaks: of the 30
   * seconds that it was heard with. */
  double mean_logprob, no_speech;
} weft_heard;

/* Return 0 to continue, non-zero to end the call with WEFT_CANCELLED. It may call weft_listener_cancel, and nothing
 * else of this listener. */
typedef int (*weft_heard_callback)(void* user, const weft_heard* heard);

typedef struct weft_listen_options {
  const char* language; /* a code such as "de"; NULL: found by the first 30 seconds */
  int translate;        /* not 0: to English */
  weft_heard_callback callback;
  void* user; /* passed to callback */
} weft_listen_options;

/* Hears a whole recording, and tells what was said, stretch by stretch, in their order. It takes about twice the
 * samples' memory for their spectrogram. Decoding is greedy: the same samples give the same text. Windows of 30 seconds
 * that are probably silent are skipped. count 0: nothing was said.
 *
 * WEFT_INVALID_ARGUMENT for a sample that is not finite, a language that the model does not know, and a translation by
 * a model that knows English only; WEFT_CANCELLED; WEFT_DEVICE_LOST as weft_encoder_run. */
WEFT_API weft_status weft_listen(weft_listener* listener, const float* samples, size_t count,
                                 const weft_listen_options* options, weft_error* error);

/* Returns the language of the last recording: the one that was given, or that was found; "" before. It is valid until
 * the next weft_listen. listener is not NULL. */
WEFT_API const char* weft_listener_language(const weft_listener* listener);

/* Ends the weft_listen under way, or the next one, with WEFT_CANCELLED. From any thread, and from signal handlers. */
WEFT_API void weft_listener_cancel(weft_listener* listener);

#ifdef __cplusplus
}
#endif
#endif
