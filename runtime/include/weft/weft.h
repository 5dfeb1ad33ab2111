/* Weft: small language models on any Vulkan GPU. This header is the only ABI of libweft.
 *
 * Errors. Every function that can fail returns a weft_status and takes a `weft_error *` last, which may be NULL. On
 * failure it is filled in and nothing else is changed; on success it is left alone. No exception and no abort leaves
 * the library.
 *
 * Ownership. A pointer got through an out-parameter is the caller's until it is given to the matching free function
 * (weft_model_free, weft_session_free, weft_string_free; each takes NULL). Arguments are read during the call only.
 * Free every session of a model before the model.
 *
 * Threads. A weft_model is constant after loading: any number of threads may use it at once, and any number of sessions
 * may run over it at once. A weft_session belongs to one thread at a time; only weft_session_cancel may be called on it
 * from another thread, or from a signal handler.
 *
 * Text is UTF-8; lengths are in bytes. Token ids are the tokenizer's, 0 .. vocab_size - 1.
 */
#ifndef WEFT_H
#define WEFT_H

#include <stddef.h>
#include <stdint.h>

#if defined(WEFT_BUILDING_LIBRARY)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

typedef enum weft_status {
  WEFT_OK = 0,
  WEFT_INVALID_ARGUMENT, /* an argument is outside its documented range */
  WEFT_NOT_FOUND,        /* a file, device or tensor is not there */
  WEFT_IO,               /* the operating system refused a read or a write */
  WEFT_BAD_FILE,         /* a file contradicts itself or its format */
  WEFT_UNSUPPORTED,      /* well-formed, but Weft cannot run it */
  WEFT_NO_DEVICE,        /* no Vulkan loader, driver or usable device */
  WEFT_OUT_OF_MEMORY,
  WEFT_DEVICE_LOST,  /* free the device's sessions and models, then load again */
  WEFT_CONTEXT_FULL, /* the session's context cannot hold what was asked for */
  WEFT_CANCELLED,    /* a callback or weft_session_cancel ended the call */
  WEFT_INTERNAL      /* a bug in Weft or in the driver: please report it */
} weft_status;

typedef struct weft_error {
  weft_status code;
  char sentence[512]; /* what is wrong, with the values that disagree */
  char place[512];    /* the file, tensor, option or function it is about; may be empty */
  char hint[256];     /* what to do about it; may be empty */
} weft_error;

WEFT_API const char* weft_version(void);                   /* "0.1.0"; static */
WEFT_API const char* weft_status_name(weft_status status); /* "WEFT_BAD_FILE"; static */
WEFT_API void weft_string_free(char* text);

/* Lists the machine's Vulkan devices as a JSON array of objects: index, name, driver, driver_version, kind
 * ("discrete", "integrated", "virtual", "cpu", "other"), memory_bytes, caps (object) and plan (object: what Weft will
 * do there), or usable: false and why. No device at all is an empty array; no Vulkan loader is WEFT_NO_DEVICE. */
WEFT_API weft_status weft_devices(char** json, weft_error* error);

/* Measures which tile and workgroup shapes suit a device best, and keeps them in a file beside the pipeline cache,
 * which models loaded on the device from then on use (until the driver changes; WEFT_TUNE=0 in the environment ignores
 * it). Takes some seconds, more where a driver compiles slowly. Results are as deterministic as before, and equal up to
 * the rounding of sums. device as in weft_model_options; progress (may be NULL) likewise. *json (may be NULL): {device,
 * driver, file, chosen: {name: value}, trials: [{name, value, seconds, refusal}]}. */
WEFT_API weft_status weft_tune(const char* device, int (*progress)(void* user, float done), void* user, char** json,
                               weft_error* error);

/* ---- models -------------------------------------------------------------------------------------------------------
 */

typedef struct weft_model weft_model;

typedef enum weft_type {
  /* for each matrix what comes closest to its type in the file: f16 for F32, F16 and BF16, q4 for Q4_0, Q4_1 and Q4_K,
   * q8 for GGUF's other Q types; the finest where several matrices are kept as one */
  WEFT_TYPE_FILE = 0,
  WEFT_TYPE_F16,
  WEFT_TYPE_Q8, /* blocks of 32: 8-bit integers and an f16 scale */
  WEFT_TYPE_Q4  /* blocks of 32: integers of 0 to 15, an f16 scale and an f16 minimum */
} weft_type;

typedef struct weft_model_options {
  const char* device; /* index, or part of a name in any case; NULL: $WEFT_DEVICE, else the best device */
  weft_type type;     /* how matrices and the vocabulary table are kept on the device */
  /* Called on the loading thread with 0..1; return non-zero to give up (WEFT_CANCELLED). May be NULL: then the load
   * may return before the layers are there (see weft_model_load). */
  int (*progress)(void* user, float done);
  void* user;
  /* Bytes of device memory that the model and its sessions may take together; 0: what there is. Where the weights would
   * take more than three quarters of it, the layers wait in the host's memory, and each is copied to the device while
   * the one before it is computed; the vocabulary table stays there. That costs time for every token. WEFT_UNSUPPORTED
   * for encoders' layers. */
  uint64_t memory_budget;
  /* Not 0: prompts, and batches of more sessions than the plan's block_tokens, round what a q8 or q4 matrix is
   * multiplied with to 8 bits, 32 values to a scale, and multiply by integer dot products. That is meant for devices
   * whose caps have int8_dot_fast, and changes logits a little (README). Where caps have fp16, f16 matrices are then
   * multiplied with inputs rounded to halves. WEFT_UNSUPPORTED without int8_dot. */
  int int8_inputs;
  /* How the vocabulary table (or both tables, where they are separate) is kept on the device; WEFT_TYPE_FILE: as
   * `type` says. A q4 model decodes well with a q8 table, of which the certified and fast heads read less. */
  weft_type vocab_type;
} weft_model_options;

WEFT_API weft_model_options weft_model_options_default(void);

/* Loads a GGUF file or a Hugging Face folder. path NULL: the model installed in share/weft. options NULL: the defaults.
 *
 * Without options->progress the load of a decoder returns as soon as everything has been checked but the layers'
 * numbers, all device memory is allocated, and everything but the layers is on the device (not where they are streamed,
 * see memory_budget). A thread of the model brings these in order, and the first passes over the network wait for each.
 * What keeps one away (a number that no type holds, a file that was cut meanwhile) is the error of every call that
 * needs it. The file must not be written to until then; weft_model_describe waits for all of it. */
WEFT_API weft_status weft_model_load(const char* path, const weft_model_options* options, weft_model** model,
                                     weft_error* error);
WEFT_API void weft_model_free(weft_model* model);

typedef struct weft_model_info {
  const char* family;   /* "llama"; owned by the model, as are the strings below */
  const char* type;     /* "f16", "q8" or "q4"; "q8+q4" where matrices are kept as several, finest first */
  const char* device;   /* the device's name */
  const char* driver;   /* the driver's name and version */
  uint32_t vocab_size;  /* rows of the vocabulary table */
  uint32_t layers;      /* count */
  uint32_t width;       /* of a hidden state, elements */
  uint32_t max_context; /* tokens the model was made for */
  int tied;             /* 1: gather and projection read one table */
  int has_chat_template;
  uint64_t parameters;      /* count; a shared table counts once */
  uint64_t vocab_bytes;     /* device memory of the vocabulary table or tables */
  uint64_t layer_bytes;     /* device memory of everything else that is weights */
  uint64_t bytes_per_token; /* weight bytes read to decode one token */
  double load_seconds;
  uint64_t tokenizer_fingerprint; /* of the tokens, in order; keep-lists are bound to it */
  uint32_t mask_token;            /* stands for a token to be predicted, BERT's "[MASK]"; UINT32_MAX: there is none */
  uint64_t streamed_bytes;        /* host memory of layers that wait there; 0: all are on the device */
  uint64_t device_bytes;          /* device memory that the model and its sessions take now */
  uint64_t most_device_bytes;     /* and took at any time */
  int reads_prompt_apart;         /* 1: an encoder-decoder as T5; see weft_session_prompt */
} weft_model_info;

WEFT_API weft_model_info weft_model_get_info(const weft_model* model);

/* What the device holds, as a JSON object: the fields above; tensors: an array of {name, shape, file_type, device_type,
 * device_bytes, buffer, exact, largest_error, relative_error}; types: the same errors for each pair of types, an array
 * of {file_type, device_type, tensors, exact, largest_error, relative_error}; buffers: an array of {name, bytes,
 * users}. exact: no number of the file was rounded on its way to the device. largest_error: the most one was changed
 * by; relative_error: that, relative to its tensor's largest magnitude. The shared vocabulary table is one buffer with
 * both its users. */
WEFT_API weft_status weft_model_describe(const weft_model* model, char** json, weft_error* error);

/* ---- text -----------------------------------------------------------------------------------------------------------
 */

/* Token ids of a text. Texts such as "<|eot|>" in it are plain characters unless parse_special. add_bos: put the
 * model's begin-of-text token first if the model wants one, and behind the text what ends an encoder's input. Writes at
 * most capacity ids and sets *count to the number there are; when that is more than capacity the ids are cut, and the
 * status is still WEFT_OK. ids may be NULL with capacity 0. */
WEFT_API weft_status weft_tokenize(const weft_model* model, const char* text, size_t length, int parse_special,
                                   int add_bos, uint32_t* ids, size_t capacity, size_t* count, weft_error* error);

/* The text of some ids; control tokens give none, bytes that are no UTF-8 give U+FFFD. The caller frees *text. */
WEFT_API weft_status weft_detokenize(const weft_model* model, const uint32_t* ids, size_t count, char** text,
                                     weft_error* error);

typedef struct weft_message {
  const char* role; /* "system", "user" or "assistant" */
  const char* content;
} weft_message;

/* Token ids of a conversation through the model's chat template, ending where the assistant's answer begins. Special
 * tokens come from the template only, never from a message's content. WEFT_UNSUPPORTED if the model has no template.
 * ids, capacity and count as in weft_tokenize. */
WEFT_API weft_status weft_apply_chat_template(const weft_model* model, const weft_message* messages,
                                              size_t message_count, uint32_t* ids, size_t capacity, size_t* count,
                                              weft_error* error);

/* ---- keep-lists -----------------------------------------------------------------------------------------------------
 */

/* The ids that a list keeps, ascending: the part of the vocabulary a session is to choose from. list: terms with commas
 * between them, worked off from left to right: a preset's name or else a file's path adds tokens, with '!' before it
 * takes them away (from all tokens if it is the first). "!prompt" tells a session not to add its prompt's tokens; it
 * has no effect here. Presets, by the characters a token holds:
 *   ascii         ASCII
 *   code          printable ASCII, tabs and line ends
 *   latin         Latin letters, and the digits, punctuation, symbols, emoji and spaces of no script of their own
 *   greek, cyrillic, arabic, hebrew, devanagari, cjk   letters of these scripts
 *   digits        the digits 0 to 9
 *   punctuation   punctuation and symbols
 * Control tokens, and tokens of one byte where any text can be written with them, are always kept; list NULL: those
 * alone.
 * Files hold a token's id or its text as a JSON string on each line, '#' begins a comment; one that weft_vocab_save
 * wrote for another tokenizer is refused. ids, capacity and count as in weft_tokenize. */
WEFT_API weft_status weft_vocab_keep(const weft_model* model, const char* list, uint32_t* ids, size_t capacity,
                                     size_t* count, weft_error* error);

/* Writes these ids, in any order, to a file that weft_vocab_keep reads for models of the same tokenizer. A reader sees
 * the file that was there before or the whole new one. */
WEFT_API weft_status weft_vocab_save(const weft_model* model, const uint32_t* ids, size_t count, const char* path,
                                     weft_error* error);

/* ---- encoders -------------------------------------------------------------------------------------------------------
 */

/* Reads texts with a model whose tokens see what follows them too, as BERT. Belongs to one thread at a time; any number
 * may run over a model; of an encoder-decoder it is the encoder alone. Free it before the model. */
typedef struct weft_encoder weft_encoder;

/* WEFT_UNSUPPORTED for a model that has no encoder. */
WEFT_API weft_status weft_encoder_create(const weft_model* model, weft_encoder** encoder, weft_error* error);
WEFT_API void weft_encoder_free(weft_encoder* encoder);

/* Reads an input: a text's ids as weft_tokenize gives them with add_bos, 1 to max_context (else WEFT_CONTEXT_FULL). */
WEFT_API weft_status weft_encoder_run(weft_encoder* encoder, const uint32_t* ids, size_t count, weft_error* error);

typedef enum weft_pooling {
  WEFT_POOL_MODEL = 0, /* as the model's files say, the mean where they say nothing */
  WEFT_POOL_MEAN,      /* the mean of all tokens' hidden states */
  WEFT_POOL_CLS        /* the first token's */
} weft_pooling;

/* The embedding of the last input: width floats (count must be that), of Euclidean length 1, so that the scalar product
 * of two texts' is the cosine of the angle between them. */
WEFT_API weft_status weft_encoder_embedding(weft_encoder* encoder, weft_pooling pooling, float* embedding, size_t count,
                                            weft_error* error);

/* What the token at a place of the last input is, going by its hidden state: vocab_size logits (count must be that).
 * Usually that token is the info's mask_token. WEFT_UNSUPPORTED for a model without a masked-token head. */
WEFT_API weft_status weft_encoder_masked_logits(weft_encoder* encoder, size_t place, float* logits, size_t count,
                                                weft_error* error);

/* ---- sessions
 * --------------------------------------------------------------------------------------------------------- */

typedef struct weft_session weft_session;

/* How a session's work is handed to the device; what is generated is the same. */
typedef enum weft_policy {
  WEFT_POLICY_THROUGHPUT = 0, /* whole tokens at once, and the next ones behind them: the fastest */
  /* a layer or two at a time, at most two in flight, so that others who use the device (a screen to be drawn) get their
   * turn in between, and drivers that give up on long work do not */
  WEFT_POLICY_POLITE
} weft_policy;

typedef struct weft_session_options {
  uint32_t context; /* tokens the session can hold; 0: the model's own maximum, but at most 4096 */
  weft_type kv;     /* of the cached keys and values: WEFT_TYPE_F16, or WEFT_TYPE_Q8 for about half the memory;
                       WEFT_TYPE_FILE: f16 */
  weft_policy policy;
} weft_session_options;

WEFT_API weft_session_options weft_session_options_default(void);
WEFT_API weft_status weft_session_create(const weft_model* model, const weft_session_options* options,
                                         weft_session** session, weft_error* error);
WEFT_API void weft_session_free(weft_session* session);

/* How the next token is chosen. Applied in this order, as in Hugging Face Transformers: repeat_penalty; the logit bias,
 * presence_penalty and frequency_penalty; temperature, top_k, top_p, min_p, typical_p. Ties at a threshold are kept.
 * Same seed, same device, same prompt: same text. */
typedef struct weft_sampling {
  float temperature;    /* 0: greedy, the lowest id among equals; else at least 0.0001 */
  uint32_t top_k;       /* the k best; 0: all */
  float top_p;          /* the smallest best set of at least this probability, (0, 1]; 1: all */
  float min_p;          /* at least this share of the best one's probability, [0, 1]; 0: all */
  float repeat_penalty; /* > 0; 1: none. Divides positive logits of tokens in the context, multiplies negative ones
                           (Keskar et al. 2019, CTRL). Applies to greedy too. */
  uint64_t seed;
  float presence_penalty;  /* -2 to 2; taken off the logit of a token that was generated since the last prompt */
  float frequency_penalty; /* -2 to 2; taken off for each time it was. Both apply to greedy too. */
  float typical_p;         /* the fewest tokens whose surprise is nearest to the entropy and that hold this probability,
                              (0, 1]; 1: all (Meister et al. 2022, locally typical sampling) */
} weft_sampling;

WEFT_API weft_sampling weft_sampling_default(
    void); /* temperature 0.7, top_k 40, top_p 0.95, min_p 0.05, penalties none, typical_p 1, seed 0 */
WEFT_API weft_status weft_session_set_sampling(weft_session* session, const weft_sampling* sampling, weft_error* error);

/* Adds biases[i] (-100 to 100) to the logit of token ids[i] wherever a token is chosen, from the next generate on; of
 * an id that comes twice the last one counts. Replaces all biases that were set before; count 0: none. */
WEFT_API weft_status weft_session_set_logit_bias(weft_session* session, const uint32_t* ids, const float* biases,
                                                 size_t count, weft_error* error);

/* Ends a generate when one of these texts (count of them, at most 16, of 1 to 256 bytes of UTF-8) stands in what it
 * generated, however tokens cut it; the callback gets what stands before it. Text that may yet become one is held back
 * from the callback until that is decided. Its tokens are in the context all the same. count 0: none. */
WEFT_API weft_status weft_session_set_stops(weft_session* session, const char* const* stops, size_t count,
                                            weft_error* error);

#define WEFT_MAX_LOGPROBS 20
/* Whether each token's log-probability is worked out, and with how many of the likeliest tokens': 0 to
 * WEFT_MAX_LOGPROBS; 0: none. They are the model's own, before bias, penalties, temperature and filters; over all rows
 * of the vocabulary, which "certified" and "fast" then read, or over those that a keep-list and a grammar let
 * through. */
WEFT_API weft_status weft_session_set_logprobs(weft_session* session, uint32_t count, weft_error* error);

/* Of the token that was last given to the callback: its own log-probability (natural logarithm), and the likeliest
 * tokens, the likeliest first. Writes at most capacity of each and sets *count to the number there are. For use in the
 * callback too. */
WEFT_API weft_status weft_session_get_logprobs(const weft_session* session, float* chosen, uint32_t* ids,
                                               float* logprobs, size_t capacity, size_t* count, weft_error* error);

/* Which rows of the vocabulary table tokens are chosen from, and how those are projected; from the next generate on.
 *   "full"       every row (the default)
 *   "certified"  only rows that can matter, which bounds prove: always the tokens that "full" gives, for less reading.
 *                Under top_p or typical_p without top_k, and top_k above 128, every row can matter and is read.
 *   "fast"       the 64 or so best of the bounds' estimates, unproven; "fast:N" for 1 <= N <= 128
 *   "keep:LIST"  only tokens of a list: presets and files of tokens with commas between them, as weft_vocab_keep takes;
 *                control and byte tokens always, and those of the context unless LIST has "!prompt". What may come in
 * is not restricted. "certified+keep:LIST" and "fast:N+keep:LIST" combine. WEFT_INVALID_ARGUMENT and WEFT_BAD_FILE say
 * what is wrong with it. */
WEFT_API weft_status weft_session_set_head(weft_session* session, const char* head, weft_error* error);

typedef enum weft_grammar_kind {
  WEFT_GRAMMAR_NONE = 0,
  WEFT_GRAMMAR_GBNF,        /* as llama.cpp describes it; the text matches the rule root */
  WEFT_GRAMMAR_JSON_SCHEMA, /* draft 2020-12; what is not supported is refused by name */
  WEFT_GRAMMAR_REGEX        /* the whole text matches it */
} weft_grammar_kind;

/* Keeps what is generated behind the context, and behind any later weft_session_prompt, to a grammar: only tokens that
 * go on with a text of it can be chosen, and where few can, only their rows are projected. Under every head, and with
 * the tokens that masking the full head's logits would give. place: the grammar's name for errors, a file's for
 * example; may be NULL. WEFT_GRAMMAR_NONE (text NULL) ends that. */
WEFT_API weft_status weft_session_set_grammar(weft_session* session, weft_grammar_kind kind, const char* text,
                                              const char* place, weft_error* error);

/* Makes the session's context exactly these ids (count >= 1). The longest prefix it already holds is kept; the rest is
 * computed by the next generate, which starts from it. WEFT_CONTEXT_FULL if they do not fit with one token more.
 * Of an encoder-decoder the ids (weft_tokenize's with add_bos) go to its encoder, which reads them before the next
 * token unless it has read the same last, and may be as many as the context holds. The context is the decoder's then:
 * the token it starts from, and what it generates. */
WEFT_API weft_status weft_session_prompt(weft_session* session, const uint32_t* ids, size_t count, weft_error* error);

/* The id of a callback that brings no token, but the rest of the text that stop strings had held back. */
#define WEFT_NO_TOKEN 0xffffffffu

/* A new token: its id and the text it completes (never part of a UTF-8 character, so maybe none; not zero-terminated).
 * Return non-zero to stop after it; what stop strings hold back still comes, as WEFT_NO_TOKEN. Of sessions that
 * generate it may call the getters and weft_session_cancel, nothing that changes them. */
typedef int (*weft_token_callback)(void* user, uint32_t id, const char* text, size_t length);

typedef enum weft_stop {
  WEFT_STOP_LENGTH = 0, /* max_tokens came */
  WEFT_STOP_TOKEN,      /* the model ended its text; the stop token itself was the last id */
  WEFT_STOP_CONTEXT,    /* the context is full */
  WEFT_STOP_CALLER,     /* the callback or weft_session_cancel */
  WEFT_STOP_GRAMMAR,    /* the session's grammar lets nothing follow */
  WEFT_STOP_STRING      /* a stop string came */
} weft_stop;

typedef struct weft_generate_options {
  uint32_t max_tokens; /* 0: until another reason */
  int ignore_stop_tokens;
  weft_token_callback callback; /* may be NULL */
  void* user;
} weft_generate_options;

/* Appends tokens to the context, one callback each. A step is max_tokens = 1. *stop (may be NULL) says why it ended. */
WEFT_API weft_status weft_session_generate(weft_session* session, const weft_generate_options* options, weft_stop* stop,
                                           weft_error* error);

/* A session of a batch. */
typedef struct weft_batch_entry {
  weft_session* session;
  weft_generate_options options;
  weft_stop stop; /* set: why it ended */
} weft_batch_entry;

/* Generates with 1 to 64 sessions of one model at once, as weft_session_generate would with each, and returns when the
 * last has ended: the weights are read once for up to eight of their next tokens. Prompts are computed one after
 * another. The sessions are distinct, have a prompt and no grammar, and are not of an encoder-decoder; callbacks come
 * on the calling thread, those of a token's sessions in the entries' order. What is generated is what each would
 * generate alone, up to rounding. If one of them is WEFT_POLICY_POLITE, all of the batch is. */
WEFT_API weft_status weft_generate_batch(weft_batch_entry* entries, size_t count, weft_error* error);

/* Ends a running generate after the token in work, or the next one at its start. Safe from any thread and from a signal
 * handler. */
WEFT_API void weft_session_cancel(weft_session* session);

/* nll[i] = -ln p(ids[i + 1] | ids[0..i]), natural logarithm, for i < count - 1; count >= 2. Replaces the context. Under
 * a keep-list, p is over its tokens alone, and infinite for others. WEFT_UNSUPPORTED for an encoder-decoder. */
WEFT_API weft_status weft_session_score(weft_session* session, const uint32_t* ids, size_t count, float* nll,
                                        weft_error* error);

/* The logits after the last token of the context, before penalties: vocab_size floats. Reads them from the device. */
WEFT_API weft_status weft_session_logits(weft_session* session, float* logits, size_t count, weft_error* error);

/* What a token would be chosen from after the last token of the context: the ids the session's head computes under its
 * sampling, in no order, and their logits before penalties. Writes at most capacity of each and sets *count to the
 * number there are. */
WEFT_API weft_status weft_session_head_logits(weft_session* session, uint32_t* ids, float* logits, size_t capacity,
                                              size_t* count, weft_error* error);

/* The ids of the context. ids, capacity and count as in weft_tokenize. */
WEFT_API weft_status weft_session_get_ids(const weft_session* session, uint32_t* ids, size_t capacity, size_t* count,
                                          weft_error* error);

/* Writes the session's context, what is computed of it, and its sampling to a file, so that a session restored from it
 * goes on as this one would. note (may be NULL): UTF-8 text of the caller's that is kept with them. Head and grammar
 * are not saved. A reader sees the file that was there before or the whole new one. */
WEFT_API weft_status weft_session_save(const weft_session* session, const char* path, const char* note,
                                       weft_error* error);

/* Makes the session one that was saved; a grammar begins anew. *note (may be NULL): the note, "" if there was none; the
 * caller frees it. WEFT_BAD_FILE for a file that is none, or was cut or damaged; WEFT_UNSUPPORTED when it was saved
 * with another model, type of weights or cache, or context; the session is unchanged then. */
WEFT_API weft_status weft_session_restore(weft_session* session, const char* path, char** note, weft_error* error);

/* Forgets the context and the statistics; the sampling and the head stay. */
WEFT_API void weft_session_reset(weft_session* session);

#define WEFT_MAX_STAGES 32
typedef struct weft_stage {
  const char* name; /* the operation's: "gather", "matvec", "project", ...; static */
  double share;     /* of the sampled device time, 0..1 */
} weft_stage;

typedef struct weft_stats {
  uint32_t context_used;            /* tokens */
  uint64_t prompt_tokens;           /* computed since creation or reset; a kept prefix does not count */
  uint64_t reused_tokens;           /* of the prompts since then, found in the cache */
  uint64_t decoded_tokens;          /* generated since then; the first of a generate counts with the prompt's time */
  double prompt_seconds;            /* up to and with the first token */
  double decode_seconds;            /* of the tokens after it */
  double decode_cpu_seconds;        /* of the calling thread meanwhile, without the callback's */
  double first_token_seconds;       /* of the last generate: from its start to its first token */
  uint64_t readback_bytes;          /* read from the device to get the tokens */
  uint64_t kv_bytes, scratch_bytes; /* device memory of this session */
  double read_gigabytes_per_second; /* weight and cache bytes over decode_seconds */
  double device_read_gigabytes_per_second; /* what a pure read kernel reaches there; 0: not measured yet */
  uint64_t head_tokens;                    /* tokens the following are sums over */
  uint64_t head_rows;                      /* rows of the vocabulary table whose logits were computed */
  uint64_t head_bytes;                     /* read of the table for that, estimates included */
  uint64_t head_refined;                   /* rows whose estimate was refined */
  uint64_t head_uncertain_tokens;          /* "fast" left out a row that might have been chosen */
  size_t stage_count;
  weft_stage stages[WEFT_MAX_STAGES]; /* largest share first; none where the device has no timestamps */
} weft_stats;

WEFT_API weft_stats weft_session_get_stats(const weft_session* session);

/* Where the device's time goes in a whole pass: that of the context's last `tokens` tokens, 1 as in decoding, more
 * (but at most what the context has and one pass takes) as a prompt's last chunk, run `repeat` times (at least 1) with
 * a timestamp behind every dispatch. *json: an object of the run of median length: tokens, position          that it
 * computes; of the first of them stages                    an array of {name, seconds, dispatches, bytes, multiplies},
 * in order of first appearance; bytes: weights and cache it must read, multiplies: products of a weight with a number;
 *                             both 0 where that is not known
 *   dispatches, device_seconds   sums over the stages
 *   between_seconds           from a command buffer's last dispatch to the next one's beginning, summed
 *   submitted_seconds         from before the submission to its end as the CPU sees it
 * The context stays as it is, and so does what will be generated. The caller frees *json. WEFT_UNSUPPORTED where the
 * device has no timestamps, WEFT_CONTEXT_FULL without room for a token more. */
WEFT_API weft_status weft_session_profile(weft_session* session, uint32_t tokens, uint32_t repeat, char** json,
                                          weft_error* error);

/* The same of one token behind `position` others, which are not computed: their keys and values are zeros, which take
 * no less time. Forgets the context and the statistics. */
WEFT_API weft_status weft_session_profile_behind(weft_session* session, uint32_t position, uint32_t repeat, char** json,
                                                 weft_error* error);

/* Measures what a pure read kernel reaches on the model's device, GB/s (10^9 bytes); takes about half a second the
 * first time, then it is remembered with the model. */
WEFT_API weft_status weft_model_measure_bandwidth(const weft_model* model, double* gigabytes_per_second,
                                                  weft_error* error);

#ifdef __cplusplus
}
#endif
#endif
