#!/usr/bin/env python3
"""shader_header.py CMAKE GLSLANG SPIRV_CROSS: the arguments that cmake/shader_header.cmake reads from a shader, and the mistakes that it finds."""
import pathlib
import subprocess
import sys
import tempfile

CMAKE, GLSLANG, SPIRV_CROSS = sys.argv[1:4]
SCRIPT = pathlib.Path(__file__).parents[2] / "cmake" / "shader_header.cmake"
SHADER = """#version 450
layout(constant_id = 1) const uint BIASED = 0;
layout(constant_id = 0) const uint THREADS = 64;
layout(local_size_x_id = 0) in;
layout(std430, binding = 1) readonly buffer Bias { float bias[]; };
layout(std430, binding = 0) buffer Output { float y[]; };
layout(std430, binding = 0) buffer OutputAsWords { uint words[]; };
layout(push_constant) uniform Push { uint count; };
void main() { if (gl_GlobalInvocationID.x < count) y[gl_GlobalInvocationID.x] += BIASED != 0 ? bias[0] : float(words[0]); }
"""


def header(folder, changes=(), optional="bias", full_subgroups=""):
    """The header of the shader after changes, or what the script says of it."""
    text = SHADER
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    source = folder / "two_words.comp"
    source.write_text(text)
    for output, options in (("two_words.spv", ["-g0"]), ("two_words.named.spv", [])):
        subprocess.run([GLSLANG, "--quiet", "-V", "--target-env", "vulkan1.1", *options, "-o", folder / output, source], check=True)
    result = subprocess.run([CMAKE, f"-DSPIRV_CROSS={SPIRV_CROSS}", f"-DFOLDER={folder}", f"-DSOURCE={source}", f"-DOPTIONAL={optional}",
                             f"-DFULL_SUBGROUPS={full_subgroups}", "-P", SCRIPT],
                            capture_output=True, text=True)
    return " ".join((result.stderr if result.returncode else (folder / "two_words.spv.h").read_text()).split())


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        whole = header(folder)
        for part in ("struct TwoWords : Shader", "Constant threads; Constant biased;", "return {threads.value, biased.value};",
                     "Binding y; OptionalBinding bias = {};", "return {y.view, bias.view};", "kPushBytes = 4;",
                     '{{"two_words", "", two_words_code, "y bias", 2, 1, 0, 2, 2, 4, false}}'):
            assert part in whole, f"{part!r} is not in {whole}"
        assert "Binding bias;" in header(folder, optional=""), "without a line Optional a binding is required"
        assert ", 4, true}}" in header(folder, full_subgroups="two_words")
        said = header(folder, full_subgroups="two_words_int8")
        assert "there is no kernel 'two_words_int8', which the line Full subgroups names" in said, said
        for message, changes, optional in (
                ("binding 0 is called 'words' and 'y'", [("OutputAsWords", "Words")], "bias"),
                ("binding 0 has no name", [("buffer Output ", "buffer AllAsFloats ")], "bias"),
                ("there is no binding 'begun', which the line Optional names", [], "bias;begun"),
                ("constant 0 has no name", [("constant_id = 0", "constant_id = 2"), ("size_x_id = 0", "size_x_id = 2")], "bias"),
                ("the specialisation constant BIASED is a int, and only uint is known", [("uint BIASED", "int BIASED")], "bias")):
            said = header(folder, changes, optional)
            assert message in said, f"{message!r} is not in {said}"


if __name__ == "__main__":
    main()
