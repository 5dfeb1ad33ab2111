"""weft listen: recordings of all kinds, with a tiny random model of tests/tools/whisper_goldens.py."""
import array
import json
import math
import os
import pty
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import unittest

from support import BIN, ENV, FOLDER, ROOT, plain, weft
from test_chat import Terminal

sys.path.insert(0, str(ROOT / "tests/tools"))
import ggml_whisper

MODEL = ROOT / "tests/model/golden_whisper/speech"
RATE = 16000


def whistle(rate=RATE, seconds=3):
    return [0.3 * math.sin(2 * math.pi * (300 + 150 * i / rate) * i / rate) for i in range(rate * seconds)]


def wav(samples, rate=RATE, bits=16, channels=1, real=False):
    """A WAV file of integers of some bits, or of floats; every channel has the samples."""
    data = bytearray()
    for sample in samples:
        if real:
            one = struct.pack("<f" if bits == 32 else "<d", sample)
        elif bits == 8:
            one = bytes([128 + round(sample * 127)])
        else:
            one = round(sample * (2**(bits - 1) - 1)).to_bytes(bits // 8, "little", signed=True)
        data += one * channels
    width = bits // 8 * channels
    header = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 3 if real else 1, channels, rate, rate * width,
                         width, bits, b"data", len(data))
    return header + bytes(data)


def crc(data, bits, polynomial):
    value = 0
    for byte in data:
        value ^= byte << (bits - 8)
        for _ in range(8):
            value = (value << 1 ^ (polynomial if value >> (bits - 1) else 0)) & (1 << bits) - 1
    return value.to_bytes(bits // 8, "big")


def silent_flac(count, rate):
    """A FLAC file of `count` zeros, in frames of 15 bytes for 65,535 samples."""
    count, size, frames = int(count), 65535, b""
    for number, first in enumerate(range(0, count, size)):
        length = min(size, count - first)
        header = b"\xff\xf8\x70\x08" + chr(number).encode() + (length - 1).to_bytes(2, "big")
        header += crc(header, 8, 0x07)
        frame = header + b"\0\0\0"  # a constant, and its 16 bits
        frames += frame + crc(frame, 16, 0x8005)
    info = size.to_bytes(2, "big") * 2 + bytes(6) + (rate << 44 | 15 << 36 | count).to_bytes(8, "big") + bytes(16)
    return b"fLaC\x80" + len(info).to_bytes(3, "big") + info + frames


class Listen(unittest.TestCase):
    def file(self, name, content):
        path = FOLDER / name
        path.write_bytes(content)
        return path

    def listen(self, path, *argv, **more):
        # A random model is never sure of its text: higher temperatures would be tried for each window.
        return weft("listen", "-m", MODEL, "--language", "de", "--temperature", "0", path, *argv, **more)

    def segments(self, path, **more):
        result = json.loads(self.listen(path, "--format", "json", **more)[0])
        self.assertEqual(result["language"], "de")
        return [(one["start"], one["end"], one["text"]) for one in result["segments"]]

    def test_formats(self):
        path = self.file("whistle.wav", wav(whistle()))
        result = json.loads(self.listen(path, "--format", "json")[0])
        self.assertAlmostEqual(result["duration"], 3)
        segments = result["segments"]
        self.assertGreater(len(segments), 1)
        lines = [" ".join(re.split("[\r\n]", one["text"])).strip(" ") for one in segments]
        self.assertEqual(self.listen(path)[0], "".join(line + "\n" for line in lines))

        def clock(seconds, mark):
            return f"00:00:{seconds:06.3f}".replace(".", mark)
        srt = "".join(f"{i}\n{clock(one['start'], ',')} --> {clock(one['end'], ',')}\n{line}\n\n"
                      for i, (one, line) in enumerate(zip(segments, lines), 1))
        self.assertEqual(self.listen(path, "--format", "srt")[0], srt)
        vtt = "WEBVTT\n\n" + "".join(
            f"{clock(one['start'], '.')} --> {clock(one['end'], '.')}\n" + line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") +
            "\n\n" for one, line in zip(segments, lines))
        self.assertEqual(self.listen(path, "--format", "vtt")[0], vtt)

    def test_words(self):
        path = self.file("words.wav", wav(whistle()))
        plain, result = (json.loads(self.listen(path, "--format", "json", *more)[0]) for more in ((), ("--words",)))
        words = [word for one in result["segments"] for word in one["words"]]
        self.assertGreater(len(words), 1)
        self.assertEqual("".join(word["word"] for word in words).replace("\ufffd", ""),
                         "".join(one["text"] for one in result["segments"]).replace("\ufffd", ""))
        for one in result["segments"]:
            del one["words"]
        self.assertEqual(result, plain)
        lines = self.listen(path, "--words")[0].split("\n")[:-1]
        self.assertEqual(len(lines), len(words))
        self.assertEqual(lines[0][:25], f"00:00:{words[0]['start']:06.3f} 00:00:{words[0]['end']:06.3f}")
        self.assertEqual(self.listen(path, "--words", "--format", "srt")[0].count(" --> "), len(words))

    def test_kinds_of_files(self):
        samples = [round(sample * 127) / 128 for sample in whistle()]  # every format has these numbers
        def exact(bits):
            return [sample * 2**(bits - 1) / (2**(bits - 1) - 1) for sample in samples]
        wanted = self.segments(self.file("float.wav", wav(samples, bits=32, real=True)))
        self.assertGreater(len(wanted), 1)
        self.assertEqual(wanted, self.segments(self.file("double.wav", wav(samples, bits=64, real=True))))
        for bits in (16, 24, 32):
            self.assertEqual(wanted, self.segments(self.file(f"{bits}.wav", wav(exact(bits), bits=bits))), bits)
        self.assertEqual(wanted, self.segments(self.file("stereo.wav", wav(exact(16), channels=2))))
        self.segments(self.file("8.wav", wav(samples, bits=8)))

    def test_other_rates(self):
        """The samples of a tone at another rate are those of the same tone: its spectrogram, and so its text, hardly differ."""
        wanted = self.segments(self.file("same.wav", wav(whistle(), bits=24)))
        for rate in (8000, 22050, 44100, 48000):
            got = self.segments(self.file("rate.wav", wav(whistle(rate), rate, bits=24)))
            self.assertAlmostEqual(got[0][0], wanted[0][0], delta=0.5)

    def test_stdin(self):
        samples = array.array("h", (round(sample * 32767) for sample in whistle()))
        wanted = self.listen(self.file("stdin.wav", wav(whistle())))[0]
        for content in (samples.tobytes(), wav(whistle())):
            done = subprocess.run([BIN / "weft", "listen", "-m", MODEL, "--language", "de", "--temperature", "0", "-"], input=content, capture_output=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.decode(), wanted)

    def test_stdin_that_begins_like_mpeg(self):
        """libsndfile takes samples that begin with -1 for MPEG."""
        run = lambda content: subprocess.run([BIN / "weft", "listen", "-m", MODEL, "--language", "de", "--temperature", "0", "-"], input=content, capture_output=True, timeout=300)
        samples = array.array("h", [-1, 2, *(round(sample * 32767) for sample in whistle())])
        self.assertEqual(samples.tobytes()[:4], b"\xff\xff\x02\x00")
        done = run(samples.tobytes())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.decode(), self.listen(self.file("minus.wav", wav([-1 / 32767, 2 / 32767, *whistle()])))[0])
        frames = (b"\xff\xfb\x90\xc4" + bytes(413)) * 40  # silence
        done = run(frames)
        self.assertEqual((done.returncode, done.stdout.decode()), (0, self.listen(self.file("silent.mp3", frames))[0]), done.stderr)

    def test_bar(self):
        """On a terminal a bar tells how much of a recording was heard."""
        path = self.file("bar.wav", wav(whistle()))
        screen, end = pty.openpty()
        command = [BIN / "weft", "listen", "-m", MODEL, "--language", "de", "--temperature", "0", path]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=end, timeout=300)
        os.close(end)
        said = os.read(screen, 1 << 16).decode()
        os.close(screen)
        self.assertEqual(done.stdout.decode(), self.listen(path)[0])
        shares = [int(share) for share in re.findall(r"listening \[[#.]+\] +(\d+)%", said)]
        self.assertEqual((shares[0], shares), (0, sorted(shares)))
        self.assertGreater(shares[-1], 0)
        self.assertTrue(said.endswith("\r\033[K"), said)

    def test_chat_hears(self):
        """What is said is a message: in a recording, and between the pauses of a microphone."""
        said = [0.] * 4800 + whistle(seconds=1)[:6400] + [0.] * 12800  # 0.3 s before, 0.8 s after
        path = self.file("said.wav", wav(said))
        text = json.loads(weft("listen", "-m", MODEL, path, "--format", "json")[0])["text"]
        self.assertTrue(text)
        chat = ["chat", "--temperature", "0", "-n", "8"]
        twice, err = weft(*chat, "--lines", stdin=(text + "\n") * 2 + f"/listen {path}\n")
        self.assertIn("begin it with --listen", err)
        out, err = weft(*chat, "--listen", MODEL, path)
        self.assertEqual(err.count(f"> {text}\n"), 1, err)
        self.assertTrue(out and twice.startswith(out), (out, twice))
        click = [0.] * 16000 + [0.5] * 320 + [0.] * 16000  # is no speech; a whole number of frames
        samples = array.array("h", (round(sample * 32767) for sample in click + said + said)).tobytes()
        done = subprocess.run([BIN / "weft", *chat, "--lines", "--listen", MODEL], input=samples, capture_output=True, timeout=300, env=ENV)
        self.assertEqual(done.stdout.decode(), twice)
        self.assertEqual(done.stderr.decode().count(f"> {text}\n"), 2, done.stderr)

    def test_one_duty_for_both_models(self):
        """The time of both counts, whether the limit was an option or came later. What is heard does not fit into this chat's context, so
        that only the listener works."""
        path = self.file("long.wav", wav(whistle()))
        for options, begin in (["--duty", "50"], "/duty"), ([], "/duty 50"):
            chat = Terminal("chat", "--temperature", "0", "-n", "4", "--ctx", "24", "--listen", MODEL, *options)
            self.addCleanup(chat.close)
            chat.expect("/help lists the commands")
            chat.expect("> ")

            def enter(line, answer):
                chat.type(line.encode() + b"\n")
                chat.expect(answer)
                return answer + chat.expect("\x1b[?2004h> ")

            def busy(line="/duty"):
                return float(re.search(r"for 50% of the time; it was for ([\d.]+) s\.", enter(line, "The device may be busy"))[1])

            if not options:
                self.assertIn("for 100% of the time", enter("/duty", "The device may be busy"))
            at_first = busy(begin)
            enter("hello", "[cut at 4 tokens")
            answered = busy()
            enter(f"/listen {path}", "give more room with --ctx")
            heard = busy()
            self.assertTrue(at_first < answered < heard, (at_first, answered, heard))
        self.assertRegex(enter("/stats", "listener  whisper: "), r"vocab .+, layers .+, in all .+B\r\n")

    def test_one_memory_budget_for_both_models(self):
        """What the listener takes, with its session, is not the other model's any more."""
        path = self.file("said.wav", wav(whistle(seconds=1)))
        _, err = weft("chat", "--memory-budget", "3MiB", "--listen", MODEL, path, expect=1)
        left = int(re.search(r"the memory budget is (\d+) bytes", err)[1])
        self.assertTrue(0 < left < 2 << 20, err)

    def test_wrong_duties(self):
        for wrong in "0", "101", "x":
            _, err = weft("chat", "--lines", stdin=f"/duty {wrong}\n")
            self.assertIn("/duty", err)
            self.assertNotIn("may be busy", err)
            weft("chat", "--duty", wrong, "hello", expect=2)

    def test_samples_are_heard_as_they_come(self):
        samples = array.array("h", (round(sample * 32767) for sample in whistle(seconds=5))).tobytes()
        with subprocess.Popen([BIN / "weft", "listen", "-m", MODEL, "--language", "de", "--temperature", "0", "-"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as process:
            process.stdin.write(samples[:-1001])  # and a half sample
            process.stdin.flush()
            first = process.stdout.readline()  # while the recording goes on
            process.stdin.write(samples[-1001:])
            process.stdin.close()
            rest = process.stdout.read()
        self.assertEqual(process.returncode, 0)
        self.assertEqual((first + rest).decode(), self.listen(self.file("whole.wav", wav(whistle(seconds=5))))[0])

    def test_prompts_and_temperatures(self):
        path = self.file("prompt.wav", wav(whistle()))
        def listen(*argv, **more):
            return weft("listen", "-m", MODEL, "--language", "de", "--format", "json", path, *argv, **more)[0]
        cold = listen("--temperature", "0")
        self.assertNotEqual(listen("--temperature", "1"), cold)
        self.assertNotEqual(listen("--temperature", "0", "--prompt", "abc"), cold)
        self.assertEqual(listen("--temperature", "0,0"), cold)
        for wrong in ("-1", "x", "3", "0,9"):
            listen("--temperature", wrong, expect=2)

    def test_files_of_whisper_cpp(self):
        """The same weights and the same rules give the same words and probabilities."""
        folder, path = FOLDER / "rules", FOLDER / "ggml-speech.bin"
        shutil.copytree(MODEL, folder)
        ggml_whisper.convert(MODEL, path)
        # OpenAI's list for a vocabulary of single bytes: signs of one byte; of " -" and of notes the first byte, a space before them or not.
        suppressed = [*map(ord, '"#()*+/:;<=>@[\\]^_`{|}~ '), 0xe2]
        (folder / "generation_config.json").write_text(json.dumps({"suppress_tokens": suppressed, "is_multilingual": True}))
        recording = self.file("whistle.wav", wav(whistle(seconds=1)))
        wanted, got = (json.loads(weft("listen", "-m", model, "--language", "en", "--temperature", "0", "--format", "json", recording)[0])["segments"]
                       for model in (folder, path))
        self.assertGreater(len(wanted), 0)
        for one, other in zip(wanted, got, strict=True):
            for key in one:
                self.assertEqual(one[key], other[key]) if key in ("start", "end", "text") else self.assertAlmostEqual(one[key], other[key], 5)
        self.assertIn("no language 'fr'", weft("listen", "-m", path, "--language", "fr", recording, expect=1)[1])  # the third one is Chinese's
        cut = self.file("ggml-cut.bin", path.read_bytes()[:-1000])
        self.assertRegex(weft("listen", "-m", cut, recording, expect=1)[1], "ggml-cut.bin: tensor .* needs .* bytes")

    def test_a_small_file_of_many_hours(self):
        """It is decoded block by block, and refused once it is too long: memory is that of a short one."""
        def most_memory(hours):
            path = self.file("hours.flac", silent_flac(8000 * 3600 * hours, 8000))
            self.assertLess(path.stat().st_size, 60000)
            process = subprocess.Popen([BIN / "weft", "listen", "-m", MODEL, "--language", "de", path], stderr=subprocess.PIPE)
            with process.stderr:
                said = process.stderr.read().decode()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            return said, usage.ru_maxrss
        said, short = most_memory(1 / 60)
        self.assertEqual(said, "")
        said, long = most_memory(5)
        self.assertIn("longer than 240 minutes", said)
        self.assertLess(long, short + 50000)  # KiB; its samples take 450 MiB

    def test_damaged_and_cut_files(self):
        """Text or an error, never a crash. What libsndfile takes from a damaged file is samples like any others."""
        content, dice = wav(whistle(seconds=1)), random.Random(1)
        for i in range(12):
            damaged = bytearray(content[:dice.choice([len(content), dice.randrange(60), dice.randrange(len(content))])])
            for _ in range(dice.randrange(4)):
                if damaged:
                    damaged[dice.randrange(min(len(damaged), 48))] = dice.randrange(256)
            done = subprocess.run([BIN / "weft", "listen", "-m", MODEL, "--temperature", "0", self.file("damaged.wav", bytes(damaged))], capture_output=True, timeout=300)
            self.assertIn(done.returncode, (0, 1), (i, done.stderr))
            self.assertEqual(done.returncode == 1, bool(done.stderr), (i, done.stderr))

    def refuses(self, path, words, *argv, expect=1):
        _, err = self.listen(path, *argv, expect=expect)
        self.assertRegex(err, words)
        self.assertEqual(err.count("weft: "), 1)

    def test_errors(self):
        good = self.file("good.wav", wav(whistle(seconds=1)))
        self.refuses(FOLDER / "missing.wav", "cannot be opened")
        self.refuses(self.file("empty.wav", b""), "it is empty")
        self.refuses(FOLDER, "it is a folder")
        self.refuses(self.file("text.wav", b"this is no recording at all" * 9), "it is not a recording")
        _, err = weft("listen", "-m", MODEL, "-", stdin="/listen question.wav\n", expect=1)
        self.assertIn("stdin: it is text", err)
        self.refuses(self.file("cut.mp3", b"\xff\xfb\x94\xc4" + bytes(33) + b"Xing\0\0\0\x0f" + bytes(55)), "it is not a recording: it is damaged or cut")
        self.refuses(self.file("none.wav", wav([])), "no samples")
        self.refuses(self.file("nan.wav", wav([0.0, math.nan], bits=32, real=True)), "sample 1 is not finite")
        self.refuses(self.file("channels.wav", wav([0.1] * 9, channels=65)), "65 channels|not a recording")
        _, err = weft("listen", "-m", MODEL, "--language", "xx", good, expect=1)
        self.assertIn("no language 'xx'", err)
        _, err = weft("listen", "-m", MODEL, "--format", "doc", good, expect=2)
        self.assertIn("--format", err)

    def test_wrong_models(self):
        good = self.file("good.wav", wav(whistle(seconds=1)))
        _, err = weft("listen", "-m", plain(), good, expect=1)
        self.assertIn("hears nothing", err)
        _, err = weft("chat", "-m", MODEL, "Hello", expect=1)
        self.assertIn("weft listen", err)
        _, err = weft("generate", "-m", MODEL, "-p", "Hello", "-n", 1, expect=1)
        self.assertIn("weft listen", err)
        _, err = weft("embed", "-m", MODEL, "Hello", expect=1)
        self.assertIn("hears sound", err)
