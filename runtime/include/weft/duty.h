/* Weft: going slower, for an application in the background, a device that is too warm or a screen that must stay
 * smooth. Errors, ownership, threads and units are as weft.h documents them.
 * This header may still change. */
#ifndef WEFT_DUTY_H
#define WEFT_DUTY_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Limits how much of the time the device is busy with a session of WEFT_POLICY_POLITE: to `share` of it, 0 to 1.
 * 1: no limit (the default). 0: no work is submitted until the share is set again; calls wait. The generated tokens
 * stay the same. May be called at any time and from any thread, also while the session generates.
 *
 * With a limit one submission (one or two layers) is in flight at a time. The time from its submission to its end
 * counts as busy, and the calling thread then pauses until the share is kept: after 2 ms of work and with a share of
 * 0.25, 6 ms. Up to 5 ms in which nothing was submitted are made up for by shorter pauses. weft_session_cancel ends the
 * pauses: the generate then ends at full speed, as it would without a limit.
 *
 * A batch keeps to the shares of all its sessions, and its work counts for each. The work of a draft model counts for
 * the session that it drafts for. weft_session_lens is not limited. A streamed model pauses between its passes only.
 *
 * WEFT_INVALID_ARGUMENT for a share out of this range, and a session of WEFT_POLICY_THROUGHPUT. */
WEFT_API weft_status weft_session_set_duty(weft_session* session, float share, weft_error* error);

/* One limit for several sessions, listeners and encoders, whatever models they use: the device is busy with all of them
 * together for `share` of the time. */
typedef struct weft_duty weft_duty;

/* Creates a duty with a share of 1. */
WEFT_API weft_status weft_duty_create(weft_duty** duty, weft_error* error);
/* Its users keep to its last share. */
WEFT_API void weft_duty_free(weft_duty* duty);
/* As weft_session_set_duty, for all that use the duty. From any thread, at any time. */
WEFT_API weft_status weft_duty_set_share(weft_duty* duty, float share, weft_error* error);

/* Seconds that the device was busy with those that use the duty, while its share was below 1. From any thread. NULL: 0.
 */
WEFT_API double weft_duty_busy_seconds(const weft_duty* duty);

/* Has the session's work submitted as WEFT_POLICY_POLITE has it, whatever its policy is, and keep to the duty's share
 * beside its own. NULL: no longer (the default). With two threads, two submissions may be in flight; time in which the
 * device is busy with both counts once. */
WEFT_API weft_status weft_session_use_duty(weft_session* session, weft_duty* duty, weft_error* error);
/* The same for an encoder. Its pauses cannot be cancelled. */
WEFT_API weft_status weft_encoder_use_duty(weft_encoder* encoder, weft_duty* duty, weft_error* error);

/* Called before each pause with its length: `seconds`, at most 0.01. A longer pause is several, so with a share of
 * 0 this is called a hundred times a second. The callback's time is a part of the pause: a program with one thread can
 * draw here. Return 0 to continue, non-zero to cancel as weft_session_cancel does. It may call what a
 * weft_token_callback may call, and weft_session_set_duty. */
typedef int (*weft_pause_callback)(void* user, double seconds);

/* callback NULL: none (the default). */
WEFT_API weft_status weft_session_set_pause_callback(weft_session* session, weft_pause_callback callback, void* user,
                                                     weft_error* error);

#ifdef __cplusplus
}
#endif
#endif
