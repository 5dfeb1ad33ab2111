#!/usr/bin/env python3
"""Writes tests/apps/golden_rank.json: numpy's singular values of the logits and log-probabilities of the model that Weft brings along, from its
table and from states that the library tells. Needs the PyPI packages numpy and gguf, and is needed only to make the file anew:
WEFT_LIBRARY=build/release/lib/libweft.so rank_goldens.py CHECKOUT
"""
import ctypes
import json
import pathlib
import sys

import numpy

CHECKOUT = pathlib.Path(sys.argv[1])
sys.path += [str(CHECKOUT / "runtime/bindings/python"), str(CHECKOUT / "tests/tools")]
import weft
from table import table_of
from weft._library import call

CONTEXTS, MASK = 320, 2**64 - 1


def random_id(i, vocab):
    """As apps/weft/rank.cpp draws them."""
    z = i * 0x9E3779B97F4A7C15 & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return (z ^ z >> 31) % vocab


def main():
    path = CHECKOUT / "apps/pocket/pocket.gguf"
    table, _ = table_of(path)
    vocab, width = table.shape
    ids = [random_id(i, vocab) for i in range(1, CONTEXTS + 1)]
    with weft.Model(path, type="f16") as model:
        states = numpy.empty((len(ids), width), numpy.float32)
        call("weft_table_states", model.handle().pointer, (ctypes.c_uint32 * len(ids))(*ids), len(ids),
             states.ctypes.data_as(ctypes.POINTER(ctypes.c_float)))
    logits = numpy.float64(states) @ table.T
    log_probs = logits - numpy.log(numpy.exp(logits - logits.max(1, keepdims=True)).sum(1, keepdims=True)) - logits.max(1, keepdims=True)
    golden = {"contexts": CONTEXTS, "width": width}
    for name, matrix in (("logits", logits), ("log-probabilities", log_probs)):
        values = numpy.linalg.svd(matrix, compute_uv=False)
        golden[name] = {"rank": int((values > 1e-6 * values[0]).sum()), "singular_values": (values[:width + 1] / values[0]).tolist()}
    (CHECKOUT / "tests/apps/golden_rank.json").write_text(json.dumps(golden, indent=1) + "\n")


main()
