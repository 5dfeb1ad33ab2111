#!/usr/bin/env python3
"""Writes tests/unit/golden/format/rounding.gguf: numbers, and what ggml's quantisers make of them. Needed only to make it anew:

rounding_goldens.py CHECKOUT LIBRARY

Needs the PyPI packages gguf and numpy. LIBRARY is a shared library that exports ggml's quantisers with the arguments they had in
2023: lib/avx2/libctransformers.so of the PyPI package ctransformers 0.2.27. MXFP4 is newer: the package gguf rounds to it as ggml does.
"""
import ctypes
import pathlib
import sys

import gguf
import numpy as np

TYPES = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K"]


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


def load(path):
    library = ctypes.CDLL(path)
    library.ggml_init.argtypes, library.ggml_init.restype = [InitParams], ctypes.c_void_p
    library.ggml_init(InitParams(1 << 20, None, False))  # fills the tables of f16
    return library


def quantise(library, type_, values):
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[type_.upper()]]
    out = np.zeros((values.shape[0], values.shape[1] // elements * size), np.uint8)
    count = ctypes.c_int(values.size)
    getattr(library, "ggml_quantize_" + type_)(values.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p), count,
                                               count, (ctypes.c_int64 * 16)())
    return out


def numbers(rng):
    """Rows of several distributions, as vocabulary tables have them and worse."""
    normal, heavy = rng.standard_normal((8, 256)) * 0.03, rng.standard_t(2, (6, 256)) * 0.02
    zero, nearly, shifted = np.zeros((1, 256)), rng.standard_normal((1, 256)) * 1e-4, rng.uniform(0.9, 1.1, (1, 256))
    some = np.where(rng.random((1, 256)) < 0.05, rng.standard_normal((1, 256)), 0)
    return np.ascontiguousarray(np.concatenate([normal, heavy, zero, nearly, shifted, some]), np.float32)


def main(checkout, library):
    library, values = load(library), numbers(np.random.default_rng(21))
    writer = gguf.GGUFWriter(pathlib.Path(checkout) / "tests/unit/golden/format/rounding.gguf", "none")
    writer.add_tensor("numbers", values)
    for type_ in TYPES:
        writer.add_tensor(type_.upper(), quantise(library, type_, values), raw_dtype=gguf.GGMLQuantizationType[type_.upper()])
    mxfp4 = gguf.GGMLQuantizationType.MXFP4
    writer.add_tensor("MXFP4", gguf.quants.quantize(values, mxfp4), raw_dtype=mxfp4)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main(*sys.argv[1:])
