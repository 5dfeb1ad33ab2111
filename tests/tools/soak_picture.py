#!/usr/bin/env python3
"""soak_picture.py SOAK.json PICTURE.svg: what soak_test wrote (WEFT_SOAK_JSON) as a picture: memory, file descriptors and Vulkan
objects over time."""
import json
import pathlib
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, GAP = 900, 590, 90, 20, 60, 40


def nice_ceiling(value):
    """The next of 1, 2, 5, 10, 20, 50, ..."""
    step = 1
    while True:
        for factor in 1, 2, 5:
            if value <= step * factor:
                return step * factor
        step *= 10


def panel(top, height, title, xs, ys, longest):
    """A curve with its axes, from 0."""
    most = nice_ceiling(max(ys))
    right, bottom = WIDTH - RIGHT, top + height
    at_x = lambda x: LEFT + (right - LEFT) * x / longest
    at_y = lambda y: bottom - height * y / most
    parts = [f'<text x="{LEFT}" y="{top - 8}" font-weight="bold">{title}</text>']
    for share in 0, 0.5, 1:
        y = at_y(most * share)
        parts += [f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ddd"/>',
                  f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{most * share:g}</text>']
    points = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in zip(xs, ys))
    parts.append(f'<polyline points="{points}" fill="none" stroke="#1f77b4" stroke-width="1.5"/>')
    return parts


def picture(soak):
    samples = soak["samples"]
    minutes = [s["seconds"] / 60 for s in samples]
    longest = max(minutes)
    title = (f"{samples[-1]['turns']:,} turns in {longest:.0f} minutes on {soak['device']}, {soak['date']}, seed {soak['seed']:g}: "
             f"heap {soak['heap_bytes_a_turn']:+.0f} bytes a turn")
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', f'<text x="{LEFT}" y="22">{title}</text>']
    top = TOP
    for height, name, unit, key in ((110, "resident memory, MiB (with the driver's code)", 1 << 20, "resident_bytes"),
                                    (110, "heap in use, MiB", 1 << 20, "heap_bytes"), (60, "file descriptors", 1, "descriptors"),
                                    (60, "Vulkan objects of the model at rest", 1, "vulkan_objects")):
        parts += panel(top, height, name, minutes, [s[key] / unit for s in samples], longest)
        top += height + GAP
    for share in 0, 0.25, 0.5, 0.75, 1:
        x = LEFT + (WIDTH - RIGHT - LEFT) * share
        parts.append(f'<text x="{x:.1f}" y="{top - GAP + 18}" text-anchor="middle">{longest * share:.1f}</text>')
    parts += [f'<text x="{WIDTH - RIGHT}" y="{top - GAP + 36}" text-anchor="end">minutes</text>', "</svg>"]
    return "\n".join(parts) + "\n"


if len(sys.argv) != 3:
    sys.exit(f"usage: {sys.argv[0]} SOAK.json PICTURE.svg")
pathlib.Path(sys.argv[2]).write_text(picture(json.loads(pathlib.Path(sys.argv[1]).read_text())))
