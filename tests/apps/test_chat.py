"""`chat`, with piped input and on a pseudo-terminal."""
import os
import pty
import select
import signal
import subprocess
import time
import unittest

from support import BIN, ENV, FOLDER, TEMPLATE, chatty, model, plain, weft, weft_json


class PipedChat(unittest.TestCase):
    def test_each_line_is_a_turn(self):
        out, err = weft("chat", "-m", chatty(), "-n", 4, "--seed", 1, stdin="hello\n\n/stats\nagain\n/help\n/nonsense\nlast")
        self.assertEqual(err.count("| decode "), 3, err)
        self.assertIn("/reset", err)
        self.assertIn("/nonsense", err)
        self.assertNotIn("> ", out)
        self.assertNotIn("chat template", err)

    def test_set(self):
        """Each /set starts from what the chat began with."""
        def answers(*lines, options=()):
            out, err = weft("chat", "-m", plain(), "-n", 3, "--temperature", 0, *options, stdin="\n".join(lines) + "\n")
            return out.splitlines(), err
        forced = weft_json("generate", "-m", plain(), "--prompt-ids", "1", "-n", 3, "--temperature", 0, "--logit-bias", "77=100")["text"]
        (first, second, third, fourth), err = answers("a", "/set --logit-bias 77=100", "a", "/reset", f"/set --seed 1 --stop {'x' * 300}",
                                                      "/set --top-p 2", "/set -m x", "a", "/reset", "/set", "a")
        self.assertEqual((second, third, fourth), (forced, forced, first))
        self.assertIn("weft: --stop: a stop string has 300 bytes, expected at most 256\n", err)
        self.assertIn("weft: /set: --top-p: must be a number above 0 to 1, not \"2\"", err)
        self.assertIn("weft: /set: ", err.split("--top-p")[1])
        (biased, plain_again), _ = answers("a", "/reset", "/set --logit-bias 77=0", "a", options=("--logit-bias", "77=100"))
        self.assertEqual((biased, plain_again), (forced, first))

    def test_the_earlier_turns_count(self):
        """The second prompt holds the first turn; after /reset it does not."""
        def second_prompt(between):
            _, err = weft("chat", "-m", chatty(), "-n", 1, "--seed", 1, stdin=f"hello there\n{between}x\n/stats\n")
            return int(err.split("context   ")[1].split()[0])
        self.assertGreater(second_prompt(""), second_prompt("/reset\n"))

    def test_without_template(self):
        _, err = weft("chat", "-m", plain(), "-n", 3, stdin="once\nmore\n")
        self.assertEqual(err.count("chat template"), 1, err)

    def test_no_model_named(self):
        """The model that Weft ships chats, and hears the turns before."""
        out, _ = weft("chat", "--temperature", 0, stdin="hello\nset a timer for 10 minutes\nturn it off again\n")
        self.assertTrue(out.startswith("Hello!"), out)
        self.assertIn('{"action":"set_timer","minutes":10}', out)
        self.assertIn('{"action":"cancel_timer"}', out)

    def test_bad_input_costs_a_sentence(self):
        done = subprocess.run([BIN / "weft", "chat", "-m", chatty(), "-n", "2"], input=b"a\xff\nfine\n", env=ENV,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"not UTF-8", done.stderr)
        self.assertEqual(done.stderr.count(b"| decode "), 1)

    def test_full_context_drops_the_oldest(self):
        lines = "".join(f"turn {i} with some words in it\n" for i in range(12))
        _, err = weft("chat", "-m", chatty(), "--ctx", 128, "-n", 4, stdin=lines)
        self.assertIn("oldest turns are forgotten", err)
        self.assertEqual(err.count("| decode "), 12, err)

    def test_too_long_a_message(self):
        _, err = weft("chat", "-m", chatty(), "--ctx", 64, "-n", 2, stdin="x y " * 500 + "\nshort\n")
        self.assertIn("weft: ", err)
        self.assertEqual(err.count("| decode "), 1, err)


class Terminal:
    """weft on a pseudo-terminal."""

    def __init__(self, *argv):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(BIN / "weft", ["weft", *map(str, argv)], ENV)
        self.seen = ""

    def expect(self, text, seconds=60):
        """Waits until text comes; returns and forgets what came up to it."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"no {text!r} within {seconds} s, but {self.seen!r}")
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            if not data:
                raise AssertionError(f"the program ended before {text!r}: {self.seen!r}")
            self.seen += data.decode(errors="replace")
        before, self.seen = self.seen.split(text, 1)
        return before

    def type(self, data):
        os.write(self.fd, data)

    def wait(self, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    os.read(self.fd, 65536)
                except OSError:
                    pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
        raise TimeoutError("the program did not end")

    def close(self):
        if self.pid:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


class InteractiveChat(unittest.TestCase):
    def start(self, *argv):
        chat = Terminal("chat", "-m", model("big.gguf", "--type", "f16", "--chat-template", TEMPLATE, "--context", "4096",
                                            "--layers", "12"), *argv)
        self.addCleanup(chat.close)
        chat.expect("/help lists the commands")
        chat.expect("> ")
        return chat

    def test_perplexity_says_how_far_it_is(self):
        """Within a part too: one may take hours."""
        text = FOLDER / "long text"
        text.write_text("some words " * 400)
        run = Terminal("perplexity", "-m", plain(), "--ctx", 64, "-f", text)
        self.addCleanup(run.close)
        run.expect("\r0.")
        run.expect(" of 1 parts")
        run.expect("tokens predicted")
        self.assertEqual(run.wait(), 0)

    def test_interrupt_stops_the_answer_and_not_the_program(self):
        chat = self.start("-n", 0, "--repeat-penalty", 2)
        for _ in range(8):  # random weights may end an answer by themselves: some try is long enough
            chat.type(b"hello\n")
            chat.expect("hello")
            time.sleep(0.3)
            chat.type(b"\x03")
            before = chat.expect("| decode ")
            chat.expect("> ")
            if "[stopped]" in before:
                break
        else:
            self.fail("no answer could be stopped")
        chat.type(b"/stats\n")
        chat.expect("context ")
        chat.expect("> ")  # a Ctrl-D before the prompt would be the terminal's, not the line editor's
        chat.type(b"\x04")
        self.assertEqual(chat.wait(), 0)

    def test_a_second_interrupt_within_an_answer_leaves(self):
        for _ in range(8):  # the answer may end between the two
            chat = self.start("-n", 0, "--repeat-penalty", 2)
            chat.type(b"hello\n")
            chat.expect("hello")
            time.sleep(0.3)
            for _ in range(2):
                os.kill(chat.pid, signal.SIGINT)
                time.sleep(0.001)  # so that the two do not become one
            try:
                self.assertEqual(chat.wait(5), 130)
                return
            except TimeoutError:
                pass
        self.fail("no second interrupt left")

    def test_two_interrupts_at_the_prompt_leave(self):
        chat = self.start()
        chat.type(b"half a li\x03")
        chat.expect("again or Ctrl-D leaves")
        chat.expect("> ")
        chat.type(b"\x03")
        self.assertEqual(chat.wait(), 0)

    def test_history_is_kept(self):
        chat = self.start("-n", 2)
        chat.type(b"/help\n")
        chat.expect("/reset")
        chat.type(b"/quit\n")
        self.assertEqual(chat.wait(), 0)
        self.assertIn("/help", (FOLDER / "state/weft/history").read_text())
        chat = self.start("-n", 2)
        chat.type(b"\x1b[A\x1b[A\n")  # up, up: /help
        chat.expect("/reset")
        chat.type(b"/quit\n")
        self.assertEqual(chat.wait(), 0)
