/* Weft: conversations. Errors, ownership, threads and units are as weft.h documents them.
 *
 * A conversation holds messages. It applies the model's chat template to them, has a session answer, and appends the
 * answer. Messages that the context has no room for are left out of what the model reads, the oldest first; the first
 * message stays if it is the system's. A model without a chat template continues one text that grows.
 *
 *   weft_conversation_create(session, "You answer briefly.", &conversation, &error);
 *   weft_conversation_ask(conversation, "What is a weft?", NULL, 0, &options, &stop, &error);
 * This header may still change. */
#ifndef WEFT_CONVERSATION_H
#define WEFT_CONVERSATION_H

#include <weft/image.h>
#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_conversation weft_conversation;

/* Begins a conversation. The session answers by its request, or by those of the options, and must outlive the
 * conversation; what else changes its context only costs time. system: the first message, which tells how
 * to answer; NULL or empty: none. Without a chat template it is not used. Calls of a conversation count as calls of its
 * session: WEFT_INVALID_ARGUMENT while that is in use. Only weft_conversation_get and weft_conversation_forgotten may
 * be called in its callbacks, by the same thread. WEFT_UNSUPPORTED for an encoder-decoder. */
WEFT_API weft_status weft_conversation_create(weft_session* session, const char* system,
                                              weft_conversation** conversation, weft_error* error);
/* Frees a conversation that no call uses. NULL is allowed. In a callback of its own it does nothing. */
WEFT_API void weft_conversation_free(weft_conversation* conversation);

/* Appends a message of the user, and the model's answer to it, which options.callback gets while it is generated. If
 * the session tells reasoning apart (reasoning.h), that becomes the answer's "reasoning_content". images (image_count):
 * pictures of the message; they may be freed after the call.
 *
 * If the call fails, the messages are as before. Errors are those of weft_session_generate and of
 * weft_apply_chat_template_json (text.h); WEFT_CONTEXT_FULL if the message alone does not fit into the context;
 * WEFT_UNSUPPORTED for a picture without a chat template. */
WEFT_API weft_status weft_conversation_ask(weft_conversation* conversation, const char* message,
                                           const weft_image* const* images, size_t image_count,
                                           const weft_generate_options* options, weft_stop* stop, weft_error* error);

/* Answers the messages that there are: the last question anew, the result of a tool, or what weft_conversation_set has
 * set. An answer at their end is replaced. Without a template only the last question can be answered anew.
 * WEFT_INVALID_ARGUMENT if there is nothing to answer; other errors as weft_conversation_ask. */
WEFT_API weft_status weft_conversation_answer(weft_conversation* conversation, const weft_generate_options* options,
                                              weft_stop* stop, weft_error* error);

/* Goes on with the last answer, if it ended with WEFT_STOP_LENGTH, WEFT_STOP_CALLER or WEFT_STOP_CONTEXT. Where the
 * context was full, or is another one now, older messages make room. WEFT_INVALID_ARGUMENT if no such answer is the
 * last thing that was done; WEFT_UNSUPPORTED with a grammar after WEFT_STOP_CONTEXT; WEFT_CONTEXT_FULL if the last
 * question and its answer leave no room. */
WEFT_API weft_status weft_conversation_continue(weft_conversation* conversation, const weft_generate_options* options,
                                                weft_stop* stop, weft_error* error);

/* Takes the last message of the user back, and what came after it. *question (question may be NULL) becomes its text,
 * which the caller frees with weft_string_free, or NULL if no message of the user is left. Without a template only the
 * last one can be taken back. */
WEFT_API weft_status weft_conversation_undo(weft_conversation* conversation, char** question, weft_error* error);

/* Copies the conversation as JSON, for weft_conversation_set and as the note of weft_session_save: an object with
 * "messages", with "text" (without a template, else empty), with "tools", "variables" and "think" if they were set, and
 * with "forgotten" (weft_conversation_forgotten) if that is not 0. The caller frees *json with weft_string_free. A
 * message with pictures has their number as "images". */
WEFT_API weft_status weft_conversation_get(const weft_conversation* conversation, char** json, weft_error* error);

/* Replaces the conversation by a JSON object as weft_conversation_get and weft_apply_chat_template_json (text.h) have
 * it. Pictures are not in it: a message's "images" are left out. Computes nothing: the next answer does, and what it
 * shares with the session's context is reused, also of a restored session. WEFT_INVALID_ARGUMENT if it is not such
 * JSON; WEFT_UNSUPPORTED for messages without a chat template. */
WEFT_API weft_status weft_conversation_set(weft_conversation* conversation, const char* json, weft_error* error);

/* How many messages the last answer did not see, because the context had no room for them; without a template: how
 * often the beginning of the text was cut off. 0 for NULL. */
WEFT_API size_t weft_conversation_forgotten(const weft_conversation* conversation);

#ifdef __cplusplus
}
#endif
#endif
