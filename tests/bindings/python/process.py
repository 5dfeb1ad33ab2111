"""A guest in the host's process: forks, threads that end with the program, signals."""
import unittest

from common import run_script

FORK = """
import gc, multiprocessing, os, signal, sys, weft
{before}
child = os.fork()
if child == 0:
    signal.alarm(100)
    {child}
    os._exit(0)
status = os.waitpid(child, 0)[1]
assert status == 0, status
{after}
print("end")
"""
LOADED = "model = weft.Model(); session = model.session(temperature=0)"
BEGUN = LOADED + '; loop = iter(session.generate("hello", ignore_stop_tokens=True)); next(loop)'
GOES_ON = 'print(session.chat("hello").text())'


class Forks(unittest.TestCase):
    def child(self, child, before=LOADED, after=GOES_ON):
        said = run_script(FORK.format(before=before, child=child, after=after))
        self.assertEqual(said, "Hello! What can I do for you?\nend\n" if after else "end\n")

    def test_the_child_ends(self):
        self.child("sys.exit()")
        self.child("del session, model; gc.collect()")
        self.child("session.close(); model.close(); sys.exit()")
        self.child("raise SystemExit(0)", "keep = []; " + LOADED + "; keep.append(keep); keep.append(session); del session, model", after="")

    def test_amid_a_generation(self):
        stopped = "loop.close(); " + GOES_ON
        self.child("sys.exit()", BEGUN, stopped)
        self.child("loop.close(); session.close(); model.close()", BEGUN, stopped)
        self.child("del loop, session, model; gc.collect(); sys.exit()", BEGUN, stopped)

    def test_what_was_made_before_is_refused(self):
        refused = """
    for use in (lambda: session.generate("hello", max_tokens=3).text(), lambda: model.tokenize("hello"), model.session,
                lambda: session.save("/nowhere"), lambda: session.set_duty(1)):
        try:
            use()
        except RuntimeError as error:
            assert "forked" in str(error), error
        else:
            os._exit(1)
"""
        self.child(refused.strip("\n ") + "\n    sys.exit()")
        self.child("""
    try:
        weft.Model()
    except weft.WeftError as error:
        assert error.code == "WEFT_NO_DEVICE" and "forked" in str(error), error
    else:
        os._exit(1)
""".strip("\n "))

    def test_a_child_may_be_the_first(self):
        self.child('assert weft.Model().session(temperature=0).chat("hello").text()', before="", after="")

    def test_multiprocessing(self):
        self.child("pass", LOADED, """
def nothing(): pass
worker = multiprocessing.get_context("fork").Process(target=nothing)
worker.start()
worker.join(100)
assert worker.exitcode == 0, worker.exitcode
""" + GOES_ON)


class Ends(unittest.TestCase):
    def ends(self, work, wait="time.sleep(0.3)"):
        script = f"""
import threading, time, weft
model = weft.Model()
def work():
{work}
threading.Thread(target=work, daemon=True).start()
{wait}
print("end")
"""
        for _ in range(3):
            self.assertEqual(run_script(script), "end\n")

    def test_a_daemon_thread_that_generates(self):
        self.ends("""
    session = model.session(temperature=0)
    while True:
        for token in session.generate("Once upon a time", max_tokens=200, ignore_stop_tokens=True): pass
""")
        self.ends("""
    sessions = [model.session(temperature=0) for _ in range(2)]
    while True:
        for session in sessions: session.chat("hello").text()
""", "time.sleep(0.5)")

    def test_a_daemon_thread_that_loads(self):
        self.ends("""
    while True: weft.Model(progress=lambda done: None).close()
""")

    def test_a_call_that_begins_as_the_interpreter_ends(self):
        self.ends("""
    start = threading.Thread.start
    def slow_start(thread):
        time.sleep(0.5)
        start(thread)
    threading.Thread.start = slow_start
    while True: weft.Model(progress=lambda done: None).close()
""", "time.sleep(0.1)")

    def test_a_daemon_thread_that_reads_a_prompt(self):
        self.ends("""
    session = model.session(temperature=0, prompt_progress=lambda done, all: None)
    while True:
        session.generate("Once upon a time. " * 60 + str(time.time()), max_tokens=1).text()
""")

    def test_a_daemon_thread_that_begins_a_session(self):
        self.ends("""
    while True: model.session(temperature=0).close()
""")


class Signals(unittest.TestCase):
    def test_they_are_the_main_threads(self):
        said = run_script("""
import os, signal, time, weft
session = weft.Model().session(temperature=0)
loop = iter(session.generate("hello", ignore_stop_tokens=True))
next(loop)
mine = {signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGALRM, signal.SIGINT}
before = signal.pthread_sigmask(signal.SIG_BLOCK, mine)
assert not mine & before, before
for number in mine:
    os.kill(os.getpid(), number)
    assert signal.sigtimedwait({number}, 5).si_signo == number
loop.close()
print("end")
""")
        self.assertEqual(said, "end\n")
