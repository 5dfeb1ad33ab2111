"""Settings of sessions and of their calls, and the weft_request that they become."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from . import _c
from ._library import Handle, choose, fill, to_ids, to_text
from ._model import Adapter, Model


class Settings(TypedDict, total=False):
    """What chat() and generate() take by keyword, for one call; those of Session hold where a call says nothing.

    temperature, top_k, top_p, min_p, repeat_penalty, seed, presence_penalty, frequency_penalty, typical_p: weft_sampling of
        weft.h, which documents them. temperature=0 always takes the best token.
    logit_bias: for ids: what is added to their logits.
    stop: a text, or several, that end the generation.
    logprobs: how many of the likeliest tokens Token.likeliest has; 0: no log-probabilities.
    head: "full", "certified", "sure", "fast", "auto:sure", "keep:LIST"; docs/heads.md explains them.
    speculate: "lookup" guesses tokens ahead where that pays; they are the same. "off": never.
    draft: a smaller model with the same tokenizer that guesses instead.
    medusa: a GGUF file of Medusa heads for the model, which guess instead.
    assistant: the folder of a Gemma 4's drafter, which guesses instead.
    adapter: a LoRA adapter of the model; another one has the context computed again.
    grammar: llama.cpp's GBNF. At most one of grammar, json_schema, regex and response_format is given.
    json_schema: a JSON schema, as a text or a dict.
    regex: a regular expression; the whole text must match it.
    response_format: the same in OpenAI's form, {"type": "json_object"} for example.
    max_tokens: 0: until something else ends the text.
    think: has the model reason before it answers, or not, or for so many tokens at most (not 0); None: as its template has it.
        chat() tells reasoning apart from the answer, generate() only with this. weft/reasoning.h says more.
    ignore_stop_tokens: continues after the model's stop tokens.
    prompt_progress: called with (done, all) tokens of a prompt while it is computed, in a thread of the library; may raise to
        end it, and call the session's getters, cancel() and close(). weft_prompt_callback of weft.h says more.
    """

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repeat_penalty: float
    seed: int
    presence_penalty: float
    frequency_penalty: float
    typical_p: float
    logit_bias: Mapping[int, float]
    stop: str | Sequence[str]
    logprobs: int
    head: str
    speculate: Literal["off", "lookup"]
    draft: Model | None
    medusa: str | os.PathLike[str] | None
    assistant: str | os.PathLike[str] | None
    adapter: Adapter | None
    grammar: str | None
    json_schema: str | Mapping[str, Any] | None
    regex: str | None
    response_format: Mapping[str, Any] | None
    max_tokens: int
    think: bool | int | None
    ignore_stop_tokens: bool
    prompt_progress: Callable[[int, int], object] | None


class SessionOptions(Settings, total=False):
    """What Session takes by keyword: Settings, and weft_session_options of weft.h.

    context: tokens; 0: the model's maximum, but at most 4096.
    kv: type of cached keys and values.
    kv_values: type of cached values, if it is another one than that of keys.
    policy: "polite" leaves the device to others in between.
    """

    context: int
    kv: Literal["file", "f16", "q8", "q4"]
    kv_values: Literal["file", "f16", "q8", "q4"]
    policy: Literal["throughput", "polite"]


_SAMPLING = tuple(field[0] for field in _c.weft_sampling._fields_ if field[0] != "size")
GRAMMARS = {"grammar": "gbnf", "json_schema": "json_schema", "regex": "regex"}
SAVED = {"sampling": set(_SAMPLING), "biases": {"logit_bias"}}  # settings that a file of Session.save has, by their part of a request


def _one_of(values: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """The name of the only one of these settings that is given, if any."""
    given = [name for name in names if values.get(name) is not None]
    if len(given) > 1:
        raise ValueError(f"at most one of {' and '.join(given)} can be given")
    return given[0] if given else None


def request_of(values: Mapping[str, Any], kept: set[str], apart: bool, draft: Handle | None) -> Any:
    """The weft_request of these settings. kept: the parts that stay as the session has them. apart: reasoning is told apart."""
    request = _c.weft_request_default()
    sampling = _c.weft_sampling_default()
    fill(sampling, {name: values[name] for name in _SAMPLING if name in values})
    request.sampling = ctypes.pointer(sampling)
    request.head = to_text(values.get("head", "full"))
    if (grammar := _one_of(values, GRAMMARS)) is not None:
        request.grammar_kind = choose(_c.weft_grammar_kind, GRAMMARS[grammar])
        request.grammar = to_text(values[grammar])
    guesses = _one_of(values, ("draft", "medusa", "assistant"))
    request.speculation = choose(_c.weft_speculation, guesses or values.get("speculate", "off"))
    request.draft = draft.pointer if draft else None
    request.medusa, request.assistant = (None if values.get(name) is None else os.fsencode(values[name]) for name in ("medusa", "assistant"))
    stops, biases, think = [to_text(stop) for stop in values.get("stop", ())], values.get("logit_bias", {}), values.get("think")
    request.stops = (ctypes.c_char_p * len(stops))(*stops)
    request.bias_ids, request.biases = to_ids(list(biases)), (ctypes.c_float * len(biases))(*biases.values())
    request.separate_reasoning = int(apart)
    request.keep_sampling, request.keep_biases = (int(name in kept) for name in SAVED)
    fill(request, {"stop_count": len(stops), "bias_count": len(biases), "logprobs": values.get("logprobs", 0),
                   "reasoning_tokens": think if think and think is not True else 0})
    return request


def _schema_of(form: Mapping[str, Any]) -> Any:
    """The JSON schema that a response_format of OpenAI's protocol asks for; None: any text."""
    kind = form.get("type")
    if kind == "json_schema":
        return form["json_schema"]["schema"]
    if kind not in ("text", "json_object"):
        raise ValueError(f'response_format has the type {kind!r}, and may have "text", "json_object" or "json_schema"')
    return {"type": "object"} if kind == "json_object" else None


def copied(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that the caller cannot change any more. A wrong name is a TypeError."""
    wrong = settings.keys() - Settings.__annotations__.keys()
    if wrong:
        raise TypeError(f"no settings: {', '.join(sorted(wrong))}")
    result = dict(settings)
    if "stop" in result:
        result["stop"] = (result["stop"],) if isinstance(result["stop"], str) else tuple(result["stop"])
    if "logit_bias" in result:
        result["logit_bias"] = dict(result["logit_bias"])
    if (form := result.get("response_format")) is not None:
        _one_of(result, ("response_format", *GRAMMARS))
        result["json_schema"] = _schema_of(form)
    result.pop("response_format", None)
    if isinstance(result.get("json_schema"), Mapping):
        result["json_schema"] = json.dumps(result["json_schema"])
    return result
