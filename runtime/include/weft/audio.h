/* Weft: speech, with models of the family Whisper. Errors, ownership, threads and units are as weft.h documents them.
 * This header may still change. */
#ifndef WEFT_AUDIO_H
#define WEFT_AUDIO_H

#include <weft/duty.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes down speech with a model, one thread at a time. It takes memory on the model's device, as a session does. */
typedef struct weft_listener weft_listener;

/* Creates a listener. WEFT_UNSUPPORTED for a model that is no Whisper, or whose tokenizer lacks Whisper's tokens;
 * WEFT_OUT_OF_MEMORY as weft_session_create. */
WEFT_API weft_status weft_listener_create(const weft_model* model, weft_listener** listener, weft_error* error);
WEFT_API void weft_listener_free(weft_listener* listener); /* as weft_session_free */

/* The samples that models hear: mono, 32-bit floats of about -1 to 1. Other rates are brought to this one. */
#define WEFT_SAMPLES_PER_SECOND 16000

/* A word, with the space before it and the punctuation after it. In languages that have no spaces between words, a
 * character or a few. */
typedef struct weft_heard_word {
  double begin, end; /* seconds from the recording's first sample, within about 0.1 s */
  const char* text;  /* UTF-8 */
} weft_heard_word;

/* A stretch of speech. Texts and words are valid during the callback only. */
typedef struct weft_heard {
  double begin, end; /* seconds from the recording's first sample */
  const char* text;  /* UTF-8, as the model writes it: most begin with a space */
  /* Mean of the natural logarithms of the tokens' probabilities, and the probability that nobody speaks: of the 30
   * seconds that it was heard with. */
  double mean_logprob, no_speech;
  const weft_heard_word* words; /* of the text, in their order; NULL if they were not asked for */
  size_t word_count;
} weft_heard;

/* Return 0 to continue, non-zero to end the call with WEFT_CANCELLED. It may call weft_listener_cancel, and nothing
 * else of this listener. */
typedef int (*weft_heard_callback)(void* user, const weft_heard* heard);

typedef struct weft_listen_options {
  size_t size;                 /* of this struct, by weft_listen_options_default */
  const char* language;        /* a code such as "de"; NULL: found by the first 30 seconds that are not silent */
  int translate;               /* not 0: to English */
  const char* prompt;          /* UTF-8 text that comes before the recording, for names and spelling; NULL: none */
  uint32_t samples_per_second; /* of the recording, 1000 to 768000; 0: WEFT_SAMPLES_PER_SECOND */
  /* Tried in turn, 0 to 2 each, until the text of 30 seconds seems right: its tokens' mean_logprob is at least -1, and
   * it does not repeat itself so much that DEFLATE packs it more than 2.1 times with its fixed code. If none is right,
   * the likeliest text is taken. 0 is greedy; for others tokens are drawn, with the same random numbers each time.
   * NULL: 0, 0.2, 0.4, 0.6, 0.8, 1. */
  const float* temperatures;
  size_t temperature_count;
  /* Not 0: segments have words. Each 30 seconds' text is then read once more, for the decoder's attention to what it
   * hears. The text stays the same. */
  int words;
  weft_heard_callback callback;
  void* user; /* passed to callback */
} weft_listen_options;

/* zeros: a callback has to be set */
static inline weft_listen_options weft_listen_options_default(void) {
  weft_listen_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  return options;
}

/* Begins a recording, and gives up the one before if it has not ended. The options' strings and temperatures are
 * copied. WEFT_INVALID_ARGUMENT for values that are out of range, a language that the model does not know, and a
 * translation by a model that knows English only. */
WEFT_API weft_status weft_listener_begin(weft_listener* listener, const weft_listen_options* options,
                                         weft_error* error);

/* Hears the next samples of the recording. Once 30 seconds are there that were not heard before, it tells what was said
 * in them, stretch by stretch, in their order; no more than these 30 seconds are kept. The same samples give the same
 * text, in whatever pieces they come. Silence is skipped, and windows of 30 seconds in which probably nobody speaks.
 *
 * WEFT_INVALID_ARGUMENT if no recording has begun, and for samples that are not finite, of which none is heard then;
 * WEFT_CANCELLED, WEFT_DEVICE_LOST as weft_encoder_run, and other errors end the recording. */
WEFT_API weft_status weft_listener_feed(weft_listener* listener, const float* samples, size_t count, weft_error* error);

/* Tells what was said in the rest, and ends the recording. Errors as weft_listener_feed. */
WEFT_API weft_status weft_listener_finish(weft_listener* listener, weft_error* error);

/* The three in one call, for a whole recording. */
WEFT_API weft_status weft_listen(weft_listener* listener, const float* samples, size_t count,
                                 const weft_listen_options* options, weft_error* error);

/* Has the listener's work submitted as WEFT_POLICY_POLITE has it, a layer of the encoder or two of the decoder at a
 * time, and keep to the duty's share of the device's time. NULL: as fast as possible (the default). A cancel ends the
 * pauses. */
WEFT_API weft_status weft_listener_use_duty(weft_listener* listener, weft_duty* duty, weft_error* error);

/* Returns the language of the recording, or of the last one: the one that was given, or that was found; "" before. It
 * is valid until the next call for this listener. listener is not NULL. */
WEFT_API const char* weft_listener_language(const weft_listener* listener);

/* Ends the call under way, or the next one that hears something, with WEFT_CANCELLED. From any thread, and from signal
 * handlers. */
WEFT_API void weft_listener_cancel(weft_listener* listener);
/* Forgets a cancel that came when nothing was heard. From any thread. */
WEFT_API void weft_listener_clear_cancel(weft_listener* listener);

#ifdef __cplusplus
}
#endif
#endif
