"""README.md and docs/: paths, links and commands."""
import re
import unittest

from support import ROOT, weft


class Readme(unittest.TestCase):
    """What README.md names is there."""

    TEXT = (ROOT / "README.md").read_text()

    def test_paths(self):
        paths = re.findall(r"`((?:runtime|shaders|apps|tests|cmake)/[\w./-]*)`", self.TEXT)
        self.assertGreater(len(paths), 10)
        for path in paths:
            if not re.search(r"\b(X|NAME)\b", path.replace("X_test", "X")):
                self.assertTrue((ROOT / path).exists(), path)

    def test_operations(self):
        way = self.TEXT.split("## One token's way")[1].split("| folder |")[0]
        steps = "".join(line for line in way.splitlines(True) if re.match(r"\d\. |   ", line))
        for name in re.findall(r"`([a-z]+)`", steps):
            for file in (f"runtime/ops/{name}.cpp", f"shaders/{name}.comp"):
                self.assertTrue((ROOT / file).exists(), file)

    def test_commands(self):
        for command in re.findall(r"^\| `weft ([\w -]+)`", self.TEXT, re.M):
            weft(*command.split(), "--help")
