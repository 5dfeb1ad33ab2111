/* Weft: small language models on any Vulkan GPU. The headers of this folder, without convert.h, are the only ABI of
 * libweft. docs/embedding.md shows their use. This header is the stable part; the others say that they may still
 * change.
 *
 * Errors. A function that can fail returns a weft_status and takes a `weft_error *` as its last argument, which may be
 * NULL. If the function fails, it fills in *error and leaves its out-parameters unchanged; if it succeeds, it leaves
 * *error unchanged. A NULL argument is WEFT_INVALID_ARGUMENT unless its comment allows NULL. Every function may also
 * return WEFT_OUT_OF_MEMORY, WEFT_DEVICE_LOST and WEFT_INTERNAL. No exception and no abort leaves the library.
 * Functions that return no status (the getters) give zeros, and "" for strings, for a NULL handle; the free functions
 * accept NULL.
 *
 * Ownership. The caller owns what a function returns through an out-parameter, and passes it to the matching free
 * function: weft_model_free, weft_session_free, weft_encoder_free, weft_batch_free or weft_string_free. Arguments are
 * read only during the call, except callbacks as documented. A model may be freed before its sessions, encoders and
 * batches: what they use of it is kept until the last of them is freed.
 *
 * Threads. A weft_model does not change after loading: any number of threads may use it at the same time, and any
 * number of sessions and encoders may use it at the same time. A weft_session or weft_encoder may be used by one thread
 * at a time; only weft_session_cancel (from a signal handler too), weft_session_clear_cancel and
 * weft_session_set_duty (duty.h) may be called from other threads. Callbacks run on the calling thread. Changing a
 * session in use is WEFT_INVALID_ARGUMENT (weft_session_reset and the free functions then do nothing). After fork() the
 * child may use nothing that its parent made: the free functions do nothing there, others are errors. A callback may
 * end its thread (pthread_exit); pthread_cancel acts after the call. Threads that Weft or a driver starts block all
 * signals.
 *
 * Structs. A struct that the caller fills in begins with `size`, which the struct's _default function sets to its
 * sizeof: begin with that function, then set fields. So the structs can grow: later versions add fields at the end, and
 * the library takes the default for a field that a program's header did not have. WEFT_INVALID_ARGUMENT, naming the
 * struct, for a size below that of the first version or above 4096, and for bytes that are not 0 after the fields that
 * the library knows: a newer header's fields that this library lacks. Getters of structs take the size of the caller's
 * struct, fill in as much of it as they know and set the rest to 0. weft_error, and structs without `size` that stand
 * in arrays (weft_message, weft_batch_entry, weft_stage, ...), stay as they are for good; those that a callback gets
 * may grow at their end.
 *
 * Units. Text is UTF-8; lengths are in bytes. Times are in seconds. Token ids are the tokenizer's: 0 to vocab_size - 1;
 * those of soft tokens are in soft.h. Functions that return ids take ids, capacity and count: they write at most
 * capacity ids and set *count to the number there are. If that is more than capacity, the ids are cut and the status is
 * still WEFT_OK. ids may be NULL if capacity is 0.
 */
#ifndef WEFT_H
#define WEFT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(WEFT_BUILDING_LIBRARY)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

/* A C caller can pass any number for an enumeration. In C++ too each is then a value, which Weft can refuse. */
#ifdef __cplusplus
#define WEFT_ENUM : unsigned int
#else
#define WEFT_ENUM
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 2
#define WEFT_VERSION_PATCH 0

typedef enum weft_status WEFT_ENUM {
  WEFT_OK = 0,
  WEFT_INVALID_ARGUMENT, /* an argument is outside its documented range */
  WEFT_NOT_FOUND,        /* a file, folder or tensor does not exist */
  WEFT_IO,               /* the operating system could not read or write a file */
  WEFT_BAD_FILE,         /* a file contradicts itself or its format */
  WEFT_UNSUPPORTED,      /* the input is well-formed, but Weft cannot run it */
  WEFT_NO_DEVICE,        /* there is no Vulkan loader, no driver or no such device */
  WEFT_OUT_OF_MEMORY,    /* of the host or of the device */
  WEFT_DEVICE_LOST,      /* its driver was reset, say: recover.h tells how to go on */
  WEFT_CONTEXT_FULL,     /* the tokens do not fit in the context */
  WEFT_CANCELLED,        /* a progress callback ended the call */
  WEFT_INTERNAL          /* a bug in Weft or in the driver: please report it */
} weft_status;

typedef struct weft_error {
  weft_status code;
  char sentence[512]; /* what is wrong, with the values that disagree */
  char place[512];    /* the file, tensor, option or function that it concerns; may be empty */
  char hint[256];     /* what to do; may be empty */
} weft_error;

/* "0.2.0". Static. */
WEFT_API const char* weft_version(void);
/* Names the folder of the files that Weft makes of its own accord: compiled pipelines, what weft_tune has measured, and
 * what a model's hidden states are like. It is made when it is needed. It counts for the whole process and for every
 * later call; call it before the others, from any thread. folder "": none, nothing is kept. NULL: the environment's,
 * as if this had never been called: WEFT_CACHE_DIR, else $XDG_CACHE_HOME/weft, else $HOME/.cache/weft, else none. A
 * folder that others than the user may write to is not used. */
WEFT_API weft_status weft_set_cache_folder(const char* folder, weft_error* error);
/* The name of a status, "WEFT_BAD_FILE" for example. Static; "unknown weft_status" for a value that is not one. */
WEFT_API const char* weft_status_name(weft_status status);
/* Frees a string that a function of this header returned through a char** argument. NULL is allowed. */
WEFT_API void weft_string_free(char* text);

/* ---- devices ---- */

/* Lists the machine's Vulkan devices. *json: an array with an object for each device:
 *
 *   index           number, as weft_model_options.device takes it
 *   name            text
 *   driver          text
 *   driver_version  text
 *   kind            "discrete", "integrated", "virtual", "cpu" or "other"
 *   memory_bytes    number
 *   usable          true if Weft can run there
 *   caps            object: what the device can do
 *   plan            object: what Weft will do there; only if usable
 *   proof           object; only if usable: whether the plan's kernels have computed known answers on this device and
 *                   driver, as they do at the first load and in weft_probe. state: "passed", "not yet" or "not needed";
 *                   replaced: array of {set, because}: fields of the plan that were changed because kernels failed
 *   why             text: why Weft cannot run there; only if not usable
 *
 * If there is no device, the array is empty. WEFT_NO_DEVICE if there is no Vulkan loader. */
WEFT_API weft_status weft_devices(char** json, weft_error* error);

/* Measures which tile and workgroup shapes are fastest on a device, and writes them to a file next to the pipeline
 * cache. Models that are loaded on the device later use them, until the driver's version changes; WEFT_TUNE=0 in the
 * environment ignores the file. The measurement takes some seconds, or minutes if the driver compiles slowly. Results
 * stay deterministic, and differ from those of the defaults only by the rounding of sums.
 *
 * device: as in weft_model_options. progress (may be NULL) and user: as in weft_model_options. json may be NULL; else
 * *json is an object:
 *
 *   device, driver  text
 *   file            path of the file
 *   chosen          object: a value for each name
 *   trials          array of {name, value, seconds, refusal}; refusal: why the value could not be used, "" if it could
 *
 * WEFT_NO_DEVICE; WEFT_IO if the file cannot be written; WEFT_CANCELLED. */
WEFT_API weft_status weft_tune(const char* device, int (*progress)(void* user, float done), void* user, char** json,
                               weft_error* error);

/* ---- models ---- */

typedef struct weft_model weft_model;

/* Types of numbers. */
typedef enum weft_type WEFT_ENUM {
  /* The default of the option. For matrices: the type closest to the file's, which is f16 for F32, F16 and BF16, the
   * file's own for most of GGUF's types, q4 for Q4_1, q8 for Q8_0 and NVFP4 (docs/formats.md). Matrices
   * that become one on the device (queries, keys and values) may keep two types; those that share one type get the
   * smallest that holds all their numbers, or f16 if one of them has it, else q8. */
  WEFT_TYPE_FILE = 0,
  WEFT_TYPE_F16,
  WEFT_TYPE_Q8, /* blocks of 32 values: 8-bit integers and an f16 scale */
  WEFT_TYPE_Q4, /* blocks of 32 values: integers 0 to 15, an f16 scale and an f16 minimum */
  /* For vocab_type only. The table keeps the file's bits in the file's columns: a Q6_K table takes 6.6 bits a value
   * instead of 9, and is rounded no second time. Only the heads `full` and `auto` work then. */
  WEFT_TYPE_NATIVE
} weft_type;

/* When a file's two vocabulary tables become one. WEFT_TIE_AUTO: if no two elements differ by more than rounding to
 * the tables' two types explains, the one with more bits is used for embedding and output, unless the file says that
 * the model is not tied (GGUF files do not tell). WEFT_TIE_NEVER: only if the bytes of both are the same. */
typedef enum weft_tie WEFT_ENUM { WEFT_TIE_AUTO = 0, WEFT_TIE_NEVER } weft_tie;

typedef struct weft_model_options {
  size_t size; /* of this struct, by weft_model_options_default */
  /* A device's index, or a part of its name (case is ignored). NULL or "": the environment variable WEFT_DEVICE, else
   * the best device (discrete, then integrated, then virtual, then CPU), of several GPUs the best that the model fits.
   *
   * Several of them with semicolons between them, "0;1": the rows of the vocabulary table are spread over these devices
   * (docs/several-devices.md), in proportion to their read bandwidths, which the load then measures, or to shares,
   * "0:3;1:1". All else is on the first one. Each must be able to run Weft. These are WEFT_UNSUPPORTED for such a
   * model: families with an encoder, streamed layers, keep-lists, speculation and rows of the table. weft_model_info
   * and weft_stats count the first device's. */
  const char* device;
  /* Called with 0 to 1 while the model loads. Return 0 to continue, non-zero to give up (WEFT_CANCELLED). NULL: no
   * reports, and the load may return before all layers are on the device (see weft_model_load). */
  int (*progress)(void* user, float done);
  void* user; /* passed to progress */
  /* Bytes of device memory that the model and its sessions may use together; 0: no limit. If the weights would use more
   * than three quarters of it, the layers are streamed: they stay in host memory, and each is copied to the device for
   * every pass while the layer before it is computed. The vocabulary table stays on the device. A streamed model is
   * slower. WEFT_UNSUPPORTED if the layers of an encoder would have to be streamed. */
  uint64_t memory_budget;
  /* Not 0: matrix products of prompts, and of batches and checks of guesses (speculate.h) with more tokens than the
   * plan's block_tokens, round their inputs. Inputs of q8 and q4 matrices are rounded to 8-bit integers (a scale for
   * each 32 values) and multiplied by integer dot products, with fewer tokens too if the plan has uniform_parts; inputs
   * of f16 matrices are rounded to f16 if caps has fp16. Logits change a little (docs/formats.md says how much).
   * WEFT_UNSUPPORTED if caps has no int8_dot_fast, and on Mali and V3D. */
  int int8_inputs;
  weft_type type; /* of the matrices and the vocabulary table on the device */
  /* How the vocabulary table (or both tables, where they are separate) is kept on the device; WEFT_TYPE_FILE: as
   * `type` says. A q4 model decodes well with a q8 table, of which the certified and fast heads read less. */
  weft_type vocab_type;
  weft_tie tie; /* if the file has two vocabulary tables */
} weft_model_options;

/* device and progress NULL, type and vocab_type WEFT_TYPE_FILE, tie WEFT_TIE_AUTO, the others 0. */
static inline weft_model_options weft_model_options_default(void) {
  weft_model_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  return options;
}

/* Loads a model from a GGUF file or a Hugging Face folder, or by the name that `weft pull` gave it in the user's cache,
 * unless a file has that name. path NULL: the model installed in share/weft. options NULL: the defaults.
 *
 * Without options->progress, loading a decoder whose layers are not streamed returns early: the file is checked except
 * for the numbers in the layers, all device memory is allocated, and everything except the layers is on the device. A
 * thread of the model then uploads the layers in order, and passes over the network wait for the layers they need.
 * Until the last layer is uploaded the file must not change; weft_model_describe waits for that. If a layer cannot be
 * loaded (a number that has no value in its type, a file that was cut in the meantime), every call that needs the layer
 * returns that error.
 *
 * WEFT_NOT_FOUND, WEFT_IO, WEFT_BAD_FILE, WEFT_UNSUPPORTED, WEFT_NO_DEVICE, WEFT_CANCELLED; WEFT_OUT_OF_MEMORY also if
 * the memory budget is too small. */
WEFT_API weft_status weft_model_load(const char* path, const weft_model_options* options, weft_model** model,
                                     weft_error* error);
/* Frees a model: its memory is given back when its sessions, encoders and batches are freed too. NULL is allowed. */
WEFT_API void weft_model_free(weft_model* model);

typedef struct weft_model_info {
  const char* family;   /* "llama"; the model owns this string and the next three */
  const char* type;     /* "q8"; "q8+q4" if matrices have different types, finest first: docs/formats.md */
  const char* device;   /* the device's name */
  const char* driver;   /* the driver's name and version */
  uint32_t vocab_size;  /* rows of the vocabulary table */
  uint32_t layers;      /* count; of the decoder if there are two halves */
  uint32_t width;       /* elements of a hidden state */
  uint32_t max_context; /* tokens that the model was made for */
  int tied;             /* 1: gather and projection read one table */
  int has_chat_template;
  int reads_prompt_apart;         /* 1: an encoder-decoder such as T5, see weft_session_prompt */
  uint32_t mask_token;            /* the id of the token to be predicted, BERT's "[MASK]"; UINT32_MAX: there is none */
  uint64_t parameters;            /* count; a shared table counts once */
  uint64_t vocab_bytes;           /* device memory of the vocabulary table or tables */
  uint64_t layer_bytes;           /* device memory of all other weights */
  uint64_t bytes_per_token;       /* bytes of weights that are read to decode one token */
  double load_seconds;            /* duration of weft_model_load */
  uint64_t tokenizer_fingerprint; /* hash of the tokens in order; keep-lists are bound to it */
  uint64_t streamed_bytes;        /* host memory of weights: streamed layers, per-layer embeddings */
  uint64_t device_bytes;          /* device memory that the model and its sessions use now */
  uint64_t most_device_bytes;     /* the most they used at any time */
} weft_model_info;

/* Writes what is known of the model to *info. size: sizeof *info. info may be NULL: nothing is written. */
WEFT_API void weft_model_get_info(const weft_model* model, weft_model_info* info, size_t size);

/* Describes what the device holds. Waits until all layers are loaded. *json: an object with most fields of
 * weft_model_info (the fingerprint as 16 hexadecimal digits) and:
 *
 *   chat_template  text: the model's chat template, a Jinja template; only if there is one that can be used
 *   chat_template_problem  text: why the model's chat template cannot be used; only if so
 *   tie        object {kept, left_out, difference}: the tensors of two vocabulary tables that WEFT_TIE_AUTO made one,
 *              and the Euclidean norm of their difference, relative to the kept one's; only if so
 *   untied_by_tensors  true: the file's configuration says that the vocabulary tables are one, but those that it has
 *              differ; each is used for its own, as in Transformers 5; only if so
 *   head       object {kind, text, gives_log_probabilities}: the head with weights of its own that makes the logits:
 *              "mixture" or "adaptive", "3 softmaxes (mixture)", and true if logits are ln p; only if there is one
 *   shards     array of {device, first_row, rows, bytes, and gigabytes_per_second or share}: which device has which
 *              rows of the vocabulary table; only if several do
 *   types      array of {file_type, device_type, tensors, exact, largest_error, relative_error}: a summary of tensors
 *              for each pair of types
 *   tensors    array of {name, shape, file_type, device_type, device_bytes, buffer, exact, largest_error,
 *              relative_error}
 *   buffers    array of {name, bytes, users, memory}; users: the main operations that read it, or "layer buffer" for a
 *              streamed layer; memory: "device", or "host" for a streamed layer
 *
 *   exact           true if no number was rounded between file and device
 *   largest_error   the largest change of a number
 *   relative_error  the same, relative to the largest magnitude in the tensor
 *
 * A shared vocabulary table is one buffer with both its users. */
WEFT_API weft_status weft_model_describe(const weft_model* model, char** json, weft_error* error);

/* Measures the read bandwidth of the model's device with a kernel that only reads: GB/s (10^9 bytes). The first call
 * takes about half a second; later calls return the same number. */
WEFT_API weft_status weft_model_measure_bandwidth(const weft_model* model, double* gigabytes_per_second,
                                                  weft_error* error);

/* ---- text ---- */

/* Splits a text of `length` bytes into token ids. parse_special 0: texts such as "<|eot|>" are plain characters; else
 * they become control tokens. add_bos not 0: the model's begin-of-text token comes first if the model uses one, and the
 * input of a model that makes embeddings also gets its end token, if the tokenizer adds one. Bytes that are not UTF-8
 * are tokenized byte by byte. text may be NULL if length is 0. WEFT_INVALID_ARGUMENT if length is 2^30 or more. */
WEFT_API weft_status weft_tokenize(const weft_model* model, const char* text, size_t length, int parse_special,
                                   int add_bos, uint32_t* ids, size_t capacity, size_t* count, weft_error* error);

/* Joins the texts of `count` ids. Control tokens, and ids that are not a token's, have no text; bytes that are not
 * UTF-8 become U+FFFD. The caller frees *text with weft_string_free. *length: bytes of the text, which may have NUL
 * characters within it; length may be NULL. ids may be NULL if count is 0. */
WEFT_API weft_status weft_detokenize(const weft_model* model, const uint32_t* ids, size_t count, char** text,
                                     size_t* length, weft_error* error);

typedef struct weft_message {
  const char* role; /* "system", "user" or "assistant" */
  const char* content;
} weft_message;

/* Turns a conversation into token ids with the model's chat template. They end where the assistant's answer begins.
 * Only the template, and roles of ASCII letters, digits, '_' and '-', can form control tokens: a message's content is
 * always plain text. WEFT_UNSUPPORTED if the model has no chat template, or has one that Weft does not support. */
WEFT_API weft_status weft_apply_chat_template(const weft_model* model, const weft_message* messages,
                                              size_t message_count, uint32_t* ids, size_t capacity, size_t* count,
                                              weft_error* error);

/* ---- keep-lists ---- */

/* Returns the ids of a keep-list in ascending order. A keep-list is the part of the vocabulary that a session may
 * choose from (weft_request.head).
 *
 * list: terms with commas between them, applied from left to right. A term is the name of a preset, or the path of a
 * file. It adds its tokens; with '!' before it, it removes them. If the first term removes, it removes from all tokens.
 * Presets, by the characters of a token:
 *
 *   ascii         ASCII
 *   latin         Latin letters; digits, punctuation, symbols, emoji and spaces that belong to no script
 *   greek, cyrillic, arabic, hebrew, devanagari, cjk
 *                 letters of that script
 *   digits        the digits 0 to 9
 *   punctuation   punctuation and symbols
 *
 * A list of presets is exact: only characters of the presets can be written. Every list also keeps control tokens;
 * with the term "!control", only those that end a text. Lists with a file, and those that begin with '!', also keep all
 * single-byte tokens, so that any text can be written, and a session adds the tokens of its context. The terms "bytes",
 * "!bytes", "prompt" and "!prompt" choose that for any list; the last two have no effect here. list NULL: control and
 * single-byte tokens.
 *
 * A file has one entry a line: a token's id, or its text as a JSON string. '#' begins a comment.
 *
 * WEFT_INVALID_ARGUMENT for a wrong list; WEFT_BAD_FILE for a wrong file, and for one that weft_vocab_save wrote for
 * another tokenizer; WEFT_IO. */
WEFT_API weft_status weft_vocab_keep(const weft_model* model, const char* list, uint32_t* ids, size_t capacity,
                                     size_t* count, weft_error* error);

/* Writes `count` ids, in any order, to a file that weft_vocab_keep reads for models of the same tokenizer. The file is
 * replaced as a whole: a reader sees the old file or the new one. WEFT_INVALID_ARGUMENT for an id that is not a
 * token's; WEFT_IO. */
WEFT_API weft_status weft_vocab_save(const weft_model* model, const uint32_t* ids, size_t count, const char* path,
                                     weft_error* error);

/* ---- encoders ---- */

/* Computes hidden states of texts with a model whose tokens see all others, such as BERT, with the encoder of an
 * encoder-decoder such as T5, or with a decoder whose files say how its states become an embedding. Its device memory
 * grows with the longest input. */
typedef struct weft_encoder weft_encoder;

/* WEFT_UNSUPPORTED if the model is none of these, and if several devices have rows of its vocabulary table. */
WEFT_API weft_status weft_encoder_create(const weft_model* model, weft_encoder** encoder, weft_error* error);
/* Frees an encoder. NULL is allowed. */
WEFT_API void weft_encoder_free(weft_encoder* encoder);

/* Computes the hidden states of an input: `count` ids of a text, as weft_tokenize returns them with add_bos.
 * WEFT_INVALID_ARGUMENT if count is 0 or an id is not below vocab_size; WEFT_CONTEXT_FULL if count is more than the
 * encoder's maximum. With files of sentence-transformers (max_seq_length), only the first tokens up to their limit, and
 * the last one, are read. */
WEFT_API weft_status weft_encoder_run(weft_encoder* encoder, const uint32_t* ids, size_t count, weft_error* error);

/* How an embedding is made from the hidden states of all tokens. */
typedef enum weft_pooling WEFT_ENUM {
  WEFT_POOL_MODEL = 0, /* as the model's files say; the mean if they do not */
  WEFT_POOL_MEAN,      /* the mean */
  WEFT_POOL_CLS,       /* the first token's */
  WEFT_POOL_LAST       /* the last token's */
} weft_pooling;

/* Elements of an embedding: the model's width, or the rows of the last dense layer after the pooling. 0 for a model
 * that makes none, and for NULL. */
WEFT_API uint32_t weft_model_embedding_size(const weft_model* model);

/* Copies the text that the model's files want before a text that is embedded: config_sentence_transformers.json has
 * them by name, "query" and "document" for example. name NULL: the default, which is empty for most models. The caller
 * frees *prompt with weft_string_free, and tokenizes the prompt and the text as one. WEFT_NOT_FOUND for a name that the
 * files lack; the hint has those that they have. */
WEFT_API weft_status weft_model_prompt(const weft_model* model, const char* name, char** prompt, weft_error* error);

/* Returns the embedding of the last input; call weft_encoder_run first. `count` floats: weft_model_embedding_size of
 * them, or fewer: then the first ones, for models that were trained for that (Matryoshka; Kusupati et al. 2022). They
 * are scaled to Euclidean length 1, so that the scalar product of two embeddings is the cosine of their angle. Dense
 * layers that the model's files have after the pooling are applied. WEFT_INVALID_ARGUMENT for another count. */
WEFT_API weft_status weft_encoder_embedding(weft_encoder* encoder, weft_pooling pooling, float* embedding, size_t count,
                                            weft_error* error);

/* Returns a logit of each token of the vocabulary for the token at index `place` (from 0) of the last input, usually
 * the model's mask_token: `count` floats, which must be vocab_size. WEFT_UNSUPPORTED if the model has no head for
 * masked tokens; WEFT_INVALID_ARGUMENT if place is not below the count of the last input. */
WEFT_API weft_status weft_encoder_masked_logits(weft_encoder* encoder, size_t place, float* logits, size_t count,
                                                weft_error* error);

/* ---- sessions ---- */

/* One conversation with a model: its context (tokens) and what is computed of it (cached keys and values). */
typedef struct weft_session weft_session;

/* How a session's work is submitted to the device. It does not change what is generated. */
typedef enum weft_policy WEFT_ENUM {
  WEFT_POLICY_THROUGHPUT = 0, /* a whole token in one submission, several tokens in flight: the fastest */
  /* one or two layers in one submission, at most two submissions in flight: other users of the device (a screen) get it
   * in between, and drivers that fail on long work do not fail */
  WEFT_POLICY_POLITE
} weft_policy;

typedef struct weft_session_options {
  size_t size;      /* of this struct, by weft_session_options_default */
  uint32_t context; /* tokens that the session can hold, 2 to max_context; 0: max_context, but at most 4096 */
  /* Type of cached keys and values; WEFT_TYPE_FILE: f16. WEFT_TYPE_Q8 takes about half the memory, WEFT_TYPE_Q4 less
   * than a third. With Q4, keys lose more than values do: docs/measurements.md has how far answers move.
   * Encoder-decoders keep what their encoder gave as Q8 then. */
  weft_type kv;
  weft_policy policy; /* see above */
  /* Type of cached values, if it is another one than that of keys; WEFT_TYPE_FILE: as kv says. */
  weft_type kv_values;
} weft_session_options;

/* context 0, kv and kv_values WEFT_TYPE_FILE, policy WEFT_POLICY_THROUGHPUT. */
static inline weft_session_options weft_session_options_default(void) {
  weft_session_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  return options;
}
/* Creates a session with an empty context and the default request. options NULL: the defaults.
 * WEFT_INVALID_ARGUMENT for an option outside its range; WEFT_UNSUPPORTED for a model that cannot generate (BERT), or
 * whose keys cannot be Q4 (Hunyuan). */
WEFT_API weft_status weft_session_create(const weft_model* model, const weft_session_options* options,
                                         weft_session** session, weft_error* error);
/* Frees a session that no call uses. NULL is allowed. In the session's own callback it does nothing. */
WEFT_API void weft_session_free(weft_session* session);

/* How the next token is chosen. The steps are those of Hugging Face Transformers, in this order: repeat_penalty; logit
 * bias, presence_penalty and frequency_penalty; temperature, top_k, top_p, min_p, typical_p. Tokens that tie at a limit
 * are kept. The penalties also apply to greedy decoding. The same seed and prompt give the same text on the same device
 * and driver if the same calls computed the context: rounding depends on how many tokens a pass computes. */
typedef struct weft_sampling {
  size_t size; /* of this struct, by weft_sampling_default */
  uint64_t seed;
  float temperature;    /* 0: greedy (the lowest id if several are best); else at least 0.0001; divides the logits */
  uint32_t top_k;       /* only the k best tokens; 0: all */
  float top_p;          /* only the smallest set of best tokens with at least this probability, (0, 1]; 1: all */
  float min_p;          /* only tokens with at least this share of the best token's probability, [0, 1]; 0: all */
  float repeat_penalty; /* > 0; divides positive logits of tokens in the context and multiplies negative ones (Keskar et
                           al. 2019, "CTRL"); 1: none */
  float presence_penalty;  /* -2 to 2; subtracted from the logit of a token generated since the last prompt; 0: none */
  float frequency_penalty; /* -2 to 2; subtracted once for each time it was generated since then; 0: none */
  float typical_p;         /* only the fewest tokens whose surprise is closest to the entropy and that have this
                              probability together, (0, 1]; 1: all (Meister et al. 2022, "Locally Typical Sampling") */
} weft_sampling;

/* temperature 0.7, top_k 40, top_p 0.95, min_p 0.05, no penalties, typical_p 1, seed 0 */
static inline weft_sampling weft_sampling_default(void) {
  weft_sampling sampling;
  memset(&sampling, 0, sizeof sampling);
  sampling.size = sizeof sampling;
  sampling.temperature = 0.7f;
  sampling.top_k = 40;
  sampling.top_p = 0.95f;
  sampling.min_p = 0.05f;
  sampling.repeat_penalty = 1;
  sampling.typical_p = 1;
  return sampling;
}

typedef enum weft_grammar_kind WEFT_ENUM {
  WEFT_GRAMMAR_NONE = 0,
  WEFT_GRAMMAR_GBNF,        /* llama.cpp's notation; the text must match the rule root */
  WEFT_GRAMMAR_JSON_SCHEMA, /* draft 2020-12; the error names a keyword that is not supported */
  WEFT_GRAMMAR_REGEX        /* the whole text must match it */
} weft_grammar_kind;

/* Where guesses of tokens ahead come from; speculate.h explains them. They never change what is chosen. */
typedef enum weft_speculation WEFT_ENUM {
  WEFT_SPECULATE_OFF = 0,
  WEFT_SPECULATE_LOOKUP,   /* from the context itself */
  WEFT_SPECULATE_DRAFT,    /* from a smaller model */
  WEFT_SPECULATE_MEDUSA,   /* from Medusa heads */
  WEFT_SPECULATE_ASSISTANT /* from the drafter of a Gemma 4 */
} weft_speculation;

#define WEFT_MAX_LOGPROBS 20

/* How a session generates: everything that may differ from one text to the next. A request is complete: a field that is
 * not set has its default. An adapter (adapter.h), a duty (duty.h) and a tuned lens (lens.h) belong to the session and
 * have functions of their own. */
typedef struct weft_request {
  size_t size;                   /* of this struct, by weft_request_default */
  const weft_sampling* sampling; /* NULL: the defaults */
  /* Which rows of the vocabulary table tokens are chosen from, and how their logits are computed (docs/heads.md).
   *   "full"       every row; NULL is the same
   *   "certified"  only rows that can matter, which bounds prove: the same tokens as "full", for less reading. With a
   *                temperature above 0, every row is read if typical_p is used without top_k, or if top_k is more than
   *                128; and for some of the tokens if top_p is used without top_k.
   *   "sure:P"     the same but for chance: a token differs with a probability of at most P, over the rotation of the
   *                table's columns; 0 < P <= 0.5. "sure" is "sure:1e-9". Reads far less.
   *   "fast:S"     trusts estimates from the leading columns to S deviations, unproven; 0 < S <= 40.
   *                "fast" is "fast:7".
   *   "auto:HEAD"  full or HEAD, or sure for "auto:fast", whichever is fastest here; "auto" is "auto:certified".
   *   "keep:LIST"  only the tokens of a list, as weft_vocab_keep reads it; for some lists also those of the context.
   *                Prompts may hold any token.
   *   "certified+keep:LIST", "auto:sure+keep:LIST", ... both
   *
   * WEFT_INVALID_ARGUMENT for a wrong head or list; WEFT_BAD_FILE and WEFT_IO for a list's file; WEFT_UNSUPPORTED for a
   * head that is neither "full" nor "auto" if the model adds a bias to its logits. */
  const char* head;
  /* Restricts generated text to a grammar: what is generated after the present context, and after the prompt of each
   * later weft_session_prompt. Only tokens that continue a text of the grammar can be chosen; if they are few, only
   * their rows are computed. It works with every head and gives the tokens that masking the logits of "full" would
   * give. grammar: its text, NULL for WEFT_GRAMMAR_NONE. grammar_place (may be NULL): a name for errors, for example
   * the grammar's file.
   *
   * WEFT_BAD_FILE if the grammar is wrong; WEFT_UNSUPPORTED if it has something that Weft does not support, or if the
   * model adds a bias to its logits; WEFT_INVALID_ARGUMENT for a wrong kind. */
  const char* grammar;
  const char* grammar_place;
  weft_grammar_kind grammar_kind;
  weft_speculation speculation; /* WEFT_INVALID_ARGUMENT for an unknown kind */
  const weft_model* draft;      /* for WEFT_SPECULATE_DRAFT, else not used */
  const char* medusa;           /* for WEFT_SPECULATE_MEDUSA: a GGUF file of the heads, else not used */
  /* Stop strings: at most 16 texts, each 1 to 256 bytes of UTF-8. weft_session_generate ends when one appears in the
   * generated text, also across token borders. The callback gets only the text before it; text that may be the
   * beginning of a stop string is held back until that is known. No stop string goes on over a control token. The
   * tokens of a stop string stay in the context. WEFT_INVALID_ARGUMENT for other counts and texts. */
  const char* const* stops;
  size_t stop_count;
  /* Number of likeliest tokens whose log-probabilities are computed, beside the generated token's: 1 to
   * WEFT_MAX_LOGPROBS. With 0 none are computed, not even the generated token's. They are the model's own, before bias,
   * penalties, temperature and filters. They are over all rows of the vocabulary, which every head then reads; with a
   * keep-list or a grammar, over the tokens that it allows. WEFT_INVALID_ARGUMENT for a larger count. */
  uint32_t logprobs;
  /* separate_reasoning not 0: reasoning is told apart from the answer (reasoning.h). It is closed after
   * reasoning_tokens tokens; 0: no limit. */
  int separate_reasoning;
  uint32_t reasoning_tokens;
  /* biases[i], -100 to 100, is added to the logit of token bias_ids[i]. If an id is given twice, its last bias counts.
   * WEFT_INVALID_ARGUMENT for a bias outside its range and for an id that is not below vocab_size. */
  const uint32_t* bias_ids;
  const float* biases;
  size_t bias_count;
  /* Not 0: the session keeps its present sampling, or its present biases, for example those of a restored file. The
   * request's own are then not used. */
  int keep_sampling, keep_biases;
  const char* assistant; /* for WEFT_SPECULATE_ASSISTANT: the folder of a drafter, else not used */
} weft_request;

/* The default sampling, the head "full", and nothing else. */
static inline weft_request weft_request_default(void) {
  weft_request request;
  memset(&request, 0, sizeof request);
  request.size = sizeof request;
  return request;
}
/* Has the session generate by the request from its next call on. If something in it is wrong, nothing changes, and the
 * error names it.
 *
 * A field that is equal to that of the request before costs nothing. The same head, grammar, draft model or file is not
 * loaded again, and guesses use what they have learnt. The same grammar continues at its place in the text; it starts
 * over after each prompt, and after a request with another grammar or none. Random numbers depend only on the seed and
 * on the place of the token in the context.
 *
 * Strings and arrays are copied. A draft model may be freed before the session; a later request may name a freed
 * draft only if every request since then named it.
 *
 * Errors are those of the fields. WEFT_UNSUPPORTED for guesses and keep-lists if several devices share the vocabulary
 * table. */
WEFT_API weft_status weft_session_set_request(weft_session* session, const weft_request* request, weft_error* error);

/* Returns the log-probabilities (natural logarithms) of the token that the callback got last: its own in *chosen, and
 * those of the likeliest tokens, likeliest first. Writes at most capacity ids and logprobs and sets *count to the
 * number there are. May be called in the callback. */
WEFT_API weft_status weft_session_get_logprobs(const weft_session* session, float* chosen, uint32_t* ids,
                                               float* logprobs, size_t capacity, size_t* count, weft_error* error);

/* Makes the session's context exactly these ids (count >= 1). It computes nothing yet: the next call that needs it
 * does. The longest common prefix that the session has computed is reused.
 *
 * With an encoder-decoder the ids (of weft_tokenize with add_bos) are the encoder's input, at most as many as the
 * context holds. The encoder reads them before the next token, unless they were its last input. The context is then the
 * decoder's: its start token, and what it generates.
 *
 * WEFT_INVALID_ARGUMENT if count is 0 or an id is not below vocab_size; WEFT_CONTEXT_FULL if the ids and one more token
 * do not fit. The session is then unchanged. */
WEFT_API weft_status weft_session_prompt(weft_session* session, const uint32_t* ids, size_t count, weft_error* error);

/* The id of a callback that has no token: it has the rest of the text that was held back for stop strings. */
#define WEFT_NO_TOKEN 0xffffffffu

/* Receives a generated token: its id, and `length` bytes of the text that it completes. The text is not
 * zero-terminated, has only whole UTF-8 characters and may be empty. Return 0 to continue, non-zero to stop after this
 * token; text that was held back for stop strings still comes, with the id WEFT_NO_TOKEN. The callback may call getters
 * and weft_session_cancel; functions that change a generating session are WEFT_INVALID_ARGUMENT. */
typedef int (*weft_token_callback)(void* user, uint32_t id, const char* text, size_t length);

/* Receives a piece of the reasoning (reasoning.h): `length` bytes of whole UTF-8 characters, not zero-terminated,
 * before the token callback gets the token. Return 0 to continue, non-zero to stop after this token. It may call what a
 * weft_token_callback may call. */
typedef int (*weft_reasoning_callback)(void* user, const char* text, size_t length);

/* Receives how many of the prompt's tokens have been computed: `done` of `all`, where all > 0, before each pass but the
 * last (the plan's chunk_tokens tokens a pass), and with done == all before the first token. Tokens that are reused
 * from earlier calls do not count. Return 0 to continue, non-zero to end the generate with WEFT_STOP_CALLER. It may
 * call what a weft_token_callback may call, and may be called on any thread that generates with the session. With it,
 * at most one pass is in flight when the next one is submitted.
 *
 * If it, or weft_session_cancel, ends a generate in its prompt, the generate returns WEFT_OK with WEFT_STOP_CALLER and
 * no token. It returns after the passes that are in flight: at most one with a callback, else at most the plan's
 * run_ahead + 1. The context keeps all its ids, and what has been computed of them: the next generate computes the rest
 * and gives the tokens that it would have given, and a weft_session_prompt that shares a prefix reuses it. The
 * statistics do not count the tokens of a prompt that was ended. The encoder of an encoder-decoder reads its input in
 * one pass, which is not reported and cannot be ended. */
typedef int (*weft_prompt_callback)(void* user, uint32_t done, uint32_t all);

/* Why a generate ended. */
typedef enum weft_stop WEFT_ENUM {
  WEFT_STOP_LENGTH = 0, /* max_tokens were generated */
  WEFT_STOP_TOKEN,      /* the model ended its text; the stop token is the last id */
  WEFT_STOP_CONTEXT,    /* the context is full */
  WEFT_STOP_CALLER,     /* the callback or weft_session_cancel */
  WEFT_STOP_GRAMMAR,    /* the grammar allows no further text */
  WEFT_STOP_STRING      /* a stop string appeared */
} weft_stop;

typedef struct weft_generate_options {
  size_t size;                  /* of this struct, by weft_generate_options_default */
  uint32_t max_tokens;          /* 0: until another reason to stop */
  int ignore_stop_tokens;       /* not 0: continue after the model's stop tokens */
  const weft_request* request;  /* set first, as by weft_session_set_request, and kept; NULL: what the session has */
  weft_token_callback callback; /* may be NULL, as the next two */
  weft_reasoning_callback reasoning_callback; /* gets nothing unless the request has separate_reasoning */
  weft_prompt_callback prompt_callback;
  void* user; /* passed to the callbacks */
} weft_generate_options;

/* max_tokens 0, no callbacks and no request; the model's stop tokens end the text. */
static inline weft_generate_options weft_generate_options_default(void) {
  weft_generate_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  return options;
}

/* Computes what is pending of the context, then appends tokens to it, with one callback for each. *stop (stop may be
 * NULL) is why it ended. If the context is full already, it ends at once with WEFT_STOP_CONTEXT. If the call fails, the
 * tokens that the callback got stay in the context.
 *
 * WEFT_INVALID_ARGUMENT if the context is empty, or if the keep-list has none of the tokens that the grammar allows;
 * WEFT_INTERNAL if no logit is a finite number; the errors of a request, for which nothing is generated. */
WEFT_API weft_status weft_session_generate(weft_session* session, const weft_generate_options* options, weft_stop* stop,
                                           weft_error* error);

/* Ends a running generate after its present token. If none is running, the next one ends at its start. May be called
 * from any thread and from a signal handler. NULL is allowed. */
WEFT_API void weft_session_cancel(weft_session* session);
/* Forgets a weft_session_cancel that came when nothing was running: else the next generate ends at its start. NULL is
 * allowed. May be called from any thread; while a generate runs it takes back a cancel that the generate has not seen
 * yet. */
WEFT_API void weft_session_clear_cancel(weft_session* session);

/* Makes the context these ids (count >= 2) and computes how well the model predicts each:
 * nll[i] = -ln p(ids[i + 1] | ids[0 .. i]) for i < count - 1, natural logarithm. nll has count - 1 floats. With a
 * keep-list, p is over its tokens only, and nll is infinite for others. WEFT_INVALID_ARGUMENT for a wrong count or id;
 * WEFT_CONTEXT_FULL; WEFT_UNSUPPORTED for an encoder-decoder. */
WEFT_API weft_status weft_session_score(weft_session* session, const uint32_t* ids, size_t count, float* nll,
                                        weft_error* error);

/* Computes the logits after the last token of the context, before the session's logit bias and penalties (a bias and a
 * soft cap of the model are in them), and copies them to the host:
 * `count` floats, which must be vocab_size. WEFT_INVALID_ARGUMENT for another count or an empty context. */
WEFT_API weft_status weft_session_logits(weft_session* session, float* logits, size_t count, weft_error* error);

/* Computes what the next token would be chosen from: the ids that the session's head projects for its sampling, in no
 * order, and their logits before bias and penalties. Writes at most capacity of each and sets *count to the number
 * there are (at most vocab_size). WEFT_INVALID_ARGUMENT if the context is empty. */
WEFT_API weft_status weft_session_head_logits(weft_session* session, uint32_t* ids, float* logits, size_t capacity,
                                              size_t* count, weft_error* error);

/* Returns the ids of the context; those of soft tokens are WEFT_SOFT_TOKEN and above (soft.h). */
WEFT_API weft_status weft_session_get_ids(const weft_session* session, uint32_t* ids, size_t capacity, size_t* count,
                                          weft_error* error);

/* Writes the session to a file: context, cached keys and values, sampling and logit bias. A session restored from it
 * continues as this one would. The rest of its request (head, grammar, stop strings, ...) is not saved. note (may be
 * NULL): UTF-8 text of the caller, stored in the file. The file is replaced as a whole: a reader sees the old file or
 * the new one. WEFT_INVALID_ARGUMENT if the context is empty, or if the file has something else than a saved session;
 * WEFT_IO. */
WEFT_API weft_status weft_session_save(const weft_session* session, const char* path, const char* note,
                                       weft_error* error);

/* Replaces the session's context, sampling and logit bias by those of a saved session; a grammar starts from its
 * beginning, and the rest of the request stays. A later request has its own sampling and biases, or keeps these
 * (keep_sampling, keep_biases). note may be NULL; else *note is the saved note ("" if there was none), which the caller
 * frees. WEFT_BAD_FILE for a file that is not a saved session, or is cut or damaged; WEFT_UNSUPPORTED if the model, its
 * types, the type of the cache or the context's size differ; WEFT_NOT_FOUND and WEFT_IO. The session is then unchanged.
 */
WEFT_API weft_status weft_session_restore(weft_session* session, const char* path, char** note, weft_error* error);

/* Empties the context and the statistics. The request stays. NULL is allowed. */
WEFT_API void weft_session_reset(weft_session* session);

/* ---- statistics ---- */

#define WEFT_MAX_STAGES 32
typedef struct weft_stage {
  const char* name; /* of an operation: "gather", "matmul", "project", ...; static */
  double share;     /* of the device time of the tokens that were timed, 0 to 1 */
} weft_stage;

/* Sums since the session was created or reset. */
typedef struct weft_stats {
  uint32_t context_used;                   /* tokens in the context now */
  uint32_t stop_string;                    /* index of the stop that ended the last generate; UINT32_MAX: none */
  uint64_t prompt_tokens;                  /* prompt tokens that were computed; a reused prefix does not count */
  uint64_t reused_tokens;                  /* prompt tokens that were already computed */
  uint64_t decoded_tokens;                 /* generated tokens, except the first of each generate */
  double prompt_seconds;                   /* until the first token of each generate, that token included */
  double decode_seconds;                   /* for the decoded tokens */
  double decode_cpu_seconds;               /* CPU time of the calling thread in decode_seconds, callbacks excluded */
  double first_token_seconds;              /* of the last generate only: from its start to its first token */
  uint64_t readback_bytes;                 /* copied from the device to get the tokens */
  uint64_t kv_bytes, scratch_bytes;        /* device memory of this session now */
  double read_gigabytes_per_second;        /* bytes of weights and cache over decode_seconds, 10^9 bytes */
  double device_read_gigabytes_per_second; /* as weft_model_measure_bandwidth returned; 0: not measured yet */
  uint64_t head_tokens;                    /* chosen tokens; the next three are sums over them */
  uint64_t head_rows;                      /* rows of the vocabulary table whose logits were computed */
  uint64_t head_bytes;                     /* bytes of the table that were read, estimates included */
  uint64_t head_refined;                   /* rows whose estimate was refined */
  size_t stage_count;                      /* entries of stages; 0 if the device has no timestamps */
  weft_stage stages[WEFT_MAX_STAGES];      /* largest share first */
} weft_stats;

/* Writes the sums to *stats. size: sizeof *stats. stats may be NULL: nothing is written. */
WEFT_API void weft_session_get_stats(const weft_session* session, weft_stats* stats, size_t size);

#ifdef __cplusplus
}
#endif
#endif
