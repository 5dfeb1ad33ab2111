/* Weft: models that reason before they answer. Errors, ownership, threads and units are as weft.h documents them.
 *
 * Reasoning stands between marks that the chat template of the model has, "<think>" and "</think>" for example.
 * Functions do nothing special for a model whose template has no such marks. */
#ifndef WEFT_REASONING_H
#define WEFT_REASONING_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As weft_apply_chat_template, with reasoning switched. think not 0: the ids end within the model's reasoning. think 0:
 * the template is told enable_thinking = false and thinking = false; if the ids would end within the reasoning, it is
 * closed. Some models reason in spite of that. "think" of weft_apply_chat_template_json (text.h) does the same. */
WEFT_API weft_status weft_apply_chat_template_thinking(const weft_model* model, const weft_message* messages,
                                                       size_t message_count, int think, uint32_t* ids, size_t capacity,
                                                       size_t* count, weft_error* error);

/* Receives a piece of the reasoning: `length` bytes of whole UTF-8 characters, not zero-terminated, before the token
 * callback gets the token. Return 0 to continue, non-zero to stop after this token. It may call what a
 * weft_token_callback may call. */
typedef int (*weft_reasoning_callback)(void* user, const char* text, size_t length);

typedef struct weft_reasoning_options {
  size_t size;                      /* of this struct, by weft_reasoning_options_default */
  uint32_t max_tokens;              /* of the reasoning of an answer, after which it is closed; 0: no limit */
  weft_reasoning_callback callback; /* may be NULL */
  void* user;                       /* passed to callback */
} weft_reasoning_options;

/* zeros */
static inline weft_reasoning_options weft_reasoning_options_default(void) {
  weft_reasoning_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  return options;
}

/* Separates reasoning and answer in later weft_session_generate calls. The token callback still gets each id, but only
 * the text of the answer, without the marks and the spaces around them. The reasoning begins if the context ends within
 * it, or if the model's text begins with the opening mark. Text that may be a part of a mark is held back until that is
 * known, also by a call that ends with WEFT_STOP_LENGTH or WEFT_STOP_CALLER, for the call that continues.
 *
 * A grammar restricts the answer only, if the context ends within the reasoning, or where its header is due; else it
 * restricts all. If the model ends its answer within such reasoning, this is closed, and the answer follows. Stop
 * strings are looked for in the answer only. max_tokens appends the closing mark to the context.
 * Other options may be set while an answer is cut: the next call goes on where it was.
 *
 * options NULL: reasoning is text like any other (the default). weft_generate_batch and weft_batch_add are
 * WEFT_UNSUPPORTED for a session that separates it. */
WEFT_API weft_status weft_session_set_reasoning(weft_session* session, const weft_reasoning_options* options,
                                                weft_error* error);

#ifdef __cplusplus
}
#endif
#endif
