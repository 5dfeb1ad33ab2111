"""The C API of libweft for ctypes: by declare.py, from its headers, which document everything."""
import ctypes
import enum

WEFT_VERSION_MAJOR = 0
WEFT_VERSION_MINOR = 2
WEFT_VERSION_PATCH = 0
WEFT_MAX_LOGPROBS = 20
WEFT_NO_TOKEN = 0xffffffff
WEFT_MAX_STAGES = 32

class weft_status(enum.IntEnum):
    WEFT_OK = 0
    WEFT_INVALID_ARGUMENT = 1
    WEFT_NOT_FOUND = 2
    WEFT_IO = 3
    WEFT_BAD_FILE = 4
    WEFT_UNSUPPORTED = 5
    WEFT_NO_DEVICE = 6
    WEFT_OUT_OF_MEMORY = 7
    WEFT_DEVICE_LOST = 8
    WEFT_CONTEXT_FULL = 9
    WEFT_CANCELLED = 10
    WEFT_INTERNAL = 11


class weft_error(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_int),
        ("sentence", ctypes.c_char * 512),
        ("place", ctypes.c_char * 512),
        ("hint", ctypes.c_char * 256),
    ]


class weft_model(ctypes.Structure):
    pass


class weft_type(enum.IntEnum):
    WEFT_TYPE_FILE = 0
    WEFT_TYPE_F16 = 1
    WEFT_TYPE_Q8 = 2
    WEFT_TYPE_Q4 = 3
    WEFT_TYPE_NATIVE = 4


class weft_tie(enum.IntEnum):
    WEFT_TIE_AUTO = 0
    WEFT_TIE_NEVER = 1


class weft_model_options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("device", ctypes.c_char_p),
        ("progress", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_float)),
        ("user", ctypes.c_void_p),
        ("memory_budget", ctypes.c_uint64),
        ("int8_inputs", ctypes.c_int),
        ("type", ctypes.c_int),
        ("vocab_type", ctypes.c_int),
        ("tie", ctypes.c_int),
    ]


def weft_model_options_default() -> weft_model_options:
    return weft_model_options(size=ctypes.sizeof(weft_model_options))


class weft_model_info(ctypes.Structure):
    _fields_ = [
        ("family", ctypes.c_char_p),
        ("type", ctypes.c_char_p),
        ("device", ctypes.c_char_p),
        ("driver", ctypes.c_char_p),
        ("vocab_size", ctypes.c_uint32),
        ("layers", ctypes.c_uint32),
        ("width", ctypes.c_uint32),
        ("max_context", ctypes.c_uint32),
        ("tied", ctypes.c_int),
        ("has_chat_template", ctypes.c_int),
        ("reads_prompt_apart", ctypes.c_int),
        ("mask_token", ctypes.c_uint32),
        ("parameters", ctypes.c_uint64),
        ("vocab_bytes", ctypes.c_uint64),
        ("layer_bytes", ctypes.c_uint64),
        ("bytes_per_token", ctypes.c_uint64),
        ("load_seconds", ctypes.c_double),
        ("tokenizer_fingerprint", ctypes.c_uint64),
        ("streamed_bytes", ctypes.c_uint64),
        ("device_bytes", ctypes.c_uint64),
        ("most_device_bytes", ctypes.c_uint64),
    ]


class weft_message(ctypes.Structure):
    _fields_ = [
        ("role", ctypes.c_char_p),
        ("content", ctypes.c_char_p),
    ]


class weft_encoder(ctypes.Structure):
    pass


class weft_pooling(enum.IntEnum):
    WEFT_POOL_MODEL = 0
    WEFT_POOL_MEAN = 1
    WEFT_POOL_CLS = 2
    WEFT_POOL_LAST = 3


class weft_session(ctypes.Structure):
    pass


class weft_policy(enum.IntEnum):
    WEFT_POLICY_THROUGHPUT = 0
    WEFT_POLICY_POLITE = 1


class weft_session_options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("context", ctypes.c_uint32),
        ("kv", ctypes.c_int),
        ("policy", ctypes.c_int),
        ("kv_values", ctypes.c_int),
    ]


def weft_session_options_default() -> weft_session_options:
    return weft_session_options(size=ctypes.sizeof(weft_session_options))


class weft_sampling(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("seed", ctypes.c_uint64),
        ("temperature", ctypes.c_float),
        ("top_k", ctypes.c_uint32),
        ("top_p", ctypes.c_float),
        ("min_p", ctypes.c_float),
        ("repeat_penalty", ctypes.c_float),
        ("presence_penalty", ctypes.c_float),
        ("frequency_penalty", ctypes.c_float),
        ("typical_p", ctypes.c_float),
    ]


def weft_sampling_default() -> weft_sampling:
    return weft_sampling(size=ctypes.sizeof(weft_sampling), temperature=0.7, top_k=40, top_p=0.95, min_p=0.05, repeat_penalty=1, typical_p=1)


class weft_grammar_kind(enum.IntEnum):
    WEFT_GRAMMAR_NONE = 0
    WEFT_GRAMMAR_GBNF = 1
    WEFT_GRAMMAR_JSON_SCHEMA = 2
    WEFT_GRAMMAR_REGEX = 3


class weft_speculation(enum.IntEnum):
    WEFT_SPECULATE_OFF = 0
    WEFT_SPECULATE_LOOKUP = 1
    WEFT_SPECULATE_DRAFT = 2
    WEFT_SPECULATE_MEDUSA = 3
    WEFT_SPECULATE_ASSISTANT = 4


class weft_request(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("sampling", ctypes.POINTER(weft_sampling)),
        ("head", ctypes.c_char_p),
        ("grammar", ctypes.c_char_p),
        ("grammar_place", ctypes.c_char_p),
        ("grammar_kind", ctypes.c_int),
        ("speculation", ctypes.c_int),
        ("draft", ctypes.POINTER(weft_model)),
        ("medusa", ctypes.c_char_p),
        ("stops", ctypes.POINTER(ctypes.c_char_p)),
        ("stop_count", ctypes.c_size_t),
        ("logprobs", ctypes.c_uint32),
        ("separate_reasoning", ctypes.c_int),
        ("reasoning_tokens", ctypes.c_uint32),
        ("bias_ids", ctypes.POINTER(ctypes.c_uint32)),
        ("biases", ctypes.POINTER(ctypes.c_float)),
        ("bias_count", ctypes.c_size_t),
        ("keep_sampling", ctypes.c_int),
        ("keep_biases", ctypes.c_int),
        ("assistant", ctypes.c_char_p),
    ]


def weft_request_default() -> weft_request:
    return weft_request(size=ctypes.sizeof(weft_request))

weft_token_callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t)
weft_reasoning_callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
weft_prompt_callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)

class weft_stop(enum.IntEnum):
    WEFT_STOP_LENGTH = 0
    WEFT_STOP_TOKEN = 1
    WEFT_STOP_CONTEXT = 2
    WEFT_STOP_CALLER = 3
    WEFT_STOP_GRAMMAR = 4
    WEFT_STOP_STRING = 5


class weft_generate_options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("max_tokens", ctypes.c_uint32),
        ("ignore_stop_tokens", ctypes.c_int),
        ("request", ctypes.POINTER(weft_request)),
        ("callback", weft_token_callback),
        ("reasoning_callback", weft_reasoning_callback),
        ("prompt_callback", weft_prompt_callback),
        ("user", ctypes.c_void_p),
    ]


def weft_generate_options_default() -> weft_generate_options:
    return weft_generate_options(size=ctypes.sizeof(weft_generate_options))


class weft_stage(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("share", ctypes.c_double),
    ]


class weft_stats(ctypes.Structure):
    _fields_ = [
        ("context_used", ctypes.c_uint32),
        ("stop_string", ctypes.c_uint32),
        ("prompt_tokens", ctypes.c_uint64),
        ("reused_tokens", ctypes.c_uint64),
        ("decoded_tokens", ctypes.c_uint64),
        ("prompt_seconds", ctypes.c_double),
        ("decode_seconds", ctypes.c_double),
        ("decode_cpu_seconds", ctypes.c_double),
        ("first_token_seconds", ctypes.c_double),
        ("readback_bytes", ctypes.c_uint64),
        ("kv_bytes", ctypes.c_uint64),
        ("scratch_bytes", ctypes.c_uint64),
        ("read_gigabytes_per_second", ctypes.c_double),
        ("device_read_gigabytes_per_second", ctypes.c_double),
        ("head_tokens", ctypes.c_uint64),
        ("head_rows", ctypes.c_uint64),
        ("head_bytes", ctypes.c_uint64),
        ("head_refined", ctypes.c_uint64),
        ("stage_count", ctypes.c_size_t),
        ("stages", weft_stage * 32),
    ]

WEFT_SOFT_TOKEN = 0x80000000

class weft_prompt_part(ctypes.Structure):
    _fields_ = [
        ("ids", ctypes.POINTER(ctypes.c_uint32)),
        ("rows", ctypes.POINTER(ctypes.c_float)),
        ("count", ctypes.c_size_t),
    ]


class weft_duty(ctypes.Structure):
    pass

weft_pause_callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_double)

class weft_image_encoder(ctypes.Structure):
    pass


class weft_image(ctypes.Structure):
    pass


class weft_adapter(ctypes.Structure):
    pass

WEFT_SAMPLES_PER_SECOND = 16000

class weft_listener(ctypes.Structure):
    pass


class weft_heard_word(ctypes.Structure):
    _fields_ = [
        ("begin", ctypes.c_double),
        ("end", ctypes.c_double),
        ("text", ctypes.c_char_p),
    ]


class weft_heard(ctypes.Structure):
    _fields_ = [
        ("begin", ctypes.c_double),
        ("end", ctypes.c_double),
        ("text", ctypes.c_char_p),
        ("mean_logprob", ctypes.c_double),
        ("no_speech", ctypes.c_double),
        ("words", ctypes.POINTER(weft_heard_word)),
        ("word_count", ctypes.c_size_t),
    ]

weft_heard_callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(weft_heard))

class weft_listen_options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("language", ctypes.c_char_p),
        ("translate", ctypes.c_int),
        ("prompt", ctypes.c_char_p),
        ("samples_per_second", ctypes.c_uint32),
        ("temperatures", ctypes.POINTER(ctypes.c_float)),
        ("temperature_count", ctypes.c_size_t),
        ("words", ctypes.c_int),
        ("callback", weft_heard_callback),
        ("user", ctypes.c_void_p),
    ]


def weft_listen_options_default() -> weft_listen_options:
    return weft_listen_options(size=ctypes.sizeof(weft_listen_options))

WEFT_MAX_BATCH = 64

class weft_batch_entry(ctypes.Structure):
    _fields_ = [
        ("session", ctypes.POINTER(weft_session)),
        ("options", ctypes.POINTER(weft_generate_options)),
        ("stop", ctypes.c_int),
    ]


class weft_batch(ctypes.Structure):
    pass


class weft_batch_end(ctypes.Structure):
    _fields_ = [
        ("session", ctypes.POINTER(weft_session)),
        ("stop", ctypes.c_int),
        ("error", weft_error),
    ]


class weft_conversation(ctypes.Structure):
    pass


class weft_head_estimate(ctypes.Structure):
    _fields_ = [
        ("logit", ctypes.c_float),
        ("estimate", ctypes.c_float),
        ("bound", ctypes.c_float),
    ]


class weft_importance_options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("part_tokens", ctypes.c_uint32),
        ("replace", ctypes.c_int),
        ("progress", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_float)),
        ("user", ctypes.c_void_p),
    ]


def weft_importance_options_default() -> weft_importance_options:
    return weft_importance_options(size=ctypes.sizeof(weft_importance_options))


class weft_lens_row(ctypes.Structure):
    _fields_ = [
        ("layer", ctypes.c_uint32),
        ("position", ctypes.c_uint32),
        ("hidden", ctypes.POINTER(ctypes.c_float)),
        ("logits", ctypes.POINTER(ctypes.c_float)),
    ]

weft_lens_callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(weft_lens_row))

class weft_lens_options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("first", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
        ("without_logits", ctypes.c_int),
        ("layers", ctypes.POINTER(ctypes.c_uint32)),
        ("layer_count", ctypes.c_size_t),
    ]


def weft_lens_options_default() -> weft_lens_options:
    return weft_lens_options(size=ctypes.sizeof(weft_lens_options))


class weft_fit(enum.IntEnum):
    WEFT_FIT_UNKNOWN = 0
    WEFT_FIT_YES = 1
    WEFT_FIT_NO = 2


class weft_probe_report(ctypes.Structure):
    _fields_ = [
        ("device", ctypes.c_int),
        ("device_index", ctypes.c_uint32),
        ("model", ctypes.c_int),
        ("fit", ctypes.c_int),
        ("needed_bytes", ctypes.c_uint64),
        ("free_bytes", ctypes.c_uint64),
    ]


class weft_reranker(ctypes.Structure):
    pass


class weft_speculation_stats(ctypes.Structure):
    _fields_ = [
        ("passes", ctypes.c_uint64),
        ("drafted_tokens", ctypes.c_uint64),
        ("accepted_tokens", ctypes.c_uint64),
    ]


# name: (result, parameters)
FUNCTIONS = {
    "weft_version": (ctypes.c_char_p, []),
    "weft_set_cache_folder": (ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(weft_error)]),
    "weft_status_name": (ctypes.c_char_p, [ctypes.c_int]),
    "weft_string_free": (None, [ctypes.c_void_p]),
    "weft_devices": (ctypes.c_int, [ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(weft_error)]),
    "weft_tune": (ctypes.c_int, [ctypes.c_char_p, ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_float), ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(weft_error)]),
    "weft_model_load": (ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(weft_model_options), ctypes.POINTER(ctypes.POINTER(weft_model)), ctypes.POINTER(weft_error)]),
    "weft_model_free": (None, [ctypes.POINTER(weft_model)]),
    "weft_model_get_info": (None, [ctypes.POINTER(weft_model), ctypes.POINTER(weft_model_info), ctypes.c_size_t]),
    "weft_model_describe": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(weft_error)]),
    "weft_model_measure_bandwidth": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.POINTER(ctypes.c_double), ctypes.POINTER(weft_error)]),
    "weft_tokenize": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_uint32), ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(weft_error)]),
    "weft_detokenize": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.POINTER(ctypes.c_uint32), ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(weft_error)]),
    "weft_apply_chat_template": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.POINTER(weft_message), ctypes.c_size_t, ctypes.POINTER(ctypes.c_uint32), ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(weft_error)]),
    "weft_vocab_keep": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint32), ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(weft_error)]),
    "weft_vocab_save": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.POINTER(ctypes.c_uint32), ctypes.c_size_t, ctypes.c_char_p, ctypes.POINTER(weft_error)]),
    "weft_encoder_create": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.POINTER(ctypes.POINTER(weft_encoder)), ctypes.POINTER(weft_error)]),
    "weft_encoder_free": (None, [ctypes.POINTER(weft_encoder)]),
    "weft_encoder_run": (ctypes.c_int, [ctypes.POINTER(weft_encoder), ctypes.POINTER(ctypes.c_uint32), ctypes.c_size_t, ctypes.POINTER(weft_error)]),
    "weft_model_embedding_size": (ctypes.c_uint32, [ctypes.POINTER(weft_model)]),
    "weft_model_prompt": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(weft_error)]),
    "weft_encoder_embedding": (ctypes.c_int, [ctypes.POINTER(weft_encoder), ctypes.c_int, ctypes.POINTER(ctypes.c_float), ctypes.c_size_t, ctypes.POINTER(weft_error)]),
    "weft_encoder_masked_logits": (ctypes.c_int, [ctypes.POINTER(weft_encoder), ctypes.c_size_t, ctypes.POINTER(ctypes.c_float), ctypes.c_size_t, ctypes.POINTER(weft_error)]),
    "weft_session_create": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.POINTER(weft_session_options), ctypes.POINTER(ctypes.POINTER(weft_session)), ctypes.POINTER(weft_error)]),
    "weft_session_free": (None, [ctypes.POINTER(weft_session)]),
    "weft_session_set_request": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.POINTER(weft_request), ctypes.POINTER(weft_error)]),
    "weft_session_get_logprobs": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_float), ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(weft_error)]),
    "weft_session_prompt": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.POINTER(ctypes.c_uint32), ctypes.c_size_t, ctypes.POINTER(weft_error)]),
    "weft_session_generate": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.POINTER(weft_generate_options), ctypes.POINTER(ctypes.c_int), ctypes.POINTER(weft_error)]),
    "weft_session_cancel": (None, [ctypes.POINTER(weft_session)]),
    "weft_session_clear_cancel": (None, [ctypes.POINTER(weft_session)]),
    "weft_session_score": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.POINTER(ctypes.c_uint32), ctypes.c_size_t, ctypes.POINTER(ctypes.c_float), ctypes.POINTER(weft_error)]),
    "weft_session_logits": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.POINTER(ctypes.c_float), ctypes.c_size_t, ctypes.POINTER(weft_error)]),
    "weft_session_head_logits": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_float), ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(weft_error)]),
    "weft_session_get_ids": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.POINTER(ctypes.c_uint32), ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(weft_error)]),
    "weft_session_save": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(weft_error)]),
    "weft_session_restore": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(weft_error)]),
    "weft_session_reset": (None, [ctypes.POINTER(weft_session)]),
    "weft_session_get_stats": (None, [ctypes.POINTER(weft_session), ctypes.POINTER(weft_stats), ctypes.c_size_t]),
    "weft_model_rows": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.POINTER(ctypes.c_uint32), ctypes.c_size_t, ctypes.POINTER(ctypes.c_float), ctypes.POINTER(weft_error)]),
    "weft_session_prompt_parts": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.POINTER(weft_prompt_part), ctypes.c_size_t, ctypes.POINTER(weft_error)]),
    "weft_session_set_duty": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.c_float, ctypes.POINTER(weft_error)]),
    "weft_duty_create": (ctypes.c_int, [ctypes.POINTER(ctypes.POINTER(weft_duty)), ctypes.POINTER(weft_error)]),
    "weft_duty_free": (None, [ctypes.POINTER(weft_duty)]),
    "weft_duty_set_share": (ctypes.c_int, [ctypes.POINTER(weft_duty), ctypes.c_float, ctypes.POINTER(weft_error)]),
    "weft_duty_busy_seconds": (ctypes.c_double, [ctypes.POINTER(weft_duty)]),
    "weft_session_use_duty": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.POINTER(weft_duty), ctypes.POINTER(weft_error)]),
    "weft_encoder_use_duty": (ctypes.c_int, [ctypes.POINTER(weft_encoder), ctypes.POINTER(weft_duty), ctypes.POINTER(weft_error)]),
    "weft_session_set_pause_callback": (ctypes.c_int, [ctypes.POINTER(weft_session), weft_pause_callback, ctypes.c_void_p, ctypes.POINTER(weft_error)]),
    "weft_image_encoder_create": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.c_char_p, ctypes.POINTER(ctypes.POINTER(weft_image_encoder)), ctypes.POINTER(weft_error)]),
    "weft_image_encoder_free": (None, [ctypes.POINTER(weft_image_encoder)]),
    "weft_image_encoder_use_duty": (ctypes.c_int, [ctypes.POINTER(weft_image_encoder), ctypes.POINTER(weft_duty), ctypes.POINTER(weft_error)]),
    "weft_image_encoder_token": (ctypes.c_uint32, [ctypes.POINTER(weft_image_encoder)]),
    "weft_image_encode_file": (ctypes.c_int, [ctypes.POINTER(weft_image_encoder), ctypes.c_char_p, ctypes.POINTER(ctypes.POINTER(weft_image)), ctypes.POINTER(weft_error)]),
    "weft_image_encode_memory": (ctypes.c_int, [ctypes.POINTER(weft_image_encoder), ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.POINTER(weft_image)), ctypes.POINTER(weft_error)]),
    "weft_image_free": (None, [ctypes.POINTER(weft_image)]),
    "weft_image_parts": (ctypes.c_int, [ctypes.POINTER(weft_image), ctypes.POINTER(weft_prompt_part), ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(weft_error)]),
    "weft_session_prompt_images": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.POINTER(weft_prompt_part), ctypes.c_size_t, ctypes.POINTER(ctypes.POINTER(weft_image)), ctypes.c_size_t, ctypes.POINTER(weft_error)]),
    "weft_adapter_load": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.c_char_p, ctypes.c_float, ctypes.POINTER(ctypes.POINTER(weft_adapter)), ctypes.POINTER(weft_error)]),
    "weft_adapter_free": (None, [ctypes.POINTER(weft_adapter)]),
    "weft_adapter_bytes": (ctypes.c_uint64, [ctypes.POINTER(weft_adapter)]),
    "weft_session_set_adapter": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.POINTER(weft_adapter), ctypes.POINTER(weft_error)]),
    "weft_listener_create": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.POINTER(ctypes.POINTER(weft_listener)), ctypes.POINTER(weft_error)]),
    "weft_listener_free": (None, [ctypes.POINTER(weft_listener)]),
    "weft_listener_begin": (ctypes.c_int, [ctypes.POINTER(weft_listener), ctypes.POINTER(weft_listen_options), ctypes.POINTER(weft_error)]),
    "weft_listener_feed": (ctypes.c_int, [ctypes.POINTER(weft_listener), ctypes.POINTER(ctypes.c_float), ctypes.c_size_t, ctypes.POINTER(weft_error)]),
    "weft_listener_finish": (ctypes.c_int, [ctypes.POINTER(weft_listener), ctypes.POINTER(weft_error)]),
    "weft_listen": (ctypes.c_int, [ctypes.POINTER(weft_listener), ctypes.POINTER(ctypes.c_float), ctypes.c_size_t, ctypes.POINTER(weft_listen_options), ctypes.POINTER(weft_error)]),
    "weft_listener_use_duty": (ctypes.c_int, [ctypes.POINTER(weft_listener), ctypes.POINTER(weft_duty), ctypes.POINTER(weft_error)]),
    "weft_listener_language": (ctypes.c_char_p, [ctypes.POINTER(weft_listener)]),
    "weft_listener_cancel": (None, [ctypes.POINTER(weft_listener)]),
    "weft_listener_clear_cancel": (None, [ctypes.POINTER(weft_listener)]),
    "weft_generate_batch": (ctypes.c_int, [ctypes.POINTER(weft_batch_entry), ctypes.c_size_t, ctypes.POINTER(weft_error)]),
    "weft_session_create_group": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.POINTER(weft_session_options), ctypes.POINTER(ctypes.POINTER(weft_session)), ctypes.c_size_t, ctypes.POINTER(weft_error)]),
    "weft_batch_create": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.POINTER(ctypes.POINTER(weft_batch)), ctypes.POINTER(weft_error)]),
    "weft_batch_free": (None, [ctypes.POINTER(weft_batch)]),
    "weft_batch_add": (ctypes.c_int, [ctypes.POINTER(weft_batch), ctypes.POINTER(weft_session), ctypes.POINTER(weft_generate_options), ctypes.POINTER(weft_error)]),
    "weft_batch_set_token_share": (ctypes.c_int, [ctypes.POINTER(weft_batch), ctypes.c_double, ctypes.POINTER(weft_error)]),
    "weft_batch_step": (ctypes.c_int, [ctypes.POINTER(weft_batch), ctypes.POINTER(weft_batch_end), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(weft_error)]),
    "weft_session_copy_prefix": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.POINTER(weft_session), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(weft_error)]),
    "weft_session_computed_tokens": (ctypes.c_size_t, [ctypes.POINTER(weft_session)]),
    "weft_conversation_create": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.c_char_p, ctypes.POINTER(ctypes.POINTER(weft_conversation)), ctypes.POINTER(weft_error)]),
    "weft_conversation_free": (None, [ctypes.POINTER(weft_conversation)]),
    "weft_conversation_ask": (ctypes.c_int, [ctypes.POINTER(weft_conversation), ctypes.c_char_p, ctypes.POINTER(ctypes.POINTER(weft_image)), ctypes.c_size_t, ctypes.POINTER(weft_generate_options), ctypes.POINTER(ctypes.c_int), ctypes.POINTER(weft_error)]),
    "weft_conversation_answer": (ctypes.c_int, [ctypes.POINTER(weft_conversation), ctypes.POINTER(weft_generate_options), ctypes.POINTER(ctypes.c_int), ctypes.POINTER(weft_error)]),
    "weft_conversation_continue": (ctypes.c_int, [ctypes.POINTER(weft_conversation), ctypes.POINTER(weft_generate_options), ctypes.POINTER(ctypes.c_int), ctypes.POINTER(weft_error)]),
    "weft_conversation_undo": (ctypes.c_int, [ctypes.POINTER(weft_conversation), ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(weft_error)]),
    "weft_conversation_get": (ctypes.c_int, [ctypes.POINTER(weft_conversation), ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(weft_error)]),
    "weft_conversation_set": (ctypes.c_int, [ctypes.POINTER(weft_conversation), ctypes.c_char_p, ctypes.POINTER(weft_error)]),
    "weft_conversation_forgotten": (ctypes.c_size_t, [ctypes.POINTER(weft_conversation)]),
    "weft_model_load_fd": (ctypes.c_int, [ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.POINTER(weft_model_options), ctypes.POINTER(ctypes.POINTER(weft_model)), ctypes.POINTER(weft_error)]),
    "weft_model_load_memory": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(weft_model_options), ctypes.POINTER(ctypes.POINTER(weft_model)), ctypes.POINTER(weft_error)]),
    "weft_session_save_fd": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(weft_error)]),
    "weft_session_restore_fd": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(weft_error)]),
    "weft_session_head_estimates": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.POINTER(weft_head_estimate), ctypes.c_size_t, ctypes.POINTER(ctypes.c_float), ctypes.POINTER(weft_error)]),
    "weft_table_rows": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.POINTER(ctypes.c_uint32), ctypes.c_size_t, ctypes.POINTER(ctypes.c_float), ctypes.POINTER(weft_error)]),
    "weft_table_dots": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.POINTER(ctypes.c_float), ctypes.c_size_t, ctypes.POINTER(ctypes.c_float), ctypes.POINTER(weft_error)]),
    "weft_table_states": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.POINTER(ctypes.c_uint32), ctypes.c_size_t, ctypes.POINTER(ctypes.c_float), ctypes.POINTER(weft_error)]),
    "weft_measure_importance": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.c_char_p, ctypes.POINTER(weft_importance_options), ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(weft_error)]),
    "weft_session_lens": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.POINTER(weft_lens_options), weft_lens_callback, ctypes.c_void_p, ctypes.POINTER(weft_error)]),
    "weft_session_set_tuned_lens": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.c_char_p, ctypes.POINTER(weft_error)]),
    "weft_probe": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_uint64, ctypes.POINTER(weft_model_options), ctypes.POINTER(weft_session_options), ctypes.POINTER(weft_probe_report), ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(weft_error)]),
    "weft_session_profile": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.c_uint32, ctypes.c_uint32, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(weft_error)]),
    "weft_session_profile_after": (ctypes.c_int, [ctypes.POINTER(weft_session), ctypes.c_uint32, ctypes.c_uint32, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(weft_error)]),
    "weft_apply_chat_template_thinking": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.POINTER(weft_message), ctypes.c_size_t, ctypes.c_int, ctypes.POINTER(ctypes.c_uint32), ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(weft_error)]),
    "weft_model_recover": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.POINTER(weft_error)]),
    "weft_model_set_recovery": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.c_int, ctypes.POINTER(weft_error)]),
    "weft_reranker_create": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.POINTER(ctypes.POINTER(weft_reranker)), ctypes.POINTER(weft_error)]),
    "weft_reranker_free": (None, [ctypes.POINTER(weft_reranker)]),
    "weft_reranker_use_duty": (ctypes.c_int, [ctypes.POINTER(weft_reranker), ctypes.POINTER(weft_duty), ctypes.POINTER(weft_error)]),
    "weft_reranker_score": (ctypes.c_int, [ctypes.POINTER(weft_reranker), ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(weft_error)]),
    "weft_session_get_speculation_stats": (None, [ctypes.POINTER(weft_session), ctypes.POINTER(weft_speculation_stats), ctypes.c_size_t]),
    "weft_token_bytes": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_int), ctypes.POINTER(weft_error)]),
    "weft_apply_chat_template_json": (ctypes.c_int, [ctypes.POINTER(weft_model), ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint32), ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(weft_error)]),
    "weft_set_wanted": (None, [ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p]),
}
