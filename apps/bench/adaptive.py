#!/usr/bin/env python3
"""Measures how much of its table an adaptive softmax reads, and compares its tokens with those of the whole table and of PyTorch.

`adaptive.py FOLDER` makes FOLDER/adaptive.gguf: pocket with its table in four clusters, whose shares are fitted to the clusters' masses on
pocket's own answers. Then it answers the prompts of apps/pocket/eval. Needs torch and gguf, WEFT_LIBRARY, and runtime/bindings/python and
apps/pocket in PYTHONPATH. Ends with 1 if tokens differ whose logits do not lie closer than rounding.
"""
import argparse
import json
import pathlib

import gguf
import numpy as np
import torch
import weft

from medusa import load_model

POCKET = pathlib.Path(__file__).parent.parent / "pocket"
CUTOFFS = [1024, 4096, 7680]  # early merges; others; others; frequent words
ROUNDING = 0.05  # nats between two tokens that f16 may exchange: logits spread by about 5


def conversations(path, prompts):
    """The ids of each prompt with the model's answer."""
    with weft.Model(path) as model, model.session(temperature=0) as session:
        result = []
        for messages in prompts:
            session.reset()
            session.chat(messages, max_tokens=100).text()
            result.append(session.ids)
        return result


def states_of(network, texts):
    with torch.no_grad():
        return torch.cat([network(torch.tensor([ids]))[0] for ids in texts])


def bounds(vocab):
    return list(zip(CUTOFFS, CUTOFFS[1:] + [vocab]))


def fitted_priors(states, table):
    """A row for each cluster whose product with a state is nearly ln of the cluster's mass, by the divergence from the true shares."""
    logits = states @ table.T
    masses = torch.stack([logits[:, :CUTOFFS[0]].logsumexp(1)] + [logits[:, a:b].logsumexp(1) for a, b in bounds(len(table))], 1)
    priors = torch.linalg.lstsq(states, masses[:, 1:]).solution.T.clone().requires_grad_()
    optimizer = torch.optim.Adam([priors], lr=0.01)
    for _ in range(1000):
        guessed = torch.cat([masses[:, :1], states @ priors.T], 1)
        loss = torch.nn.functional.kl_div(guessed.log_softmax(1), masses.log_softmax(1), log_target=True, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"shares: {loss.item():.3f} nats from the clusters' masses")
    return priors.detach()


def write(source, path, priors, width):
    reader, writer = gguf.GGUFReader(source), gguf.GGUFWriter(path, "llama")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        value, kind = field.contents(), field.types[0]
        if kind == gguf.GGUFValueType.ARRAY:
            writer.add_key_value(field.name, value, kind, sub_type=field.types[-1])
        else:
            writer.add_key_value(field.name, value, kind)
    writer.add_string("llama.softmax.kind", "adaptive")
    writer.add_array("llama.softmax.cutoffs", CUTOFFS)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.add_tensor("softmax_states.weight", np.tile(np.eye(width, dtype=np.float16), (len(CUTOFFS), 1)))
    writer.add_tensor("softmax_priors.weight", priors.numpy().astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def oracle(table, priors):
    """The same as PyTorch's module. Its projections are the identity."""
    rows, width = table.shape
    module = torch.nn.AdaptiveLogSoftmaxWithLoss(width, rows, CUTOFFS, div_value=1.0)
    with torch.no_grad():
        module.head.weight.copy_(torch.cat([table[:CUTOFFS[0]], priors.half().float()]))
        for tail, (first, end) in zip(module.tail, bounds(rows)):
            tail[0].weight.copy_(torch.eye(width))
            tail[1].weight.copy_(table[first:end])
    return module


SETTINGS = {"greedy": {"temperature": 0}, "greedy, penalties": {"temperature": 0, "repeat_penalty": 1.1, "frequency_penalty": 0.2},
            "top-k 40, temperature 0.7": {"temperature": 0.7, "top_k": 40, "top_p": 0.95, "min_p": 0},
            "min-p 0.05": {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0.05},
            "temperature 1": {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0}}


def answers(session, model, prompts, tokens, **settings):
    texts, read = [], 0
    for number, messages in enumerate(prompts):
        ids = model.apply_chat_template(messages)
        session.reset()
        session.generate(ids, max_tokens=tokens, ignore_stop_tokens=True, seed=number, **settings).text()
        texts.append((len(ids), session.ids))
        read += session.stats.head_bytes
    return texts, read


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=100, help="of each answer")
    parser.add_argument("--every", type=int, default=1, help="ask every N-th prompt only")
    args = parser.parse_args()
    prompts = [json.loads(line)["messages"] for line in (POCKET / "eval/prompts.jsonl").read_text().splitlines()][::args.every]
    network = load_model(POCKET / "pocket.gguf", json.loads((POCKET / "recipe.json").read_text()))
    table = network.embed_tokens.weight.detach()
    states = states_of(network, conversations(POCKET / "pocket.gguf", prompts))
    priors = fitted_priors(states, table)
    path = args.folder / "adaptive.gguf"
    write(POCKET / "pocket.gguf", path, priors, table.shape[1])
    module, failed = oracle(table, priors), False
    with weft.Model(path) as model, model.session() as session, model.session() as whole:
        for name, settings in SETTINGS.items():
            texts, read = answers(session, model, prompts, args.tokens, logprobs=0, **settings)
            wholes, all_read = answers(whole, model, prompts, args.tokens, logprobs=1, **settings)
            pairs = [(a, b) for (start, one), (_, two) in zip(texts, wholes) for a, b in zip(one[start:], two[start:], strict=True)]
            differ = sum(a != b for a, b in pairs)
            failed |= differ > 0
            print(f"{name}: {read / all_read:.1%} of the table's bytes, {len(pairs)} tokens, {differ} differ from the whole table's", flush=True)
            if name == "greedy":
                agree, close, far = 0, 0, 0
                for start, ids in texts:
                    with torch.no_grad():
                        log_probs = module.log_prob(network(torch.tensor([ids[:-1]]))[0, start - 1:])
                    for row, chosen in zip(log_probs, ids[start:], strict=True):
                        lead = float(row.max() - row[chosen])
                        agree, close, far = agree + (lead == 0), close + (0 < lead <= ROUNDING), far + (lead > ROUNDING)
                failed |= far > 0
                print(f"  PyTorch: {agree} tokens are the likeliest, {close} within {ROUNDING} nats of it, {far} are not")
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
