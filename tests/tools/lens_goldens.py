#!/usr/bin/env python3
"""Writes tests/model/golden_lens.json: what Transformers makes of the hidden states between the layers of the tiny models of
tests/model/golden and golden_seq2seq. Needs the PyPI packages transformers, torch and safetensors, and is needed only to make the
file anew: lens_goldens.py CHECKOUT [NAME ...]. With names it adds those; else it makes those anew that are there.

The states are those of output_hidden_states, but the last one is the final norm's input. Each takes the place of that input in
another run of the model, whose logits are then the lens's: no formula of a family is written here a second time.
"""
import json
import pathlib
import sys

import torch
import transformers

POSITION = 66  # of a decoder's text: in the second chunk, and beyond the windows of 24
WRITTEN = 20   # tokens of an encoder-decoder's answer before the position
KEPT = 8       # elements of a hidden state
FINAL_NORMS = ("norm", "ln_f", "final_layer_norm", "final_layernorm", "embedding_norm", "layer_norm")  # embedding_norm: LFM2's name for it


def final_norm(decoder):
    """The module; nothing if norms come after the branches."""
    return next((getattr(decoder, name) for name in FINAL_NORMS if hasattr(decoder, name)), None)


def replaced(model, decoder, state, run):
    """run() with a state as what the last layer leaves; nothing: with that state itself. -> the output, and the state."""
    seen = []

    def exchange(value):
        seen.append(value)
        return value if state is None else state

    norm = final_norm(decoder)
    if norm is not None:
        hook = norm.register_forward_pre_hook(lambda _, inputs: (exchange(inputs[0]), *inputs[1:]))
    else:
        def leave(_, __, output):
            return (exchange(output[0]), *output[1:]) if isinstance(output, tuple) else exchange(output)
        hook = decoder.layers[-1].register_forward_hook(leave)
    with torch.no_grad():
        output = run()
    hook.remove()
    return output, seen[0]


def rounded(values):
    return [float(f"{value:.5g}") for value in values.tolist()]


def lens(folder):
    config = transformers.AutoConfig.from_pretrained(folder)
    reference = json.loads((folder / "reference.json").read_text())
    if config.is_encoder_decoder:
        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
        decoder, position = model.get_decoder(), WRITTEN
        source, written = reference[0]["source"], reference[0]["greedy"][:WRITTEN]
        ids = torch.tensor([[config.decoder_start_token_id, *written]])
        case = {"source": source, "written": written}

        def run():
            return model(input_ids=torch.tensor([source]), decoder_input_ids=ids, output_hidden_states=True, use_cache=False)
    else:
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        decoder, position = model.base_model, POSITION
        text = (reference["prompt"] + reference["greedy"])[:POSITION + 1]
        dynamic = (getattr(config, "rope_parameters", None) or {}).get("rope_type") == "dynamic"
        ids = torch.tensor([text + [0] * (256 - len(text) if dynamic else 0)])  # family_goldens.py says why
        case = {"ids": text}

        def run():
            return model(input_ids=ids, output_hidden_states=True, use_cache=False)
    output, last = replaced(model, decoder, None, run)
    states = [*(output.decoder_hidden_states if config.is_encoder_decoder else output.hidden_states)[:-1], last]
    case |= {"position": position, "layers": []}
    for state in states:
        logits = replaced(model, decoder, state, run)[0].logits
        case["layers"].append({"hidden": rounded(state[0, position, :KEPT]), "logits": rounded(logits[0, position])})
    return case


def main():
    tests = pathlib.Path(sys.argv[1]) / "tests/model"
    cases = json.loads((tests / "golden_lens.json").read_text())
    for name in sys.argv[2:] or list(cases):
        cases[name] = lens(tests / ("golden" if (tests / "golden" / name).exists() else "golden_seq2seq") / name)
    lines = [f'"{name}": {json.dumps(case, separators=(",", ":"))}' for name, case in sorted(cases.items())]
    (tests / "golden_lens.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
