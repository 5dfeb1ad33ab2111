/* Weft: models that reason before they answer. Errors, ownership, threads and units are as weft.h documents them.
 *
 * Reasoning stands between marks that the chat template of the model has, "<think>" and "</think>" for example.
 * Functions do nothing special for a model whose template has no such marks.
 *
 * weft_request.separate_reasoning tells reasoning and answer apart in weft_session_generate. The token callback still
 * gets each id, but only the text of the answer, without the marks and the spaces around them;
 * weft_generate_options.reasoning_callback gets the reasoning. The reasoning begins if the context ends within it, or
 * if the model's text begins with the opening mark. Text that may be a part of a mark is held back until that is known,
 * also by a call that ends with WEFT_STOP_LENGTH or WEFT_STOP_CALLER, for the call that continues.
 *
 * A grammar restricts the answer only, if the context ends within the reasoning, or where its header is due; else it
 * restricts all. If the model ends its answer within such reasoning, its stop token leaves the context, the reasoning
 * is closed, and the answer follows. Stop strings are looked for in the answer only. weft_request.reasoning_tokens
 * appends the closing mark to the context; it may be changed while an answer is cut: the next call goes on where it
 * was.
 *
 * weft_generate_batch and weft_batch_add are WEFT_UNSUPPORTED for a session that separates reasoning.
 * This header may still change. */
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

#ifdef __cplusplus
}
#endif
#endif
