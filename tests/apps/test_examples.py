"""apps/examples: the examples work."""
import re
import shlex
import shutil
import subprocess
import unittest

from support import BIN, ENV, FOLDER, ROOT, weft

EXAMPLES = ROOT / "apps/examples"


class Examples(unittest.TestCase):
    def test_frames(self):
        """Frames are drawn beside each kind of session, and a session with a fifth of the device generates less."""
        done = subprocess.run([BIN / "frames", "", "0.7"], env=ENV, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        if "does not draw" in done.stdout:
            self.skipTest(done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("VUID-", done.stdout)
        rows = re.findall(r"^(.{22}) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$", done.stdout, re.M)
        self.assertEqual([row[0].strip() for row in rows], ["nothing", "throughput", "polite", "polite, share 0.5", "polite, share 0.2"], done.stdout)
        tokens = [float(row[5]) for row in rows]
        self.assertEqual(tokens[0], 0)
        self.assertTrue(0 < tokens[4] < tokens[1] / 2, done.stdout)

    def test_service(self):
        unit = (EXAMPLES / "weft.service").read_text()
        command = shlex.split(re.search(r"^ExecStart=/usr/bin/env (.*)$", unit, re.M)[1])
        self.assertEqual(command[0], "weft")
        options = [word for word in command[2:] if word.startswith("--")]
        self.assertTrue(options)
        for option in options:
            self.assertIn(f" {option} ", weft(command[1], "--help")[0])
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd is not installed")
        said = subprocess.run(["systemd-analyze", "verify", "--user", EXAMPLES / "weft.service"], env={**ENV, "XDG_RUNTIME_DIR": str(FOLDER)}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual((said.returncode, said.stdout), (0, ""))
