#!/usr/bin/env python3
"""Calls of functions as the chat templates of real models render them: what such a model was taught to write.

call_goldens.py FOLDER ... writes tests/unit/golden/chat/rendered_calls.json from the templates (*.jinja) in the folders, for example those
of llama.cpp's models/templates and vLLM's examples, and prints what it leaves out. Needs jinja2 and transformers. The file has no template, only the marks
of SIGNS that are in it, which the readers of answers look for, and the texts.
"""
import collections
import json
import pathlib
import sys
import warnings

import jinja2.sandbox
from transformers.utils.chat_template_utils import _compile_jinja_template

warnings.simplefilter("ignore")
SIGNS = ["</think>", "[/THINK]", "<|END_THINKING|>", "<channel|>", "</seed:think>", "<|inner_suffix|>", "Here is my response:", "<|channel|>", "<|message|>", "<|START_RESPONSE|>", "<response>", ">>>"]
PROPERTIES = {"city": {"type": "string", "description": "c"}, "n": {"type": "integer", "description": "n"}, "b": {"type": "boolean", "description": "b"}, "o": {"type": "object", "description": "o"},
              "l": {"type": "array", "description": "l", "items": {"type": "string"}}, "z": {"type": ["null", "string"], "description": "z"}}
SIMPLE = {"city": {"type": "string", "description": "c"}}  # templates that know no other schemas
NAMES = ["get_weather", "set-timer"]
ARGUMENTS = [[{"city": "Rome", "n": 3}], [{"city": "a \"b\" 'c' <d> </e> {f} [g], h: i=1 \\ Größe\nj", "n": -12}], [{}],
             [{"city": "x", "o": {"k": ["a", True, None, 1.5, {"m": {}}]}, "b": True, "l": ["p", "q r"]}], [{"city": "Rome", "n": 3}, {"city": "Oslo", "b": False}],
             [{"city": "12", "z": "7", "n": 1234567890123}], [{"city": "\na\n"}]]
USER = {"role": "user", "content": "Hello there"}
UNREAD = ["Kimi-K3", "MiniMax-M3", "muse-glimmer", "tencent-Hy3"]  # notations that Weft does not read
ONLY_CALLS = ["NVIDIA-Nemotron-Nano-v2", "tool_chat_template_llama4_json", "tool_chat_template_llama4_pythonic"]  # a text before the calls becomes a turn of its own, or is in their line
FAULTY = {"tool_chat_template_gemma3_pythonic": "no commas between arguments", "tool_chat_template_llama3.2_pythonic": "texts without quotes", "tool_chat_template_toolace": "texts without quotes",
          "tool_chat_template_phi4_mini": "objects in Python's spelling"}


def environment():
    """As transformers' own, but lists may be changed, which Kimi's templates do."""
    own = _compile_jinja_template("x").environment
    made = jinja2.sandbox.SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[type(one) for one in own.extensions.values()])
    made.filters.update(own.filters, from_json=json.loads)
    made.globals.update(own.globals)
    return made


def tools(properties):
    parameters = {"type": "object", "properties": properties, "required": ["city"], "additionalProperties": False}
    return [{"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}} for name in NAMES]


def rendered(template, content, arguments):
    """The prompt and the answer, in the first form of tools and arguments that the template takes."""
    error = None
    for properties in (PROPERTIES, SIMPLE):
        for text in (False, True):
            made = lambda one: json.dumps(one) if text else one
            calls = [{"id": f"abcdefgh{i}", "type": "function", "function": {"name": name, "arguments": made(one)}} for i, (name, one) in enumerate(zip(NAMES, arguments))]
            known = tools(properties)
            variables = dict(tools=known, functions=json.dumps([one["function"] for one in known]), datetime="d", date_string="d", documents=None, bos_token="<s>", eos_token="</s>")
            try:
                prompt = template.render(messages=[USER], add_generation_prompt=True, **variables)
                whole = template.render(messages=[USER, {"role": "assistant", "content": content, "tool_calls": calls}], add_generation_prompt=False, **variables)
            except Exception as problem:
                error = error or str(problem)
                continue
            same = next((i for i, (a, b) in enumerate(zip(prompt, whole)) if a != b), min(len(prompt), len(whole)))
            if same < len(prompt):  # the prompt has begun a part that earlier answers have not
                while same > 0 and whole[same - 1] not in ">\n":
                    same -= 1
            return whole[:same], whole[same:]
    raise ValueError(error)


def main():
    cases, left_out, made = collections.OrderedDict(), collections.Counter(), environment()
    for path in sorted((path for folder in sys.argv[1:] for path in pathlib.Path(folder).glob("*.jinja")), key=lambda path: path.stem):
        if path.stem in UNREAD or path.stem in FAULTY:
            left_out[f"{path.stem}: {FAULTY.get(path.stem, 'not read')}"] += 1
            continue
        source = path.read_text()
        template, signs = made.from_string(source), "".join(sign for sign in SIGNS if sign in source)
        for arguments in ARGUMENTS:
            for content in ("",) if path.stem in ONLY_CALLS else ("", "I look."):
                try:
                    prompt, said = rendered(template, content, arguments)
                except ValueError as error:
                    left_out[f"{path.stem}: {error}"] += 1
                    continue
                if NAMES[0] not in said:
                    left_out[f"{path.stem}: it shows no calls"] += 1
                    continue
                if USER["content"] in said:
                    left_out[f"{path.stem}: the answer changes the prompt"] += 1
                    continue
                calls = [[name, one] for name, one in zip(NAMES, arguments) if name in said]
                key = (signs, prompt[-40:], said)
                cases.setdefault(key, {"templates": [], "signs": signs, "prompt_end": prompt[-40:], "said": said, "content": content, "calls": calls})["templates"].append(path.stem)
    file = pathlib.Path(__file__).resolve().parents[1] / "unit/golden/chat/rendered_calls.json"
    line = lambda value: json.dumps(value, ensure_ascii=False)
    file.write_text('{"properties": ' + line(PROPERTIES) + ',\n"cases": [\n' + ",\n".join(line(case) for case in cases.values()) + "\n]}\n")
    print(f"{len(cases)} different answers of {len({name for case in cases.values() for name in case['templates']})} templates in {file}")
    for reason, count in left_out.items():
        print(f"left out {count}: {reason}")


main()
