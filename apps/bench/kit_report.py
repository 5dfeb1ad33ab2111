"""Tables of a kit's measurements (apps/kit/measure.py): `./run bench-report --kit weft-kit.json`."""
import json
import re

import report


def steps_of(result, beginning):
    """(rest of the name, step) of the steps whose names begin so and that ended well."""
    return [(step["name"][len(beginning):], step) for step in result["steps"] if step["name"].startswith(beginning) and step.get("exit") == 0]


def tests_text(result):
    runs = [run for step in result["steps"] if step["name"] == "tests" for run in step["result"]]
    if not runs:
        return "No tests ran.\n"
    rows = {}
    for run in runs:
        row = rows.setdefault((run["program"], run["plan"]), {"tests": 0, "skipped": 0, "failed": [], "seconds": 0.0, "ended": True})
        row["tests"] += run.get("tests", 0)
        row["skipped"] += run.get("skipped", 0)
        row["failed"] += run.get("failed", [])
        row["seconds"] = max(row["seconds"], run["seconds"])
        row["ended"] &= "tests" in run
    text = report.table(("program", "plan", "tests", "skipped", "failed", "seconds", ""),
                        [(program, plan, row["tests"], row["skipped"], len(row["failed"]), row["seconds"], "" if row["ended"] else "did not end")
                         for (program, plan), row in sorted(rows.items())])
    failures = [failure for row in rows.values() for failure in row["failed"]]
    return text + "".join(f"\n- {failure.splitlines()[0]}" for failure in failures) + ("\n" if failures else "")


def first_token_text(result):
    rows = [(name, report.number(step["result"].get("first_token_s", 0) * 1e3 or None, 1), step["seconds"]) for name, step in steps_of(result, "first token, ")]
    rows += [(f"whole process, {name}", "", step["seconds"]) for name, step in steps_of(result, "whole process, ")]
    return report.table(("run", "first token, ms", "whole program, s"), rows)


def peer_text(result):
    """Ratios of runs with the same file: (prompt, decode) of llama-bench are the tests with n_prompt and n_gen."""
    peers = {name: {kind: next((test["avg_ts"] for test in step["result"] if test[kind] > 0), None) for kind in ("n_prompt", "n_gen")}
             for name, step in steps_of(result, "llama.cpp, ")}
    rows = []
    for name, step in steps_of(result, "weft, "):
        ours, theirs = step["result"], peers.get(name, {})
        for what, speed, kind in (("prompt", ours["prompt_tokens_per_s"], "n_prompt"), ("decoding", ours["decode_tokens_per_s"], "n_gen")):
            other = theirs.get(kind)
            rows.append((name, what, report.number(speed, 1), report.number(other, 1), report.number(speed / other) if other else ""))
    return report.table(("model", "", "weft tokens/s", "llama.cpp tokens/s", "ratio"), rows)


def other_text(result):
    rows = []
    for name in ("not tuned", "without cooperative matrices", "8-bit inputs", "16 sessions", "contexts"):
        for _, step in steps_of(result, name):
            value = step["result"]
            rows.append((name, report.number(value["prompt_tokens_per_s"], 1), report.number(value["decode_tokens_per_s"], 1)))
    return report.table(("run", "prompt tokens/s", "decode tokens/s"), rows)


def render(result):
    devices = next((step["result"]["devices"] for _, step in steps_of(result, "devices")), [])
    problems = [(step["name"], step.get("left_out") or step["exit"], (step.get("errors") or "").strip().splitlines()[-1:] or [""])
                for step in result["steps"] if step["name"] != "tests" and (step.get("left_out") or step["exit"] != 0)]
    models = [{"shape": name.split()[0], "type": name.split()[1], "result": step["result"]} for name, step in steps_of(result, "weft, ")]
    micro = {name: {"context": {key: step["result"]["context"][key] for key in ("read GB/s", "empty dispatch us")},
                    "runs": [{**run, "name": run["name"].removesuffix("/manual_time")} for run in step["result"]["benchmarks"]]}
             for begin in ("microbenchmarks, ", "heads, ") for name, step in steps_of(result, begin)}
    names = ", ".join(f"{device['name']} ({device['driver']})" for device in devices) or "no device"
    parts = [f"# {names}, {result['date'][:10]}\n\n{result['machine']['system']}, {result['machine']['cores']} cores; commit {result['commit']}"
             f"{'; --quick: the figures say only that it runs' if result['quick'] else ''}\n",
             f"## Tests\n\n{tests_text(result)}", f"## The first token\n\n{first_token_text(result)}", f"## Beside llama.cpp\n\n{peer_text(result)}",
             f"## Settings\n\n{other_text(result)}", f"## Models of random weights\n\n{report.models_text(models)}", f"## Operations\n{report.microbench_text(micro)}"]
    if problems:
        parts.append("## Steps that did not end well\n\n" + report.table(("step", "exit", "last line"), [(name, code, lines[0]) for name, code, lines in problems]))
    return "\n".join(parts)


def write(path, out):
    """Writes OUT/DATE-DEVICE.md and .json; returns the former."""
    result = json.loads(path.read_text())
    text = render(result)
    devices = next((step["result"]["devices"] for _, step in steps_of(result, "devices")), None)
    device = devices[0]["name"] if devices else "no-device"
    begin = result["date"][:10] + "-kit-" + re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")[:40].strip("-")
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{begin}.json").write_text(json.dumps(result, indent=1) + "\n")
    (out / f"{begin}.md").write_text(text)
    return out / f"{begin}.md"
