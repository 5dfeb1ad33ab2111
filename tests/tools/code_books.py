#!/usr/bin/env python3
"""Writes runtime/format/code_book_tables.h: the code books of GGUF's types IQ1 to IQ3, from the tables of the PyPI package gguf. Needed only to make
them anew: code_books.py CHECKOUT
"""
import pathlib
import sys

import numpy as np
from gguf import quants


def words(kind, bits):
    """An entry's numbers as places in the type's list of numbers, `bits` bits each, the first lowest."""
    kind.init_grid()
    places = {value: place for place, value in enumerate(kind.grid_map)}
    grid = np.asarray(kind.grid).reshape(kind.grid_shape)
    return [sum(places[value] << (bits * i) for i, value in enumerate(entry)) for entry in grid.tolist()]


def main(checkout):
    text = ("// The code books of IQ1 to IQ3. An entry has the places of eight numbers in the type's list, 2 bits each, or of four, 3\n"
            "// bits each; the first lowest. Written by tests/tools/code_books.py. For code_books.cpp only.\n#pragma once\n\n#include <cstdint>\n\nnamespace weft {\n\n")
    for name, bits in (("IQ2_XXS", 2), ("IQ2_XS", 2), ("IQ2_S", 2), ("IQ3_XXS", 3), ("IQ3_S", 3), ("IQ1_S", 2)):
        entries = [f"0x{word:04x}" for word in words(getattr(quants, name), bits)]
        lines = [", ".join(entries[i:i + 14]) for i in range(0, len(entries), 14)]
        camel = "".join(part.capitalize() for part in name.lower().split("_"))
        text += f"inline constexpr uint16_t k{camel}[] = {{\n    " + ",\n    ".join(lines) + "};\n"
    path = pathlib.Path(checkout) / "runtime/format/code_book_tables.h"
    path.write_text(text + "\n}  // namespace weft\n")


main(*sys.argv[1:])
