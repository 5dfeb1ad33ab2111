#!/usr/bin/env python3
"""Writes tests/model/golden_tuned_lens.json: the logits of a tuned lens on tiny models of tests/model/golden, computed by Transformers.
Needs the PyPI packages transformers, torch and safetensors, and is needed only to make the file anew: tuned_lens_goldens.py CHECKOUT

The translators are those that tests/model/tuned_lens_test.cpp makes by the same formulas. Each translated state takes the place of the
final norm's input in another run of the model (lens_goldens.py), so no formula of a family is written here a second time.
"""
import importlib.util
import json
import pathlib
import sys

import torch
import transformers

MODELS = ("bloom", "gemma2", "gpt2", "mistral")  # norms of two kinds; a soft cap; tied tables and another


def translator(layer, width):
    """W and b, in double precision: entries of all signs, so large that h + W h + b is far from h."""
    row, column = torch.meshgrid(torch.arange(width, dtype=torch.float64), torch.arange(width, dtype=torch.float64), indexing="ij")
    weight = torch.sin(row * 12.9898 + column * 78.233 + layer) * 0.2
    return weight, torch.cos(torch.arange(width, dtype=torch.float64) * 3.7 + layer) * 0.5


def tuned(folder, plain, tools):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32).eval()
    ids = torch.tensor([plain["ids"]])

    def run():
        return model(input_ids=ids, output_hidden_states=True, use_cache=False)
    output, last = tools.replaced(model, model.base_model, None, run)
    case = {"ids": plain["ids"], "position": plain["position"], "logits": []}
    for layer, state in enumerate(output.hidden_states[:-1]):
        known = torch.tensor(plain["layers"][layer]["hidden"])  # another version of Transformers may read config.json otherwise
        torch.testing.assert_close(state[0, plain["position"], :tools.KEPT], known, rtol=1e-3, atol=1e-4)
        weight, bias = translator(layer, state.shape[-1])
        moved = (state.double() + state.double() @ weight.T + bias).float()
        case["logits"].append(tools.rounded(tools.replaced(model, model.base_model, moved, run)[0].logits[0, plain["position"]]))
    return case


def main():
    checkout = pathlib.Path(sys.argv[1])
    tests = checkout / "tests/model"
    spec = importlib.util.spec_from_file_location("lens_goldens", checkout / "tests/tools/lens_goldens.py")
    tools = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tools)
    plain = json.loads((tests / "golden_lens.json").read_text())
    lines = [f'"{name}": {json.dumps(tuned(tests / "golden" / name, plain[name], tools), separators=(",", ":"))}' for name in MODELS]
    (tests / "golden_tuned_lens.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


main()
