"""Debian sid's llama.cpp with its Vulkan backend, to measure beside Weft: both on sid's Mesa (lavapipe). The packages are fetched once and
unpacked (apps/compilers/root.py); nothing is installed."""
import dataclasses
import os
import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "compilers"), str(HERE.parent / "weft")]
import fetch_model
import root as roots


@dataclasses.dataclass(frozen=True)
class Llama:
    root: roots.Root
    environment: dict  # of both programs

    def command(self, program, *arguments):
        """The command that starts a program, ours or theirs, with sid's libraries."""
        libraries = f"{self.root.libraries}:{self.root.libraries}/llama:/usr/lib/{roots.TRIPLETS['amd64']}"  # of ours some are this machine's
        return [str(word) for word in (self.root.libraries / roots.LOADERS["amd64"], "--library-path", libraries, program, *arguments)]

    @property
    def bin(self):
        return self.root.folder / "usr/bin"

    @property
    def backends(self):
        """The folder that their programs must be started in: they look there for their backends."""
        return self.root.libraries / "ggml/backends0"

    @property
    def packages(self):
        return self.root.packages("llama.cpp-tools", "libggml0-backend", "mesa-vulkan")


def make():
    """Throws roots.Unavailable."""
    root = roots.make(roots.cache(), "amd64", roots.PEER)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("VK_")}
    environment |= {"VK_DRIVER_FILES": str(root.driver("lvp")), "GGML_VK_VISIBLE_DEVICES": "0"}  # else it takes no CPU's driver
    return Llama(root, environment)


def model_file(name):
    """The path of a model that ./run model NAME has downloaded, or of a GGUF file."""
    return pathlib.Path(name).resolve() if name.endswith(".gguf") else fetch_model.models_folder(os.environ) / f"{name}.gguf"
