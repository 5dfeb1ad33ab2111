"""`chat`, with piped input and on a pseudo-terminal."""
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import textwrap
import time
import unicodedata
import unittest

from support import BIN, ENV, FOLDER, TEMPLATE, chatty, model, plain, thinks, weft, weft_json


class PipedChat(unittest.TestCase):
    def test_each_line_is_a_turn(self):
        out, err = weft("chat", "--lines", "--stats", "-m", chatty(), "-n", 4, "--seed", 1, stdin="hello\n\n/stats\nagain\n/help\n/nonsense\nlast")
        self.assertEqual(err.count("| decode "), 3, err)
        self.assertIn("/reset", err)
        self.assertIn("/nonsense", err)
        self.assertNotIn("> ", out)
        self.assertNotIn("chat template", err)

    def test_set(self):
        """/set changes what it names, shows what is set, and takes all back."""
        def answers(*lines, options=()):
            out, err = weft("chat", "--lines", "-m", plain(), "-n", 3, "--temperature", 0, *options, stdin="\n".join(lines) + "\n")
            return out.splitlines(), err
        forced = weft_json("generate", "-m", plain(), "--prompt-ids", "1", "-n", 3, "--temperature", 0, "--logit-bias", "77=100")["text"]
        (first, second, third, fourth), err = answers("a", "/set --logit-bias 77=100", "a", "/reset", f"/set --seed 1 --stop {'x' * 300}",
                                                      "/set --top-p 2", "/set -m x", "a", "/reset", "/set", "/set default", "a")
        self.assertEqual((second, third, fourth), (forced, forced, first))
        self.assertIn("weft: --stop: a stop string has 300 bytes, expected at most 256\n", err)
        self.assertIn("weft: /set: --top-p: must be a number above 0 to 1, not \"2\"", err)
        self.assertIn("weft: /set: ", err.split("--top-p")[1])
        self.assertIn("--logit-bias         77=100\n", err)
        self.assertRegex(err, r"(?m)^--temperature +0$")
        _, err = answers("/set --top-k 7", "/set --seed 5", "/set", "/set default", "/set")
        shown = [dict(line.split() for line in part.splitlines() if line.startswith("--")) for part in err.split("/set default takes")[:2]]
        self.assertEqual([(one["--top-k"], one["--seed"] == "5", one["--temperature"]) for one in shown], [("7", True, "0"), ("40", False, "0")])
        (biased, plain_again), _ = answers("a", "/reset", "/set --logit-bias 77=0", "a", options=("--logit-bias", "77=100"))
        self.assertEqual((biased, plain_again), (forced, first))

    def test_the_earlier_turns_count(self):
        """The second prompt holds the first turn; after /reset it does not."""
        def second_prompt(between):
            _, err = weft("chat", "--lines", "-m", chatty(), "-n", 1, "--seed", 1, stdin=f"hello there\n{between}x\n/stats\n")
            return int(err.split("context   ")[1].split()[0])
        self.assertGreater(second_prompt(""), second_prompt("/reset\n"))

    def test_without_template(self):
        _, err = weft("chat", "--lines", "-m", plain(), "-n", 3, stdin="once\nmore\n")
        self.assertEqual(err.count("chat template"), 1, err)

    def test_a_template_that_cannot_be_used(self):
        """The fault is named: a fault of the template's text when the chat begins, a fault of a turn after the turn."""
        for number, (template, word) in enumerate((("{% for m in messages %}{{ m.content }}", "'endfor' is missing"), ("{% do x %}", "the tag 'do'"),
                               ("\n{{ 'x }}", "line 2: a string is never closed"), ("{{ x y }}", "expected }} but found 'y'"),
                               ("{% call f %}{% endcall %}", "expected a call"), ("{{ a is b is c }}", "a test follows a test"))):
            broken = model(f"template-broken-{number}.gguf", "--chat-template", template)
            _, err = weft("chat", "-m", broken, "-n", 2, stdin="once\n")
            self.assertIn("This model's chat template cannot be used (", err)
            self.assertIn(word, err)
            self.assertIn("it continues your text", err)
        for number, (template, word) in enumerate((("\n{{ messages[0].content | indent(depth=2) }}", "line 2: the filter 'indent' has no argument 'depth'"),
                               ("{{ messages[0].nothing.more }}", "'nothing' is undefined"), ("{{ messages | nonesuch }}", "the filter 'nonesuch'"),
                               ("{{ messages[0].content.split(1) }}", "'sep', not a string"), ("{{ 1 / 0 }}", "a division by zero"),
                               ("{{ raise_exception('no such turn') }}", "refuses the conversation: no such turn"))):
            failing = model(f"template-failing-{number}.gguf", "--chat-template", template)
            _, err = weft("chat", "-m", failing, "-n", 2, stdin="once\n", expect=1)
            self.assertIn(word, err)

    def test_no_model_named(self):
        """The model that Weft ships chats, and hears the turns before."""
        out, _ = weft("chat", "--lines", "--temperature", 0, stdin="hello\nset a timer for 10 minutes\nturn it off again\n")
        self.assertTrue(out.startswith("Hello!"), out)
        self.assertIn('{"action":"set_timer","minutes":10}', out)
        self.assertIn('{"action":"cancel_timer"}', out)

    def test_bad_input_costs_a_sentence(self):
        done = subprocess.run([BIN / "weft", "chat", "--lines", "--stats", "-m", chatty(), "-n", "2"], input=b"a\xff\nfine\n", env=ENV,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"not UTF-8", done.stderr)
        self.assertEqual(done.stderr.count(b"| decode "), 1)

    def test_full_context_drops_the_oldest(self):
        lines = "".join(f"turn {i} with some words in it\n" for i in range(12))
        _, err = weft("chat", "--lines", "--stats", "-m", chatty(), "--ctx", 128, "-n", 4, stdin=lines)
        self.assertIn("oldest turns are forgotten", err)
        self.assertEqual(err.count("| decode "), 12, err)

    def test_too_long_a_message(self):
        _, err = weft("chat", "--lines", "--stats", "-m", chatty(), "--ctx", 64, "-n", 2, stdin="x y " * 500 + "\nshort\n")
        self.assertIn("weft: ", err)
        self.assertEqual(err.count("| decode "), 1, err)

    def test_commands_of_a_conversation(self):
        """/regenerate, /continue, /edit and /undo do what asking differently would have done."""
        def answers(*lines, options=(), n=4):
            out, err = weft("chat", "--lines", "-m", chatty(), "-n", n, "--temperature", 0, *options, stdin="\n".join(lines) + "\n")
            return out, err
        (one, _), (two, _) = answers("one"), answers("two")
        self.assertNotEqual(one, two)
        self.assertEqual(answers("one", "/regenerate")[0], one + one)
        self.assertEqual(answers("one", "/edit two")[0], one + two)
        self.assertEqual(answers("one", "/edit")[0], one + one)
        self.assertEqual(answers("one", "two", "/undo", "two")[0].splitlines()[2], answers("one", "two")[0].splitlines()[1])
        self.assertEqual(answers("one", "/undo", "two")[0], one + two)
        self.assertIn("Taken back: one\n", answers("one", "/undo")[1])
        # An answer in two halves is the whole answer, and the next turn has it as one.
        long, err = answers("one", n=8)
        self.assertIn("[cut at 8 tokens: /continue goes on]\n", err)
        halves, _ = answers("one", "/continue", n=4)
        self.assertEqual(halves.replace("\n", ""), long.replace("\n", ""))
        self.assertEqual(answers("one", "/continue", "/undo", "two")[0].splitlines()[-1:], two.splitlines())
        for command, sentence in [("/regenerate", "no question to answer anew"), ("/continue", "no answer to continue"), ("/edit", "no question to take"),
                                  ("/undo", "no question to take"), ("/save", "/save needs a file: /save FILE"), ("/load", "/load needs a file: /load FILE"),
                                  ("/image", "/image needs a file"), ("/undo 3", "/undo takes nothing after it"), ("/sav x", "There is no command /sav: did you mean /save? /help"),
                                  ("/qqqqqq", "There is no command /qqqqqq; /help")]:
            self.assertIn(sentence, answers(command)[1], command)
        self.assertEqual(answers("/undo", "one", "/undo", "/undo", "one")[0], one + one)

    def test_continue_after_a_full_context(self):
        """The oldest turns make room."""
        lines = ["a word or two", "and now more of it", "/continue", "/continue", "/stats"]
        out, err = weft("chat", "--lines", "-m", chatty(), "-n", 0, "--temperature", 0, "--repeat-penalty", 1.5, "--ctx", 160, stdin="\n".join(lines))
        self.assertIn("[cut: the context of 160 tokens is full; /continue goes on]", err)
        self.assertIn("the oldest turns are forgotten", err)

    def test_another_model(self):
        out, err = weft("chat", "--lines", "-m", chatty(), "-n", 4, "--temperature", 0, stdin=f"one\n/model {plain()}\ntwo\n/model\n/model no-such\n/set\n")
        self.assertIn("The model is plain on ", err)
        self.assertEqual(err.count("The model is plain on "), 3)
        self.assertIn("no-such", err)
        self.assertEqual(len(out.splitlines()), 2)
        # The conversation goes along.
        def after(*lines):
            _, err = weft("chat", "--lines", "-m", chatty(), "-n", 2, "--temperature", 0, stdin="\n".join([*lines, "/stats\n"]))
            return int(err.split("context   ")[1].split()[0])
        self.assertEqual(after("one", f"/model {chatty()}", "two"), after("one", "two"))


class OneQuestion(unittest.TestCase):
    """weft chat MESSAGE."""
    HELLO = "Hello! What can I do for you?\n"

    def test_the_answer_and_nothing_else(self):
        for argv, stdin in [(["hello"], ""), (["-"], "hello\n"), ([], "hello"), (["-f", "-"], "hello\n"), (["--", "hello"], "")]:
            with self.subTest(argv=argv):
                self.assertEqual(weft("chat", "--temperature", 0, *argv, stdin=stdin), (self.HELLO, ""))
        self.assertEqual(weft("chat", "--temperature", 0, "set", "a", "timer", "for", 10, "minutes")[0].splitlines()[0], "Timer set for 10 minutes.")

    def prompt_tokens(self, *argv, stdin=""):
        _, err = weft("chat", "--stats", "-m", chatty(), "-n", 1, *argv, stdin=stdin)
        return int(re.search(r"prompt (\d+) tok", err)[1])

    def test_a_message_in_brackets(self):
        for text in ("[1, 2, 3]", "[]", "[[a], b]"):
            self.assertEqual(self.prompt_tokens(text), self.prompt_tokens(stdin=text), text)

    def test_stdin_beside_a_message(self):
        """It is not read, and that is said."""
        note = "[stdin is not read: -f - puts it before the message]\n"
        for argv, stdin, said in ((["hello"], "a diff", note), (["hello"], "", ""), (["-f", "-", "hello"], "a diff", "")):
            err = weft("chat", "-m", chatty(), "-n", 8, "--stop", "x", "--temperature", 0, *argv, stdin=stdin)[1]
            self.assertEqual(note if note in err else "", said, (argv, err))

    def test_an_interrupt_is_told_by_the_exit_code(self):
        for _ in range(8):  # the answer may end before
            program = subprocess.Popen([BIN / "weft", "chat", "-m", chatty(), "-n", "0", "--repeat-penalty", "2", "hello"], env=ENV, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            program.stdout.read(1)  # the answer has begun
            program.send_signal(signal.SIGINT)
            _, err = program.communicate(timeout=60)
            if b"[stopped]" in err:
                return self.assertEqual(program.returncode, 130, err)
        self.fail("no answer was stopped")

    def test_files_come_first(self):
        first, second = FOLDER / "first.txt", FOLDER / "second.txt"
        first.write_text("a letter\n")
        second.write_text("and more\n\n")
        want = self.prompt_tokens("a letter\n\nand more\n\nShorten it")
        self.assertEqual(self.prompt_tokens("-f", first, "--file", second, "Shorten it"), want)
        self.assertEqual(self.prompt_tokens("-f", first, "-f", second, "-", stdin="Shorten it\n"), want)
        self.assertEqual(self.prompt_tokens("-f", "-", "-f", second, "Shorten it", stdin="a letter\n"), want)
        self.assertEqual(self.prompt_tokens("-", stdin="a\n\nb\n"), self.prompt_tokens("a\n\nb"))  # one message, not two turns

    def test_refusals(self):
        for place, code, argv, stdin in [("MESSAGE", 2, [""], ""), ("MESSAGE", 2, [], " \n"), ("--lines", 2, ["--lines", "a"], ""),
                                         ("-f no-such", 1, ["-f", "no-such", "a"], ""), ("only 127 fit", 1, ["--ctx", 128, "word " * 300], "")]:
            out, err = weft("chat", "-m", chatty(), *argv, stdin=stdin, expect=code)
            self.assertEqual(out, "")
            self.assertIn(place, err)
        done = subprocess.run([BIN / "weft", "chat", "-m", chatty()], input=b"a\xff", env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"stdin: the text is not UTF-8 at byte 1", done.stderr)

    def test_a_cut_says_so(self):
        _, err = weft("chat", "-m", chatty(), "-n", 2, "--temperature", 0, "hello")
        self.assertEqual(err, "[cut at 2 tokens: --max-tokens allows more]\n")
        _, err = weft("chat", "-m", chatty(), "--max-tokens", 0, "--ctx", 64, "--temperature", 0, "--repeat-penalty", 1.5, "hello")
        self.assertEqual(err, "[cut: the context of 64 tokens is full; --ctx gives more room]\n")
        _, err = weft("chat", "--temperature", 0, "--stop", "can", "hello")
        self.assertEqual(err, "[ended before a text of --stop]\n")

    def test_generate_says_that_it_applies_no_template(self):
        _, err = weft("generate", "-m", chatty(), "-p", "hello", "-n", 2)
        self.assertIn("applies no chat template", err)
        self.assertNotIn("decode", err)
        self.assertEqual(weft("generate", "-m", plain(), "-p", "hello", "-n", 2)[1], "")
        self.assertIn("| decode 2 tok", weft("generate", "-m", plain(), "-p", "hello", "-n", 2, "--stats")[1])


    def test_a_killed_program_has_written_its_pipelines(self):
        folder = FOLDER / "killed"
        running = subprocess.Popen([BIN / "weft", "generate", "-m", plain(), "-p", "hello", "-n", "1000"],
                                   env=dict(ENV, WEFT_CACHE_DIR=str(folder)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.assertTrue(running.stdout.read(20))
        running.send_signal(signal.SIGKILL)
        running.stdout.close()
        self.assertEqual(running.wait(60), -signal.SIGKILL)
        self.assertTrue(list(folder.glob("pipelines-*.bin")), list(folder.iterdir()))


class Terminal:
    """weft on a pseudo-terminal."""

    def __init__(self, *argv, columns=0, **env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            if columns:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            os.execve(BIN / "weft", ["weft", *map(str, argv)], {**ENV, **env})
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


def screen(text, columns):
    """The rows that a terminal shows of what a program has written to it."""
    rows, at = [[]], 0
    for escape, digits, kind, plain in re.findall(r"(\x1b\[(\d*)([A-Za-z]))|([^\x1b])", text):
        row = rows[-1]
        if escape:
            if kind == "K":
                del row[at:]
            elif kind == "G":
                at = int(digits) - 1
        elif plain == "\r":
            at = 0
        elif plain == "\n":
            rows.append([])
        else:
            cells = 2 if unicodedata.east_asian_width(plain) in "WF" else 1
            if at + cells > columns:
                rows.append([])
                row, at = rows[-1], 0
            row.extend([" "] * (at - len(row)))
            row[at:at + cells] = [plain] + [""] * (cells - 1)
            at += cells
    return ["".join(row).rstrip() for row in rows]


class Thinking(unittest.TestCase):
    """weft chat --think. Random weights: a grammar forces what the model says, and a budget ends its reasoning."""

    @staticmethod
    def says(text):
        file = FOLDER / "says.gbnf"
        file.write_text('root ::= "' + text.replace("\n", "\\n").replace('"', '\\"') + '"\n')
        return "--grammar", file

    def test_a_pipe_gets_the_answer(self):
        for text, answer, reasoning in (("<think>\nOh.\n</think>\n\nYes.", "Yes.\n", "Oh.\n"), ("Yes.", "Yes.\n", ""), ("<think>a <b> \n c</think>{\"n\": 1}", '{"n": 1}\n', "a <b> \n c\n")):
            # The prompt ends after closed reasoning: the grammar holds for all.
            self.assertEqual(weft("chat", "-m", thinks(), "--think", "off", *self.says(text), "hello"), (answer, ""))
        for budget in (1, 5):
            out, err = weft("chat", "-m", thinks(), "--think", budget, "--json-schema", self.schema(), "--temperature", 0, "hello")
            self.assertIn(out, ("1234\n", "5678\n"))
            self.assertTrue(err.strip())
        out, err = weft("chat", "-m", thinks(), "--json-schema", self.schema(), "-n", 7, "--seed", 1, "hello")  # it reasons, unasked and unseen
        self.assertEqual((out, err), ("\n", "[cut at 7 tokens: --max-tokens allows more]\n"))
        out, err = weft("chat", "-m", thinks(), "--think", "on", "-n", 7, "--seed", 1, "hello")
        self.assertEqual(out, "\n")
        self.assertTrue(err.split("[cut at 7")[0].strip())

    @staticmethod
    def schema():
        file = FOLDER / "enum.json"
        file.write_text('{"enum": [1234, 5678]}')
        return file

    def test_refusals(self):
        for wrong in ("maybe", "0", "-1", "1.5", ""):
            self.assertIn("--think", weft("chat", "-m", thinks(), f"--think={wrong}", "hello", expect=2)[1])
        self.assertIn("--think changes nothing", weft("chat", "-m", chatty(), "--think", "on", "-n", 2, "hello")[1])

    def test_the_template_gets_it_back(self):
        file = FOLDER / "thought.session"
        file.unlink(missing_ok=True)
        weft("chat", "--lines", "-m", thinks(), "--think", "off", *self.says("<think>Oh dear.</think>Yes."), stdin=f"hello\n/save {file}\n")
        self.assertIn(b'"reasoning_content\\":\\"Oh dear.', file.read_bytes())
        def prompt(*more):
            _, err = weft("chat", "--lines", "--stats", "-m", thinks(), "--think", "off", "-n", 1, *more, stdin="and?\n/stats\n")
            return int(err.split("context   ")[1].split()[0])
        other = FOLDER / "unthought.session"
        other.unlink(missing_ok=True)
        weft("chat", "--lines", "-m", thinks(), "--think", "off", *self.says("Yes."), stdin=f"hello\n/save {other}\n")
        self.assertGreater(prompt("--restore", file), prompt("--restore", other) + 5)

    def test_folded_on_a_terminal(self):
        """Reasoning that nobody asked for is a line with its end, and then its time; a command shows it."""
        text = "One thought, and another, and a third that is longer than a line. "
        chat = Terminal("chat", "-m", thinks(), *self.says("<think>" + text * 3 + "\u6771\u4eac</think>Yes."), "--think", "off", columns=40)
        self.addCleanup(chat.close)
        chat.expect("> ")
        chat.type(b"hello\r")
        before = chat.expect("[thought for ")
        rows = screen(before.split("hello", 1)[1], 40)
        self.assertEqual(len(rows), 2, rows)  # what was typed, and one line
        self.assertIn("thinking: t is longer than a line. \u6771\u4eac", before)
        self.assertEqual(before.count("\x1b[2m"), before.count("\x1b[22m") + 1)
        self.assertIn("Yes.", chat.expect("> "))
        chat.type(b"/thoughts\r")
        said = chat.expect("\x1b[22m")
        self.assertEqual(said.split("\x1b[2m")[1].replace("\r\n", " ").count("One thought,"), 3)
        chat.type(b"/reset\r")
        chat.type(b"/thoughts\r")
        chat.expect("The last answer has no reasoning.")
        chat.type(b"/quit\r")
        self.assertEqual(chat.wait(), 0)
        for env, escapes in (({"NO_COLOR": "1"}, True), ({"TERM": "dumb"}, False)):
            quiet = Terminal("chat", "-m", thinks(), *self.says("<think>Oh.</think>Yes."), "--think", "off", "hello", columns=40, **env)
            self.addCleanup(quiet.close)
            said = quiet.expect("Yes.")
            self.assertRegex(said, r"\[thought for \d+ s\]")
            self.assertNotIn("\x1b[2m", said)
            self.assertEqual("thinking: Oh.\x1b[K" in said, escapes)
            self.assertEqual("\x1b" in said, escapes)

    def test_on_a_terminal(self):
        """The reasoning that was asked for is dimmed there, before the answer; a continued answer goes on within it."""
        chat = Terminal("chat", "-m", thinks(), "--think", "6", "--json-schema", self.schema(), "-n", 3, "--temperature", 0)
        self.addCleanup(chat.close)
        chat.expect("> ")
        chat.type(b"hello\r")
        chat.expect("\x1b[2m")
        chat.expect("\x1b[22m")
        chat.expect("[cut at 3 tokens")
        chat.type(b"/continue\r")
        chat.expect("\x1b[2m")
        chat.expect("\x1b[22m")
        chat.expect("[cut at 3 tokens")
        chat.type(b"/continue\r")
        said = chat.expect("[cut at 3 tokens")
        self.assertNotIn("\x1b[2m", said)
        self.assertRegex(said, "(123|567)")
        chat.type(b"/quit\r")
        self.assertEqual(chat.wait(), 0)


class OnATerminal(unittest.TestCase):
    """How an answer looks there. A grammar forces what the model says."""

    def shown(self, text, columns):
        one = Terminal("chat", "-m", thinks(), "--think", "off", *Thinking.says(text), "hello", columns=columns)
        self.addCleanup(one.close)
        said = ""
        while True:
            try:
                data = os.read(one.fd, 65536)
            except OSError:  # the program has ended
                break
            if not data:
                break
            said += data.decode()
        self.assertEqual(one.wait(), 0)
        return said

    def test_lines_break_between_words(self):
        text = ("It was a bright cold day in April, and the clocks were striking thirteen; incomprehensibility "
                "of some kind.\n\n- a list, whose items are long enough for two lines")
        for columns in (20, 23, 40, 200):
            rows = screen(self.shown(text, columns), columns)
            want = [row for line in text.split("\n") for row in textwrap.wrap(line, columns) or [""]]
            self.assertEqual([row for row in rows if row], [row for row in want if row], columns)

    def test_wide_characters_and_words_longer_than_a_line(self):
        text = "\u6771\u4eac\u306f\u65e5\u672c\u306e\u9996\u90fd\u3067\u3059 " + "x" * 45 + " end"
        rows = screen(self.shown(text, 20), 20)
        self.assertEqual("".join(rows).replace(" ", ""), text.replace(" ", ""))
        for row in rows:
            self.assertLessEqual(sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in row), 20)

    def test_control_characters_are_shown(self):
        said = self.shown("a\x1b[2Jb\x07c", 80)
        self.assertIn("a^[[2Jb^Gc", said)
        self.assertNotIn("\x1b[2J", said)

    def test_a_pipe_gets_the_text_as_it_is(self):
        text = "word " * 60 + "\x1b[1mend"
        self.assertEqual(weft("chat", "-m", thinks(), "--think", "off", *Thinking.says(text), "hello"), (text + "\n", ""))


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
        run.expect("\rscoring [")
        run.expect("%")
        run.expect("tokens predicted")
        self.assertEqual(run.wait(), 0)

    def test_interrupt_stops_the_answer_and_not_the_program(self):
        chat = self.start("-n", 0, "--repeat-penalty", 2)
        for _ in range(8):  # random weights may end an answer by themselves: some try is long enough
            chat.type(b"hello\n")
            chat.expect("hello")
            time.sleep(0.3)
            chat.type(b"\x03")
            before = chat.expect("\n\x1b[?2004h> ")
            if "[stopped: /continue goes on]" in before:
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


class LineEditor(unittest.TestCase):
    """Messages of several lines, completion and resizes, on a pseudo-terminal."""
    PROMPT = "\x1b[?2004h> "

    def start(self):
        shutil.rmtree(FOLDER / "state", ignore_errors=True)
        chat = Terminal("chat", "-n", 4, "--temperature", 0)
        self.addCleanup(chat.close)
        chat.expect("pocket on ")
        chat.expect(self.PROMPT)
        return chat

    def history(self, chat):
        """Leaves; returns the messages and commands that were typed."""
        chat.expect(self.PROMPT)
        chat.type(b"\x04")
        self.assertEqual(chat.wait(), 0)
        lines = (FOLDER / "state/weft/history").read_text().splitlines()[1:]
        return [re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), line) for line in lines]

    def test_several_lines_are_one_message(self):
        for typed, message in [(b"\x1b[200~one\r  two\n\nthree\r\x1b[201~\r", "one\n  two\n\nthree"), (b"a\x1b[200~b\x07\x1b[201~c\n", "abc"),
                               (b"one\x1b\rtwo\x1b\nthree\n", "one\ntwo\nthree"), (b"one\\\ntwo\\\nthree\n", "one\ntwo\nthree"),
                               (b'"""one\ntwo\\\n"three"\n"""\n', 'one\ntwo\\\n"three"'), (b'"""one"""\n', "one"), ("h\u00e4\u20ac\U0001f600\n".encode(), "hä€😀")]:
            with self.subTest(typed=typed):
                chat = self.start()
                chat.type(typed)
                chat.expect("[")  # what ends the answer
                chat.type(b"/quit\n")
                self.assertEqual(chat.wait(), 0)
                lines = (FOLDER / "state/weft/history").read_text().splitlines()
                self.assertEqual(lines[2:], ["/quit"])
                self.assertEqual(re.sub(rb"\\(\d{3})", lambda octal: bytes([int(octal[1], 8)]), lines[1].encode()).decode(), message)

    def test_commands_and_files_are_completed(self):
        (FOLDER / "complete").mkdir(exist_ok=True)
        (FOLDER / "complete/saved.session").write_text("")
        chat = self.start()
        chat.type(b"/reg\t")
        chat.expect("enerate")
        chat.type(b"\x15/s\t")
        chat.expect("/save\r\n/set\r\n/stats\r\n")
        chat.type(f"\x15/load {FOLDER}/comp\tsa\t\n".encode())
        chat.expect("complete/saved.session: ")
        chat.type(b"/set --top\t\t")
        chat.expect("--top-k\r\n--top-p\r\n")
        chat.type(b"k\t7\n/set\n")
        chat.expect("--top-k              7")

    def test_edit_puts_the_question_in_the_prompt(self):
        chat = self.start()
        chat.type(b"one\x1b\rtwo\n")
        chat.expect(self.PROMPT)
        chat.type(b"/edit\n")
        chat.expect("one\r\ntwo")
        chat.type(b" more\n")
        chat.expect("[cut at 4")
        self.assertEqual(self.history(chat), ["one\ntwo", "/edit", "one\ntwo more"])

    def test_a_resize_draws_the_line_again(self):
        chat = self.start()
        text = "a line that is wider than the narrow terminal that it will be shown on"
        fcntl.ioctl(chat.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        chat.expect("\r\x1b[J")
        chat.type(text.encode())
        chat.expect("shown on")
        fcntl.ioctl(chat.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 20, 0, 0))
        chat.expect(f"\r\x1b[{(len(text) + 2) // 20}A\x1b[J")  # up to the prompt's row
        drawn = chat.expect("shown on")
        self.assertIn("> a line", drawn)
        fcntl.ioctl(chat.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        chat.expect("\r\x1b[J")
        chat.expect("> " + text)
        chat.type(b"!\n")
        chat.expect("[cut at 4")
        self.assertEqual(self.history(chat), [text + "!"])
