#!/usr/bin/env python3
"""Writes tests/model/golden_images/pictures: small pictures, and what Pillow and Transformers' Idefics3ImageProcessor make of them, step
by step. Needs the PyPI packages pillow, numpy, torch and transformers 4.47, and is needed only to make them anew:
picture_goldens.py CHECKOUT
With photographs: picture_goldens.py --photos FOLDER FILE ... writes copies of them and the same figures to a folder that image_test
compares if WEFT_PHOTOS names it.
"""
import json
import pathlib
import shutil
import sys
import zlib

import numpy as np
from PIL import Image, ImageOps
from transformers import Idefics3ImageProcessor
from transformers.models.idefics3.processing_idefics3 import get_image_prompt_string

# Longest edge, tile, whether it is split, patch.
SMALL = [(64, 16, True, 4), (96, 32, True, 8), (32, 32, True, 16), (48, 24, False, 6), (40, 28, True, 14)]
# Settings of SmolVLM-256M and 500M, SmolVLM-Instruct and Idefics3-8B; then the first without splitting.
REAL = [(2048, 512, True, 16), (1536, 384, True, 14), (1456, 364, True, 14), (2048, 512, False, 16)]
MEAN, STD = [0.5, 0.48, 0.46], [0.5, 0.26, 0.27]


def crc(array):
    return zlib.crc32(np.ascontiguousarray(array).tobytes())


def on_white(image):
    image = ImageOps.exif_transpose(image).convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, (255, 255, 255)), image).convert("RGB")


def figures(image, longest, tile, split, patch):
    """image: RGB. What each step gives; a patch that does not divide the tile is left out of it, as by a convolution."""
    processor = Idefics3ImageProcessor(size={"longest_edge": longest}, max_image_size={"longest_edge": tile}, do_image_splitting=split,
                                       image_mean=MEAN, image_std=STD)
    last = {"input_data_format": "channels_last"}  # else it would guess, wrongly for a picture 3 pixels high
    whole = tile // patch * patch
    plain = processor([[image]], do_rescale=False, do_normalize=False, do_pad=False, return_row_col_info=True, **last)
    tiles = [np.asarray(t).transpose(1, 2, 0) for t in plain["pixel_values"][0]]
    values = np.asarray(processor([[image]], return_tensors="np", **last)["pixel_values"][0])[:, :, :whole, :whole]
    side = whole // patch
    patches = values.reshape(len(tiles), 3, side, patch, side, patch).transpose(0, 2, 4, 1, 3, 5)
    assert values.dtype == np.float32 and all(t.dtype == np.uint8 for t in tiles)
    rows, columns = plain["rows"][0][0], plain["cols"][0][0]
    text = get_image_prompt_string(rows, columns, 3, "<fake_token_around_image>", "<image>", "<global-img>")
    return {"longest_edge": longest, "tile": tile, "split": split, "patch": patch, "rows": rows, "columns": columns,
            "tiles": [crc(t) for t in tiles], "patches": crc(patches), "text": text}


def write(folder, files, settings):
    cases = []
    for file in files:
        image = on_white(Image.open(file))
        case = {"file": file.name, "width": image.width, "height": image.height, "mean": MEAN, "std": STD}
        if file.suffix == ".png":
            case |= {"pixels": crc(np.asarray(image)), "figures": [figures(image, *each) for each in settings]}
        else:  # decoders of JPEG may differ by their rounding: beside it lies what Pillow's gives
            case["decoded"] = file.with_suffix(".decoded.png").name
            image.save(folder / case["decoded"])
        cases.append(case)
        print(file.name, image.size, flush=True)
    (folder / "reference.json").write_text("[" + ",\n".join(json.dumps(case) for case in cases) + "]\n")


def drawing(width, height, channels=3):
    """Soft and hard edges, and noise."""
    y, x = np.mgrid[0:height, 0:width]
    random = np.random.default_rng(width * height)
    planes = [128 + 100 * np.sin(x / (3 + c) + y / 7) + 27 * ((x // 5 + y // (4 + c)) % 2) for c in range(channels)]
    values = np.stack(planes, -1) + random.normal(0, 12, (height, width, channels))
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8).squeeze())


def make(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for width, height in (70, 50), (30, 90), (64, 64), (1, 1), (120, 3), (17, 18):
        drawing(width, height).save(folder / f"rgb{width}x{height}.png")
    drawing(40, 31, 4).save(folder / "alpha.png")
    drawing(40, 31, 1).save(folder / "grey.png")
    Image.merge("LA", [drawing(40, 31, 1), drawing(40, 31, 1).rotate(180)]).save(folder / "grey-alpha.png")
    drawing(40, 31).quantize(60).save(folder / "palette.png")
    drawing(90, 61).save(folder / "baseline.jpg", quality=92, subsampling=0)
    drawing(90, 61).save(folder / "progressive.jpg", quality=92, subsampling=2, progressive=True)
    for orientation in range(2, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        drawing(24, 16).save(folder / f"orientation{orientation}.jpg", quality=95, subsampling=0, exif=exif)
    write(folder, sorted(folder.iterdir()), SMALL)


if __name__ == "__main__":
    if sys.argv[1] == "--photos":
        target = pathlib.Path(sys.argv[2])
        target.mkdir(parents=True, exist_ok=True)
        copies = []
        for name in map(pathlib.Path, sys.argv[3:]):
            copies.append(pathlib.Path(shutil.copy(name, target)))
            if name.suffix != ".png":  # for the steps after decoding
                copies.append(target / f"{name.stem}.lossless.png")
                on_white(Image.open(name)).save(copies[-1])
        write(target, copies, REAL)
    else:
        make(pathlib.Path(sys.argv[1]) / "tests/model/golden_images/pictures")
