#!/usr/bin/env python3
"""Tests and measures Weft on this machine's GPU. It is part of a kit that `./run kit` packs, and needs nothing but Python and a driver.

measure.py [--part a|b|all] [--minutes 10] [--quick] [--device NAME] [--out FOLDER]

Part a: does Weft compute what it should on this driver, how soon is the first token there, what do dispatches and products cost? Part b:
tokens a second, by turns with llama.cpp if the kit has it, at several contexts, with sampling, with each head. Models have the shapes of real
ones and random weights, and are made on the spot in memory (/dev/shm) or beside the kit.

Writes FOLDER/weft-kit.json (default: the present folder), after each step anew: a run that is killed loses nothing but its last step.
`apps/bench/report.py --kit weft-kit.json` makes tables of it. Exit code: 1 if a test failed, or a step or test program did not end well.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

KIT = pathlib.Path(__file__).resolve().parent
# Test programs and into how many processes each is cut. The order is by value: a slow device ends only the first ones in time.
SHARDS = {"forward": 2, "session": 2, "batch": 2, "head": 2, "families": 4, "tiles": 2, "types": 1, "pocket": 1, "draft": 1, "tuning": 1, "gpu": 1,
          "long_context": 1, "ops": 16, "vocab": 6}
# Programs with a test for each combination of their settings run once more with the plan of AMD's and NVK's GPUs.
AS_GPU = ("forward", "session", "batch", "head", "families", "tiles", "ops", "vocab")
TEST_PROGRAMS = tuple(SHARDS)
# Folders of drivers' files. The Vulkan loader does not look into all of them.
DRIVER_FOLDERS = ("/usr/local/*/share/vulkan/icd.d", "/usr/local/*/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/opt/*/share/vulkan/icd.d",
                  "/opt/*/vulkan/icd.d", "/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d")


def output_of(*command):
    """Output of a program of this machine; "" if there is no such program."""
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace").stdout
    except OSError:
        return ""


def kill_group(process):
    """Ends a process and its children, which would disturb what is timed next."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Kit:
    def __init__(self, args):
        self.out = args.out / "weft-kit.json"
        self.end = time.monotonic() + args.minutes * 60
        self.quick = args.quick
        self.has_part_b = args.part == "all"
        beside = KIT.parent if os.access(KIT.parent, os.W_OK) else None  # None: the temporary folder
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="weft-kit-work-", dir=beside))
        shm = pathlib.Path("/dev/shm")
        roomy = shm.is_dir() and shutil.disk_usage(shm).free > 12e9
        self.models = pathlib.Path(tempfile.mkdtemp(prefix="weft-kit-", dir=shm if roomy else self.work))
        # Libraries that this machine lacks: the Vulkan loader, and those of X11, without which NVIDIA's driver does not load.
        self.loader = self.work / "loader"
        self.loader.mkdir()
        known = output_of("/sbin/ldconfig", "-p")
        for library in (KIT / "loader").glob("*.so.*"):
            if library.name not in known:
                (self.loader / library.name).symlink_to(library)
        libraries = [str(KIT / "lib"), str(self.loader), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries), "WEFT_CACHE_DIR": str(self.work / "cache"),
                            "WEFT_SOURCE": str(KIT / "source")}
        self.device = args.device
        if args.device:
            self.environment["WEFT_DEVICE"] = args.device
        self.result = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "commit": (KIT / "commit").read_text(),
                       "machine": {"system": platform.platform(), "processor": platform.processor(), "cores": os.cpu_count()},
                       "quick": args.quick, "steps": []}
        self.lock = threading.RLock()  # of result
        self.running = set()
        self.models_made = {}  # path: future
        self.maker = concurrent.futures.ThreadPoolExecutor(1)

    def save(self):
        with self.lock:
            new = self.out.with_suffix(".new")
            new.write_text(json.dumps(self.result, indent=1) + "\n")
            os.replace(new, self.out)

    def add(self, entry):
        with self.lock:
            self.result["steps"].append(entry)
            self.save()

    def left(self):
        return self.end - time.monotonic()

    def stop(self):
        """Ends all programs; none begins after this."""
        self.end = 0
        for process in list(self.running):
            kill_group(process)

    def close(self):
        self.stop()
        self.maker.shutdown()
        shutil.rmtree(self.models, ignore_errors=True)
        shutil.rmtree(self.work, ignore_errors=True)

    def run(self, command, limit, environment, errors=subprocess.PIPE):
        """Runs a command for at most limit seconds, with all its children: (exit code or "timeout", output, errors)."""
        try:
            process = subprocess.Popen([*map(str, command)], env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace",
                                       cwd=self.work, start_new_session=True)
        except OSError as problem:
            return "not started", "", str(problem)
        self.running.add(process)
        try:
            output, text = process.communicate(timeout=max(min(limit, self.left()), 0))
            return process.returncode, output, text or ""
        except subprocess.TimeoutExpired:
            kill_group(process)
            try:
                output, text = process.communicate(timeout=5)
            except subprocess.TimeoutExpired as problem:  # a driver does not let it end
                output, text = ((part or b"").decode(errors="replace") for part in (problem.stdout, problem.stderr))
            return "timeout", output, text or ""
        finally:
            self.running.discard(process)

    def step(self, name, limit, command, parse=None, **environment):
        """Runs a command for at most limit seconds and keeps what it printed: JSON if parse is json.loads. Returns that, or None."""
        entry = {"name": name}
        if min(limit, self.left()) < 1:
            self.add({**entry, "left_out": "no time"})
            return None
        begin = time.monotonic()
        entry["exit"], output, errors = self.run(command, limit, {**self.environment, **environment})
        entry["seconds"] = round(time.monotonic() - begin, 2)
        value = None
        if entry["exit"] == 0 and parse:
            try:
                value = entry["result"] = parse(output)
            except (ValueError, KeyError) as problem:
                entry["exit"] = f"unreadable: {problem}"
        if value is None and output:
            entry["output"] = output[-4000:]
        if entry["exit"] != 0:
            entry["errors"] = errors[-2000:]
        print(f"{name}: {entry['exit'] if entry['exit'] != 0 else 'done'}, {entry['seconds']} s", file=sys.stderr, flush=True)
        self.add(entry)
        return value

    def bin(self, name):
        return KIT / "bin" / name

    def make_model(self, path, shape, kind):
        part = path.with_suffix(".part")
        if self.step(f"model, {shape} {kind}", 120, [self.bin("weft-make-model"), part, "--shape", shape, "--type", kind],
                     lambda _: part.stat().st_size) is not None:
            part.rename(path)
        elif part.exists():
            part.unlink()

    def prepare(self, shape, kind):
        """Begins to make a model file in another thread, unless it was begun: (path, future)."""
        path = self.models / f"{shape}-{kind}.gguf"
        with self.lock:
            if path not in self.models_made:
                self.models_made[path] = self.maker.submit(self.make_model, path, shape, kind)
        return path, self.models_made[path]

    def model(self, shape, kind):
        """Path of a model file, when it is there. If it could not be made, its step says why, and so do all that need it."""
        path, made = self.prepare(shape, kind)
        made.result()
        return path

    def wait_for_models(self):
        concurrent.futures.wait(self.models_made.values())

    def bench(self, name, limit, model, *options, **environment):
        return self.step(name, limit, [self.bin("weft"), "bench", "-m", model, *options, "--json"], json.loads, **environment)

    def microbench(self, name, limit, shape, pattern):
        least = 0.001 if self.quick else 0.02
        return self.step(name, limit, [self.bin("weft-microbench"), f"--weft_model={shape}", f"--benchmark_filter={pattern}",
                                       f"--benchmark_min_time={least}", "--benchmark_format=json"], lambda text: json.loads(text[text.index("{"):]))


NUMBER = re.compile(r"\d+(\.\d+)?(e[-+]?\d+)?")
ERROR = re.compile(r"(?:actual: | is )(\S+?)(?: vs |, which exceeds)")


def error_of(text):
    """Size of the error that a failure of Google Test states, to find the largest one."""
    try:
        value = abs(float(ERROR.search(text).group(1)))
        return value if value == value else float("inf")
    except (AttributeError, ValueError):
        return 0.0


def merged(failures, most=40):
    """One entry for the failures of a test, (test, text), that differ in nothing but numbers: its text is that of the largest error."""
    kept = {}
    for test, text in failures:
        place, _, rest = text[:400].partition("\n")
        entry = kept.setdefault((test, place, NUMBER.sub("0", rest)), {"test": test, "text": text[:400], "count": 0})
        entry["count"] += 1
        if error_of(text) > error_of(entry["text"]):
            entry["text"] = text[:400]
    return list(kept.values())[:most]


def read_output(output):
    """Reads a Google Test program's incomplete output: how many tests ended, their failures as merged() gives them, the test that was running."""
    counts, failures, running, text = {"OK": 0, "SKIPPED": 0, "FAILED": 0}, [], "", None
    for line in output.splitlines():
        mark = re.match(r"\[ +(RUN|OK|SKIPPED|FAILED) +\] (\S+)", line)
        if mark and mark.group(1) == "RUN":
            running, before = mark.group(2), len(failures)
        elif mark and running and mark.group(2).rstrip(",") == running:  # the list at the end names failed tests again
            counts[mark.group(1)] += 1
            if mark.group(1) == "FAILED" and len(failures) == before:
                failures.append((running, ["failed"]))
            running = ""
        if line.endswith(": Failure"):
            text = [line[:-len(": Failure")]]
            failures.append((running, text))
        elif not line or line.startswith("["):
            text = None
        elif text is not None:
            text.append(line)
    return {"tests": sum(counts.values()), "skipped": counts["SKIPPED"], "failed": merged([(test, "\n".join(lines)) for test, lines in failures]),
            "running": running}


def one_test(kit, program, plan, index, count, limit):
    """Runs a shard of a test program; returns its counts and failures."""
    entry = {"program": program, "plan": plan or "driver", "shard": index, "exit": "no time", "seconds": 0.0, "ended": False, "tests": 0, "failed": []}
    if limit < 2:
        return entry
    report = kit.work / f"{program}-{plan}-{index}.json"
    environment = {**kit.environment, "GTEST_TOTAL_SHARDS": str(count), "GTEST_SHARD_INDEX": str(index)}
    if plan:
        environment["WEFT_TEST_PLAN"] = plan
    # The figures of pocket and the statistics of long texts say nothing of a driver; real models are not here.
    command = [kit.bin(f"{program}_test"), f"--gtest_output=json:{report}", "--gtest_filter=-*RealModel*"]
    begin = time.monotonic()
    entry["exit"], output, errors = kit.run(command, limit, environment, subprocess.STDOUT)
    entry["seconds"] = round(time.monotonic() - begin, 1)
    try:
        tests = json.loads(report.read_text())
    except (OSError, ValueError):  # crashed, or too slow
        return {**entry, **read_output(output), "last": (output + errors)[-600:]}
    cases = [(suite["name"], case) for suite in tests["testsuites"] for case in suite["testsuite"]]
    return {**entry, "ended": True, "tests": tests["tests"], "skipped": sum(case.get("result") == "SKIPPED" for _, case in cases),
            "failed": merged([(f"{name}.{case['name']}", problem["failure"]) for name, case in cases for problem in case.get("failures", [])])}


def test_jobs(quick):
    """(program, plan, shard, shards) of all runs, the most valuable first: the device's own plan, then AMD's and NVK's."""
    programs = [(name, plan) for plan, names in (("", TEST_PROGRAMS), ("gpu", AS_GPU)) for name in names]
    if quick:  # one test of each program or a few
        return [(name, plan, 0, 30) for name, plan in programs]
    return [(name, plan, index, SHARDS[name]) for name, plan in programs for index in range(SHARDS[name])]


def processes(cores):
    """How many test programs run at once. A GPU gives each a slice of its time, so that with many of them none ends."""
    return max(2, min(8, cores - 2))


def run_tests(kit, limit):
    """All test programs, several at once: they are not timed."""
    jobs = test_jobs(kit.quick)
    end = time.monotonic() + min(limit, kit.left())
    entry = {"name": "tests", "exit": 0, "result": []}
    kit.add(entry)
    with concurrent.futures.ThreadPoolExecutor(processes(os.cpu_count())) as pool:
        waiting = [pool.submit(lambda job: one_test(kit, *job, min(end - time.monotonic(), kit.left())), job) for job in jobs]
        for one in concurrent.futures.as_completed(waiting):
            with kit.lock:
                entry["result"].append(one.result())
                kit.save()
    late = [run for run in entry["result"] if run["exit"] == "no time"]
    bad = [run for run in entry["result"] if run["exit"] not in (0, "no time") or run["failed"]]
    entry["exit"] = 1 if bad else 0
    count = sum(run["tests"] for run in entry["result"])
    print(f"tests: {count} in {len(jobs)} runs; {len(bad)} runs failed or did not end, {len(late)} had no time", file=sys.stderr, flush=True)
    for run in bad:
        state = "" if run["ended"] else f", {run['tests']} tests ended, in {run['running'] or 'none'}"
        print(f"  {run['program']} ({run['plan']}): exit {run['exit']}{state}", file=sys.stderr)
        for failure in run["failed"][:3]:
            print(f"    {failure['test']}, {failure['count']} times: {failure['text']}", file=sys.stderr)
    kit.save()
    return not bad


def driver_files(folders=DRIVER_FOLDERS):
    """The drivers' files in these folders (patterns), each once."""
    files = {}
    for pattern in folders:
        for file in sorted(pathlib.Path("/").glob(pattern.lstrip("/") + "/*.json")):
            files.setdefault(file.resolve(), file)
    return list(files.values())


def library_of(kit, file):
    """A driver's library, and why it does not load ("" if it does)."""
    try:
        name = json.loads(file.read_text())["ICD"]["library_path"]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        return {"library": "", "problem": f"unreadable: {problem}"}
    path = str(file.parent / name) if "/" in name else name
    code, _, errors = kit.run([sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])", path], 20, kit.environment)
    return {"library": path, "problem": "" if code == 0 else f"exit {code}: {(errors.strip().splitlines() or [''])[-1][-300:]}"}


def find_driver(kit, folders=DRIVER_FOLDERS):
    """Chooses the Vulkan driver for all programs: the loader's choice, unless only another driver's file leads to a GPU.

    The step `vulkan drivers` keeps what was tried.
    """
    begin = time.monotonic()
    tries = []

    def leads_to_a_gpu(file, variables):
        """Whether the device that the caller named, or any GPU, is usable."""
        code, output, errors = kit.run([kit.bin("weft"), "devices", "--json"], 20, {**kit.environment, "VK_LOADER_DEBUG": "error,warn", **variables})
        try:
            devices = json.loads(output)["devices"]
        except (ValueError, KeyError):
            devices = []
        tries.append({"file": str(file or "") or "the loader's choice", "exit": code, "devices": [f"{one['name']} ({one['kind']})" for one in devices],
                      **(library_of(kit, file) if file else {}), "errors": errors[-1500:]})
        if kit.device:
            wanted = [one for one in devices if kit.device.lower() in one["name"].lower() or kit.device == str(one["index"])]
        else:
            wanted = [one for one in devices if one["kind"] != "cpu"]
        return any(one["usable"] for one in wanted)

    chosen = None
    if not leads_to_a_gpu(None, {}):
        for file in driver_files(folders):
            variables = {"VK_DRIVER_FILES": str(file), "VK_ICD_FILENAMES": str(file)}
            if leads_to_a_gpu(file, variables):
                chosen = str(file)
                kit.environment.update(variables)
                print(f"kit: all programs use the driver {chosen}; the loader alone finds no such device", file=sys.stderr, flush=True)
                break
    libraries = [line.strip() for line in output_of("/sbin/ldconfig", "-p").splitlines() if "libvulkan" in line]
    kit.add({"name": "vulkan drivers", "exit": 0, "seconds": round(time.monotonic() - begin, 2), "result": {
        "chosen": chosen, "loader": libraries or ["the kit's"], "lent": sorted(file.name for file in kit.loader.iterdir()), "tries": tries}})


def find_devices(kit, folders=DRIVER_FOLDERS):
    """Finds the devices that Weft can use; says so if there is no GPU among them."""
    if shutil.which("nvidia-smi"):
        kit.step("nvidia-smi", 20, ["nvidia-smi"])
    find_driver(kit, folders)
    found = kit.step("devices", 30, [kit.bin("weft"), "devices", "--json"], json.loads)
    kit.devices = [device for device in (found or {}).get("devices", []) if device["usable"]]
    if not kit.devices:
        print(f"kit: Weft can use no Vulkan device here; the step `vulkan drivers` in {kit.out} says why", file=sys.stderr, flush=True)
    elif all(device["kind"] == "cpu" for device in kit.devices):
        print(f"kit: ONLY A CPU'S DRIVER was found, {kit.devices[0]['name']}: no time says anything about a GPU; the step `vulkan drivers` in {kit.out} "
              "says what was tried", file=sys.stderr, flush=True)
    return bool(kit.devices)


def first_tokens(kit, model):
    """The first run compiles all kernels, the later ones find them in Weft's cache and the driver's."""
    for name in ("cold", "warm 1", "warm 2"):
        kit.bench(f"first token, {name}", 120, model, "-p", 16, "-n", 8, "--repeat", 1)
    pocket = KIT / "source/apps/pocket/pocket.gguf"
    for name in ("cold", "warm"):
        kit.step(f"whole process, {name}", 60, [kit.bin("weft"), "generate", "-m", pocket, "-p", "hello", "-n", 1, "--temperature", 0],
                 WEFT_CACHE_DIR=str(kit.work / "process-cache"))


def part_a(kit):
    first_tokens(kit, kit.model("tiny" if kit.quick else "135m", "q8_0"))
    if kit.has_part_b:  # beside the tests, because they are not timed
        for shape, kind in shapes_of_b(kit):
            kit.prepare(shape, kind)
    good = run_tests(kit, kit.left() / 2)
    kit.wait_for_models()
    kit.microbench("microbenchmarks, 135m", 60, "smollm-135m", "^norm/" if kit.quick else "^(read|matmul|project|gather|attend|norm|filter|sample|advance)/")
    kit.step("tune", 60, [kit.bin("weft"), "tune", "--json"], json.loads)
    return good


def shapes_of_b(kit):
    return [("tiny", "q8_0")] if kit.quick else [("135m", "q8_0"), ("1b", "q4_1"), ("8b", "q4_1"), ("1b", "q8_0"), ("135m", "q4_1")]


def device_index(kit, name):
    """Index of the device that Weft uses, whose name a result of `weft bench` says. llama.cpp counts as Weft does: in the loader's order."""
    for used in (lambda device: str(device["index"]) == kit.device, lambda device: device["name"] == name):
        for device in filter(used, kit.devices):
            return str(device["index"])
    return "0"


def beside_peer(kit, name, model, prompt, tokens):
    """Weft, then llama.cpp, with the same file: their ratio is what counts."""
    repeat = 1 if kit.quick else 3
    ours = kit.bench(f"weft, {name}", 60, model, "-p", prompt, "-n", tokens, "--repeat", repeat, "--profile")
    peer = KIT / "peer"
    if peer.is_dir():
        libraries = ":".join([str(peer / "lib"), "/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu", str(kit.loader)])
        command = [peer / "ld-linux-x86-64.so.2", "--library-path", libraries, peer / "llama-bench", "-ngl", 99, "-fa", 1, "-p", prompt, "-n", tokens,
                   "-r", repeat, "-o", "json", "-m", model]
        kit.step(f"llama.cpp, {name}", 60, ["sh", "-c", f"cd {peer / 'backends'} && exec \"$@\"", "sh", *command], json.loads,
                 GGML_VK_VISIBLE_DEVICES=device_index(kit, (ours or {}).get("device")))


def part_b(kit):
    shapes = shapes_of_b(kit)
    prompt, tokens = (16, 8) if kit.quick else (512, 128)
    for shape, kind in shapes:
        beside_peer(kit, f"{shape} {kind}", kit.model(shape, kind), prompt, tokens)
    main = kit.model(*(shapes[0] if kit.quick else ("1b", "q4_1")))
    kit.bench("not tuned", 30, main, "-p", prompt, "-n", tokens, "--repeat", 1, WEFT_TUNE="0")
    kit.bench("without cooperative matrices", 30, main, "-p", prompt, "-n", 16, "--repeat", 1, WEFT_DISABLE="matrices")
    if any(device["caps"]["int8_dot_fast"] for device in kit.devices):
        kit.bench("8-bit inputs", 30, main, "-p", prompt, "-n", 16, "--repeat", 1, "--int8-inputs")
    kit.bench("contexts", 60, main, "-p", 16, "-n", 8, "--repeat", 1, "--at", "100" if kit.quick else "100,1000,4000")
    kit.step("default sampling", 30, [kit.bin("weft"), "generate", "-m", main, "-p", "hello", "-n", tokens, "--temperature", 0.8, "--top-k", 40,
                                      "--top-p", 0.95, "--json"], json.loads)
    kit.bench("16 sessions", 60, main, "-p", 64, "-n", 16 if kit.quick else 64, "--repeat", 1, "--sessions", 16)
    for shape in () if kit.quick else ("gemma3-270m", "llama3.2-1b"):
        kit.microbench(f"heads, {shape}", 60, shape, "^(head/.*/q8|filter/|sample/|project/.*/q8)")
    if not kit.quick:
        kit.microbench("microbenchmarks, 1b", 60, "llama3.2-1b", "^(matmul|attend)/")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=("a", "b", "all"), default="all")
    parser.add_argument("--minutes", type=float, default=10, help="no step begins after so many minutes, and none goes on")
    parser.add_argument("--quick", action="store_true", help="a little of everything: shows that the kit works, measures nothing")
    parser.add_argument("--device", help="WEFT_DEVICE for all programs: index or part of the name")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path.cwd())
    args = parser.parse_args()
    args.out = args.out.resolve()
    kit = Kit(args)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: (kit.stop(), sys.exit(128 + number)))
    try:
        if not find_devices(kit):
            return 1
        kit.step("report", 60, [kit.bin("weft"), "devices", "--report"], json.loads)  # proves the kernels, which all later steps would do first
        good = all([part(kit) for name, part in (("a", part_a), ("b", part_b)) if args.part in (name, "all")])
    finally:
        kit.close()
    failed = [step["name"] for step in kit.result["steps"] if step.get("exit", 0) != 0]
    print(f"{kit.out}: {len(kit.result['steps'])} steps, {len(failed)} failed{': ' + ', '.join(failed) if failed else ''}")
    return 0 if good and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
