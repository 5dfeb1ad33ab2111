"""Tables of a kit's measurements (apps/kit/measure.py): `./run bench-report --kit weft-kit.json`."""
import json
import pathlib
import re
import sys

import report

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "kit"))
import measure


def steps_of(result, beginning):
    """(rest of the name, step) of the steps whose names begin so and that ended well."""
    return [(step["name"][len(beginning):], step) for step in result["steps"] if step["name"].startswith(beginning) and step.get("exit") == 0]


def failures_of(run):
    """(test, text, count) of a run's failures. Kits before 2026-11-28 wrote them as strings, one for each time."""
    for one in run.get("failed", []):
        if isinstance(one, str):
            test, _, text = one.partition(": ")
            yield test, text, 1
        else:
            yield one["test"], one["text"], one["count"]


def state_of(runs):
    """Remark about a program's runs that did not end; "" if all did."""
    late = [run for run in runs if run["exit"] == "no time"]
    cut = [run for run in runs if run["exit"] != "no time" and not run.get("ended", "tests" in run)]
    codes = sorted({str(run["exit"]) for run in runs if run["exit"] not in (0, 1, "no time", "timeout")})
    inside = sorted({run["running"] for run in cut if run.get("running")})
    parts = [f"{len(cut)} of {len(runs)} runs did not end{', in ' + ', '.join(inside) if inside else ''}"] if cut else []
    parts += [f"{len(late)} of {len(runs)} had no time"] if late else []
    return "; ".join(parts + [f"exit {code}" for code in codes])


def tests_text(result):
    runs = [run for step in result["steps"] if step["name"] == "tests" for run in step["result"]]
    if not runs:
        return "No tests ran.\n"
    programs, places = {}, {}
    for run in runs:
        programs.setdefault((run["plan"], run["program"]), []).append(run)
        for test, text, count in failures_of(run):
            place, *rest = text.splitlines() or [""]
            entry = places.setdefault((test, place), {"count": 0, "text": ""})
            entry["count"] += count
            if not entry["text"] or measure.error_of("\n".join(rest)) > measure.error_of(entry["text"]):
                entry["text"] = "\n".join(rest)
    text = report.table(("program", "plan", "tests", "skipped", "failed", "seconds", ""),
                        [(program, plan, sum(run.get("tests", 0) for run in of), sum(run.get("skipped", 0) for run in of),
                          len({test for run in of for test, _, _ in failures_of(run)}), max(run["seconds"] for run in of), state_of(of))
                         for (plan, program), of in sorted(programs.items())])
    for (test, place), entry in sorted(places.items()):
        lines = [line for line in entry["text"].splitlines() if line != "Google Test trace:"]
        times = f", {entry['count']} times, the worst" if entry["count"] > 1 else ""
        text += f"\n- {test}, {place.replace('../', '')}{times}" + (f": `{' / '.join(lines)[:300].replace('`', chr(39))}`" if lines else "")
    return text + ("\n" if places else "")


def first_token_text(result):
    rows = [(name, report.number(step["result"].get("load_s")), report.number(step["result"].get("first_token_s", 0) * 1e3 or None, 1), step["seconds"])
            for name, step in steps_of(result, "first token, ")]
    rows += [(f"whole process, {name}", "", "", step["seconds"]) for name, step in steps_of(result, "whole process, ")]
    return report.table(("run", "load, s", "first token, ms", "whole program, s"), rows) if rows else ""


def peer_text(result):
    """Ratios of runs with the same file: (prompt, decode) of llama-bench are the tests with n_prompt and n_gen."""
    peers = {name: {kind: next((test["avg_ts"] for test in step["result"] if test[kind] > 0), None) for kind in ("n_prompt", "n_gen")}
             for name, step in steps_of(result, "llama.cpp, ")}
    on_cpu = [name for name, step in steps_of(result, "llama.cpp, ") if any("Vulkan" not in test.get("backends", "Vulkan") for test in step["result"])]
    rows = []
    for name, step in steps_of(result, "weft, ") if peers else ():
        ours, theirs = step["result"], peers.get(name, {})
        for what, speed, kind in (("prompt", ours["prompt_tokens_per_s"], "n_prompt"), ("decoding", ours["decode_tokens_per_s"], "n_gen")):
            other = theirs.get(kind)
            rows.append((name, what, report.number(speed, 1), report.number(other, 1), report.number(speed / other) if other else ""))
    text = report.table(("model", "", "weft tokens/s", "llama.cpp tokens/s", "ratio"), rows) if rows else ""
    return text + (f"\nllama.cpp found no GPU and computed on the CPU: {', '.join(on_cpu)}.\n" if on_cpu else "")


def other_text(result):
    rows = []
    for name in ("not tuned", "without cooperative matrices", "8-bit inputs", "16 sessions", "default sampling"):
        for _, step in steps_of(result, name):
            value = step["result"]
            rows.append((name, report.number(value["prompt_tokens_per_s"], 1),
                         report.number(value.get("batch", value)["decode_tokens_per_s"], 1)))
    text = report.table(("run", "prompt tokens/s", "decode tokens/s"), rows) if rows else ""
    rows = [(one["position"], report.number(one["device_seconds"] * 1e3), one["dispatches"], report.number(sum(
        stage["seconds"] for stage in one["stages"] if stage["name"].startswith("attend")) * 1e3))
            for _, step in steps_of(result, "contexts") for one in step["result"].get("at", [])]
    return text + ("\n" * bool(text) + report.table(("position", "ms on the device", "dispatches", "ms of attention"), rows) if rows else "")


def tune_text(result):
    """The choices of `weft tune`, and how long a pass took with each value."""
    text = ""
    for _, step in steps_of(result, "tune"):
        rows = [(trial["name"], trial["value"], trial["refusal"] or report.number(trial["seconds"] * 1e6 or None, 1),
                 "chosen" if step["result"]["chosen"].get(trial["name"]) == trial["value"] else "") for trial in step["result"]["trials"]]
        text += report.table(("setting", "value", "us", ""), rows)
    return text


def driver_text(result):
    """How the driver was found, if the loader alone did not find a GPU; and a warning if there is none."""
    text = ""
    for _, step in steps_of(result, "vulkan drivers"):
        found = step.get("result")
        if found and found["chosen"]:
            text += f"\nThe Vulkan loader alone found no such device: all programs used the driver `{found['chosen']}`.\n"
        elif found and len(found["tries"]) > 1:
            rows = [(one["file"], ", ".join(one["devices"]) or "none", one.get("problem", "")) for one in found["tries"]]
            text += "\nNo driver led to a GPU:\n\n" + report.table(("driver", "devices", "its library"), rows)
    devices = next((step["result"]["devices"] for _, step in steps_of(result, "devices")), [])
    if devices and all(device.get("kind") == "cpu" for device in devices):
        text += "\n**Only a CPU's driver was found. No time here says anything about a GPU.**\n"
    return text


def render(result):
    devices = next((step["result"]["devices"] for _, step in steps_of(result, "devices")), [])
    problems = [(step["name"], step.get("left_out") or step["exit"], (step.get("errors") or "").strip().splitlines()[-1:] or [""])
                for step in result["steps"] if step["name"] != "tests" and (step.get("left_out") or step["exit"] != 0)]
    models = [{"shape": name.split()[0], "type": name.split()[1], "result": step["result"]} for name, step in steps_of(result, "weft, ")]
    micro = {name: {"context": {key: step["result"]["context"][key] for key in ("read GB/s", "empty dispatch us")},
                    "runs": [{**run, "name": run["name"].removesuffix("/manual_time")} for run in step["result"]["benchmarks"]]}
             for begin in ("microbenchmarks, ", "heads, ") for name, step in steps_of(result, begin)}
    names = ", ".join(f"{device['name']} ({device['driver']}{' ' + device['driver_version'] if device.get('driver_version') else ''})"
                      for device in devices) or "no device"
    parts = [f"# {names}, {result['date'][:10]}\n\n{result['machine']['system']}, {result['machine']['cores']} cores; commit {result['commit']}"
             f"{'; --quick: the figures say only that it runs' if result['quick'] else ''}\n{driver_text(result)}", f"## Tests\n\n{tests_text(result)}"]
    for title, text in (("The first token", first_token_text(result)), ("Beside llama.cpp", peer_text(result)), ("Settings", other_text(result)),
                        ("Tuning", tune_text(result)), ("Models of random weights", report.models_text(models) if models else ""),
                        ("Operations", report.microbench_text(micro).lstrip())):
        if text:
            parts.append(f"## {title}\n\n{text}")
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
