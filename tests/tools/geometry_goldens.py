#!/usr/bin/env python3
"""Writes tests/apps/golden_geometry.json: what numpy makes of the vocabulary table of the model that Weft brings along, and of the
states of a text, which the library tells. Needs the PyPI packages numpy and gguf, and is needed only to make the file anew:
WEFT_LIBRARY=build/release/lib/libweft.so geometry_goldens.py CHECKOUT
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

TEXT = "set a timer for 10 minutes, then turn off the lights in the kitchen and play some music"
TOKENS = [" timer", " lights"]
FIRST = 8  # states that are left out


def ranks(values):
    """Equal values share the mean of their ranks."""
    _, inverse, counts = numpy.unique(values, return_inverse=True, return_counts=True)
    return (numpy.cumsum(counts) - (counts + 1) / 2)[inverse]


def partition_ratio(table):
    """Mu and Viswanath 2018, equation 2, over the eigenvectors of table^T table with both signs."""
    dots = table @ numpy.linalg.eigh(table.T @ table)[1]
    sums = numpy.concatenate([numpy.exp(dots).sum(axis=0), numpy.exp(-dots).sum(axis=0)])
    return sums.min() / sums.max()


def main():
    path = CHECKOUT / "apps/pocket/pocket.gguf"
    table, place = table_of(path)
    vocab, width = table.shape
    norms = numpy.linalg.norm(table, axis=1)
    units = table[norms > 0] / norms[norms > 0, None]
    cosines = units @ units.T
    covariance = numpy.cov(table, rowvar=False, bias=True)
    spectrum = numpy.linalg.eigvalsh(covariance)[::-1]
    logs = numpy.log(norms[norms > 0])
    middle = numpy.sort(logs)[len(logs) // 2]
    bound = min(numpy.exp(middle - 6 * 1.4826 * numpy.sort(abs(logs - middle))[len(logs) // 2]), 0.75 * numpy.exp(middle))
    dots = table @ table.T
    some = numpy.arange(128) * vocab // 128
    own = (dots[some] > dots[some, some][:, None]).sum(axis=1) + 1
    counts = numpy.unique(table, axis=0, return_counts=True)[1]
    with weft.Model(path, type="f16") as model:
        ids = model.tokenize(TEXT)
        tokens = [model.tokenize(text, add_bos=False) for text in TOKENS]
        states = numpy.empty((len(ids), width), numpy.float32)
        call("weft_table_states", model.handle().pointer, (ctypes.c_uint32 * len(ids))(*ids), len(ids),
             states.ctypes.data_as(ctypes.POINTER(ctypes.c_float)))
    states = numpy.float64(states[FIRST if len(ids) > 2 * FIRST else 0:])
    energy = (states**2).sum(axis=0) / (states**2).sum()
    logits = states @ table.T
    best = logits.argmax(axis=1)
    winners = logits.max(axis=1) / numpy.linalg.norm(states, axis=1) / norms[best]
    near = []
    for text, (token,) in zip(TOKENS, tokens):
        order = {"dot": dots[token].copy(), "cosine": dots[token] / (norms[token] * norms)}
        for values in order.values():
            values[token] = -numpy.inf
        figures = {name: [{"id": int(i), "value": values[i]} for i in numpy.argsort(-values)[:5]] for name, values in order.items()}
        far = numpy.linalg.norm(table - table[token], axis=1)
        figures["distance"] = [{"id": int(i), "value": far[i]} for i in numpy.argsort(far) if i != token][:5]
        near.append({"token": text, "figures": {"id": token, "own_rank": int((dots[token] > dots[token, token]).sum() + 1), **figures}})
    golden = {
        "text": TEXT,
        "table": place,
        "norms": {"least": norms.min(), "median": numpy.sort(norms)[(vocab - 1) // 2], "most": norms.max(),
                  "rank_correlation": numpy.corrcoef(ranks(norms), numpy.arange(vocab))[0, 1],
                  "by_id": norms.reshape(64, -1).mean(axis=1).tolist()},
        "isotropy": {"mean_cosine": (cosines.sum() - len(units)) / (len(units) * (len(units) - 1)),
                     "partition_ratio": partition_ratio(table), "participation_ratio": spectrum.sum()**2 / (spectrum**2).sum(), "spectrum": (spectrum / spectrum.sum()).tolist()},
        "untrained": {"equal_rows": int(counts[counts > 1].sum()), "short_rows": int((norms < bound).sum()), "short_bound": bound},
        "self": {"best": int((own == 1).sum()), "median_rank": int(numpy.sort(own)[64])},
        "states": {"tokens": len(states), "coordinates": numpy.argsort(-energy)[:5].tolist(), "energy": numpy.sort(energy)[::-1][:5].tolist(),
                   "winner_cosine": {"mean": winners.mean(), "least": winners.min(), "most": winners.max()}},
        "neighbours": near,
    }
    (CHECKOUT / "tests/apps/golden_geometry.json").write_text(json.dumps(golden, indent=1) + "\n")


main()
