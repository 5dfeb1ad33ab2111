"""./run says what it can do, before it installs or builds anything."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.checkout = pathlib.Path(folder.name) / "weft"
        self.checkout.mkdir()
        (self.checkout / "run").write_bytes((ROOT / "run").read_bytes())
        for name in ("apps", "cmake", "tests"):
            (self.checkout / name).symlink_to(ROOT / name)

    def run_script(self, *arguments):
        done = subprocess.run(["bash", self.checkout / "run", *arguments], capture_output=True, text=True, timeout=60)
        self.assertFalse((self.checkout / "build").exists(), f"{arguments} built something")
        return done

    def test_help_lists_the_subcommands(self):
        done = self.run_script("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith("Installs what is missing"), done.stdout)
        for name in ("chat", "serve", "test", "soak", "fuzz", "bench-report", "compilers", "kit", "package", "wheel", "model"):
            self.assertRegex(done.stdout, rf"\./run (\[--no-install\] )?{name}\b")
        self.assertNotIn("set -", done.stdout)

    def test_nothing_is_an_error(self):
        done = self.run_script()
        self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", "run: nothing to run. ./run --help lists it\n"))

    def test_help_of_a_script_builds_nothing(self):
        for name in ("fuzz", "bench-report", "compilers", "kit", "package", "wheel"):
            with self.subTest(name):
                done = self.run_script("--no-install", name, "--help")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(done.stdout.startswith("usage: "), done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
