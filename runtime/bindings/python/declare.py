"""Writes weft/_c.py, the ctypes declarations of the C API, from its headers.

declare.py           writes the file
declare.py --check   exits with 1 if the file is not what it would write; a test runs this

The headers use few forms, and this reads no others: a declaration that it does not know is an error. Their inline functions
become functions of Python.
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
FIRST = ["weft.h", "soft.h", "duty.h", "image.h"]  # others use their types
# convert.h is another library's.
HEADERS = sorted((path for path in (HERE.parents[1] / "include/weft").glob("*.h") if path.name != "convert.h"),
                 key=lambda path: ([*FIRST, path.name].index(path.name), path.name))
OUTPUT = HERE / "weft/_c.py"
SCALARS = {"char": "c_char", "int": "c_int", "float": "c_float", "double": "c_double", "size_t": "c_size_t",
           "uint32_t": "c_uint32", "uint64_t": "c_uint64"}
CALLBACK = r"\s*(\w+)\s*\(\*(\w+)\)\((.*)\)\s*"
START = '''"""The C API of libweft for ctypes: by declare.py, from its headers, which document everything."""
import ctypes
import enum

'''


class Header:
    """The declarations of the headers, as lines of Python."""

    def __init__(self):
        self.lines, self.functions = [], []
        self.enums, self.structs, self.callbacks, self.constants, self.members = set(), set(), set(), {}, {}

    def ctype(self, text):
        """The ctypes expression of a type, such as "const weft_model *"."""
        words = text.replace("const", " ").replace("*", " * ").split()
        stars = words.count("*")
        assert len(words) == 1 + stars, f"no type that is known: {text}"
        name = words[0]
        if name in ("void", "char") and stars:
            # Text that the caller frees is a void *: ctypes makes bytes of a char *, and forgets where they were.
            result, stars = "ctypes.c_char_p" if name == "char" and "const" in text else "ctypes.c_void_p", stars - 1
        elif name in self.structs | self.callbacks:
            result = name
        else:
            result = "ctypes.c_int" if name in self.enums else "ctypes." + SCALARS[name]
        for _ in range(stars):
            result = f"ctypes.POINTER({result})"
        return result

    def parameters(self, text):
        result = []
        for parameter in re.findall(r"(?:[^,(]|\([^)]*\))+", text):
            callback = re.fullmatch(CALLBACK, parameter, re.S)
            if callback:
                result.append(self.callback(callback[1], callback[3]))
            elif parameter.strip() != "void":
                result.append(self.ctype(re.fullmatch(r"\s*(.*?[\s*])\w+\s*", parameter, re.S)[1]))
        return result

    def callback(self, result, parameters):
        # Its text is not zero-terminated.
        types = [self.ctype(result), *self.parameters(parameters)]
        return f"ctypes.CFUNCTYPE({', '.join(types)})".replace("c_char_p", "c_void_p")

    def enumeration(self, name, body):
        value, members = 0, []
        for member in body.rstrip().rstrip(",").split(","):
            member, _, explicit = (part.strip() for part in member.partition("="))
            value = int(explicit, 0) if explicit else value
            members.append(f"    {member} = {value}\n")
            self.members[member] = f"{name}.{member}"
            value += 1
        self.enums.add(name)
        self.lines.append(f"\nclass {name}(enum.IntEnum):\n{''.join(members)}\n")

    def structure(self, name, body):
        fields = []
        for field in filter(str.strip, body.split(";")):
            callback = re.fullmatch(CALLBACK, field, re.S)
            if callback:
                fields.append((callback[2], self.callback(callback[1], callback[3])))
                continue
            type_text, names = re.fullmatch(r"\s*(.*?[\s*])(\w+(?:\[\w+\])?(?:\s*,\s*\w+)*)\s*", field, re.S).groups()
            for one in names.split(","):
                one, _, length = one.strip().partition("[")
                type_name = self.ctype(type_text)
                if length:
                    length = length.rstrip("]")
                    type_name += f" * {self.constants.get(length, length)}"
                fields.append((one, type_name))
        self.structs.add(name)
        lines = "".join(f'        ("{one}", {type_name}),\n' for one, type_name in fields)
        self.lines.append(f"\nclass {name}(ctypes.Structure):\n    _fields_ = [\n{lines}    ]\n\n")

    def function(self, result, name, parameters):
        types = ", ".join(self.parameters(parameters))
        self.functions.append(f'    "{name}": ({"None" if result == "void" else self.ctype(result)}, [{types}]),\n')

    def default(self, name, body):
        """The function that gives a struct with the defaults of all its fields."""
        declared, *lines, end = [line.strip() for line in body.strip().rstrip(";").split(";")]
        variable = re.fullmatch(rf"{name} (\w+)", declared)[1]
        assert lines[:2] == [f"memset(&{variable}, 0, sizeof {variable})", f"{variable}.size = sizeof {variable}"], lines
        assert end == f"return {variable}", end
        values = [re.fullmatch(rf"{variable}\.(\w+) = ([\w.]+)", line).groups() for line in lines[2:]]
        fields = ["size=ctypes.sizeof(" + name + ")", *(f"{field}={self.value(value)}" for field, value in values)]
        self.lines.append(f"\ndef {name}_default() -> {name}:\n    return {name}({', '.join(fields)})\n\n")

    def value(self, text):
        return text.rstrip("f") if text[0].isdigit() else self.members[text]

    def declaration(self, text):
        for pattern, read in (
                (r"typedef enum (\w+) WEFT_ENUM \{(.*)\} \1", self.enumeration),
                (r"typedef struct (\w+) \{(.*)\} \1", self.structure),
                (r"WEFT_API (.*?[\s*])(\w+)\((.*)\)", lambda result, *rest: self.function(result.strip(), *rest))):
            found = re.fullmatch(pattern, text, re.S)
            if found:
                return read(*found.groups())
        opaque = re.fullmatch(r"typedef struct (\w+) \1", text)
        callback = re.fullmatch("typedef " + CALLBACK, text, re.S)
        assert opaque or callback, f"no declaration that is known: {text}"
        if opaque:
            self.structs.add(opaque[1])
            self.lines.append(f"\nclass {opaque[1]}(ctypes.Structure):\n    pass\n\n")
        else:
            self.callbacks.add(callback[2])
            self.lines.append(f"{callback[2]} = {self.callback(callback[1], callback[3])}\n")

    def read(self, text):
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        text = re.sub(r"#ifdef __cplusplus.*?#endif", "", text, flags=re.S)
        for name, value in re.findall(r"^#define (WEFT_\w+) (\d\w*)$", text, re.M):
            self.constants[name] = int(value.rstrip("u"), 0)
            self.lines.append(f"{name} = {value.rstrip('u')}\n")
        text = re.sub(r"^#.*$", "", text, flags=re.M)
        inline = r"\s*static inline (\w+) \1_default\(void\) \{([^}]*)\}"
        # A semicolon inside braces does not end a declaration.
        declaration = r"(?:[^;{]|\{[^}]*\})+;"
        for found in re.finditer(rf"{inline}|{declaration}", text):
            if found[1]:
                self.default(found[1], found[2])
            else:
                self.declaration(found[0][:-1].strip())
        rest = re.sub(rf"{inline}|{declaration}", "", text).strip()
        assert not rest, f"it was not read: {rest}"


def text():
    header = Header()
    for path in HEADERS:
        header.read(path.read_text())
    return f"{START}{''.join(header.lines)}\n# name: (result, parameters)\nFUNCTIONS = {{\n{''.join(header.functions)}}}\n"


def main():
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if OUTPUT.read_text() == text() else f"{OUTPUT} is not what the headers say: run {__file__}")
    OUTPUT.write_text(text())


if __name__ == "__main__":
    main()
