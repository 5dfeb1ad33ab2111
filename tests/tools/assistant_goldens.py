#!/usr/bin/env python3
"""Writes tests/model/golden_assistants: a tiny drafter (Transformers' gemma4_assistant) for each of two Gemma 4 of tests/model/golden, and
what Transformers has it guess. Needs the PyPI packages transformers, torch and safetensors, and is needed only to make them anew:
assistant_goldens.py CHECKOUT [NAME ...]

A drafter is trained on the text of its target's own golden, so that some of its guesses there are right. The norms of its queries are
small and stay as they are, and the branches and the state of the guess before add little: else the rounding of Weft's caches to f16 would
move the logits by a hundredth of their spread. A key more or less moves them by more than that still.
"""
import json
import math
import pathlib
import shutil
import sys
import zlib

import torch
from transformers import Gemma4AssistantConfig, Gemma4AssistantForCausalLM, Gemma4ForCausalLM, Gemma4TextConfig, GenerationConfig
from transformers.generation.candidate_generator import SinglePositionMultiTokenCandidateGenerator

GUESSES, STEPS = 4, 24
LENGTHS = [1, 7, 24, 41, 66, 90, 121]  # of the texts whose guesses are kept
# By the target's name: what differs from its settings.
DRAFTERS = {
    "gemma4": dict(hidden_size=40, intermediate_size=56, num_hidden_layers=5,
                   layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"]),
    "gemma4-keys": dict(hidden_size=24, intermediate_size=72, num_hidden_layers=3, num_attention_heads=8, tie_word_embeddings=True,
                        layer_types=["sliding_attention", "full_attention", "full_attention"]),
}


def config_of(target, changes):
    own = target.to_diff_dict() | dict(use_double_wide_mlp=False, hidden_size_per_layer_input=0, vocab_size_per_layer_input=0,
                                       final_logit_softcapping=None, **changes)
    for key in ("num_kv_shared_layers", "architectures", "dtype", "transformers_version", "model_type"):
        own.pop(key, None)
    heads = target.per_layer_config[target.num_hidden_layers - 1]
    own["per_layer_config"] = {str(i): dict(head_dim=heads.head_dim, num_key_value_heads=heads.num_key_value_heads)
                               for i, kind in enumerate(changes["layer_types"]) if kind == "full_attention"}
    own["num_kv_shared_layers"] = own["num_hidden_layers"]
    return Gemma4AssistantConfig(text_config=Gemma4TextConfig(**own), backbone_hidden_size=target.hidden_size, tie_word_embeddings=True)


def fill(model, seed):
    generator = torch.Generator().manual_seed(seed)
    width = model.config.get_text_config().hidden_size
    with torch.no_grad():
        for name, weight in model.named_parameters():
            values = torch.randn(weight.shape, generator=generator)
            if weight.dim() > 1:
                gain = 0.3 if "post_projection" in name else 1
                weight.copy_(values * (0.5 / math.sqrt(width) if "embed" in name else gain / math.sqrt(weight.shape[1])))
            else:
                factor = 0.4 / math.sqrt(weight.shape[0]) if "q_norm" in name else 0.1 if "post_" in name else 1
                weight.copy_((1 + values * 0.2) * factor)
        for name, weight in model.named_buffers():
            if name.endswith("layer_scalar"):
                weight.copy_(1 + 0.2 * torch.randn(1, generator=generator))


def seen(target, ids):
    with torch.no_grad():
        return target(torch.tensor([ids]), use_cache=False, output_hidden_states=True, return_shared_kv_states=True)


def train(target, drafter, text, first):
    """All places of the text at once: their keys end at the same column, with padding before them, which the drafter's masks expect."""
    places = range(first, len(text) - GUESSES)  # of the last token
    whole = seen(target, text)
    states = whole.hidden_states[-1][0]
    most = places[-1]
    kv = {kind: tuple(torch.stack([torch.cat([torch.zeros_like(part[0, :, :most - place]), part[0, :, :place]], dim=1) for place in places])
                      for part in parts) for kind, parts in whole.shared_kv_states.items()}
    mask = torch.stack([torch.arange(most) >= most - place for place in places]).long()
    position = torch.tensor(places)[:, None]
    ids = torch.tensor([text[place:place + GUESSES + 1] for place in places])
    optimizer = torch.optim.Adam([weight for name, weight in drafter.named_parameters() if "q_norm" not in name], lr=3e-3)
    for step in range(STEPS):
        state, loss = states[position - 1], 0
        for guess in range(GUESSES):
            embedding = target.get_input_embeddings()(ids[:, guess:guess + 1]).detach()
            out = drafter(inputs_embeds=torch.cat([embedding, state], dim=-1), attention_mask=mask, position_ids=position, shared_kv_states=kv)
            loss = loss + torch.nn.functional.cross_entropy(out.logits[:, 0], ids[:, guess + 1])
            state = out.last_hidden_state
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            print(f"step {step + 1}: {loss.item() / GUESSES:.3f} nats", flush=True)


def guesses(target, drafter, ids, next_id):
    """The ids and logits that Transformers' own loop has after a prompt and the next token."""
    generator = SinglePositionMultiTokenCandidateGenerator(drafter, target.get_input_embeddings(), GenerationConfig(max_length=10 ** 6))
    generator.num_assistant_tokens = GUESSES
    whole, logits = generator.get_candidates(torch.tensor([ids + [next_id]]), {}, seen(target, ids), False, 0)
    return whole[0, len(ids) + 1:].tolist(), logits[0]


def right(found, wanted):
    count = 0
    while count < len(found) and found[count] == wanted[count]:
        count += 1
    return count


def make(root, name, changes):
    torch.manual_seed(zlib.crc32(name.encode()))
    source, folder = root / "golden" / name, root / "golden_assistants" / name
    target = Gemma4ForCausalLM.from_pretrained(source, dtype=torch.float32, attn_implementation="eager").eval()
    reference = json.loads((source / "reference.json").read_text())
    prompt, answer = reference["prompt"], reference["greedy"]
    text = prompt + answer
    drafter = Gemma4AssistantForCausalLM._from_config(config_of(target.config, changes), attn_implementation="eager")
    fill(drafter, zlib.crc32(name.encode()))
    train(target, drafter, text, len(prompt))
    shutil.rmtree(folder, ignore_errors=True)
    drafter.half().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    drafter = Gemma4AssistantForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    texts = []
    for length in LENGTHS:
        ids = text[:length]
        next_id = int(seen(target, ids).logits[0, -1].argmax())
        found, logits = guesses(target, drafter, ids, next_id)
        best = logits.sort(dim=-1).values
        texts.append(dict(ids=ids, next=next_id, guesses=found, lead=float(((best[:, -1] - best[:, -2]) / logits.std(dim=-1)).min()), logits=logits))
    drafted, accepted, at = 0, 0, len(prompt) + 1  # the first token comes from the prompt
    while at + GUESSES < len(text):
        count = right(guesses(target, drafter, text[:at - 1], text[at - 1])[0], text[at:])
        drafted, accepted, at = drafted + GUESSES, accepted + count, at + count + 1
    lines = [f'{{"prompt": {json.dumps(prompt)},', f' "greedy": {json.dumps(answer)},', f' "drafted": {drafted}, "accepted": {accepted},', ' "texts": [']
    for one in texts:
        rows = ",\n   ".join("[" + ", ".join(f"{value:.7g}" for value in row.tolist()) + "]" for row in one.pop("logits"))
        lines.append("  " + json.dumps(one)[:-1] + f', "logits": [\n   {rows}]}}' + ("," if one is not texts[-1] else ""))
    (folder / "reference.json").write_text("\n".join(lines) + "\n ]}\n")
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name}: {size / 1024:.0f} KiB, {accepted} of {drafted} guesses right, least lead {min(one['lead'] for one in texts):.4f}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    models = pathlib.Path(sys.argv[1]) / "tests/model"
    for target_name, differs in DRAFTERS.items():
        if len(sys.argv) == 2 or target_name in sys.argv[2:]:
            make(models, target_name, differs)
