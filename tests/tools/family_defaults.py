#!/usr/bin/env python3
"""Writes what Transformers takes for keys that a config.json lacks: runtime/model/family_defaults.cpp, and, for the test, the settings that
each configuration class has in the end, tests/unit/golden/family_defaults.json. Needs the PyPI packages transformers and torch:
family_defaults.py CHECKOUT

The keys are those that runtime/model/config*.cpp names. A file's own null is not replaced.
"""
import dataclasses
import json
import pathlib
import re
import sys
import textwrap

import transformers

# Weft takes them from the tensors, from generation_config.json, or from GGUF files alone.
NOT_READ = {"vocab_size", "pad_token_id"}


def model_types(root):
    types = re.findall(r'\.model_type = "(\w+)"', (root / "runtime/model/family.cpp").read_text())
    return [name for name in dict.fromkeys(types) if name not in ("idefics3", "gemma3", "qwen3_vl")]  # encoders of pictures


def settings(class_, keys):
    """The class's own values of the keys; those that are None or follow from others are left out."""
    own = {field.name: field.default for field in dataclasses.fields(class_)
           if field.name in keys - NOT_READ and isinstance(field.default, (bool, int, float, str))}
    config = class_()
    own["tie_word_embeddings"] = getattr(config, "tie_word_embeddings", False)
    rope = getattr(config, "rope_parameters", None) or {}
    rope = rope.get("full_attention", rope)
    if rope.get("rope_type", "default") != "default":
        return own | {"rope_parameters": config.rope_parameters}
    for key in ("rope_theta", "partial_rotary_factor"):
        if rope.get(key) is not None:
            own[key] = rope[key]
    return own


def effective(config):
    """What the class makes of no settings at all, under Weft's names."""
    def first(*names, fallback=None):
        found = [getattr(config, name) for name in names if getattr(config, name, None) is not None]
        return found[0] if found else fallback

    heads = first("decoder_attention_heads", "num_attention_heads")
    width = config.hidden_size
    result = {"width": width, "layers": first("decoder_layers", "num_hidden_layers"), "heads": heads,
              "context": first("max_target_positions", "max_position_embeddings", "max_seq_len")}
    rope = getattr(config, "rope_parameters", None) or {}
    per_layer = config.model_type in ("gemma4_text", "embedding_gemma2_text")  # layers of two kinds
    # OLMo, MPT, OPT, XGLM, BART and Whisper have PyTorch's epsilon and no key.
    epsilon = first("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon", fallback=1e-5)
    result["epsilon"] = epsilon
    if not per_layer:
        result["head_dim"] = first("d_kv", "head_dim", fallback=width // heads)
    if getattr(config, "multi_query", False):
        result["kv_heads"] = 1
    elif not per_layer and config.model_type not in ("bart", "whisper", "t5"):
        result["kv_heads"] = first("num_key_value_heads", fallback=heads)
    flat = rope.get("full_attention", rope)
    if flat and not config.model_type.startswith("granitemoehybrid"):
        result["rope_theta"] = flat["rope_theta"]
        if not per_layer:
            share = 1 if flat.get("rope_type") == "proportional" else flat.get("partial_rotary_factor", 1)
            result["rotary_dim"] = int(result["head_dim"] * share)
    if getattr(config, "rotary_dim", None):
        result["rotary_dim"] = config.rotary_dim
    if "sliding_attention" in rope:
        result["local_rope_theta"] = rope["sliding_attention"]["rope_theta"]
    window = first("local_attention", "sliding_window", fallback=0)
    if not getattr(config, "use_sliding_window", True):
        window = 0
    kinds = getattr(config, "layer_types", None) or (["sliding_attention"] * result["layers"] if window else [])
    if config.model_type == "modernbert":
        window = window // 2 + 1  # both halves together
    if config.model_type == "embedding_gemma2_text":
        window += 1  # the nearest that is not seen
    # A sparse pattern repeats after 6 layers at most.
    result["windows"] = [window if kind == "sliding_attention" else 0 for kind in kinds][:7] if window else []
    if config.model_type in ("cohere", "cohere2"):
        result["logit_scale"] = config.logit_scale
    for name in ("attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar", "attention_multiplier", "num_experts_per_tok",
                 "attention_bias", "tie_word_embeddings"):
        if isinstance(getattr(config, name, None), (bool, int, float)):
            result[name] = getattr(config, name)
    experts = first("num_local_experts", "num_experts")
    if experts:
        result["experts"] = experts
    result["activation"] = first("hidden_activation", "hidden_act", "activation_function", "activation", fallback="")
    return result


def write_table(root, table):
    lines = ["// Settings of config.json that Transformers " + transformers.__version__ + " takes for granted. Written by tests/tools/family_defaults.py.",
             "#include \"model/family_defaults.h\"", "", "#include <utility>", "", "namespace weft {", "namespace {", "",
             "// clang-format off", "constexpr std::pair<std::string_view, std::string_view> kSettings[] = {"]
    for name, own in table.items():
        text = json.dumps(own)
        lines.append(f'    {{"{name}", R"(' + "\n".join(textwrap.wrap(text, 110, break_long_words=False, break_on_hyphens=False)) + ')"},')
    lines += ["};", "// clang-format on", "", "}  // namespace", "", "std::string_view default_settings(std::string_view model_type) {",
              "  for (const auto& [known, settings] : kSettings)", "    if (known == model_type) return settings;", "  return \"{}\";", "}", "",
              "}  // namespace weft"]
    (root / "runtime/model/family_defaults.cpp").write_text("\n".join(lines) + "\n")


def main(root):
    sources = "".join(path.read_text() for path in sorted(root.glob("runtime/model/config*.cpp")))
    keys = set(re.findall(r'"(\w+)"', sources))
    table, golden = {}, {}
    for name in model_types(root):
        class_ = transformers.CONFIG_MAPPING[name]
        table[name] = settings(class_, keys)
        golden[name] = effective(class_())
    write_table(root, table)
    rows = [f" {json.dumps(name)}: {json.dumps(row)}" for name, row in golden.items()]
    (root / "tests/unit/golden/family_defaults.json").write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
