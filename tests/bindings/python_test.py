"""The Python package as its users use it, on pocket and on tiny models.

python_test.py BIN_DIR [unittest arguments]. WEFT_LIBRARY names the library; without, it is the installed wheel's. The tests of
arrays need numpy, and the last one mypy: they are skipped without.
"""
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "python"))
from common import PACKAGE, weft
from arrays import *
from models import *
from process import *
from sessions import *
from speech import *


if __name__ == "__main__":
    if not os.environ.get("WEFT_LIBRARY"):
        assert PACKAGE not in pathlib.Path(weft.__file__).parents, "this is not the installed wheel"
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
