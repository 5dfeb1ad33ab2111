/* Weft: what a server needs to know of texts besides weft.h. Errors, ownership, threads and units are as weft.h
 * documents them.
 * This header may still change. */
#ifndef WEFT_TEXT_H
#define WEFT_TEXT_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns what a token stands for. For an ordinary token, *control is 0 and the bytes are its part of a text: possibly
 * only a part of a UTF-8 character, or none. For a control token, *control is 1 and the bytes are its name as the
 * model's file spells it, such as "<|im_end|>". Writes at most capacity bytes and sets *count to the number there are.
 * bytes may be NULL if capacity is 0. WEFT_INVALID_ARGUMENT if id is not below vocab_size. */
WEFT_API weft_status weft_token_bytes(const weft_model* model, uint32_t id, char* bytes, size_t capacity, size_t* count,
                                      int* control, weft_error* error);

/* As weft_apply_chat_template, for a conversation with tools. conversation: a JSON object with
 *
 *   messages   array of objects
 *   tools      array, null or absent
 *   variables  object, null or absent: more variables of the template, such as {"enable_thinking": false}
 *   think      true or false: switches reasoning as weft_apply_chat_template_thinking (reasoning.h); null or absent: as
 *              the template has it
 *
 * It is at most 100 arrays and objects deep, of 2^24 values and 2^28 bytes, and has a name in an object only once. The
 * template gets all as it is, but in the form that it knows: the arguments of a tool call, a text with a JSON object in
 * OpenAI's protocol, become that object, which most templates expect; reasoning_content is there as thinking, too; an
 * empty content beside tool calls is null; results of tools are tool_responses of early Gemma 4. A template that asks
 * for xml_tools gets the tools there as well, and a model that has a template "tool_use" renders conversations with
 * tools by that. Only the template, and roles that are a plain word, produce control tokens.
 *
 * WEFT_INVALID_ARGUMENT if it is not such JSON; WEFT_UNSUPPORTED as weft_apply_chat_template, and if the template
 * leaves out the tools (the error's place is "tools") or the tool_calls of messages ("messages"). */
WEFT_API weft_status weft_apply_chat_template_json(const weft_model* model, const char* conversation, uint32_t* ids,
                                                   size_t capacity, size_t* count, weft_error* error);

/* Lets this thread's long calls that need no device ask whether their result is still wanted: weft_tokenize, chat
 * templates, and what compiles a schema, grammar or pattern. They call `wanted` often, at least every few milliseconds;
 * 0 ends the call with WEFT_CANCELLED. It must not call this library. It is asked until this thread sets another one;
 * NULL: nobody is asked, as at first. */
WEFT_API void weft_set_wanted(int (*wanted)(void* user), void* user);

#ifdef __cplusplus
}
#endif
#endif
