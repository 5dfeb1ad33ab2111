#!/usr/bin/env python3
"""`weft serve` under load: one line for each number of clients; beside Debian sid's llama-server if asked.

serving.py BIN_DIR [--model NAME] [--clients 1 4 16 64] [--seconds 30] [--rounds 3] [--prompts MIN MAX] [--llama vulkan cpu]

Each client streams one answer after another to prompts of its own, and breaks off at the end of the time. Prompts are short, or with --prompts
of random words, MIN to MAX of them. Figures are the medians of the rounds. --llama: the same from llama-server with its Vulkan backend and with
its CPU backend, in turns with ours, all on sid's Mesa (lavapipe), whose packages are fetched once and unpacked (apps/compilers/root.py); nothing
is installed. Prints tables as docs/notes/serving.md has them. Exit code 77: the packages are not available.
"""
import argparse
import contextlib
import datetime
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
import llama
from root import Unavailable

TEMPLATE = 100  # tokens that a chat template and the answer's marks may take
MOST_SESSIONS = 64  # of `weft serve`; more clients wait in its queue
WORDS = "the cat dog tree house water man day way time year work life world hand part place case point number group problem fact".split()  # a token each


def percentile(values, share):
    return sorted(values)[min(int(share * len(values)), len(values) - 1)] if values else float("nan")


class Client(threading.Thread):
    """Asks until the time is over. Counts the events with text: a token each, unless a token is a part of a character."""

    def __init__(self, port, number, until, tokens, answers, prompts):
        super().__init__(daemon=True)
        self.port, self.number, self.until, self.most, self.answers, self.prompts = port, number, until, tokens, answers, prompts
        self.chance = random.Random(number)
        self.tokens, self.firsts, self.gaps, self.problem = 0, [], [], None

    def run(self):
        try:
            asked = 0
            while time.monotonic() < self.until and asked < self.answers:
                asked += 1
                self.ask(self.prompt(asked))
        except Exception as problem:  # told at the end
            self.problem = problem

    def prompt(self, asked):
        if self.prompts:
            return " ".join(self.chance.choices(WORDS, k=self.chance.randint(*self.prompts)))
        return f"This is question {asked} of client {self.number}. Tell me a story about {self.number + asked} cats."

    def ask(self, text):
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": self.most, "stream": True, "temperature": 0.8, "seed": self.number}
        begin = last = time.monotonic()
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        with contextlib.closing(client):
            client.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            client.sock.settimeout(max(self.until - begin, 0.01))
            try:
                answer = client.getresponse()
                assert answer.status == 200, answer.read()
                first = True
                while (line := answer.readline()) and line != b"data: [DONE]\n":
                    if not line.startswith(b"data: "):
                        continue
                    event = json.loads(line[6:])
                    assert "error" not in event, event
                    now = time.monotonic()
                    if now > self.until:
                        return
                    if event["choices"] and event["choices"][0]["delta"].get("content"):
                        (self.firsts if first else self.gaps).append(now - (begin if first else last))
                        first, last = False, now
                        self.tokens += 1
                        client.sock.settimeout(max(self.until - now, 0.01))
                assert line, "the stream has no end"
            except TimeoutError:
                assert time.monotonic() >= self.until, "the server was silent"


class Server:
    """A process on a port, as a context manager, that answers when it is made."""

    def __init__(self, name, command, environment, port, cwd=None):
        self.name, self.port = name, port
        self.process = subprocess.Popen([*map(str, command)], env=environment, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(3000):
            if self.process.poll() is not None:
                raise SystemExit(f"serving: {name} has ended: {' '.join(map(str, command))}")
            with contextlib.suppress(OSError):
                client = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                client.request("GET", "/health")
                if client.getresponse().status == 200:
                    return
            time.sleep(0.1)
        raise SystemExit(f"serving: {name} does not answer")

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.process.terminate()
        self.process.wait()

    def resident(self):
        """MiB."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s*(\d+)", status)[1]) / 1024


def load(server, count, seconds, tokens, answers=sys.maxsize, prompts=None):
    """One round: the figures of the table."""
    until = time.monotonic() + seconds
    clients = [Client(server.port, number, until, tokens, answers, prompts) for number in range(count)]
    for client in clients:
        client.start()
    resident = [server.resident()]  # one a second
    while any(client.is_alive() for client in clients):
        time.sleep(1)
        resident.append(server.resident())
    for client in clients:
        if client.problem:
            raise client.problem
    tenth = -(-len(resident) // 10)
    counts = [client.tokens for client in clients]
    firsts = [value for client in clients for value in client.firsts]
    gaps = [1000 * value for client in clients for value in client.gaps]
    return [sum(counts) / seconds, percentile(firsts, 0.5), percentile(firsts, 0.99), percentile(gaps, 0.5), percentile(gaps, 0.99),
            min(counts) / max(statistics.mean(counts), 1e-9), statistics.mean(resident[:tenth]), statistics.mean(resident[-tenth:])]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def context_of(arguments):
    return 512 if not arguments.prompts else -(-(arguments.prompts[1] + arguments.tokens + TEMPLATE) // 256) * 256


def servers(arguments, stack):
    """Our server and the others that are wanted, all in the stack, and the packages of the others."""
    most, context = max(arguments.clients), context_of(arguments)
    sessions = min(most, MOST_SESSIONS)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("VK_") or key == "VK_DRIVER_FILES"}
    port = free_port()
    ours = [arguments.bin / "weft", "serve", "--port", port, "--sessions", sessions, "--queue", most, "--ctx", context]
    ours += ["-m", arguments.model] if arguments.model != "pocket" else []
    if not arguments.llama:
        return [stack.enter_context(Server("weft", ours, environment, port))], []
    peer = llama.make()
    started = [stack.enter_context(Server("weft", peer.command(*ours), peer.environment, port))]
    for backend in arguments.llama:
        port = free_port()
        devices = ["-dev", "Vulkan0", "-ngl", "99"] if backend == "vulkan" else ["-dev", "none", "-ngl", "0"]
        theirs = [peer.bin / "llama-server", "--port", port, "-m", llama.model_file(arguments.model), "-np", sessions, "-c", sessions * context, *devices,
                  "-fit", "off", "-cram", "0", "--no-webui"]
        started.append(stack.enter_context(Server(f"llama-server, {backend}", peer.command(*theirs), peer.environment, port, peer.backends)))
    return started, peer.packages


def measure(arguments, started, packages):
    """Prints the tables. Servers take turns within each round."""
    about = f"{datetime.date.today()}, {arguments.model}, {os.cpu_count()} CPUs, {arguments.rounds} rounds of {arguments.seconds:g} s"
    about += f", prompts of {arguments.prompts[0]} to {arguments.prompts[1]} words" if arguments.prompts else ""
    print(", ".join([about, *packages]), end="\n\n")
    print("| clients | server | tokens/s | first token p50, p99 (s) | gap p50, p99 (ms) | slowest/mean | resident, first and last tenth (MiB) |")
    print("|---|---|---|---|---|---|---|")
    for server in started:
        load(server, 1, 600, arguments.tokens, answers=1)  # drivers compile
    for count in arguments.clients:
        rounds = {server.name: [] for server in started}
        for server in started:  # other kernels for more clients
            load(server, count, 100, 4, answers=1)
        for _ in range(arguments.rounds):
            for server in started:
                rounds[server.name].append(load(server, count, arguments.seconds, arguments.tokens, prompts=arguments.prompts))
        for name, figures in rounds.items():
            rate, first, first99, gap, gap99, fair, before, after = map(statistics.median, zip(*figures))
            print(f"| {count} | {name} | {rate:.1f} | {first:.2f}, {first99:.2f} | {gap:.0f}, {gap99:.0f} | {fair:.2f} | {before:.0f}, {after:.0f} |", flush=True)
        ours, *others = rounds.items()
        for name, figures in others:
            pairs = list(zip(ours[1], figures))
            if all(theirs[0] for _, theirs in pairs):
                rate = statistics.median(our[0] / their[0] for our, their in pairs)
                gap = statistics.median(our[4] / their[4] for our, their in pairs)
                print(f"| {count} | weft / {name} | {rate:.2f} | | p99: {gap:.2f} | | |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin", type=pathlib.Path, help="the folder of the programs")
    parser.add_argument("--model", default="smollm2", help="a name of ./run model, or pocket")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--seconds", type=float, default=30, help="of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=48, help="of an answer, at most")
    parser.add_argument("--prompts", type=int, nargs=2, metavar=("MIN", "MAX"), help="words of a prompt, about a token each")
    parser.add_argument("--llama", nargs="+", choices=["vulkan", "cpu"], default=[], help="beside llama-server with these backends")
    arguments = parser.parse_args()
    arguments.bin = arguments.bin.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the servers end with this program
    with contextlib.ExitStack() as stack:
        try:
            started, packages = servers(arguments, stack)
        except Unavailable as problem:
            print(f"NOTICE: llama-server is not available: {problem}")
            return 77
        measure(arguments, started, packages)
    return 0


if __name__ == "__main__":
    sys.exit(main())
