#!/usr/bin/env python3
"""Measures a vocabulary table that two devices share: devices.py WEFT OUT -m MODEL -d A,B ... [--shares 10 25 50]

For each pair runs `weft bench` with growing shares of the rows on the second device, and writes OUT.json and the picture OUT.svg:
the time of a token by share. Shares of one pair are measured by turns, three times; the median counts.
"""
import argparse
import datetime
import json
import pathlib
import statistics
import subprocess

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 340, 70, 20, 40, 60
COLOURS = "#1f77b4", "#d62728", "#2ca02c"


def token_ms(weft: str, model: str, pair: tuple[str, str], share: float) -> float:
    first, second = pair
    where = ["--devices", f"{first}:{100 - share:g},{second}:{share:g}"] if share else ["--device", first]
    done = subprocess.run([weft, "bench", "-m", model, *where, "-p", "4", "-n", "16", "--repeat", "1", "--json"], check=True,
                          stdout=subprocess.PIPE)
    return 1000 / json.loads(done.stdout)["decode_tokens_per_s"]


def measure(weft: str, model: str, pair: tuple[str, str], shares: list[float]) -> dict:
    runs: dict[float, list[float]] = {share: [] for share in shares}
    for _ in range(3):
        for share in shares:
            runs[share].append(token_ms(weft, model, pair, share))
    return {"devices": pair, "token_ms": [[share, round(statistics.median(times), 2)] for share, times in runs.items()]}


def picture(report: dict) -> str:
    longest = max(ms for pair in report["pairs"] for _, ms in pair["token_ms"])
    step = min(factor * 10**power for factor in (1, 2, 5) for power in range(6) if factor * 10**power * 5 >= longest)
    most = 5 * step
    last = max(share for pair in report["pairs"] for share, _ in pair["token_ms"])
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def at(share: float, ms: float) -> str:
        return f"{LEFT + (right - LEFT) * share / last:.1f},{bottom - (bottom - TOP) * ms / most:.1f}"

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             f'<text x="{LEFT}" y="22">{report["model"]}: ms a token by the share of rows on the second device</text>']
    for ms in range(0, most + 1, step):
        y = at(0, ms).split(",")[1]
        parts += [f'<line x1="{LEFT}" y1="{y}" x2="{right}" y2="{y}" stroke="#ddd"/>',
                  f'<text x="{LEFT - 8}" y="{y}" text-anchor="end" dominant-baseline="middle">{ms}</text>']
    for share, _ in report["pairs"][0]["token_ms"]:
        parts.append(f'<text x="{at(share, 0).split(",")[0]}" y="{bottom + 20}" text-anchor="middle">{share:g}%</text>')
    for number, (pair, colour) in enumerate(zip(report["pairs"], COLOURS)):
        parts += [f'<polyline points="{" ".join(at(*point) for point in pair["token_ms"])}" fill="none" stroke="{colour}" stroke-width="2"/>',
                  f'<text x="{LEFT + 220 * number}" y="{HEIGHT - 12}" fill="{colour}">{" and ".join(pair["devices"])}</text>']
        parts += [f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in (at(*point).split(",") for point in pair["token_ms"])]
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("-d", "--devices", nargs="+", required=True, metavar="A,B", help=f"at most {len(COLOURS)} pairs")
    parser.add_argument("--shares", nargs="+", type=float, default=[10, 25, 50], metavar="PERCENT")
    args = parser.parse_args()
    if len(args.devices) > len(COLOURS):
        parser.error(f"at most {len(COLOURS)} pairs")
    pairs = [tuple(pair.split(",")) for pair in args.devices]
    report = {"date": datetime.date.today().isoformat(), "model": args.model,
              "pairs": [measure(args.weft, args.model, pair, [0, *args.shares]) for pair in pairs]}
    args.out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    args.out.with_suffix(".svg").write_text(picture(report))
    for pair in report["pairs"]:
        print(" and ".join(pair["devices"]), pair["token_ms"])


if __name__ == "__main__":
    main()
