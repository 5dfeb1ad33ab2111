/* Weft: going on after the device was lost: its driver was reset, or the system took it from an application in the
 * background. Calls return WEFT_DEVICE_LOST then. A session keeps its data on the host: its tokens, its settings,
 * its grammar's place. Errors, ownership and units are as weft.h documents them.
 * This header may still change. */
#ifndef WEFT_RECOVER_H
#define WEFT_RECOVER_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opens the model's device again and loads the weights from the file, which must be the same. All sessions, batches and
 * encoders of the model go on with it: a session computes its context again when that is next needed, and the tokens to
 * come are those that would have come (a context that is computed in passes of several tokens is rounded as passes of
 * several tokens are, as after weft_session_prompt). A batch is empty after the failure, and its sessions can be added
 * again; an encoder has to run again.
 *
 * May be called from any thread, and waits up to ten seconds for calls that are under way in others.
 * WEFT_INVALID_ARGUMENT if one goes on, in a callback, and if a batch has sessions. If the file cannot be opened or is
 * another model, or the device cannot be opened, everything is as it was. If loading fails after that, as
 * weft_model_load may, the model has no weights: all calls that need them return WEFT_DEVICE_LOST, and
 * weft_model_recover may be called again. Works on a device that was not lost, too. */
WEFT_API weft_status weft_model_recover(weft_model* model, weft_error* error);

/* Automatic recovery: calls that compute with a session, and weft_model_rows and weft_table_*, recover by themselves
 * when the device is lost in them, and continue. The default is off. weft_session_profile, weft_session_copy_prefix and
 * encoders do not. weft_session_generate then only takes longer. A call that loses the device twice without a new token
 * between returns WEFT_DEVICE_LOST, and so do weft_generate_batch and weft_batch_step at once. */
WEFT_API weft_status weft_model_set_recovery(weft_model* model, int automatic, weft_error* error);

#ifdef __cplusplus
}
#endif
#endif
