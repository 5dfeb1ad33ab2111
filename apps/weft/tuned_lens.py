#!/usr/bin/env python3
"""Makes the params.safetensors that `weft lens --tuned` reads of the params.pt that the PyPI package tuned-lens writes.

tuned_lens.py FOLDER   FOLDER has config.json and params.pt: of a published lens, or what TunedLens.save wrote

Needs PyTorch and NumPy. params.pt is a pickle, of which only tensors are loaded. They are written as F32.
"""
import json
import os
import pathlib
import struct
import sys


def tensors_of(path):
    """Name -> (shape, bytes of little-endian floats)."""
    import torch
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except TypeError:
        sys.exit("tuned_lens.py: this PyTorch cannot load tensors alone (weights_only); 1.13 and later can")
    tensors = {}
    for name, value in state.items():
        value = value.detach().to(torch.float32).contiguous()
        tensors[name] = tuple(value.shape), value.numpy().astype("<f4").tobytes()
    return tensors


def write(path, tensors):
    """A safetensors file: the header's length, the header, the tensors' bytes."""
    header, end = {}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, data in tensors.values():
            file.write(data)
    os.replace(partial, path)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    if not (folder / "params.pt").is_file():
        sys.exit(f"tuned_lens.py: {folder / 'params.pt'} is not there")
    write(folder / "params.safetensors", tensors_of(folder / "params.pt"))


if __name__ == "__main__":
    main()
