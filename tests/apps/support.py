"""Shared code of the programs' tests: the folder of the programs, a work folder, tiny models and ways to run `weft`."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "apps/weft"))
import fetch_model

BIN = pathlib.Path(sys.argv[1]).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("WEFT_SHARED") or ROOT.parent / "shared")
WORK = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(WORK.name)
TEMPLATE = ("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
            "{% if add_generation_prompt %}assistant:{% endif %}")
THINKS = ("{% for m in messages %}{{ m.role }}: {% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}\n{% endfor %}"
          "assistant:{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}")
ENV = dict(os.environ, XDG_STATE_HOME=str(FOLDER / "state"), WEFT_CACHE_DIR=str(FOLDER / "cache"), TERM="xterm")
# As for the C++ tests, WEFT_VALIDATION=0 keeps the layer off: it takes a third of the time.
if os.environ.get("WEFT_VALIDATION") != "0" and pathlib.Path("/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json").exists():
    # The layer writes its messages to stdout.
    ENV.update(VK_INSTANCE_LAYERS="VK_LAYER_KHRONOS_validation",
               VK_LAYER_ENABLES="VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT")

def sometimes(values, count):
    """The first `count` values; with WEFT_SWEEP, which CTest's apps_all sets, all of them."""
    return list(values)[:None if os.environ.get("WEFT_SWEEP") else count]


GENERATE_KEYS = ["prompt_ids", "ids", "text", "stop", "device", "driver", "type", "load_s", "first_token_s", "prompt_tokens_per_s",
                 "reused_tokens", "decode_tokens_per_s", "head", "speculation", "stages", "readback_bytes_per_token", "device_bytes"]

# Real models keep their names: the tests' cache folder has a link to the user's.
try:
    REAL_MODELS = fetch_model.models_folder(os.environ)
    (FOLDER / "cache").mkdir()
    (FOLDER / "cache/models").symlink_to(REAL_MODELS)
except fetch_model.Problem:
    REAL_MODELS = FOLDER / "none"


def real_model(name):
    """The path of a model that `./run model NAME` has fetched; None: it has not."""
    path = REAL_MODELS / (name + ".gguf")
    return path if path.exists() else None


def weft(*argv, stdin="", env=None, expect=0, timeout=300, cwd=None):
    """Runs weft; returns (stdout, stderr). A validation message anywhere fails the test."""
    done = subprocess.run([BIN / "weft", *map(str, argv)], input=stdin.encode(), env=dict(ENV, **(env or {})),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, cwd=cwd)
    out, err = done.stdout.decode(), done.stderr.decode(errors="replace")
    if done.returncode != expect:
        raise AssertionError(f"weft {argv}: exit {done.returncode}, not {expect}\n{out}\n{err}")
    if any(word in out + err for word in ("VUID-", "SYNC-HAZARD", "Validation ")):
        raise AssertionError(f"weft {argv}: the validation layer spoke up\n{out}\n{err}")
    return out, err


def losing_device_at(n):
    """Environment of a program whose n-th submission loses the device (tests/support/losable_vulkan.cpp)."""
    return {"LD_LIBRARY_PATH": str(BIN.parent / "tests/losable"), "WEFT_LOSE_DEVICE_AT": str(n)}


def weft_json(*argv, **more):
    """Runs weft --json; stdout must be one JSON object and nothing else."""
    out, _ = weft(*argv, "--json", **more)
    result = json.loads(out)
    assert isinstance(result, dict)
    return result


def model(name, *options):
    path = FOLDER / name
    if not path.exists():
        subprocess.run([BIN / "weft-make-model", path, "--shape", "tiny", *map(str, options)], check=True, stdout=subprocess.DEVNULL)
    return path


def plain():
    return model("plain.gguf", "--type", "q8_0")


def chatty():
    return model("chatty.gguf", "--type", "f16", "--chat-template", TEMPLATE)


def thinks():
    """A model whose prompt ends within its reasoning, as DeepSeek's and Qwen's do."""
    return model("thinks.gguf", "--type", "f16", "--chat-template", THINKS)


def bert():
    """The goldens' BERT with a tokenizer of WordPieces beside it; its 131 rows have no more tokens than that."""
    folder = FOLDER / "bert"
    if not folder.exists():
        shutil.copytree(ROOT / "tests/model/golden_encoders/bert", folder)
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat", "##s", "."]
        special = [dict(id=i, content=t, special=True) for i, t in enumerate(tokens[:5])]
        template = [{"SpecialToken": {"id": "[CLS]"}}, {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "[SEP]"}}]
        (folder / "tokenizer.json").write_text(json.dumps(dict(
            added_tokens=special, normalizer=dict(type="BertNormalizer"), pre_tokenizer=dict(type="BertPreTokenizer"),
            post_processor=dict(type="TemplateProcessing", single=template), decoder=dict(type="WordPiece"),
            model=dict(type="WordPiece", unk_token="[UNK]", vocab={t: i for i, t in enumerate(tokens)}))))
        (folder / "tokenizer_config.json").write_text(json.dumps(dict(mask_token="[MASK]")))
    return folder


def t5():
    """The goldens' T5 with a unigram tokenizer beside it."""
    folder = FOLDER / "t5"
    if not folder.exists():
        shutil.copytree(ROOT / "tests/model/golden_seq2seq/t5", folder, ignore=shutil.ignore_patterns("*.gguf"))
        tokens = ["<pad>", "</s>", "<unk>", "\u2581the", "\u2581cat", "\u2581sat", "s", "\u2581"]
        special = [dict(id=i, content=t, special=True) for i, t in enumerate(tokens[:3])]
        (folder / "tokenizer.json").write_text(json.dumps(dict(
            added_tokens=special, pre_tokenizer=dict(type="Metaspace", replacement="\u2581", prepend_scheme="always"),
            decoder=dict(type="Metaspace", replacement="\u2581", prepend_scheme="always"),
            post_processor=dict(type="TemplateProcessing", single=[{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "</s>"}}]),
            model=dict(type="Unigram", unk_id=2, vocab=[[t, -1 - i] for i, t in enumerate(tokens)]))))
        (folder / "tokenizer_config.json").write_text(json.dumps(dict(eos_token="</s>")))
    return folder
