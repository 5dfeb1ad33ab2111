"""Values that are given as numpy arrays."""
import json
import pathlib
import sys
import tempfile

from common import ROOT, WithPocket, _c, bert, needs_numpy, run_script, weft


class Arrays(WithPocket):
    @needs_numpy
    def test_logits(self):
        import numpy
        with self.session() as session:
            session.prompt("hello")
            logits = session.logits()
            self.assertEqual((logits.dtype, logits.shape), (numpy.float32, (8192,)))
            first = session.generate(max_tokens=1)
            first.text()
            self.assertEqual(int(logits.argmax()), first.ids[0])
            session.prompt("hello")
            ids, some = session.head_logits(head="keep:digits,prompt")
            self.assertEqual(sorted(ids.tolist()), sorted({*self.model.keep("digits"), *session.ids}))
            numpy.testing.assert_allclose(some, logits[ids], rtol=1e-4, atol=1e-4)

    @needs_numpy
    def test_score(self):
        import numpy
        with self.session() as session:
            ids = self.model.tokenize("set a timer for 10 minutes")
            nll = session.score(ids)
            session.prompt(ids[:-1])
            logits = session.logits().astype(numpy.float64)
            self.assertEqual(nll.shape, (len(ids) - 1,))
            self.assertAlmostEqual(float(nll[-1]), float(numpy.log(numpy.exp(logits).sum()) - logits[ids[-1]]), places=3)
            self.assertRaises(weft.WeftError, session.score, [])

    @needs_numpy
    def test_lens(self):
        import numpy
        with self.session() as session:
            session.prompt("hello there")
            rows = []
            session.lens(lambda *row: rows.append(row))
            layers, length = self.model.info.layers, len(session.ids)
            self.assertEqual([row[:2] for row in rows], [(layer, at) for at in range(length) for layer in range(layers + 1)])
            self.assertEqual({(row[2].shape, row[3].shape) for row in rows}, {((self.model.info.width,), (8192,))})
            numpy.testing.assert_allclose(rows[-1][3], session.logits(), rtol=1e-4, atol=1e-4)
            some = []
            session.lens(lambda *row: some.append(row), first=length - 1, count=1, layers=(layers, 1))
            self.assertEqual([row[:2] for row in some], [(layers, length - 1), (1, length - 1)])
            numpy.testing.assert_allclose(some[1][2], rows[-layers][2], rtol=1e-4, atol=1e-4)
            with tempfile.TemporaryDirectory() as folder:
                # b alone: W is minus the identity, and all tokens have the same logits.
                width, data, header = self.model.info.width, b"", {}
                for layer in range(layers):
                    for name, values in (("weight", -numpy.eye(width, dtype="<f4")), ("bias", numpy.arange(width, dtype="<f4"))):
                        header[f"{layer}.{name}"] = {"dtype": "F32", "shape": values.shape, "data_offsets": [len(data), len(data) + values.nbytes]}
                        data += values.tobytes()
                text = json.dumps(header).encode()
                pathlib.Path(folder, "params.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
                pathlib.Path(folder, "config.json").write_text(json.dumps({"d_model": width, "num_hidden_layers": layers}))
                tuned = []
                session.lens(lambda *row: tuned.append(row), layers=(1,), tuned=folder)
                numpy.testing.assert_allclose(tuned[0][3], tuned[-1][3], rtol=1e-3, atol=1e-3)
                numpy.testing.assert_allclose(tuned[-1][2], rows[(length - 1) * (layers + 1) + 1][2], rtol=1e-4, atol=1e-4)
            self.assertRaises(weft.WeftError, session.lens, print, tuned="none")
            self.assertRaises(ZeroDivisionError, session.lens, lambda *row: 1 / 0)
            self.assertRaises(weft.WeftError, session.lens, print, layers=[layers + 1])

    @needs_numpy
    def test_soft_tokens(self):
        import numpy
        with self.session() as session:
            ids = self.model.tokenize("hello there, how are you")
            session.prompt(ids)
            wanted = session.logits()
            rows = self.model.rows(ids)
            self.assertEqual((rows.dtype, rows.shape), (numpy.float32, (len(ids), self.model.info.width)))
            session.prompt_parts([ids[:2], rows[2:4].astype(numpy.float64), ids[4:-1], rows[-1:]])
            numpy.testing.assert_array_equal(session.logits(), wanted)
            self.assertEqual(session.ids[2:4], [_c.WEFT_SOFT_TOKEN, _c.WEFT_SOFT_TOKEN + 1])
            session.prompt_parts(["hello", rows[2:4]])
            self.assertEqual(session.ids[:-2], self.model.tokenize("hello"))
            self.assertRaises(ValueError, session.prompt_parts, [rows[:, :-1]])
            self.assertRaises(weft.WeftError, session.prompt_parts, [rows * numpy.nan])
            self.assertRaises(weft.WeftError, session.prompt_parts, [])
            self.assertRaises(weft.WeftError, self.model.rows, [self.model.info.vocab_size])

    @needs_numpy
    def test_sentence_transformers(self):
        import numpy
        folder = ROOT / "tests/model/golden_sentences/gemma3"
        with weft.Model(folder, type="f16") as model, model.encoder() as encoder:
            self.assertEqual((encoder.size, model.prompt("query")), (24, "task: search result | query: "))
            for case in json.loads((folder / "reference.json").read_text()):
                got = encoder.embed([case["text"]], prompt=case["prompt"], dimensions=case["dimensions"])[0]
                numpy.testing.assert_allclose(got, case["embedding"], atol=1e-3)
            self.assertRaises(ValueError, encoder.embed, ["a"], dimensions=25)
            self.assertRaises(ValueError, encoder.embed, ["a"], dimensions=0)

    @needs_numpy
    def test_encoder(self):
        import numpy
        with weft.Model(bert()) as model, model.encoder() as encoder:
            texts = ["The cat sat.", "cats"]
            rows = encoder.embed(texts)
            self.assertEqual((rows.dtype, rows.shape), (numpy.float32, (2, 48)))
            numpy.testing.assert_allclose((rows**2).sum(axis=1), 1, rtol=1e-5)
            numpy.testing.assert_array_equal(encoder.embed([model.tokenize(text) for text in texts]), rows)
            self.assertFalse(numpy.array_equal(encoder.embed(texts, pooling="cls"), rows))
            self.assertEqual((encoder.size, model.prompt()), (48, ""))
            self.assertRaises(weft.WeftError, encoder.embed, texts, prompt="query")
            reference = json.loads((ROOT / "tests/model/golden_encoders/bert/reference.json").read_text())[0]
            wanted = numpy.array(reference["mean"])
            got = encoder.embed([reference["ids"]], pooling="mean")[0]
            numpy.testing.assert_allclose(got, wanted / numpy.linalg.norm(wanted), atol=2e-3)
            ids = model.tokenize("the [MASK] sat", parse_special=True)
            logits = encoder.masked_logits(ids, ids.index(model.info.mask_token))
            self.assertEqual(logits.shape, (model.info.vocab_size,))
            self.assertTrue(numpy.isfinite(logits).all())
            self.assertRaises(TypeError, encoder.embed, "one text")
            self.assertRaises(weft.WeftError, encoder.masked_logits, ids, len(ids))
            with self.assertRaises(weft.WeftError) as caught:
                model.session()
            self.assertEqual(caught.exception.code, "WEFT_UNSUPPORTED")
        self.assertRaisesRegex(ValueError, "closed", encoder.embed, ["a"])

    def test_without_numpy(self):
        said = run_script("""
import sys
sys.modules["numpy"] = None
import weft
session = weft.Model().session(temperature=0)
session.prompt("hello")
try:
    session.logits()
except ImportError as error:
    print(error)
print(session.chat("hello").text())
""")
        self.assertRegex(said, "^weft returns arrays of floats as numpy arrays, and numpy is not installed\nHello!")
