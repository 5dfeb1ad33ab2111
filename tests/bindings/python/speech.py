"""Transcribers, with a tiny random model of tests/tools/whisper_goldens.py, which hears windows of 1.2 s."""
import array
import gc
import json
import math
import os
import subprocess
import sys
import threading
import unittest
import weakref

from common import BIN, FOLDER, ROOT, needs_numpy, pages, run_script, weft

WHISPER = ROOT / "tests/model/golden_whisper/speech"
OPTIONS = {"language": "de", "temperatures": [0]}


def whistle(seconds):
    return array.array("f", (0.3 * math.sin(1e-6 * i * i) for i in range(int(seconds * 16000))))


class Speech(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = weft.Model(WHISPER)
        cls.samples = whistle(2)
        with cls.model.transcriber() as transcriber:
            cls.segments = list(transcriber.transcribe(cls.samples, **OPTIONS))

    @classmethod
    def tearDownClass(cls):
        cls.model.close()

    def test_segments(self):
        self.assertGreater(len(self.segments), 1)
        for segment, after in zip(self.segments, self.segments[1:]):
            self.assertTrue(0 <= segment.begin < segment.end and segment.begin <= after.begin)
            self.assertTrue(segment.mean_logprob < 0 < segment.no_speech < 1)
            self.assertEqual(str(segment), segment.text)

    def test_words(self):
        with self.model.transcriber() as transcriber:
            segments = list(transcriber.transcribe(self.samples, words=True, **OPTIONS))
        self.assertEqual([str(segment) for segment in segments], [str(segment) for segment in self.segments])
        self.assertEqual(self.segments[0].words, ())
        words = [word for segment in segments for word in segment.words]
        self.assertGreater(len(words), 1)
        self.assertEqual("".join(map(str, words)).replace("\ufffd", ""), "".join(map(str, segments)).replace("\ufffd", ""))
        self.assertTrue(all(0 <= word.begin <= word.end for word in words))

    def test_duty(self):
        """A session of one model and a transcriber of another keep to one limit, with the same texts."""
        duty = weft.Duty(0.5)
        with weft.Model() as model, model.session(temperature=0) as session, self.model.transcriber() as transcriber:
            want = session.chat("hello", max_tokens=4).text()
            self.assertEqual(duty.busy_seconds, 0)
            session.use_duty(duty)
            session.reset()
            self.assertEqual(session.chat("hello", max_tokens=4).text(), want)
            chatted = duty.busy_seconds
            self.assertGreater(chatted, 0)
            transcriber.use_duty(duty)
            self.assertEqual(list(transcriber.transcribe(self.samples, **OPTIONS)), self.segments)
            heard = duty.busy_seconds
            self.assertGreater(heard, chatted)
            duty.set_share(0)  # until another thread says so
            timer = threading.Timer(0.05, duty.set_share, [1])
            timer.start()
            self.assertEqual(list(transcriber.transcribe(self.samples, **OPTIONS)), self.segments)
            timer.join()
            duty.set_share(0.5)
            transcriber.use_duty(None)
            session.use_duty(None)
            heard = duty.busy_seconds
            list(transcriber.transcribe(self.samples, **OPTIONS))
            session.chat("hello", max_tokens=4).text()
            self.assertEqual(duty.busy_seconds, heard)
            with self.assertRaises(weft.WeftError):
                duty.set_share(1.5)
        self.assertRaises(weft.WeftError, weft.Duty, -1)

    def test_pieces(self):
        with self.model.transcriber() as transcriber:
            self.assertEqual(transcriber.language, "")
            pieces = [self.samples[begin:begin + 1600] for begin in range(0, len(self.samples), 1600)]
            asked = []
            got = []
            for segment in transcriber.transcribe((asked.append(1) or piece for piece in pieces), **OPTIONS):
                if not got:
                    self.assertLess(len(asked), len(pieces))  # it is told while more come
                got.append(segment)
            self.assertEqual(got, self.segments)
            self.assertEqual(transcriber.language, "de")
            transcriber.begin(**OPTIONS)
            fed = [transcriber.feed(piece) for piece in pieces]
            self.assertEqual([], fed[0])
            self.assertEqual(sum(fed, []) + transcriber.finish(), self.segments)
            self.assertEqual(list(transcriber.transcribe([], **OPTIONS)), [])

    @needs_numpy
    def test_arrays(self):
        import numpy
        samples = numpy.array(self.samples, numpy.float32)
        frozen, stereo = samples.copy(), numpy.stack([samples, samples * 0], axis=1)
        frozen.flags.writeable = False
        with self.model.transcriber() as transcriber:
            for same in (samples, frozen, stereo[:, 0], samples.astype(numpy.float64), memoryview(self.samples)):
                self.assertEqual(list(transcriber.transcribe(same, **OPTIONS)), self.segments)
            transcriber.begin(**OPTIONS)
            self.assertRaisesRegex(ValueError, "one channel", transcriber.feed, stereo)
            self.assertRaisesRegex(TypeError, "floats", transcriber.feed, samples.astype(numpy.int16))

    def test_refused(self):
        with self.model.transcriber() as transcriber:
            self.assertRaises(weft.WeftError, transcriber.feed, self.samples)  # nothing has begun
            for wrong in ([0.5, 0.5], [3], b"abcd", "text"):
                transcriber.begin(**OPTIONS)
                self.assertRaisesRegex(TypeError, "floats", lambda: list(transcriber.transcribe(wrong)))
            self.assertRaisesRegex(TypeError, "colour", transcriber.begin, colour=1)
            self.assertRaisesRegex(ValueError, "samples_per_second", transcriber.begin, samples_per_second=-1)
            self.assertRaises(ValueError, transcriber.begin, prompt="a\0b")
            for options in ({"language": "xx"}, {"temperatures": []}, {"samples_per_second": 10}):
                self.assertRaises(weft.WeftError, transcriber.begin, **options)
            transcriber.begin(**OPTIONS)
            self.assertRaises(weft.WeftError, transcriber.feed, array.array("d", [math.inf]))
            self.assertEqual(transcriber.feed(self.samples) + transcriber.finish(), self.segments)
        self.assertRaisesRegex(ValueError, "the transcriber is closed", transcriber.begin)
        with weft.Model() as other, self.assertRaises(weft.WeftError) as caught:
            other.transcriber()
        self.assertEqual(caught.exception.code, "WEFT_UNSUPPORTED")

    def test_ends(self):
        with self.model.transcriber() as transcriber:
            for _ in transcriber.transcribe(self.samples, **OPTIONS):
                self.assertRaisesRegex(RuntimeError, "leave that loop", transcriber.feed, self.samples)
                break  # frees it for the next recording

            def cancelled(cancel):
                with self.assertRaises(weft.WeftError) as caught:
                    for _ in transcriber.transcribe(self.samples, **OPTIONS):
                        cancel()
                self.assertEqual(caught.exception.code, "WEFT_CANCELLED")
            thread = threading.Thread(target=transcriber.cancel)
            cancelled(lambda: (thread.start(), thread.join()) if not thread.ident else None)
            transcriber.cancel()  # nothing is heard: it does nothing
            self.assertEqual(list(transcriber.transcribe(self.samples, **OPTIONS)), self.segments)

            def pieces():
                yield self.samples[:16000]
                raise KeyError("mine")
            self.assertRaisesRegex(KeyError, "mine", list, transcriber.transcribe(pieces(), **OPTIONS))
            cancelled(transcriber.close)
            transcriber.close()
        with weft.Model(WHISPER) as model:
            loop = model.transcriber().transcribe(self.samples, **OPTIONS)
            next(loop)
        self.assertRaises(weft.WeftError, list, loop)

    def test_nobody_refers_to_it(self):
        transcriber = self.model.transcriber()
        list(transcriber.transcribe(self.samples, **OPTIONS))
        handle = weakref.ref(transcriber._handle)
        gc.disable()
        try:
            del transcriber
            self.assertIsNone(handle())
        finally:
            gc.enable()

    def test_program_of_the_page(self):
        block, = [block for block in pages.blocks(ROOT / "docs/listening.md") if block.language == "python"]
        sys.path.insert(0, str(ROOT / "tests/apps"))
        import test_listen
        recording = FOLDER / "hello.wav"
        recording.write_bytes(test_listen.wav(test_listen.whistle(seconds=1)))
        said = run_script(block.text, WHISPER, recording)
        listen = [BIN / "weft", "listen", "-m", WHISPER, "--format", "json", recording]
        heard = json.loads(subprocess.run(listen, check=True, stdout=subprocess.PIPE, env=os.environ).stdout)
        self.assertGreater(len(heard["segments"]), 0)
        self.assertEqual(said, "".join(f"{one['start']:.2f}{one['text']}\n" for one in heard["segments"]))
