#!/usr/bin/env python3
"""Writes the first layers of a GGUF file's model as a model of its own: a draft to try `--draft` with.

first_layers.py IN.gguf LAYERS OUT.gguf

The embedding, the final norm and the output stay as they are, so the result is no good model: it was not trained to end there.
"""
import pathlib
import re
import struct
import sys

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, kind):
        value, = struct.unpack_from("<" + kind, self.data, self.at)
        self.at += struct.calcsize("<" + kind)
        return value

    def string(self):
        size = self.number("Q")
        self.at += size
        return bytes(self.data[self.at - size:self.at]).decode()

    def skip(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            of, count = self.number("I"), self.number("Q")
            for _ in range(count):
                self.skip(of)
        else:
            self.number(NUMBERS[kind])


def string(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def main(source, layers, target):
    reader = Reader(memoryview(pathlib.Path(source).read_bytes()))
    if reader.number("I") != 0x46554747 or reader.number("I") != 3:
        sys.exit(f"{source} is no GGUF file of version 3")
    tensors, keys = reader.number("Q"), reader.number("Q")
    metadata, alignment = b"", 32
    for _ in range(keys):
        start, name, kind = reader.at, reader.string(), reader.number("I")
        value = reader.at
        reader.skip(kind)
        if name.endswith(".block_count"):
            metadata += bytes(reader.data[start:value]) + struct.pack("<" + NUMBERS[kind], layers)
        else:
            metadata += bytes(reader.data[start:reader.at])
        if name == "general.alignment":
            alignment, = struct.unpack_from("<I", reader.data, value)
    listed = []  # name, shape and type as they stand, offset
    for _ in range(tensors):
        name, start = reader.string(), reader.at
        dimensions = reader.number("I")
        reader.at += dimensions * 8 + 4
        listed.append((name, bytes(reader.data[start:reader.at]), reader.number("Q")))
    first = -(-reader.at // alignment) * alignment
    ends = sorted(offset for *_, offset in listed)[1:] + [len(reader.data) - first]
    end_of = dict(zip(sorted(offset for *_, offset in listed), ends))
    kept = [one for one in listed if not (layer := re.match(r"blk\.(\d+)\.", one[0])) or int(layer[1]) < layers]
    infos, body = b"", b""
    for name, shape, offset in kept:
        infos += string(name) + shape + struct.pack("<Q", len(body))
        body += bytes(reader.data[first + offset:first + end_of[offset]])
        body += bytes(-len(body) % alignment)
    head = struct.pack("<IIQQ", 0x46554747, 3, len(kept), keys) + metadata + infos
    pathlib.Path(target).write_bytes(head + bytes(-len(head) % alignment) + body)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
