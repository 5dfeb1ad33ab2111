"""weft lens and weft generate --lens: figures that agree with those of other subcommands, and the picture's pixels."""
import json
import math
import re
import struct
import subprocess
import sys
import unittest
import zlib

from support import FOLDER, ROOT, plain, t5, weft, weft_json

TEXT = "the cat sat\non it"
POCKET = ROOT / "apps/pocket/pocket.gguf"


def pixels_of(path):
    """The rows of a PNG of 24-bit colours: lists of (red, green, blue)."""
    data, at, packed = path.read_bytes(), 8, b""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    while at < len(data):
        length, kind = int.from_bytes(data[at:at + 4], "big"), data[at + 4:at + 8]
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height = int.from_bytes(body[:4], "big"), int.from_bytes(body[4:8], "big")
            assert body[8:] == b"\x08\x02\0\0\0"
        packed += body if kind == b"IDAT" else b""
        at += 12 + length
    raw, rows, above = zlib.decompress(packed), [], bytes(3 * width)
    for y in range(height):
        start = y * (3 * width + 1)
        method, row = raw[start], bytearray(raw[start + 1:start + 1 + 3 * width])
        for i in range(len(row)):
            left, up, corner = (row[i - 3], above[i], above[i - 3]) if i > 2 else (0, above[i], 0)
            near = min((abs(up - corner), 0, left), (abs(left - corner), 1, up), (abs(left + up - 2 * corner), 2, corner))[2]
            row[i] = (row[i] + (0, left, up, (left + up) // 2, near)[method]) % 256
        rows.append([tuple(row[i:i + 3]) for i in range(0, len(row), 3)])
        above = row
    return rows


def tensors_of(path):
    """A safetensors file of floats: name -> (shape, numbers)."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8:8 + length]), data[8 + length:]
    assert all(entry["dtype"] == "F32" for entry in header.values())
    return {name: (entry["shape"], struct.unpack(f"<{(entry['data_offsets'][1] - entry['data_offsets'][0]) // 4}f",
                                                 body[slice(*entry["data_offsets"])])) for name, entry in header.items()}


class Lens(unittest.TestCase):
    def test_figures(self):
        ranks = {rank for which, text in ((plain(), TEXT), (POCKET, "set a timer for 10 minutes")) for rank in self.ranks_of(which, text)}
        self.assertTrue({1, 6} < ranks, "a next token is also among the likeliest, and not the first")

    def ranks_of(self, which, text):
        """Checks all figures of a text. Returns the ranks of the tokens that follow; 6: not among the five likeliest."""
        tokens, ranks = weft_json("lens", "-m", which, "-p", text)["positions"], set()
        inspected = weft_json("inspect", which)
        layers, vocab = inspected["layers"], inspected["vocab_size"]
        for token, following in zip(tokens, [*tokens[1:], None]):
            cells = token["layers"]
            self.assertEqual([cell["layer"] for cell in cells], list(range(layers + 1)))
            best = [cell["top"][0]["id"] for cell in cells]
            settled = token["settled_layer"]
            self.assertEqual(set(best[settled:]), {best[-1]})
            self.assertTrue(settled == 0 or best[settled - 1] != best[-1])
            self.assertEqual(cells[-1]["kl"], 0)
            for cell in cells:
                probabilities = [one["probability"] for one in cell["top"]]
                self.assertEqual(len(probabilities), 5)
                self.assertEqual(probabilities, sorted(probabilities, reverse=True))
                self.assertLessEqual(sum(probabilities), 1)
                self.assertTrue(0 <= cell["entropy"] <= math.log(vocab) and cell["kl"] >= 0, cell)
                # The five likeliest tokens alone are a lower bound of the entropy.
                self.assertGreaterEqual(cell["entropy"], -sum(p * math.log(p) for p in probabilities if p) - 1e-9)
                if following is None:
                    self.assertFalse({"next_rank", "next_logprob"} & set(cell))
                    continue
                ids = [one["id"] for one in cell["top"]]
                rank = ids.index(following["id"]) + 1 if following["id"] in ids else 6
                self.assertEqual(min(cell["next_rank"], 6), rank)
                ranks.add(rank)
                if rank < 6:
                    self.assertAlmostEqual(math.exp(cell["next_logprob"]), probabilities[rank - 1])
                else:
                    self.assertLessEqual(math.exp(cell["next_logprob"]), probabilities[-1] + 1e-12)
            self.assertTrue(any(cell["kl"] > 0 for cell in cells[:-1]))
        return ranks

    def test_the_last_layer_is_the_model(self):
        """Likelihoods as weft perplexity has them, and the next token as weft generate --logprobs has it."""
        file = FOLDER / "lens.txt"
        file.write_text(TEXT)
        for which in (plain(), POCKET):
            last = [token["layers"][-1] for token in weft_json("lens", "-m", which, "-p", TEXT)["positions"]]
            scored = weft_json("perplexity", "-m", which, "-f", file)
            known = [-cell["next_logprob"] for cell in last[:-1]]
            self.assertEqual(len(known), scored["tokens"])
            self.assertAlmostEqual(sum(known) / len(known), scored["nll"], 3)
            token = weft_json("generate", "-m", which, "-p", TEXT, "-n", 1, "--temperature", 0, "--logprobs", 5)["logprobs"][0]
            self.assertEqual([one["id"] for one in token["top"]], [one["id"] for one in last[-1]["top"]])
            for one, other in zip(token["top"], last[-1]["top"]):
                self.assertAlmostEqual(math.exp(one["logprob"]), other["probability"], 4)

    def test_table(self):
        """Cells of 16 columns, as many as 100 columns have room for, then a line for each layer."""
        result = weft_json("lens", "-m", plain(), "-p", TEXT)
        tokens = result["positions"]
        out, _ = weft("lens", "-m", plain(), "-p", TEXT)
        blocks = out.split("\n\n")
        layers = len(tokens[0]["layers"])
        self.assertEqual(len(blocks), math.ceil(len(tokens) / 5) + 1)
        for number, block in enumerate(blocks[:-1]):
            lines = block.splitlines()
            self.assertEqual([line[:6].strip() for line in lines], [*map(str, range(layers - 1, 0, -1)), "embed", "text"])
            here = tokens[number * 5:number * 5 + 5]
            for line, layer in zip(lines, range(layers - 1, -1, -1)):
                self.assertLessEqual(len(line), 100)
                shares = [int(share) for share in re.findall(r" +(\d+)%(?: |$)", line)]
                self.assertEqual(shares, [round(100 * token["layers"][layer]["top"][0]["probability"]) for token in here])
        self.assertIn('"\\n"', out)
        means = blocks[-1].splitlines()[2:]
        self.assertEqual([line.split()[0] for line in means], [*map(str, range(layers - 1, 0, -1)), "embed"])
        self.assertEqual(len({len(line) for line in means}), 1, out)
        for line, layer in zip(means, range(layers - 1, -1, -1)):
            cells = [token["layers"][layer] for token in tokens]
            best = [sum(cell["top"][0]["id"] == token["layers"][-1]["top"][0]["id"] for cell, token in zip(cells, tokens)) / len(cells),
                    sum(cell["next_rank"] == 1 for cell in cells[:-1]) / (len(cells) - 1)]
            want = [sum(cell["entropy"] for cell in cells) / len(cells), sum(cell["kl"] for cell in cells) / len(cells), 100 * best[0],
                    100 * best[1], -sum(cell["next_logprob"] for cell in cells[:-1]) / (len(cells) - 1)]
            got = [float(word.rstrip("%")) for word in line.split()[1:]]
            for one, other, digits in zip(want, got, (0.0051, 0.0051, 0.51, 0.51, 0.0051), strict=True):
                self.assertLess(abs(one - other), digits, line)
        # Without a next token nothing is said of it.
        alone = weft_json("lens", "-m", POCKET, "-p", "hello")["positions"]
        self.assertEqual(len(alone), 1)
        self.assertEqual(len(weft("lens", "-m", POCKET, "-p", "hello")[0].splitlines()[-1].split()), 4)

    def test_picture(self):
        for colour in ("entropy", "kl"):
            png = FOLDER / f"lens-{colour}.png"
            # The pocket model guesses some tokens right: frames.
            tokens = weft_json("lens", "-m", POCKET, "-p", "hello<|im_end|>, how are you? I am", "--plot", png, "--colour", colour)["positions"]
            rows = pixels_of(png)
            left, top, cell_width, cell_height = 90, 96, 124, 24
            layers = len(tokens[0]["layers"])
            bottom = top + layers * cell_height
            self.assertEqual((len(rows[0]), len(rows)), (max(left + len(tokens) * cell_width + 20, 860), bottom + 40))
            scale = [rows[44][left + x] for x in range(320)]
            self.assertEqual(len(set(scale)), len(scale) - sum(a == b for a, b in zip(scale, scale[1:])), "the colours are in one order")
            values = [cell[colour] for token in tokens for cell in token["layers"]]
            most = max(1, math.ceil(max(values)))
            frames = 0
            for at, token in enumerate(tokens):
                for cell in token["layers"]:
                    x, y = left + at * cell_width, bottom - (cell["layer"] + 1) * cell_height
                    inner = [row[x + 2:x + cell_width - 3] for row in rows[y + 2:y + cell_height - 3]]
                    found = inner[0][0]
                    share = scale.index(min(scale, key=lambda one: sum(abs(a - b) for a, b in zip(one, found)))) / 319
                    self.assertLess(abs(share - cell[colour] / most), 0.006, (at, cell))
                    text = {pixel for row in inner for pixel in row} - {found}
                    ink = 255 if cell[colour] / most < 0.45 else 20  # its edges are mixed with the cell's colour
                    self.assertTrue(text and all(min(ink, there) - 1 <= part <= max(ink, there) + 1 for pixel in text for part, there in zip(pixel, found)), (at, cell))
                    framed = rows[y][x] == (214, 39, 40)
                    self.assertEqual(framed, cell.get("next_rank") == 1)
                    frames += framed
                # The token's text stands below the cells.
                self.assertLess(min(sum(pixel) for row in rows[bottom + 5:] for pixel in row[left + at * cell_width:left + (at + 1) * cell_width - 5]), 600)
            self.assertGreater(frames, 0)

    def test_generate(self):
        """The layer of each generated token is the one that the lens gives for a text that ends before it."""
        run = ["generate", "-m", plain(), "-n", 8, "--lens"]
        text = weft_json(*run, "-p", TEXT, "--temperature", 0)
        self.assertEqual([token["id"] for token in text["lens"]], text["ids"])
        for count, token in enumerate(text["lens"]):
            before = ",".join(map(str, text["prompt_ids"] + text["ids"][:count]))
            again = weft_json(*run, "--prompt-ids", before, "--temperature", 0, "--logprobs", 1)
            self.assertEqual(again["lens"][0]["settled_layer"], token["settled_layer"])
            self.assertAlmostEqual(again["lens"][0]["probability"], token["probability"], 4)
            self.assertAlmostEqual(math.exp(again["logprobs"][0]["logprob"]), token["probability"], 4)
        layer = weft_json("lens", "-m", plain(), "-p", TEXT)["positions"][-1]["settled_layer"]
        self.assertEqual(text["lens"][0]["settled_layer"], layer)
        # Drawn against what the model finds likeliest: never settled.
        drawn = weft_json(*run, "-p", TEXT, "--temperature", 2, "--seed", 1, "--logprobs", 1)
        settled = [token["settled_layer"] for token in drawn["lens"]]
        self.assertEqual([layer is None for layer in settled], [token["top"][0]["id"] != token["id"] for token in drawn["logprobs"]])
        self.assertIn(None, settled)
        out, _ = weft("generate", "-m", POCKET, "-p", "hello", "-n", 12, "--temperature", 0, "--lens")
        self.assertRegex(out, r"\n\nlayer  p at the last  token\n(    \d +\d+%  \S+\n)+settled at layer [\d.]+ of 5 on average\n$")
        out, _ = weft("generate", "-m", plain(), "-p", TEXT, "-n", 8, "--temperature", 2, "--seed", 1, "--lens")
        self.assertIn(f"{settled.count(None)} of 8 are not the likeliest after the last layer\n", out)
        self.assertEqual(len(re.findall(r"^    - ", out, re.M)), settled.count(None))

    def test_generate_with_an_encoder_decoder(self):
        """The context is the decoder's, which begins with a token of its own."""
        result = weft_json("generate", "-m", t5(), "-p", "the cats sat", "-n", 6, "--temperature", 0, "--logprobs", 1, "--lens")
        self.assertEqual([token["id"] for token in result["lens"]], result["ids"])
        for token, known in zip(result["lens"], result["logprobs"]):
            self.assertAlmostEqual(token["probability"], math.exp(known["logprob"]), 4)
            self.assertIsNotNone(token["settled_layer"])

    def test_fit(self):
        """Translators make each layer's predictions closer to the last layer's, on text that they were not made from."""
        text, folder = FOLDER / "fit.txt", FOLDER / "fit"
        text.write_text((ROOT / "LICENSE").read_text()[:6000])
        report = weft_json("lens", "-m", POCKET, "--fit", text, "-o", folder)
        layers = weft_json("inspect", POCKET)["layers"]
        self.assertEqual([row["layer"] for row in report["layers"]], list(range(layers)))
        for row in report["layers"]:
            self.assertLess(row["tuned_kl"], 0.8 * row["logit_kl"], row)
        out, _ = weft("lens", "-m", POCKET, "--fit", text, "-o", folder)
        lines = out.splitlines()
        self.assertEqual(lines[0], f"{report['tokens']} tokens, and {report['held_out_tokens']} held out: of these, the mean KL to the last layer, in nats")
        for line, row in zip(reversed(lines[2:]), report["layers"], strict=True):
            self.assertEqual(line.split(), ["embed" if row["layer"] == 0 else str(row["layer"]), f"{row['ridge']:g}",
                                            f"{row['logit_kl']:.3f}", f"{row['tuned_kl']:.3f}"])

        # The report is what the lens says of the held-out tail, and the last layer is the model in any lens.
        def means(*options, text):
            tokens = weft_json("lens", "-m", POCKET, "-p", text, *options)["positions"]
            self.assertEqual(tokens[0]["layers"][-1]["kl"], 0)
            return tokens, [sum(token["layers"][layer]["kl"] for token in tokens) / len(tokens) for layer in range(layers)]
        other = (ROOT / "LICENSE").read_text()[7000:7600]
        (plain_tokens, plain_means), (tuned_tokens, tuned_means) = means(text=other), means("--tuned", folder, text=other)
        for layer, (one, two) in enumerate(zip(plain_means, tuned_means)):
            self.assertLess(two, one, layer)
        self.assertEqual([token["layers"][-1] for token in plain_tokens], [token["layers"][-1] for token in tuned_tokens])

        # Files, keys and fields have the names that the Python package tuned-lens uses.
        config, width = json.loads((folder / "config.json").read_text()), 0
        tensors = tensors_of(folder / "params.safetensors")
        width = config["d_model"]
        self.assertEqual({name: shape for name, (shape, _) in tensors.items()},
                         {f"{layer}.{name}": shape for layer in range(layers) for name, shape in (("weight", [width, width]), ("bias", [width]))})
        self.assertEqual(config, {"base_model_name_or_path": str(POCKET), "d_model": width, "num_hidden_layers": layers, "bias": True,
                                  "base_model_revision": None, "unembed_hash": None, "lens_type": "linear_tuned_lens"})

        # weft generate and weft lens settle a token at the same layer with the same tuned lens.
        run = ("-m", POCKET, "-p", "set a timer", "--tuned", folder)
        token = weft_json("generate", *run, "-n", 1, "--temperature", 0, "--lens")["lens"][0]
        self.assertEqual(token["settled_layer"], weft_json("lens", *run)["positions"][-1]["settled_layer"])
        plainly = weft_json("generate", *run[:-2], "-n", 1, "--temperature", 0, "--lens")["lens"][0]
        self.assertEqual(plainly["id"], token["id"])

    def test_fit_and_tuned_that_are_refused(self):
        text = FOLDER / "short.txt"
        text.write_text("too short")
        for options, place, code in ((("--fit", text), "--fit: it needs a folder", 2), (("-p", "a", "-o", FOLDER / "x"), "-o: it is for --fit", 2),
                                     (("--fit", text, "-o", FOLDER / "x", "-p", "a"), "--fit: it goes without", 2), ((), "-p: the text is empty", 2),
                                     (("--fit", text, "-o", FOLDER / "x", "--ctx", 20), "--ctx: --fit needs", 2),
                                     (("--fit", text, "-o", FOLDER / "x"), "the text has", 1),
                                     (("--fit", FOLDER / "none", "-o", FOLDER / "x"), "none", 1),
                                     (("-p", "a", "--tuned", FOLDER / "none"), str(FOLDER / "none/config.json"), 1)):
            with self.subTest(options=options):
                _, err = weft("lens", "-m", POCKET, *options, expect=code)
                self.assertIn(place, err)
        _, err = weft("generate", "-m", POCKET, "-p", "a", "-n", 1, "--tuned", FOLDER, expect=2)
        self.assertIn("--tuned: it requires --lens", err)
        _, err = weft("generate", "-m", POCKET, "-p", "a", "-n", 1, "--lens", "--tuned", FOLDER / "none", expect=1)
        self.assertIn(str(FOLDER / "none/config.json"), err)
        self.assertFalse((FOLDER / "x").exists())
        text.write_text((ROOT / "LICENSE").read_text()[:4000])
        _, err = weft("lens", "-m", POCKET, "--fit", text, "-o", text, expect=1)
        self.assertIn(str(text), err)

    def test_converter(self):
        """params.pt, as PyTorch writes it, becomes params.safetensors."""
        folder, script = FOLDER / "params", ROOT / "apps/weft/tuned_lens.py"
        folder.mkdir()
        done = subprocess.run([sys.executable, script, folder], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (1, f"tuned_lens.py: {folder / 'params.pt'} is not there\n"))
        make = ("import sys, torch; layer = torch.nn.Linear(3, 3).half(); print(*layer.weight.float().flatten().tolist(), *layer.bias.tolist());"
                "torch.save(torch.nn.ModuleList([layer]).state_dict(), sys.argv[1])")
        made = subprocess.run([sys.executable, "-c", make, folder / "params.pt"], capture_output=True, text=True)
        if made.returncode != 0:
            self.skipTest("PyTorch is not installed, which writes params.pt")
        subprocess.run([sys.executable, script, folder], check=True)
        numbers = [float(word) for word in made.stdout.split()]
        self.assertEqual(tensors_of(folder / "params.safetensors"), {"0.weight": ([3, 3], tuple(numbers[:9])), "0.bias": ([3], tuple(numbers[9:]))})
