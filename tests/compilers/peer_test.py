#!/usr/bin/env python3
"""peer_test.py: `./run compilers --peer` without a driver: how it reads listings and counts their loops, and the file that it writes."""
import json
import pathlib
import struct
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "apps/compilers"))
import drivers
import listing
import llama_model
import peer
import root as roots

# A loop of two multiplications, which a branch goes back to, and in it another one of four; as RADV prints them.
AMD = """disasm:
BB0:
	s_load_dwordx4 s[0:3], s[2:3], 0x30                         ; f4080101 fa000030
	s_nop 1                                                     ; bf800001
	s_nop 0                                                     ; bf800000
	(then repeated 6 times)
BB2:
	v_fmac_f32_e32 v1, v2, v3                                   ; 56020702
	v_pk_mul_f16 v1, v2, v3                                     ; 56020702
	s_cbranch_scc0 BB5                                          ; bf840046
BB3:
	v_fma_mix_f32 v1, v2, v3, v1                                ; cc200001 04060702
	v_fma_f32 v1, v2, v3, v1                                    ; cc200001 04060702
	v_dual_fmac_f32 v1, v2, v3 :: v_dual_mov_b32 v4, v5         ; cc200001 04060702
	v_mul_f32_e32 v1, v2, v3                                    ; 10020702
	s_cbranch_scc1 BB3                                          ; bf85fffa
BB4:
	s_branch BB2                                                ; bf82fff5
BB5:
	s_endpgm                                                    ; bf810000
BB6:
	s_endpgm                                                    ; bf810000
"""
# The same of NVK: the end of the outer loop is printed last.
NVIDIA = """NAK IR after calc_instr_deps:
block.u 0 L1 [] -> {
      ur0      = s2r sr[0x25]                                 // delay=1 wr:0
} -> [1]
block 1 L9 [0, 4] -> {
      r1       = ffma r2 r3 r1                                // delay=1
      r1       = fmul.ftz r2 r3                               // delay=1
                 bra !up0 L8                                  // delay=1
} -> [2, 3]
block 2 L11 [1, 2] -> {
      r1       = idp4.u8.s8 r2 r3 r1                          // delay=1
                 bra up0 L11                                  // delay=1
} -> [2, 4]
block.u 3 L8 [1] -> {
                 exit                                         // delay=1
} -> []
block.u 4 L7 [2] -> {
                 bra L9                                       // delay=1
} -> [1]
  04037207 00000003 01000000 000fca00 03047589 00001f07 000e0000 000e4200
"""
ADRENO = """MESA: info: Native code for unnamed CL shader (null) with blake3 4e8c:
MESA: info: ; num_ubos:           0
MESA: info: @const(c16.x)\t0x4f7ffffe, 0x0000ffff
MESA: info: shps #l147
MESA: info: getone #l147
MESA: info: l147:
MESA: info: (sy)(ss)shpe
MESA: info: mov.u32u32 r0.x, c0.x
MESA: info: l296:
MESA: info: (nop2) cmps.s.ge p0.x, r0.x, c0.x
MESA: info: (ss)br p0.x, #l545
MESA: info: (sy)(rpt3)mad.f32 r1.x, (r)r2.x, (r)r3.x, (r)r1.x
MESA: info: (rpt1)nop
MESA: info: jump #l296
MESA: info: l545:
MESA: info: (jp)(eogm)nop
MESA: info: end
MESA: info: nop
MESA: info: ; CL prog 32/1: 14 instr, 327 nops
"""


class Listings(unittest.TestCase):
    def test_amd(self):
        blocks = listing.amd(AMD.splitlines())
        self.assertEqual({name: (len(code), to) for name, (code, to) in blocks.items()},  # without what aligns BB2
                         {"BB0": (2, ["BB2"]), "BB2": (3, ["BB5", "BB3"]), "BB3": (5, ["BB3", "BB4"]), "BB4": (1, ["BB2"]), "BB5": (1, []),
                          "BB6": (1, [])})
        self.assertEqual([list(loop) for loop in listing.loops(blocks)], [["BB2", "BB3", "BB4"]])
        self.assertEqual([list(loop) for loop in listing.loops_in(listing.loops(blocks)[0])], [["BB3"]])

    def test_nvidia(self):
        blocks = listing.nvidia(NVIDIA.splitlines())
        self.assertEqual(listing.size(blocks), 8)
        self.assertEqual([list(loop) for loop in listing.loops(blocks)], [["1", "2", "4"]])
        self.assertEqual((listing.count(blocks, listing.MULTIPLIES), listing.count(blocks, listing.DOTS)), (2, 1))

    def test_adreno(self):
        blocks = listing.adreno(ADRENO.splitlines())
        self.assertEqual(listing.size(blocks), 14)  # neither the preamble nor what follows the end
        (loop,) = listing.loops(blocks)
        self.assertEqual((listing.size(loop), listing.count(loop, listing.MULTIPLIES)), (11, 4))

    def test_instructions_a_weight(self):
        blocks = listing.amd(AMD.splitlines())
        self.assertEqual(listing.per_weight(blocks, 4, 4), (5 / 4, 5, 4))
        self.assertEqual(listing.per_weight(blocks, 4, 4, 8), (5 / 4 + 4 / 8, 5, 4))  # with the others of the loop around
        self.assertEqual(listing.per_weight(listing.nvidia(NVIDIA.splitlines()), 0, 0), (2 / 4, 2, 4))  # four for a dot product

    def test_a_loop_that_is_not_the_expected_one(self):
        blocks = listing.amd(AMD.splitlines())
        for expected in ((4, 8), (4, 2), (0, 0)):  # half, twice, and no dot products
            with self.assertRaises(ValueError):
                listing.per_weight(blocks, *expected)
        with self.assertRaises(ValueError):
            listing.per_weight({"a": (["v_mul_f32"] * 4 + ["v_dot4_i32_i8"], ["a"])}, 4, 4)  # a dot product that is not expected
        with self.assertRaises(ValueError):
            listing.per_weight({"BB0": (["s_endpgm"], [])}, 4, 4)

    def test_of_equal_loops_the_shortest(self):
        def loop(name, more):
            return {name: (["v_mul_f32"] * 4 + ["s_nop 1"] * more, [name])}
        self.assertEqual(listing.busiest([loop("a", 3), loop("b", 1), loop("c", 2)]), loop("b", 1))


class Peer(unittest.TestCase):
    AMD_STATISTICS = {"Instructions": 13, "VGPRs": 8, "Spilled VGPRs": 0}

    def theirs(self, name, count=13):
        return [*AMD.splitlines(), f"ggml_vulkan: pipeline stats for {name}:", "ggml_vulkan:   Driver pipeline hash: 15463296100745170520",
                f"ggml_vulkan:   Instructions: {count}", "ggml_vulkan:   VGPRs: 8", "ggml_vulkan:   Spilled VGPRs: 0", "ggml_vulkan:   Early preamble: true"]

    def mine(self, name):
        return ["disasm:", "BB7:", "\ts_endpgm ; of another kernel", json.dumps({"compiling": name}), *AMD.splitlines(),
                json.dumps({"compiled": name, "statistics": self.AMD_STATISTICS})]

    def test_kernels_of_both_programs(self):
        found = peer.kernels_of([*self.theirs("a"), *self.theirs("a", 14), *self.mine("b")], "radv")
        self.assertEqual(set(found), {"a", "b"})
        for numbers, blocks in found.values():
            self.assertEqual(drivers.columns_of("radv", numbers), {"instructions": 13, "registers": 8, "spills": 0})
            self.assertEqual(listing.size(blocks), 13)

    def test_a_listing_of_another_kernel(self):
        with self.assertRaisesRegex(ValueError, "a: 13 instructions in the driver's listing, and 14 in"):
            peer.kernels_of(self.theirs("a", 14), "radv")

    def test_a_driver_without_listings(self):
        said = {"Instructions": 5, "GPRs": 8, "Spills": 0, "Fills": 0}
        found = peer.kernels_of([json.dumps({"compiled": "b", "statistics": said})], "Honeykrisp")
        self.assertEqual(found, {"b": (said, None)})

    def test_file(self):
        blocks = {"b": (["v_mul_f32"] * 32 + ["s_nop 1"] * 32, ["b"])}
        statistics = {**self.AMD_STATISTICS, "Instructions": 64}
        found = {name: (statistics, blocks) for name in ("matmul subgroup 0 1 4 1 0 0 0 1 0 0 64 1 0 0 0", "mul_mat_vec_f16_f32_f32", "mul_mat_vec_q8_0_f32_f32",
                                                         "mul_mat_vec_q4_0_f32_f32")}
        with mock.patch.object(peer.report, "say") as said:
            rows = peer.rows_of("radv", found, {"mul_mat_vec_f16_f32_f32"})
        said.assert_called_once()  # q4_0 would have 72 multiplications
        chip, device = drivers.CHIPS["navi21"], {"name": "D", "driver": "radv"}
        with tempfile.TemporaryDirectory() as work:
            text = peer.write([(chip, device, rows, ""), (drivers.CHIPS["adreno-630"], device, {}, "no 16 bits")], ["mesa_1"], pathlib.Path(work)).read_text()
        self.assertIn("| weights | inputs | kernel | navi21 |\n", text)
        self.assertIn("| F16 | floats | Weft `matmul` | 2.00 |\n", text)
        self.assertIn("| F16 | floats | Weft `matmul` | 2.00 | 64 | 32 | 64 | 8 |  | 0 |  |  | yes |", text)
        self.assertIn("| F16 | floats | llama.cpp `mul_mat_vec_f16_f32_f32` | 2.00 | 64 | 32 | 64 | 8 |  | 0 |  |  | yes |", text)
        self.assertIn("| Q8_0 | floats | llama.cpp `mul_mat_vec_q8_0_f32_f32` | 2.00 | 64 | 32 | 64 | 8 |  | 0 |  |  | if forced |", text)
        self.assertIn("| Q4_0 | floats | llama.cpp `mul_mat_vec_q4_0_f32_f32` |  |  |  | 64 |", text)
        self.assertIn("llama.cpp refuses this device: `no 16 bits`", text)

    def test_every_chip_is_known_and_every_driver_there(self):
        self.assertEqual({drivers.CHIPS[name].driver for name in peer.CHIPS},
                         {chip.driver for chip in drivers.CHIPS.values() if chip.architecture == "amd64"})

    def test_packages(self):
        with tempfile.TemporaryDirectory() as work:
            (pathlib.Path(work) / "packages").write_text("libc6_2_amd64.deb\nllama.cpp-tools_1%3a0.7.0_amd64.deb\n")
            self.assertEqual(roots.Root(pathlib.Path(work), "amd64").packages("llama", "mesa"), ["llama.cpp-tools_1:0.7.0_amd64"])

    def test_model_is_whole(self):
        with tempfile.TemporaryDirectory() as work:
            path = pathlib.Path(work) / "m.gguf"
            llama_model.write(path)
            size = path.stat().st_size
            with open(path, "rb") as file:
                self.assertEqual(struct.unpack("<4sIQ", file.read(16)), (b"GGUF", 3, 2 + 9 * len(llama_model.LAYERS)))
        weights = 2 * 2048 * 2048 + 2 * 2048 * 512 + 3 * 2048 * 8192
        matrices = sum(weights // llama_model.TYPES[kind][1] * llama_model.TYPES[kind][2] for kind in llama_model.LAYERS)
        vectors = 4 * 2048 * (1 + 2 * len(llama_model.LAYERS))
        header = size - matrices - vectors - 2048 * 256 * 2
        self.assertTrue(1000 < header < 16384, header)
        self.assertEqual(size % 32, 0)


if __name__ == "__main__":
    unittest.main()
