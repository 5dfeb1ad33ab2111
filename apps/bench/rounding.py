#!/usr/bin/env python3
"""Measures the cost of Weft's second rounding of a vocabulary table (docs/heads.md, "The table in order"): rounding.py MODEL.gguf TEXT [TOKENS]

Takes the hidden states that Weft computes for the text's first tokens, and compares two distributions of the next token: softmax(W h)
with the file's table W in double precision, and softmax of the logits that Weft gives. Prints the mean of KL(file || Weft) in nats,
the largest, the tokens that are the best in both, and the difference of the nats a token of the text. For RMSNorm models without a bias
or a cap of the logits (Llama, Gemma 3). Needs numpy and gguf (PyPI), and Weft's Python package or PYTHONPATH=runtime/bindings/python.
"""

import sys

import numpy as np
import weft
from gguf import GGUFReader
from gguf.quants import dequantize


def log_softmax(logits: np.ndarray) -> np.ndarray:
    logits = logits - logits.max()
    return logits - np.log(np.exp(logits).sum())


def main() -> None:
    path, text, count = sys.argv[1], open(sys.argv[2], encoding="utf-8").read(), int(sys.argv[3]) if len(sys.argv) > 3 else 500
    reader = GGUFReader(path)
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    name = "output.weight" if "output.weight" in tensors else "token_embd.weight"
    table = dequantize(tensors[name].data, tensors[name].tensor_type).astype(np.float64)  # (rows, width)
    norm = tensors["output_norm.weight"].data.astype(np.float64)
    arch = reader.fields["general.architecture"].contents()
    epsilon = reader.fields[f"{arch}.attention.layer_norm_rms_epsilon"].contents()

    model = weft.Model(path)
    ids = list(model.tokenize(text[: 8 * count]))[:count]
    divergences, same, file_nats, weft_nats = [], 0, [], []

    def compare(layer: int, position: int, hidden: np.ndarray, logits: np.ndarray) -> None:
        h = hidden.astype(np.float64)
        ours, theirs = log_softmax(logits.astype(np.float64)), log_softmax(table @ (h / np.sqrt((h * h).mean() + epsilon) * norm))
        divergences.append((np.exp(theirs) * (theirs - ours)).sum())
        nonlocal same
        same += int(ours.argmax() == theirs.argmax())
        if position + 1 < len(ids):
            file_nats.append(-theirs[ids[position + 1]])
            weft_nats.append(-ours[ids[position + 1]])

    with model.session(context=count) as session:
        session.score(ids)
        session.lens(compare, layers=[model.info.layers])
    print(f"{name} {tensors[name].tensor_type.name}, {len(ids)} tokens: KL mean {np.mean(divergences):.2e}, largest {max(divergences):.2e} nats; "
          f"best the same {same} of {len(ids)}; nats a token {np.mean(file_nats):.5f} by the file's table, {np.mean(weft_nats):.5f} by Weft's")


main()
