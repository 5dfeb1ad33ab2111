/* Rerankers: how well documents answer a query, rated by a decoder's "yes" and "no", as Qwen3-Reranker does. Errors,
 * owners, threads and units are as weft.h documents them.
 * This header may still change. */
#ifndef WEFT_RERANK_H
#define WEFT_RERANK_H

#include <weft/duty.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rates documents with a model, one thread at a time. Its device memory grows with the longest document. */
typedef struct weft_reranker weft_reranker;

/* Any decoder can rate documents whose vocabulary has the tokens "yes" and "no", or whose files name others (the module
 * LogitScore of sentence-transformers); only one that was trained for it does so well. WEFT_UNSUPPORTED for other
 * models, and if several devices have rows of the vocabulary table. */
WEFT_API weft_status weft_reranker_create(const weft_model* model, weft_reranker** reranker, weft_error* error);
/* Frees a reranker. NULL is allowed. */
WEFT_API void weft_reranker_free(weft_reranker* reranker);

/* As weft_encoder_use_duty. */
WEFT_API weft_status weft_reranker_use_duty(weft_reranker* reranker, weft_duty* duty, weft_error* error);

/* Rates one document: *score is 0 to 1, the probability of "yes" beside "no" after the prompt. The prompt is that of
 * the model's chat template, if it has the roles "query" and "document" (and "system" for the instruction), else that
 * of Qwen3-Reranker. The texts are plain text: only the prompt around them can form control tokens. instruction: what
 * is asked for; NULL: the default of the model's files, else "Given a web search query, retrieve relevant passages that
 * answer the query". tokens: how many the prompt had; NULL is allowed. WEFT_CONTEXT_FULL if it is longer than the model
 * reads. */
WEFT_API weft_status weft_reranker_score(weft_reranker* reranker, const char* instruction, const char* query,
                                         const char* document, float* score, size_t* tokens, weft_error* error);

#ifdef __cplusplus
}
#endif

#endif
