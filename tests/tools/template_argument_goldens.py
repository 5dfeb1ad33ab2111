#!/usr/bin/env python3
"""Every filter, test and method of Jinja with none, undefined and all its arguments, and what transformers' Jinja environment makes of them.

template_argument_goldens.py writes tests/unit/golden/template/arguments.json. Needs jinja2 and transformers (5.24 made the file in the
repository). A case has "text", or "error" where Jinja fails. template_goldens.py has random templates.
"""
import copy
import json
import pathlib
import warnings

from transformers.utils.chat_template_utils import _compile_jinja_template

warnings.simplefilter("ignore")

MESSAGES = [{"role": "user", "content": "a\nb", "text": "Hello <there>", "n": 3, "tags": ["b", "A", "c"], "score": 2.5}, {"role": "assistant", "content": "x", "n": -7, "tags": []}]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}}}]
# Arguments that a filter cannot do without.
REQUIRED = {
    "attr": "'a'", "batch": "2", "groupby": "'a'", "replace": "'a','b'", "slice": "2", "format": "1", "map": "'upper'", "rejectattr": "'a'",
    "selectattr": "'a'",
}
FILTERS = """
    abs attr batch capitalize center count d default dictsort e escape filesizeformat first float forceescape format groupby indent int items
    join last length list lower map max min reject rejectattr replace reverse round safe select selectattr slice sort string striptags sum title
    tojson trim truncate unique upper urlencode wordcount wordwrap xmlattr
""".split()
TESTS = """
    boolean callable defined divisibleby(2) eq(1) equalto(1) escaped even false filter('upper') float ge(1) gt(1) greaterthan(1) in([1,none])
    integer iterable le(1) lessthan(1) lower lt(1) mapping ne(1) none number odd sameas(none) sequence string test('odd') true undefined upper
""".split()
# A filter's arguments, and what it is tried with.
ARGUMENTS = {
    "attr": ["none", "missing", "'n'"],
    "batch": ["2,none", "2,missing", "none", "missing", "2,fill_with='x'", "linecount=2", "linecount=3,fill_with=none"],
    "center": ["none", "missing", "width=9", "9", "0", "-3"],
    "default": ["none", "missing", "none,true", "missing,true", "default_value='z'", "default_value='z',boolean=true", "boolean=true", "'z',boolean=false", "'z',none"],
    "dictsort": ["none", "true", "false,'value'", "by='value'", "by='key',reverse=true", "reverse=true", "case_sensitive=true", "case_sensitive=none", "by='other'", "reverse=none"],
    "filesizeformat": ["true", "binary=true", "false", "none"], "float": ["none", "missing", "3", "default=2.5", "'x'"],
    "int": ["none", "missing", "7", "default=7", "7,16", "0,8", "base=2", "base=16,default=5", "0,0", "7,none", "0,36", "0,37", "0,1"],
    "groupby": ["'n'", "'role'", "attribute='role'", "'missing'", "'missing','z'", "'missing',default=0", "'role',case_sensitive=true", "0", "none"],
    "indent": ["2", "2,true", "width=2,first=true", "2,true,true", "blank=true", "first=true", "'> '", "width='--',blank=true", "none", "0"],
    "join": ["','", "d=','", "','.'", "', ',attribute='role'", "attribute='n'", "none", "missing", "','.join('ab')", "'|','tags.0'", "d='-',attribute='role'"],
    "map": ["'upper'", "attribute='role'", "attribute='zz',default='q'", "attribute='zz'", "attribute='tags.0'", "'join','-'", "'replace','a','b'", "'default','q'", "'default','q',true", "'int'", "'int',base=16", "attribute=none", "none", "attribute=0", "'string'", "'round',1,'floor'", "'attr','role'"],
    "max": ["true", "case_sensitive=true", "attribute='n'", "false,'n'", "attribute='role'", "none"],
    "min": ["true", "case_sensitive=true", "attribute='n'", "false,'n'"],
    "reject": ["'none'", "'string'", "'equalto','b'", "'in',['b']", "'gt',1", "none"],
    "select": ["'none'", "'string'", "'equalto','b'", "'in',['b']", "'gt',1", "none", "'defined'", "'true'"],
    "rejectattr": ["'n','gt',0", "'zz','defined'", "'role','equalto','user'", "'tags'", "'tags.0'", "'zz'", "attribute='n'"],
    "selectattr": ["'n','gt',0", "'zz','defined'", "'role','equalto','user'", "'tags'", "'tags.0'", "'zz'", "'n','none'", "'role','in',['user']", "'role','=='  ,'user'", "'n','>=',3", "attribute='n'"],
    "replace": ["'a','b'", "'a','b',1", "'a','b',count=1", "old='a',new='b'", "'a','b',none", "'a','b',0", "'a','b',-1", "'','-'", "'a',none", "none,'b'", "'a',1"],
    "round": ["1", "0,'floor'", "0,'ceil'", "precision=1", "method='ceil'", "1,method='floor'", "-1", "none"],
    "slice": ["2", "2,none", "2,'x'", "slices=2,fill_with='x'", "0", "none", "5,'z'"],
    "sort": ["true", "reverse=true", "false,true", "case_sensitive=true", "attribute='n'", "true,false,'n'", "attribute='role,n'", "attribute='zz'", "reverse=none"],
    "string": ["", "1"], "sum": ["'n'", "attribute='n'", "'n',10", "start=5", "attribute='n',start=0.5", "'zz'", "none", "none,3"],
    "tojson": ["2", "indent=2", "indent=none", "indent=0", "sort_keys=true", "ensure_ascii=true", "separators=(',',':')", "true", "indent=4,sort_keys=true", "ensure_ascii=false,indent=1", "indent='  '", "separators=none"],
    "trim": ["'a'", "chars='ab'", "none", "chars=none", "''", "' x'"],
    "truncate": ["5", "5,true", "length=5", "5,false,'!'", "5,true,'..',0", "5,leeway=0", "length=4,killwords=true,end='',leeway=0", "255", "5,true,'',none", "3,end='…'", "0", "leeway=9"],
    "unique": ["true", "case_sensitive=true", "attribute='role'", "false,'n'", "attribute='zz'"],
    "wordwrap": ["5", "width=5", "5,false", "5,true,'|'", "wrapstring='|',width=3", "5,break_long_words=false", "5,break_on_hyphens=false", "5,true,none,false", "none"],
    "xmlattr": ["true", "false", "autospace=false", "none"], "format": ["1,2", "'x'", "a=1", "1", "none", "'x',b=2"], "urlencode": ["", "'x'"],
    "first": ["1"], "last": ["1"], "items": ["1"], "length": ["1"], "striptags": ["1"], "wordcount": ["1"], "title": ["1"], "upper": ["1"],
    "safe": ["1"], "escape": ["1"], "lower": ["x=1"], "capitalize": ["1"], "list": ["1"], "reverse": ["1"], "abs": ["1"], "forceescape": ["1"],
}
INPUTS = {
    "int": ["'0x1f'", "'12'", "'z'", "2.9"], "float": ["'1.5'", "'x'", "none", "'1e3'"], "round": ["2.5", "-1.25", "3", "'a'"],
    "groupby": ["messages"], "max": ["[3,1]", "messages", "['a','B']"], "min": ["[3,1]", "messages", "['a','B']"],
    "dictsort": ["{'b':1,'A':3,'c':none}", "{'b':2,'a':1}"], "filesizeformat": ["1500", "1", "999999999", "'12'"],
    "sum": ["messages", "[1,2]", "[0.5]"], "map": ["['a','bA']", "messages"], "selectattr": ["messages"], "rejectattr": ["messages"],
    "unique": ["['a','A','b']", "messages"], "sort": ["['b','A','a']", "messages", "[3,1]"], "select": ["['b',1,none]", "[2,0]"],
    "reject": ["['b',1,none]", "[2,0]"], "tojson": ["{'b':[1,'é<'],'a':none}", "'<é>'", "1.0", "tools"],
    "xmlattr": ["{'a':1,'b':none,'c':missing,'d':'<'}"], "format": ["'%s-%s'", "'%(a)s'", "'%d'"], "attr": ["messages[0]"], "batch": ["[1,2,3]"],
    "slice": ["[1,2,3]", "'abcde'"], "join": ["messages", "['a','b']", "'abc'", "[1,none,missing]"], "first": ["[1]"], "last": ["[1]"],
    "items": ["{'a':1}"], "length": ["[1]"], "list": ["'ab'"], "reverse": ["'ab'"], "abs": ["-1"], "urlencode": ["'a b/ü'", "{'a':1}"],
    "indent": ["'a\nb\n\nc'"], "truncate": ["'Hello big wide world'"], "wordwrap": ["'aaaa bb-cc ddddddddd'"], "trim": ["'abxba'", "' a '"],
    "replace": ["'banana'", "11"], "center": ["'ab'"], "default": ["missing", "none", "''", "0"],
}
METHODS = {
    "startswith": ["'a'", "'b',1", "'b',1,2", "('x','a')", "'a',none,none", "1", "'a',-1", "prefix='a'"], "endswith": ["'c'", "'b',0,2", "('c','z')"],
    "split": ["", "' '", "none", "none,1", "' ',1", "' ',maxsplit=1", "sep='b'", "''", "sep=none,maxsplit=1", "'b',-1"],
    "rsplit": ["' ',1", "none,1", "sep='b',maxsplit=1"], "splitlines": ["", "true", "keepends=true", "1"],
    "strip": ["", "'a'", "none", "'ad '", "chars='a'"], "lstrip": ["", "'a'", "none"], "rstrip": ["", "'d'", "none"],
    "replace": ["'a','x'", "'a','x',1", "'a'", "'a','x',count=1", "old='a',new='b'"], "find": ["'b'", "'b',2", "'b',0,1", "'zz'", "''"],
    "rfind": ["'b'", "'',0,2"], "index": ["'b'", "'zz'"], "count": ["'a'", "'a',1", "''"], "upper": ["", "1"], "lower": [""], "title": [""],
    "capitalize": [""], "swapcase": [""], "center": ["9", "9,'*'"], "ljust": ["9,'*'", "9"], "rjust": ["9,'*'"], "zfill": ["9"],
    "expandtabs": ["", "2", "tabsize=2"], "partition": ["'b'", "''"], "rpartition": ["'b'"], "removeprefix": ["'a'"], "removesuffix": ["'d'"],
    "isdigit": [""], "isalpha": [""], "isspace": [""], "isupper": [""], "join": ["['x','y']", "'xyz'", "[1]", "none"], "format": ["1", "x=1"],
    "isalnum": [""], "isidentifier": [""], "isprintable": [""], "isascii": [""],
}
DICT_METHODS = ["get('a')", "get('z')", "get('z', 1)", "get('z', none)", "get(key='a')", "items()", "keys()", "values()", "pop('a')", "pop('z', 1)", "update({'q': 1})", "setdefault('z', 3)", "copy()", "popitem()"]
LIST_METHODS = ["append(4)", "extend([5, 6])", "insert(0, 9)", "pop()", "pop(0)", "index(2)", "index(2, 1)", "count(2)", "reverse()", "sort()", "sort(reverse=true)", "remove(2)", "copy()", "clear()"]
# X is none or undefined.
USES = ["X ~ 'a'", "'a' + X", "X == none", "X is none", "X and 1", "not X", "X or 'x'", "X in 'abc'", "'a' in X", "X < 1", "-X", "X * 2", "X[0]", "X()", "X.strip()", "X.a", "X['a']", "[X]", "{'a': X}", "'%s' % X", "'%s' | format(X)",
        "{'a': 1}[X]", "[1, 2][X]", "range(X)", "dict(a=X)", "'x' * X", "[X] | join('-')", "[X, 'a'] | sort | list", "[X] | tojson", "[X] | map('upper') | list", "X == missing", "X != ''", "X | string | length", "'-'.join([X])"]
STATEMENTS = ["{% for i in X %}x{% else %}e{% endfor %}", "{% if X %}y{% else %}n{% endif %}", "{% for k, w in (X).items() %}x{% endfor %}", "{% macro f(a=1) %}[{{ a }}]{% endmacro %}{{ f(X) }}", "{% set x = X %}{{ x is defined }}{{ x }}",
              "{% set ns = namespace(x=X) %}{{ ns.x is none }}{{ ns.x is undefined }}", "{% for i in [1] if X %}x{% else %}z{% endfor %}", "{% with a = X %}{{ a }}{% endwith %}"]
LAZY = "map select reject selectattr rejectattr unique batch slice items reverse groupby".split()


def sources():
    for name in FILTERS:
        for value in ("none", "missing", "messages[0].nothing", "''", "[]", "{}"):
            yield f"{{{{ ({value}) | {name}{'(' + REQUIRED[name] + ')' if name in REQUIRED else ''}{' | list' if name in LAZY else ''} }}}}"
    for name, lists in ARGUMENTS.items():
        for given in lists:
            for value in INPUTS.get(name, ["'aBc d'"]):
                yield f"{{{{ ({value}) | {name}({given}){' | list' if name in LAZY else ''} }}}}"
    for name, lists in METHODS.items():
        for given in lists:
            for value in ("'aBc abd'", "'a\\tb\\r\\nc'"):
                yield f"{{{{ ({value}).{name}({given}) }}}}"
    for method in DICT_METHODS:
        yield f"{{% set d = {{'a': 1, 'b': none}} %}}{{{{ d.{method} }}}}|{{{{ d }}}}"
    for method in LIST_METHODS:
        yield f"{{% set d = [3, 2, 1] %}}{{{{ d.{method} }}}}|{{{{ d }}}}"
    for name in TESTS:
        for value in ("none", "missing", "1.5", "'ab'", "[1]"):
            yield f"{{{{ ({value}) is {name} }}}}{{{{ ({value}) is not {name} }}}}"
    for value in ("none", "missing", "messages[0].zz"):
        for use in USES:
            yield "{{ " + use.replace("X", value) + " }}"
        for statement in STATEMENTS:
            yield statement.replace("X", value)


def render(source):
    try:
        template = _compile_jinja_template(source)
        return {"text": template.render(messages=copy.deepcopy(MESSAGES), tools=copy.deepcopy(TOOLS), documents=None, add_generation_prompt=True, bos_token="<s>", eos_token="</s>")}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:60]}


def is_reproducible(text):
    return not any(part in text for part in (" at 0x", "object at", "<function"))


def main():
    cases = [{"source": source, **render(source)} for source in dict.fromkeys(sources())]
    cases = [case for case in cases if is_reproducible(case.get("text", ""))]
    path = pathlib.Path(__file__).resolve().parents[1] / "unit/golden/template/arguments.json"
    lines = ",\n".join(json.dumps(case) for case in cases)
    path.write_text(f'{{"messages": {json.dumps(MESSAGES)},\n"tools": {json.dumps(TOOLS)},\n"cases": [\n{lines}\n]}}\n')
    print(f"{len(cases)} templates, {sum('error' in case for case in cases)} of which fail in Jinja")


if __name__ == "__main__":
    main()
