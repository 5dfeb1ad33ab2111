#!/usr/bin/env python3
"""Predicts a decoded token on a dozen described GPUs: its time with greedy and default sampling, the share that is bytes, what bounds it.

    apps/bench/roofline.py build/release/bin                            # tables, and the H100's measurements beside them
    apps/bench/roofline.py build/release/bin --dispatches "RTX 4060"    # one device, dispatch by dispatch

Nothing runs on a GPU. `weft-compilers --dispatches` records a token as the device's plan has it; the rest is this file's arithmetic, which
a measurement may prove wrong. docs/notes/roofline.md explains it.
"""
import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compilers"))
import models  # noqa: E402

models.ROWS = 4096  # of the recorded vocabularies: two workgroups of the kernels below
# Shapes that apps/bench/results/2026-11-27-nvidia-h100-80gb-hbm3.md measured, besides models.py's: `weft-make-model 8b`, and `gemma270m`, which
# has Gemma's sizes in a Llama's layers.
models.MODELS["llama-gemma270m"] = (18, {**models.LLAMA, "hidden_size": 640, "intermediate_size": 2048, "num_attention_heads": 4,
                                         "num_key_value_heads": 1, "head_dim": 256, "rope_theta": 10000.0, "max_position_embeddings": 32768})
models.MODELS["llama3.1-8b"] = (32, {**models.LLAMA, "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
                                     "num_key_value_heads": 8, "head_dim": 128, "rope_theta": 500000.0, "max_position_embeddings": 131072})
FORMATS = {"smollm2-135m": "q8", "gemma3-270m": "q8", "qwen3-0.6b": "q8", "llama3.2-1b": "q4", "llama3.1-8b": "q4", "llama-gemma270m": "q8"}
VOCABULARIES = {"smollm2-135m": 49152, "gemma3-270m": 262144, "qwen3-0.6b": 151936, "llama3.2-1b": 128256, "llama3.1-8b": 128256,
                "llama-gemma270m": 262144}
WINDOWS = {"gemma3-270m": 512}  # of the positions that all but every sixth layer sees


@dataclasses.dataclass(frozen=True)
class Gpu:
    name: str
    cores: int  # that run workgroups
    threads: int  # of a core, at the 64 registers that our products take
    bandwidth: float  # GB/s of its memory, as specified
    latency: float  # ns of a load from memory, when many are under way
    dispatch: float  # us of a dispatch and the barrier after it, whatever it computes
    rate: float  # 1e9 instructions of a lane a second, all cores together
    per_weight: dict  # instructions a weight of a product: docs/notes/compilers.md, or a neighbour's
    caps: dict  # that the plan is made for


def gpu(name, cores, threads, bandwidth, latency, dispatch, lanes, ghz, per_weight, **caps):
    usual = {"max_threads": 1024, "max_shared": 32768, "max_range": 0xffffffff, "subgroup": True, "shuffle": False, "full_subgroups": False,
             "fp16": True, "matrices": False, "matrix_side": 0}
    return Gpu(name, cores, threads, bandwidth, latency, dispatch, cores * lanes * ghz, dict(zip(("q8", "q4"), per_weight)), {**usual, **caps})


PHONE, CARD = {"kind": "integrated"}, {"kind": "discrete"}
NVIDIA = {"driver_id": 4, "subgroup_size": 32, "max_shared": 49152}
AMD = {"driver_id": 3, "subgroup_size": 64, "shuffle": True, "full_subgroups": True}
# Cores, clocks and bandwidths are the makers' specifications. Latencies and costs of a dispatch are guesses, except the H100's cost, which
# was measured: docs/notes/roofline.md has what they are from.
GPUS = (
    # Snapdragon 8 Gen 3: six cores of 256 lanes at 0.903 GHz; LPDDR5X-9600 of 64 bits.
    gpu("Adreno 750", 6, 1024, 76.8, 600, 8, 256, 0.903, (6.2, 6.6), **PHONE, driver_id=8, subgroup_size=64),
    # Snapdragon 8 Elite: twelve of 128 lanes at 1.1 GHz; LPDDR5X-10667.
    gpu("Adreno 830", 12, 1024, 85.3, 600, 8, 128, 1.1, (6.3, 6.8), **PHONE, driver_id=8, subgroup_size=64),
    # Immortalis-G720 MC12 of the Dimensity 9300: 128 lanes a core at 1.3 GHz.
    gpu("Mali-G720", 12, 1024, 76.8, 700, 12, 128, 1.3, (7, 8), **PHONE, driver_id=9, subgroup_size=16),
    # V3D 7.1: 12 QPUs of 4 lanes at 0.96 GHz, four threads of 16 each; LPDDR4X-4267 of 32 bits.
    gpu("Raspberry Pi 5", 12, 64, 17.1, 500, 20, 4, 0.96, (9, 10), **{**PHONE, "subgroup": False}, driver_id=19, subgroup_size=16,
        max_threads=256),
    # Van Gogh: eight CUs of RDNA 2 at 1.6 GHz; LPDDR5-5500 of 128 bits.
    gpu("Steam Deck", 8, 1024, 88, 500, 6, 64, 1.6, (3.0, 4.2), **{**PHONE, **AMD}),
    # Eight SMs of Ampere at 0.625 GHz; LPDDR5 of 128 bits.
    gpu("Orin Nano", 8, 1024, 68, 600, 8, 128, 0.625, (4.9, 6.0), **PHONE, **NVIDIA),
    gpu("RTX 3060", 28, 1024, 360, 600, 5, 128, 1.78, (4.9, 6.0), **CARD, **NVIDIA),
    gpu("RTX 4060", 24, 1024, 272, 600, 5, 128, 2.46, (4.9, 6.0), **CARD, **NVIDIA),
    gpu("RX 7800 XT", 60, 1024, 624, 700, 5, 64, 2.43, (3.0, 4.2), **{**CARD, **AMD}, max_shared=65536),
    gpu("Arc A770", 32, 1024, 560, 800, 7, 128, 2.1, (5, 6), **CARD, driver_id=6, subgroup_size=32, max_shared=65536),
    gpu("Apple M2", 10, 1024, 100, 500, 6, 128, 1.4, (5, 6), **PHONE, driver_id=14, subgroup_size=32),
    # SXM, HBM3.
    gpu("H100", 132, 1024, 3350, 700, 5, 128, 1.98, (4.9, 6.0), **CARD, **NVIDIA),
)

# The H100's tokens at position 575, us, without timestamps: the report's build "after", so with that build's plan.
MEASURED_PLAN = ("product_groups=1056",)
MEASURED = {"smollm2-135m": 1366, "llama-gemma270m": 1171, "llama3.2-1b": 1346, "llama3.1-8b": 4641}
MEASURED_AT = 575

BLOCK_BYTES = {"f16": 64, "q8": 36, "q4": 20, "q4_0": 20, "q5_0": 24, "q5_1": 24, "mxfp4": 20}  # of 32 weights, as a lane loads them
TABLE_LOAD = 68  # bytes of a vocabulary table that a lane has under way (shaders/lib/table.glsl)
PLAIN_LOAD = 16  # of other kernels' lanes
# Loads and barriers that follow each other in a workgroup; other kernels have 2. ALONE says how many of them the last workgroup does alone.
STEPS = {"rotate": 6, "attend": 6, "norm": 4, "advance": 4, "narrow": 8, "filter": 24, "log_sum": 6, "logprobs": 44, "timestamps": 8}
# Steps of the workgroup that finishes last, which joins what the others have found: the bins of narrow and the list of filter (with top-k, top-p and
# min-p; a list without top-k may be longer), 20 log-probabilities.
ALONE = {"narrow": 5, "filter": 20, "log_sum": 3, "logprobs": 22, "timestamps": 4}
# Rows of the vocabulary that a workgroup looks at, and bytes that it reads or writes of each.
ROWS = {"penalize": (256, 8), "narrow": (2048, 4), "filter": (2048, 4), "sample": (1024, 4), "log_sum": (2048, 8), "logprobs": (2048, 8),
        "timestamps": (2048, 8)}
ENDS = {"end": "greedy", "sampled": "default sampling", "logprobs": "20 log-probabilities", "timestamps": "20 log-probabilities and times",
        "softmaxes": "four softmaxes"}  # what may follow a token's layers


@dataclasses.dataclass
class Cost:
    name: str
    part: str
    groups: int
    threads: int  # of all groups
    bytes: float
    in_flight: float  # bytes
    seconds: float
    bound: str
    grows: bool  # with the vocabulary or the context
    alone: float  # seconds in which one workgroup works and the others wait


def record(binaries, gpu_, names, settings=()):
    """{model: its dispatches} in a session of 4,096 tokens with each of ENDS, and the plan."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        models.write(pathlib.Path(folder))
        for name in names:
            done = subprocess.run([pathlib.Path(binaries, "weft-compilers"), "--dispatches", "4096", "--caps", json.dumps(gpu_.caps), "--format",
                                   FORMATS[name], *(f"--set={one}" for one in settings), pathlib.Path(folder, name)],
                                  stdout=subprocess.PIPE, check=True)
            device, model = (json.loads(line) for line in done.stdout.splitlines())
            found[name] = model["dispatches"]
    return found, device["device"]["plan"]


def config_of(model):
    config = models.MODELS[model][1]
    heads = config["num_attention_heads"]
    return heads, config["num_key_value_heads"], config.get("head_dim", config["hidden_size"] // heads), config["hidden_size"]


def cost_of(gpu_, plan, model, dispatch, context):
    """The cost of one dispatch. The recorded models have a vocabulary of models.ROWS tokens."""
    name, groups, constants = dispatch["name"], dispatch["groups"], dispatch["constants"]
    heads, kv_heads, head_dim, width = config_of(model)
    more_rows = VOCABULARIES[model] / models.ROWS
    count, load, weights, size, grows = groups[0] * groups[1] * groups[2], PLAIN_LOAD, 0, 16.0 * width, False
    format_ = FORMATS[model]
    if name == "matmul":
        size = float(dispatch["bytes"][0])
        load = BLOCK_BYTES[format_] * constants[11] * constants[3]  # blocks at once, rows of a lane
        weights = size * 32 / BLOCK_BYTES[format_]
    elif name == "project":
        size, count, grows = dispatch["bytes"][0] * more_rows, -(-count * VOCABULARIES[model] // models.ROWS), True
        load = TABLE_LOAD * constants[3]
        weights, format_ = size, "q8"
    elif name == "attend":
        seen = min(context, WINDOWS.get(model, context) if dispatch["part"] == "layer 0" else context)
        spans = -(-seen // plan["attend_span"]) if groups[2] > 1 else 1
        count, grows = groups[0] * groups[1] * spans, True
        size, load = 4.0 * seen * kv_heads * head_dim * (heads / kv_heads / constants[12]), 16 * constants[13]
    elif name in ROWS:
        rows, bytes_ = ROWS[name]
        softmaxes = groups[0] if name == "log_sum" else 1
        count, size, load, grows = softmaxes * -(-VOCABULARIES[model] // rows), float(softmaxes * bytes_ * VOCABULARIES[model]), 4, True
    elif name in ("best", "advance"):  # candidates of the vocabulary's workgroups
        size, grows = 8.0 * VOCABULARIES[model] / 64, True
    threads = count * dispatch["threads"]
    in_flight = min(size, min(threads, gpu_.cores * gpu_.threads) * load)
    bytes_alone = size / (gpu_.bandwidth * 1e9)
    moved = max(bytes_alone, size / (in_flight / (gpu_.latency * 1e-9)))
    busy = min(count, gpu_.cores) / gpu_.cores
    computed = weights * gpu_.per_weight[format_] / (gpu_.rate * 1e9 * busy)
    fixed = gpu_.dispatch * 1e-6 + STEPS.get(name, 2) * gpu_.latency * 1e-9
    limits = {"bytes" if moved < 1.01 * bytes_alone else "bytes in flight": moved, "instructions": computed, "dispatches": fixed}
    bound = max(limits, key=limits.get)
    seconds = max(moved, computed) + fixed
    return Cost(name, dispatch["part"], count, threads, size, in_flight, seconds, bound, grows,
                seconds if count == 1 else ALONE.get(name, 0) * gpu_.latency * 1e-9)


def token(gpu_, plan, model, dispatches, context, end="end"):
    """The costs of a token: the layers of the published model, of which two are recorded. end: of ENDS."""
    layers, costs = models.MODELS[model][0], []
    full = 3 if model in WINDOWS else layers // 2  # layers like the second one: with the whole context
    for dispatch in dispatches:
        part = dispatch["part"]
        if part in ENDS and part != end and not (end == "softmaxes" and part == "sampled"):
            continue
        costs += [cost_of(gpu_, plan, model, dispatch, context)] * (1 if part == "embed" or part in ENDS else full if part == "layer 1" else layers - full)
    return costs


def needed_in_flight(gpu_, cost):
    """Little's law: the bytes under way that keep the memory busy; half of what there is, if that is less."""
    return min(gpu_.bandwidth * gpu_.latency, cost.bytes / 2)


def summary(gpu_, costs):
    seconds = sum(cost.seconds for cost in costs)
    by_bound = {}
    for cost in costs:
        by_bound[cost.bound] = by_bound.get(cost.bound, 0) + cost.seconds
    return {"ms": seconds * 1e3, "share_of_bytes": sum(cost.bytes for cost in costs) / (gpu_.bandwidth * 1e9) / seconds,
            "bottleneck": max(by_bound, key=by_bound.get), "lone": max(cost.alone for cost in costs) / seconds,
            "dispatches": len(costs)}


def print_tables(binaries, names, contexts=(100, 4000)):
    recorded = {gpu_.name: record(binaries, gpu_, names) for gpu_ in GPUS}
    for name in names:
        print(f"\n{name}, {FORMATS[name]}\n\n| device | context | greedy, ms | default sampling, ms | share of bytes | bottleneck | largest lone workgroup |\n"
              "|---|---|---|---|---|---|---|")
        for gpu_ in GPUS:
            found, plan = recorded[gpu_.name]
            for context in contexts:
                greedy, one = (summary(gpu_, token(gpu_, plan, name, found[name], context, end)) for end in ("end", "sampled"))
                print(f"| {gpu_.name} | {context:,} | {greedy['ms']:.2f} | {one['ms']:.2f} | {one['share_of_bytes']:.0%} | {one['bottleneck']} | "
                      f"{one['lone']:.1%} |")


def print_measured(binaries):
    h100 = GPUS[-1]
    found, plan = record(binaries, h100, list(MEASURED), MEASURED_PLAN)
    print("\nH100\n\n| model | dispatches | predicted, us | measured, us | predicted / measured |\n|---|---|---|---|---|")
    for name, measured in MEASURED.items():
        one = summary(h100, token(h100, plan, name, found[name], MEASURED_AT))
        print(f"| {name} | {one['dispatches']} | {one['ms'] * 1e3:,.0f} | {measured:,} | {one['ms'] * 1e3 / measured:.2f} |")


def print_dispatches(binaries, wanted, names, context):
    gpu_ = next((one for one in GPUS if one.name == wanted), None)
    if not gpu_:
        sys.exit("there is: " + ", ".join(one.name for one in GPUS))
    found, plan = record(binaries, gpu_, names)
    for name in names:
        print(f"\n{name}, {FORMATS[name]}")
        for dispatch in found[name]:
            if dispatch["part"] in ENDS and dispatch["part"] != "sampled":
                continue
            cost = cost_of(gpu_, plan, name, dispatch, context)
            print(f"  {cost.part:9} {cost.name:10} {cost.groups:6} x {cost.threads // cost.groups:4}  {cost.bytes / 1e6:9.3f} MB  "
                  f"{cost.in_flight / 1e6:7.3f} in flight  {cost.seconds * 1e6:8.1f} us  {cost.bound}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("--dispatches", metavar="DEVICE", help="each dispatch on a device")
    parser.add_argument("--model", action="append", choices=FORMATS, help="all, if none is given")
    parser.add_argument("--context", type=int, default=4000, help="for --dispatches; up to 4,096")
    args = parser.parse_args()
    names = args.model or ["smollm2-135m", "gemma3-270m", "qwen3-0.6b", "llama3.2-1b", "llama3.1-8b"]
    if args.dispatches:
        return print_dispatches(args.binaries, args.dispatches, names, args.context)
    print_tables(args.binaries, names)
    print_measured(args.binaries)


if __name__ == "__main__":
    main()
