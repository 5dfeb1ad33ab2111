"""README.md, docs/*.md and docs/notes/*.md as tests read them: code blocks, links and headings.

Code blocks are fenced. `sh` is a script; `console` holds commands after "$ " and the output that they must have, where [...]
stands for any text, and for any number of lines if it is alone on a line. Other languages are not run. Comments before a block:

    <!-- not run: REASON -->    the block is not run
    <!-- real model: NAME -->   the block is run if `./run model NAME` has downloaded the model
    <!-- file: NAME -->         the block is the file NAME of the page's folder
"""
import dataclasses
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTES = sorted((ROOT / "docs/notes").glob("*.md"))  # what was measured
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *NOTES]


@dataclasses.dataclass
class Block:
    place: str  # PAGE:LINE
    language: str
    text: str
    not_run: str  # the reason; empty: it runs
    file: str  # its name; empty: it is none
    real_model: str  # that it needs; empty: none


def blocks(page):
    """The code blocks of a page, in order. Indented ones are refused, because nothing says what they are."""
    result, comment, fence, text = [], "", None, []
    lines = page.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        place = f"{page.name}:{number}"
        if fence:
            if line.strip() == "```":
                result.append(dataclasses.replace(fence, text="\n".join(text) + "\n"))
                fence, comment = None, ""
            else:
                text.append(line)
        elif line.startswith("```"):
            key, _, value = comment.partition(": ")
            assert not comment or key in ("not run", "file", "real model") and value, f"{place}: the comment is no reason and no name"
            values = [value if key == one else "" for one in ("not run", "file", "real model")]
            fence = Block(place, line[3:].strip(), "", *values)
            text = []
        else:
            assert not (line.startswith("    ") and lines[number - 2] == ""), f"{place}: the code block has no fence"
            found = re.fullmatch(r"<!-- (.*) -->", line)
            comment = found[1] if found else comment if line == "" else ""
    assert fence is None, f"{page.name}: the last code block has no end"
    return result


def prose(page):
    """The text without its code blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)


def links(page):
    """Targets of links that are not on the web."""
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)) if not re.match(r"https?:", target)]


def anchors(page):
    """The part after '#' of a link to a heading, as GitHub makes it."""
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", prose(page), re.M)]


def shell(command, folder, env, place):
    """Runs a command and returns its stdout and stderr together. It must succeed."""
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=folder, env=env, timeout=600, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = done.stdout.decode(errors="replace")
    assert done.returncode == 0, f"{place}: {command}\nexit {done.returncode}\n{output}"
    assert not any(word in output for word in ("VUID-", "SYNC-HAZARD")), f"{place}: {command}\n{output}"
    return output


def check_output(expected, output, place):
    lines = [re.escape(" ".join(line.split())).replace(re.escape("[...]"), ".*") + "\n" for line in expected]
    pattern = "".join("(?:.*\n)*" if line == ".*\n" else line for line in lines)
    got = "".join(" ".join(line.split()) + "\n" for line in output.splitlines())
    assert re.fullmatch(pattern, got), f"{place}: expected\n" + "\n".join(expected) + f"\ngot\n{output}"


def run(page, folder, env, real_model=lambda name: None):
    """Writes the page's files to the folder and runs its scripts and commands there. Returns how many blocks ran.

    real_model(name): None if the model is not there.
    """
    count = 0
    for block in blocks(page):
        if block.file:
            (folder / block.file).write_text(block.text)
        if block.not_run or block.language not in ("sh", "console") or block.real_model and not real_model(block.real_model):
            continue
        count += 1
        if block.language == "sh":
            shell(block.text, folder, env, block.place)
            continue
        first, *commands = ("\n" + block.text).split("\n$ ")
        assert not first.strip() and commands, f"{block.place}: it does not begin with a command"
        for text in commands:
            command, *expected = text.rstrip("\n").split("\n")
            check_output(expected, shell(command, folder, env, block.place), f"{block.place}: {command}")
    return count
