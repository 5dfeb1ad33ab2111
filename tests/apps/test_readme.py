"""README.md, docs/ and the headers' tables: what they name exists, and their commands do what they say.

The commands of docs/embedding.md run in tests/install/install_test.py, which installs the library.
"""
import os
import re
import unittest

import pages
from support import BIN, ENV, FOLDER, ROOT, plain, real_model, weft, weft_json

README = ROOT / "README.md"


def section(page, heading):
    text = pages.prose(page)
    return text[text.index(heading):].split("\n#")[0]


# Pages without commands, and those whose programs tests/bindings and tests/install run.
NOT_RUN = ("CHANGELOG.md", "SECURITY.md", "android.md", "extending.md", "java.md", "packaging.md", "python.md", "reliability.md")


class Readme(unittest.TestCase):
    def work_folder(self, page):
        """A folder in which commands find what they find in a checkout, but write elsewhere."""
        folder = FOLDER / "pages" / page.parent.name / page.stem
        (folder / "build/release").mkdir(parents=True)
        (folder / "build/release/bin").symlink_to(BIN)
        for entry in ROOT.iterdir():
            if entry.name not in ("run", "build") and not entry.name.startswith("."):
                (folder / entry.name).symlink_to(entry)
        # Does the same as ./run once everything is installed and built.
        (folder / "run").write_text('#!/bin/sh\nexec build/release/bin/weft "$@"\n')
        (folder / "run").chmod(0o755)
        return folder

    def test_commands_run(self):
        env = dict(ENV, PATH=f"{BIN}:{os.environ['PATH']}")
        for page in pages.PAGES:
            if page.name == "embedding.md":
                continue
            with self.subTest(page=page.name):
                count = pages.run(page, self.work_folder(page), env, real_model)
                none = page in pages.NOTES or page.name in NOT_RUN
                self.assertGreater(count, -1 if none else 0)

    def test_scripts_can_be_executed(self):
        """A block that is not run names them too."""
        shell = "".join(block.text for page in pages.PAGES for block in pages.blocks(page) if block.language in ("sh", "console"))
        named = set(re.findall(r"^(?:\$ )?(?:[A-Z_]+=\S* )*((?:apps|tests)/[\w./-]+)", shell, re.M))
        self.assertGreater(len(named), 1)
        for script in sorted(named):
            self.assertTrue(os.access(ROOT / script, os.X_OK), script)

    def test_links(self):
        for page in pages.PAGES:
            for link in pages.links(page):
                with self.subTest(page=page.name, link=link):
                    path, _, anchor = link.partition("#")
                    target = (page.parent / path).resolve() if path else page
                    self.assertTrue(target.exists())
                    if anchor:
                        self.assertIn(anchor, pages.anchors(target))
        linked = {(README.parent / link.partition("#")[0]).resolve() for link in pages.links(README)}
        self.assertLessEqual(set(pages.PAGES[1:]) - set(pages.NOTES), linked)
        linked = {(page.parent / link.partition("#")[0]).resolve() for page in pages.PAGES for link in pages.links(page)}
        self.assertLessEqual(set(pages.NOTES), linked)

    def test_paths(self):
        paths = {path for page in pages.PAGES
                 for path in re.findall(r"`((?:runtime|shaders|apps|tests|cmake|docs)/[\w./-]*)`", pages.prose(page))}
        self.assertGreater(len(paths), 30)
        for path in sorted(paths):
            if "NAME" not in path:
                self.assertTrue((ROOT / path).exists(), path)

    def test_tests_of_known_failures(self):
        """The tests in which drivers fail as others saw it."""
        sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.cpp"))
        names = set(re.findall(r"`(\w+)\.(\w+)`", section(ROOT / "docs/reliability.md", "## Known failures")))
        self.assertGreater(len(names), 6)
        self.assertEqual(names - set(re.findall(r"^TEST(?:_F)?\((\w+), (\w+)\)", sources, re.M)), set())

    def test_operations(self):
        """Each operation has the files that the README gives it, and the exceptions are those that the pages name."""
        steps = re.findall(r"^\d\. .*(?:\n   .*)*", section(README, "## One token's way"), re.M)
        names = set(re.findall(r"`([a-z_]+)`", "".join(steps)))
        self.assertGreater(len(names), 12)
        for name in sorted(names):
            for file in (f"runtime/ops/{name}.cpp", f"shaders/{name}.comp", f"tests/ops/{name}_test.cpp"):
                self.assertTrue((ROOT / file).exists(), file)
        heads = set(re.findall(r"^\| `(\w+)` \|", section(ROOT / "docs/heads.md", "## The kernels"), re.M))
        others = re.search(r"Shaders without an operation of their own: (.*?)\n\n", pages.prose(ROOT / "docs/extending.md"), re.S)[1]
        others = heads | {name for name in re.findall(r"`(\w+)`", others) if not (ROOT / f"runtime/ops/{name}.cpp").exists()}
        shaders = {path.stem for path in (ROOT / "shaders").glob("*.comp")}
        self.assertEqual({name for name in shaders if not (ROOT / f"runtime/ops/{name}.cpp").exists()}, others)
        count = {6: "six", 7: "seven", 8: "eight"}[len(heads)]
        self.assertIn(f"have {count} more kernels", README.read_text())
        recorded = (ROOT / "runtime/vocab/heads/pruned.cpp").read_text()
        for name in heads:
            self.assertIn(f"shaders::{name}", recorded)

    def test_subcommands(self):
        def subcommands(*words):
            names = re.findall(r"^  ([a-z][\w-]*) ", weft(*words, "--help")[0].partition("\nExample")[0], re.M)
            return [" ".join([*words, name]) for name in names]
        groups = ["vocab", "lab"]
        there = [name for name in subcommands() if name not in groups] + [name for group in groups for name in subcommands(group)]
        named = re.findall(r"^\| `weft ([\w -]+)` \|", pages.prose(README), re.M)
        self.assertEqual(sorted(named), sorted(there))
        for command in named:
            weft(*command.split(), "--help")

    def test_environment_variables(self):
        sources = "".join(path.read_text() for path in (ROOT / "runtime").rglob("*.cpp"))
        read = {name for name in re.findall(r'(?:getenv|flag)\("(WEFT_\w+)"\)', sources)}
        named = set(re.findall(r"^\| `(WEFT_\w+)` \|", pages.prose(ROOT / "docs/devices.md"), re.M))
        self.assertEqual(named, read)

    def test_length_and_one_statement(self):
        self.assertLessEqual(len(README.read_text().splitlines()), 150)
        everything = " ".join(" ".join(page.read_text().split()) for page in pages.PAGES)
        self.assertEqual(len(re.findall(r"GPU (?:has|was|have) (?:not |never )?been measured", everything)), 1)

    def test_tables_of_the_header(self):
        """The names in the headers' tables are the keys of the JSON."""
        header = "".join((ROOT / "runtime/include/weft" / name).read_text() for name in ("weft.h", "profile.h"))

        def names(function):
            comment = header[:header.index(f"WEFT_API weft_status {function}(")].rpartition("/*")[2]
            rows = re.findall(r"^ \*   (\w+(?:, \w+)*)  +\S", comment, re.M)
            return [name for row in rows for name in row.split(", ")]
        device = weft_json("devices", "--device", 0)["devices"][0]
        self.assertEqual(set(names("weft_devices")) - {"why"}, set(device))
        described = weft_json("inspect", plain())
        rounding = ["exact", "largest_error", "relative_error"]
        self.assertEqual(names("weft_model_describe"), ["chat_template", "chat_template_problem", "tie", "untied_by_tensors", "head", "shards", "types", "tensors", "buffers", *rounding])
        self.assertLessEqual({"types", "tensors", "buffers"}, set(described))
        self.assertLessEqual(set(rounding), set(described["tensors"][0]) & set(described["types"][0]))
        if device["caps"]["timestamps"]:
            profile = weft_json("bench", "-m", plain(), "-p", 2, "-n", 1, "--repeat", 1, "--profile")["profile"]["decode"]
            self.assertCountEqual(names("weft_session_profile"), profile)  # members of an object have no order
