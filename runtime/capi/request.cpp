// The C API: requests.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capi/handles.h"
#include "capi/speculate.h"
#include "session/head_setting.h"

using namespace weft;
using namespace weft::capi;

static_assert(WEFT_MAX_LOGPROBS == MAX_LOGPROBS);

Sampling capi::sampling_of(const weft_sampling& s) {
  return {s.temperature,       s.top_k,    s.top_p, s.min_p, s.repeat_penalty, s.seed, s.presence_penalty,
          s.frequency_penalty, s.typical_p};
}

std::unique_ptr<Matcher> capi::make_matcher(const weft_model& model, std::shared_ptr<const Grammar> grammar) {
  std::call_once(model.trie_made,
                 [&] { model.trie = std::make_shared<const TokenTrie>(model.tokenizer.token_bytes()); });
  return std::make_unique<Matcher>(std::move(grammar), model.trie, model.tokenizer.stop_ids());
}

namespace {

// nullptr: none.
std::shared_ptr<const Grammar> make_grammar(weft_grammar_kind kind, const std::string& text, const char* place) {
  const auto placed = [&](const char* otherwise) { return std::string(place && *place ? place : otherwise); };
  switch (kind) {
    case WEFT_GRAMMAR_NONE:
      return nullptr;
    case WEFT_GRAMMAR_GBNF:
      return std::make_shared<const Grammar>(Grammar::from_gbnf(text, placed("grammar")));
    case WEFT_GRAMMAR_JSON_SCHEMA:
      return std::make_shared<const Grammar>(Grammar::from_json_schema(text, placed("schema")));
    case WEFT_GRAMMAR_REGEX:
      return std::make_shared<const Grammar>(Grammar::from_regex(text, placed("regex")));
    default:
      throw Error(Code::invalid_argument, "it is " + std::to_string(kind) + ", no kind of grammar", "grammar_kind");
  }
}

std::vector<std::string> texts_of(const weft_request& request) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < request.stop_count; ++i) {
    require(request.stops[i], "stops", "one is NULL");
    texts.emplace_back(request.stops[i]);
  }
  return texts;
}

// The fields that are compared with the next request's; fields that are not used are empty.
RequestState state_of(const weft_request& request) {
  RequestState state;
  if (request.head) state.head = request.head;
  state.grammar_kind = request.grammar_kind;
  if (request.grammar_kind != WEFT_GRAMMAR_NONE) {
    require(request.grammar, "grammar", "it is NULL");
    state.grammar = request.grammar;
  }
  state.speculation = request.speculation;
  if (request.speculation == WEFT_SPECULATE_DRAFT) {
    require(request.draft, "draft", "it is NULL");
    state.draft = request.draft;
  }
  if (request.speculation == WEFT_SPECULATE_MEDUSA) {
    require(request.medusa, "medusa", "it is NULL");
    state.medusa = request.medusa;
  }
  if (request.speculation == WEFT_SPECULATE_ASSISTANT) {
    require(request.assistant, "assistant", "it is NULL");
    state.assistant = request.assistant;
  }
  state.logprobs = request.logprobs;
  return state;
}

}  // namespace

// Everything that may fail comes before the first change.
void capi::set_request(weft_session& session, const weft_request* given) {
  require(given, "request", "it is NULL");
  const weft_request request = read_struct(given);
  require(request.stops || request.stop_count == 0, "stops", "it is NULL");
  require((request.bias_ids && request.biases) || request.bias_count == 0, "bias_ids or biases", "it is NULL");
  RequestState next = state_of(request);
  const RequestState& now = session.request;
  SettingsChange change;
  if (!request.keep_sampling) change.sampling = sampling_of(read_struct(request.sampling));
  if (!request.keep_biases)
    change.biases =
        SettingsChange::Biases{{request.bias_ids, request.bias_count}, {request.biases, request.bias_count}};
  if (next.logprobs != now.logprobs) change.logprobs = next.logprobs;
  if (next.head != now.head) change.head = parse_vocab_head(next.head, session.model->tokenizer);
  StopStrings stops(texts_of(request));
  std::shared_ptr<const Grammar> grammar = session.grammar;
  const bool separates = request.separate_reasoning != 0;
  const bool other = next.grammar_kind != now.grammar_kind || next.grammar != now.grammar;
  if (other) grammar = make_grammar(next.grammar_kind, next.grammar, request.grammar_place);
  // A grammar that was set aside for the reasoning comes back with its end.
  const bool comes_back = session.reasoning && !separates && grammar && !session.session.has_grammar();
  if (other || comes_back) change.matcher = grammar ? make_matcher(*session.model, grammar) : nullptr;
  if (next.speculation != now.speculation || next.draft != now.draft || next.medusa != now.medusa ||
      next.assistant != now.assistant)
    change.drafter = make_drafter(session, next);
  std::unique_ptr<Reasoning> reasoning;
  if (separates && !session.reasoning) reasoning = std::make_unique<Reasoning>(session.model->tokenizer);
  session.session.change(std::move(change));
  session.request = std::move(next);
  session.stops = std::move(stops);
  session.grammar = std::move(grammar);
  if (!separates || reasoning) session.reasoning = std::move(reasoning);
  if (separates) session.reasoning->set_most_tokens(request.reasoning_tokens);
}

weft_status weft_session_set_request(weft_session* session, const weft_request* request, weft_error* error) {
  return guard(error, [&] {
    require(session, "session", "it is NULL");
    const InUse use(session);
    with_recovery(*session, [&] { set_request(*session, request); });
  });
}
