"""Shared code of the Python package's tests. WEFT_LIBRARY names the library; without, it is the installed wheel's."""
import contextlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "runtime/bindings/python"
sys.path.insert(0, str(ROOT / "tests/apps"))
if os.environ.get("WEFT_LIBRARY"):
    sys.path.insert(0, str(PACKAGE))
import pages
from support import BIN, ENV, FOLDER, SHARED, bert, chatty, thinks

os.environ["WEFT_CACHE_DIR"] = ENV["WEFT_CACHE_DIR"]
import weft
from weft import _c

needs_numpy = unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
TIMER = 'Timer set for 10 minutes.\n{"action":"set_timer","minutes":10}'


def run_script(script, *arguments, expect=0, timeout=120):
    """Runs a script in a Python of its own; returns its stdout and stderr together."""
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run([sys.executable, "-c", script, *map(str, arguments)], env=env, timeout=timeout, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}"
    return done.stdout


class WithPocket(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = weft.Model()

    @classmethod
    def tearDownClass(cls):
        cls.model.close()

    @contextlib.contextmanager
    def session(self, **options):
        with self.model.session(**{"temperature": 0, **options}) as session:
            yield session
