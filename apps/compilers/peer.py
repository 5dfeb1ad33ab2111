#!/usr/bin/env python3
"""llama.cpp's kernels of decoding beside Weft's, compiled by the same drivers for the same chips: `./run compilers --peer` builds Weft and starts this.

peer.py BIN_DIR [CHIP ...]

Both programs run with Debian sid's Mesa and its drm-shim (root.py), which executes nothing: what is computed is wrong, and nobody looks at it.
llama-bench decodes a token of a model whose layers are of many types (llama_model.py), and prints what a driver says of its products
(GGML_VK_PIPELINE_STATS); weft-compilers compiles ours. Mesa prints the kernels of both, and their loops are counted alike (listing.py).
Writes results/YYYY-MM-DD-peer.md. Exits with 77 if the packages cannot be had. Standard library only.
"""
import argparse
import concurrent.futures
import dataclasses
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import drivers
import listing
import llama_model
import models
import report
import root as roots

# Chips of all drivers, but none of GCN (Polaris, Vega): there a lane of llama.cpp's kernels has more rows than KERNELS says.
CHIPS = ("navi21", "navi31", "gfx1201", "turing", "ampere", "adreno-630", "adreno-740", "adreno-830", "apple-m1")
LIMIT = 300  # s, of a program
FLOATS, BYTES = "floats", "8 bits"  # inputs as they are, and rounded
# Environment that makes llama.cpp take its kernels for floats, and for 8 bits.
VARIANTS = ({"GGML_VK_DISABLE_MMVQ": "1"}, {"GGML_VK_FORCE_MMVQ": "1"})


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A product of one token."""
    type: str     # of its weights
    inputs: str
    ours: bool
    name: str     # a pattern that one pipeline of the program has
    loop: tuple   # weights, multiplications, around: as listing.per_weight() takes them; (): not counted

    @property
    def label(self):
        return f"Weft `{re.match('[a-z]+', self.name)[0]}`" if self.ours else f"llama.cpp `{self.name}`"

    def find(self, names):
        return next((name for name in sorted(names) if re.fullmatch(self.name, name)), None)


def ours(kind, number, multiplications, project=(), int8=False):
    """number: of the type among our formats; multiplications: of the loop, for each weight; project: the loop of a vocabulary table. The product is
    that which adds to what is there, without a norm and in one format. Its turn is one block or two, as its step says."""
    for step in (2, 1):
        weights = 32 * step
        yield Kernel(kind, FLOATS, True, rf"matmul( subgroup)? {number} 1 \d+ 1 0 0 0 1 0 0 \d+ {step} \d+ 0 0( \d)?", (weights, multiplications * weights))
    if project:
        yield Kernel(kind, FLOATS, True, rf"project( subgroup)? {number} 1 \d+ 1 \d+ 0 1 \d", project)
    if int8:
        yield Kernel(kind, BYTES, True, rf"matmul int8 {number} 1 \d+ 1 0 0 0 1 0 0 \d+ \d+ \d+", (0, 0))


def theirs(kind, name, *loop, int8=(0, 0)):
    yield Kernel(kind, FLOATS, False, f"mul_mat_vec_{name}_f32_f32", loop)
    if int8 is not None:
        yield Kernel(kind, BYTES, False, f"mul_mat_vec_{name}_q8_1_f32", int8)


# Ours: a lane has one row, of which a turn multiplies one or two blocks of 32 weights. Formats with minima multiply each weight by a scale, too, and
# IQ4's numbers are those of a polynomial. Theirs: a turn is four steps of 8 columns (f16: 4), and a lane has two rows, of q8_0 one;
# of q4_K it is 16 columns; q4_1 and q4_K multiply each weight by a scale, too. Loops of their other kernels are not counted.
KERNELS = [*ours("F16", 0, 1, (64, 130)), *theirs("F16", "f16", 32, 32, int8=None),
           *ours("Q8_0", 1, 1, (64, 66), int8=True), *theirs("Q8_0", "q8_0", 32, 36),
           *ours("Q6_K", 3, 1), *theirs("Q6_K", "q6_k"),
           *ours("Q5_K", 4, 2, int8=True), *theirs("Q5_K", "q5_k"),
           *ours("Q5_1", 8, 2, int8=True), *theirs("Q5_1", "q5_1"),
           *ours("Q5_0", 7, 1, int8=True), *theirs("Q5_0", "q5_0"),
           *ours("Q4_K", 5, 2, int8=True), *theirs("Q4_K", "q4_k", 32, 76),
           *ours("Q4_1", 2, 2, (64, 130), int8=True), *theirs("Q4_1", "q4_1", 64, 136),
           *ours("Q4_0", 6, 1, int8=True), *theirs("Q4_0", "q4_0", 64, 72),
           *ours("MXFP4", 9, 1, int8=True), *theirs("MXFP4", "mxfp4"),
           *ours("IQ4_NL", 10, 5, int8=True), *theirs("IQ4_NL", "iq4_nl", int8=None),
           *ours("IQ4_XS", 12, 5, int8=True), *theirs("IQ4_XS", "iq4_xs", int8=None),
           *ours("Q3_K", 11, 1), *theirs("Q3_K", "q3_k", int8=()),
           *ours("IQ3_S", 14, 1, int8=True), *theirs("IQ3_S", "iq3_s", int8=None),
           *ours("IQ3_XXS", 13, 1, int8=True), *theirs("IQ3_XXS", "iq3_xxs", int8=None),
           *ours("Q2_K", 17, 2), *theirs("Q2_K", "q2_k", int8=()),
           *ours("IQ2", 15, 1), *theirs("IQ2", "iq2_xxs", int8=None),
           *ours("IQ1", 16, 1), *theirs("IQ1", "iq1_s", int8=None)]


def kernels_of(lines, driver):
    """Parses a program's output about its kernels: {name: (statistics, blocks)}; blocks: None if the driver's listings are not read. If several
    have one name, because the size of their workgroups differs, the first counts. Throws ValueError if the listing of a loop that is counted is not
    that of the statistics."""
    found, text, statistics = {}, [], {}
    reader = next((read for name, read in listing.READERS.items() if driver.startswith(name)), None)

    def add(name, numbers):
        if name not in found:
            found[name] = (numbers, reader(text) if reader else None)
        text.clear()

    for line in lines:
        if listing.BEGIN.search(line):
            text.clear()
        if heading := re.match(r"ggml_vulkan: pipeline stats for (\w+):", line):
            statistics = {}
            add(heading[1], statistics)
        elif number := re.match(r"ggml_vulkan:   (.+): (\d+)$", line):
            statistics[number[1]] = int(number[2])
        elif line.startswith('{"compiled"'):
            said = json.loads(line)
            add(said["compiled"], said["statistics"])
        else:
            text.append(line)
    uncounted = {kernel.name for kernel in KERNELS if not kernel.loop}
    for name, (numbers, blocks) in found.items():
        if name in uncounted:
            continue
        counted = drivers.columns_of(driver, numbers)["instructions"]
        if reader and listing.size(blocks) != counted:
            raise ValueError(f"{name}: {listing.size(blocks)} instructions in the driver's listing, and {counted:.0f} in its statistics")
    return found


def run(command, environment, folder=None):
    """(exit code, lines)"""
    done = subprocess.run([*map(str, command)], env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=LIMIT)
    return done.returncode, done.stdout.splitlines()


def compile_ours(chip, program, root, model):
    """(device, kernels)"""
    status, lines = run([*root.command(program, chip.shim), "--list", model], report.environment_of(chip, root))
    names = next((json.loads(line)["pipelines"] for line in lines if line.startswith('{"pipelines"')), [])
    only = [f"--only={name}" for kernel in KERNELS if kernel.ours and (name := kernel.find(names))]
    status, lines = run([*root.command(program, chip.shim), *only, model], {**report.environment_of(chip, root), **listing.PRINT})
    if status != 0:
        raise SystemExit(f"peer: {chip.name}: weft-compilers failed: {' '.join(lines[-3:])}")
    device = next(json.loads(line)["device"] for line in lines if line.startswith('{"device"'))
    found = kernels_of(lines, device["driver"])
    for kind in {kernel.type for kernel in KERNELS}:
        if not any(kernel.find(found) for kernel in KERNELS if kernel.ours and kernel.type == kind):
            raise SystemExit(f"peer: {chip.name}: weft-compilers has no product of {kind}")
    return device, found


def compile_theirs(chip, root, model, driver):
    """(kernels, names of those that it takes by itself, why there are none or "")"""
    command = [*root.command(root.folder / "usr/bin/llama-bench", chip.shim), "-m", model, "-p", 0, "-n", 1, "-r", 1, "--no-warmup", "-ngl", 99,
               "-dev", "Vulkan0"]
    environment = {**report.environment_of(chip, root), "GGML_VK_VISIBLE_DEVICES": "0", "GGML_VK_PIPELINE_STATS": "mul_mat_vec_"}
    folder = root.libraries / "ggml/backends0"  # where it looks for its backends
    status, lines = run(command, environment, folder)
    if status != 0:
        return {}, set(), next((line for line in lines if "does not support" in line), lines[-1])
    taken, found = set(re.findall(r"pipeline stats for (\w+):", "\n".join(lines))), {}
    for variant in VARIANTS:
        status, lines = run(command, {**environment, **listing.PRINT, **variant}, folder)
        if status != 0:
            raise SystemExit(f"peer: {chip.name}: llama-bench failed: {' '.join(lines[-3:])}")
        found |= kernels_of(lines, driver)
    return found, taken, ""


@dataclasses.dataclass(frozen=True)
class Row:
    """The figures of a kernel on a chip."""
    columns: dict  # drivers.columns_of()
    loop: tuple    # (instructions a weight, those of a turn, its weights), or ()
    taken: str     # when its program takes it


def rows_of(driver, found, taken):
    """{kernel: row} of those that were compiled."""
    rows = {}
    for kernel in KERNELS:
        name = kernel.find(found)
        if name is None:
            continue
        statistics, blocks = found[name]
        loop = ()
        if blocks is not None and kernel.loop:
            try:
                loop = listing.per_weight(blocks, *kernel.loop)
            except ValueError as why:
                report.say(f"the loop of {name} is not counted: {why}")
        when = ("--int8-inputs" if kernel.inputs == BYTES else "yes") if kernel.ours else "yes" if name in taken else "if forced"
        rows[kernel] = Row(drivers.columns_of(driver, statistics), loop, when)
    return rows


def chip_text(chip, device, rows, refused):
    head = ("weights", "inputs", "kernel", "instructions a weight", "of a turn", "weights", *drivers.COLUMNS, "taken")
    lines = []
    for kernel, row in rows.items():
        loop = (f"{row.loop[0]:.2f}", str(row.loop[1]), str(row.loop[2])) if row.loop else ("", "", "")
        numbers = [f"{row.columns[name]:.0f}" if name in row.columns else "" for name in drivers.COLUMNS]
        lines.append((kernel.type, kernel.inputs, kernel.label, *loop, *numbers, row.taken))
    return (f"## {chip.name}\n\n{device['name'].strip()}, {device['driver']}; waves and cycles: {drivers.driver_of(device['driver']).meaning}.\n\n"
            f"{report.table(head, lines)}" + (f"\nllama.cpp refuses this device: `{refused}`\n" if refused else ""))


def summary_text(done):
    """Instructions a weight; chips whose loops are not counted are left out."""
    counted = [(chip, rows) for chip, _, rows, _ in done if any(row.loop for row in rows.values())]
    def cells(same):
        found = [next((rows[kernel] for kernel in same if kernel in rows), None) for _, rows in counted]
        return [f"{row.loop[0]:.2f}" if row and row.loop else "" for row in found]
    lines = []
    for (kind, inputs, label), same in itertools.groupby(KERNELS, lambda kernel: (kernel.type, kernel.inputs, kernel.label)):
        if any(numbers := cells(list(same))):
            lines.append((kind, inputs, label, *numbers))
    return report.table(("weights", "inputs", "kernel", *(chip.name for chip, _ in counted)), lines)


HOW = """Nothing was run. Both programs' kernels for one token were compiled by the same drivers: {packages}; commit {commit}.
llama.cpp decoded a token of a model of the shapes of Llama 3.2 1B; "taken": it takes the kernel by itself in that model, or only if forced
(`GGML_VK_FORCE_MMVQ`, `GGML_VK_DISABLE_MMVQ`). Inputs of 8 bits: of ours with `--int8-inputs`.

How instructions a weight were counted: in the driver's listing, which has as many instructions as the driver says the kernel has. Of the loop that
multiplies most, scalar and vector instructions, waits and pauses count alike; they are divided by the weights that a lane multiplies in a turn.
If several loops multiply as much, the shortest is taken: llama.cpp has longer ones for rows or columns that are left over. The weights of a turn are
those of the published shaders, and the multiplications in the listing agree with them; or four for each dot product of bytes. Not counted: what is
before and after the loop, and the rounding of inputs, which is a kernel of its own in llama.cpp and another loop in ours.

What cannot be compared: instructions, registers, waves and cycles are those of whole kernels. llama.cpp's have their loop several times over (rolled
out by 4, by 2 and not at all, and again for rows that are left over; of q4_K twice), so neither their instructions nor the driver's estimate of
cycles are those of a product. Lanes of a subgroup of ours sum as many rows and read the same inputs; in llama.cpp's a workgroup's lanes share one row or
two. So their loads have other widths and reach memory in another way, which no count of instructions shows. IQ2 and IQ1
are IQ2_XXS and IQ1_S in llama.cpp. The loops of Apple M1 are not counted.
"""


def write(done, packages, folder):
    """done: (chip, device, rows, refused) of each."""
    today = report.today_is()
    path = folder / f"{today}-peer.md"
    path.write_text(f"# Beside llama.cpp, {today}\n\n{HOW.format(packages=', '.join(packages), commit=report.commit())}\n## Instructions a weight\n\n"
                    f"{summary_text(done)}\n" + "\n".join(chip_text(*one) for one in done))
    report.keep_newest(path, "peer")
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("chips", nargs="*", metavar="CHIP", help=f"of {', '.join(CHIPS)}; default: all")
    args = parser.parse_args()
    if unknown := [name for name in args.chips if name not in CHIPS]:
        parser.error(f"'{unknown[0]}' is none of {', '.join(CHIPS)}")
    try:
        root = roots.make(roots.cache(), "amd64", roots.PEER)
    except roots.Unavailable as why:
        report.say(f"llama.cpp cannot be had: {why}")
        sys.exit(report.UNAVAILABLE)
    with tempfile.TemporaryDirectory() as work, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        model = next(folder for folder in models.write(pathlib.Path(work)) if folder.name == "llama3.2-1b")
        theirs_model = pathlib.Path(work) / "llama.gguf"
        llama_model.write(theirs_model)

        def one(name):
            chip = drivers.CHIPS[name]
            device, found = compile_ours(chip, args.bin_dir.resolve() / "weft-compilers", root, model)
            more, taken, refused = compile_theirs(chip, root, theirs_model, device["driver"])
            report.say(f"{name}: {len(found)} kernels of ours, " + (refused or f"{len(more)} of llama.cpp's"))
            return chip, device, rows_of(device["driver"], {**found, **more}, taken), refused

        done = list(pool.map(one, args.chips or CHIPS))
    print(write(done, root.packages("llama.cpp-tools", "libggml0-backend", "mesa-vulkan"), report.HERE / "results"))


if __name__ == "__main__":
    main()
