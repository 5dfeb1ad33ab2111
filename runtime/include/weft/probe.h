/* Weft: asking what would run before loading anything. Errors, ownership, threads and units are as weft.h documents
 * them.
 * This header may still change. */
#ifndef WEFT_PROBE_H
#define WEFT_PROBE_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Room for the model in the memory of the device. */
typedef enum weft_fit WEFT_ENUM {
  WEFT_FIT_UNKNOWN = 0, /* nothing was asked for, no device can be used, or the model cannot be read */
  WEFT_FIT_YES,
  WEFT_FIT_NO
} weft_fit;

typedef struct weft_probe_report {
  weft_status device;    /* WEFT_OK, or the status with which weft_model_load would fail on the device */
  uint32_t device_index; /* of the device that would be used, as weft_devices counts; only if device is WEFT_OK */
  /* WEFT_OK, or the status with which weft_model_load or weft_session_create would fail because of the model; also
   * WEFT_OK if no model was asked for */
  weft_status model;
  weft_fit fit;
  uint64_t needed_bytes; /* of device memory: weights, a session and `bytes`; 0 if they are not known */
  /* Bytes that are free in all heaps that Weft's buffers come from, as the driver says; else their size. 0
   * without a device. Where the device shares the host's memory, other programs may take it at any time. */
  uint64_t free_bytes;
} weft_probe_report;

/* Tells which device would be used, and whether a model fits on it, without loading the model. Something that is
 * missing on the machine is not an error but an answer: no Vulkan loader, no driver, no such device, a device that Weft
 * cannot use, a file that is not there or not a model. The status is then WEFT_OK, and *report says what was found.
 * report_size: sizeof *report.
 *
 * path: as in weft_model_load, but NULL: no model, and "": the model installed in share/weft. bytes: device memory that
 * is needed besides the model; without a model, all that is needed. path NULL and bytes 0: only the devices. options
 * (may be NULL) and session (may be NULL): those of the load and of the session that would follow; progress is not
 * called. json may be NULL; else *json, which the caller frees, is an object:
 *
 *   device     object of weft_devices for the device that would be used; only if report.device is WEFT_OK
 *   error      object {code, sentence, place, hint}: why no device can be used; absent if one can
 *   others     array of the other devices' objects, each with
 *     not_used   text: why it would not be used
 *   model      object; only if path is not NULL:
 *     path           text
 *     family         text; this and what follows only if report.model is WEFT_OK
 *     max_context    number: tokens that the model was made for
 *     context        number: tokens of the session
 *   with a device too:
 *     vocab_bytes, layer_bytes, streamed_bytes
 *                    as weft_model_info will have them after the load
 *     session_bytes  device memory of a session with the head "full"; of an encoder, for a model that is one
 *   or, if report.model is not WEFT_OK:
 *     error          as above
 *   needed_bytes, free_bytes
 *              as in the report
 *   fits       true or false; null for WEFT_FIT_UNKNOWN
 *
 * The device is opened and closed again. If its kernels have not computed their known answers yet (weft_devices,
 * proof), they do so here, which may take a second. The model's header and tokenizer are read and checked as
 * weft_model_load does, but not the numbers of its weights, except that two vocabulary tables are compared. The sum
 * counts neither what a driver needs for itself nor what the first load of a model takes for a moment to measure hidden
 * states.
 *
 * WEFT_INVALID_ARGUMENT if report is NULL, or an option is outside its range: type, vocab_type, tie, kv, policy. */
WEFT_API weft_status weft_probe(const char* path, uint64_t bytes, const weft_model_options* options,
                                const weft_session_options* session, weft_probe_report* report, size_t report_size,
                                char** json, weft_error* error);

#ifdef __cplusplus
}
#endif
#endif
