"""Reads the listings that Mesa's drivers print of the kernels that they compile: blocks of instructions, loops, and the instructions of a loop for each weight.

A driver prints a listing to stderr before vkCreateComputePipelines returns, if the environment asks for it (PRINT).
"""
import re

# Environment that makes the drivers print, one variable for each driver. Listings of Honeykrisp are not read.
PRINT = {"RADV_DEBUG": "asm,cs", "NAK_DEBUG": "print", "IR3_SHADER_DEBUG": "cs,disasm"}
BEGIN = re.compile(r"^disasm:|^NAK IR after calc_instr_deps|Native code for ")  # of a listing

# Multiplications of floats, and dot products of four bytes, as the three drivers call them.
MULTIPLIES = re.compile(r"\bv_(?:fma|fmac|mac|mad|mul)\w*_f(?:16|32)|\bf(?:fma|mul)\b|\b(?:mad|mul)\.f")
DOTS = re.compile(r"\bv_dot4|\bidp4")


def amd(lines):
    """{block: (instructions, blocks that may follow)}, the first block first."""
    blocks, order = {}, []
    for line in lines:
        text = line.split(";")[0].strip()
        if label := re.fullmatch(r"(BB\d+):", text):
            # The driver counts first and aligns the block then: `s_nop 0`, "(then repeated 6 times)".
            while order and blocks[order[-1]] and re.match(r"s_nop 0$|\(then", blocks[order[-1]][-1]):
                blocks[order[-1]].pop()
            order.append(label[1])
            blocks[label[1]] = []
        elif order and line.startswith("\t"):
            blocks[order[-1]].append(text)
    return linked(blocks, order, r"s_c?branch\S* +(BB\d+)", r"s_branch |s_endpgm")


def nvidia(lines):
    blocks, current = {}, None
    for line in lines:
        if head := re.match(r"block\S* (\d+) ", line):
            current = head[1]
            blocks[current] = ([], [])
        elif tail := re.match(r"\} -> \[(.*)\]", line):
            blocks[current][1].extend(re.findall(r"\d+", tail[1]))
            current = None
        elif current and line.strip():
            blocks[current][0].append(line.split("//")[0].strip())
    return blocks


def adreno(lines):
    """Counts as the driver does: without the preamble, which runs once for many; repetitions and pauses are instructions."""
    blocks, order = {"start": []}, ["start"]
    for line in lines:
        text = line.removeprefix("MESA: info: ").strip()
        if label := re.fullmatch(r"(l\d+):", text):
            order.append(label[1])
            blocks[label[1]] = []
        elif text and not re.match(r"[;:@]|Native code", text):
            times = {kind: int(number) for kind, number in re.findall(r"\((rpt|nop)(\d+)\)", text)}
            blocks[order[-1]] += [text] * (1 + times.get("rpt", 0)) + ["nop"] * times.get("nop", 0)
            if text.endswith("shpe"):
                blocks, order = {"start": []}, ["start"]
            elif "#l" in text:
                order.append(f"after {len(order)}")
                blocks[order[-1]] = []
            elif re.fullmatch(r"(?:\(\w+\))*end", text):
                break
    return linked(blocks, order, r".*#(l\d+)", r"(?:\(\w+\))*(?:jump |end)")


def linked(blocks, order, branch, end):
    """branch: matches an instruction that may go to a block, its group; end: one that nothing follows."""
    result = {}
    for block, following in zip(order, [*order[1:], None]):
        to = [found[1] for found in (re.match(branch, text) for text in blocks[block]) if found]
        if following and not any(re.match(end, text) for text in blocks[block]):
            to.append(following)
        result[block] = (blocks[block], to)
    return result


# By the beginning of the name that a driver gives itself.
READERS = {"radv": amd, "NVK": nvidia, "turnip": adreno}


def loops(blocks):
    """The outermost loops, each as its blocks: the first one first, where its turns begin."""
    found = []
    reached = {block: reached_from(blocks, block) for block in blocks}
    for block in blocks:
        if block in reached[block] and not any(block in loop for loop in found):
            found.append({other: blocks[other] for other in blocks if other == block or (other in reached[block] and block in reached[other])})
    return found


def reached_from(blocks, block):
    seen, todo = set(), [block]
    while todo:
        new = {to for to in blocks[todo.pop()][1] if to in blocks} - seen
        seen |= new
        todo.extend(new)
    return seen


def loops_in(loop):
    first = next(iter(loop))
    return loops({block: (code, [to for to in follow if to != first]) for block, (code, follow) in loop.items()})


def size(blocks):
    return sum(len(code) for code, _ in blocks.values())


def count(blocks, pattern):
    return sum(bool(pattern.search(text)) for code, _ in blocks.values() for text in code)


def products(blocks):
    return count(blocks, MULTIPLIES) + 4 * count(blocks, DOTS)


def busiest(found):
    """The shortest of the loops that multiply most: a kernel may have another one for the remaining rows or columns."""
    return max(found, key=lambda loop: (products(loop), -size(loop)), default={})


def per_weight(blocks, weights, multiplications, around=0):
    """(instructions a weight, those of a turn of the loop, its weights), of the loop that multiplies most. weights: of a turn; 0: four for each dot
    product of bytes. multiplications: that a turn has about, so that a loop of other weights is not taken for it. around: the weights of a turn of
    a loop around that one, whose other instructions are then counted too. Throws ValueError if there is no such loop."""
    outer = loop = busiest(loops(blocks))
    for _ in blocks:  # no deeper than there are blocks
        inner = busiest(loops_in(loop)) if loop else {}
        if products(inner) <= products(loop) / 2:
            break
        outer, loop = loop, inner
    multiplied, dots = count(loop, MULTIPLIES), count(loop, DOTS)
    if not (dots == 0 and multiplications / 1.4 < multiplied < multiplications * 1.4 if weights else dots > 0):
        raise ValueError(f"the loop that multiplies most has {multiplied} multiplications and {dots} dot products of bytes")
    rest = (size(outer) - size(loop)) / around if around else 0
    weights = weights or 4 * dots
    return size(loop) / weights + rest, size(loop), weights
