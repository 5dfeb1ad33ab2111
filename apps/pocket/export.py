"""Writes a checkpoint as a Hugging Face folder and as GGUF files, with vocabulary and chat template."""

import argparse
import json
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.numpy import save_file

HERE = Path(__file__).parent
TEMPLATE = ("{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
END_OF_TEXT, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
GGUF_NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
              "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
              "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
              "embed_tokens": "token_embd", "norm": "output_norm"}


def gguf_name(name):
    """layers.3.self_attn.q_proj.weight -> blk.3.attn_q.weight"""
    parts = name.split(".")
    layer = parts[0] == "layers"
    role = GGUF_NAMES[".".join(parts[2:-1] if layer else parts[:-1])]
    return f"blk.{parts[1]}.{role}.weight" if layer else f"{role}.weight"


def neighbours(weight, heads):
    """Reorders the rows of q or k: RoPE turns (i, i + half) in Hugging Face's files and neighbours (2i, 2i + 1) in GGUF."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def write_huggingface(folder, weights, recipe, tokenizer):
    shape, ids = recipe["shape"], {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    folder.mkdir(parents=True, exist_ok=True)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": recipe["vocab"],
              "hidden_size": shape["width"], "num_hidden_layers": shape["layers"], "num_attention_heads": shape["heads"],
              "num_key_value_heads": shape["kv_heads"], "head_dim": shape["width"] // shape["heads"],
              "intermediate_size": shape["ffn"], "max_position_embeddings": shape["context"], "rms_norm_eps": 1e-5,
              "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True, "attention_bias": False,
              "mlp_bias": False, "bos_token_id": None, "eos_token_id": ids[END], "pad_token_id": ids[END_OF_TEXT],
              "torch_dtype": "float32"}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END, "pad_token": END_OF_TEXT,
                "add_bos_token": False, "clean_up_tokenization_spaces": False, "model_max_length": shape["context"],
                "chat_template": TEMPLATE}
    for name, content in (("config", config), ("tokenizer_config", settings), ("tokenizer", tokenizer)):
        (folder / f"{name}.json").write_text(json.dumps(content, indent=2, ensure_ascii=False), encoding="utf-8")
    save_file({f"model.{name}": weight for name, weight in weights.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})


def write_gguf(path, weights, recipe, tokenizer, matrices):
    """matrices: the type of everything but the norms, which stay F32."""
    shape, vocabulary = recipe["shape"], tokenizer["model"]["vocab"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("pocket")
    writer.add_author("Weft")
    writer.add_license("apache-2.0")
    writer.add_description("Weft's own very small assistant, made by apps/pocket")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0 if matrices == gguf.GGMLQuantizationType.Q8_0
                         else gguf.LlamaFileType.MOSTLY_F16)
    writer.add_vocab_size(recipe["vocab"])
    writer.add_context_length(shape["context"])
    writer.add_embedding_length(shape["width"])
    writer.add_block_count(shape["layers"])
    writer.add_feed_forward_length(shape["ffn"])
    writer.add_head_count(shape["heads"])
    writer.add_head_count_kv(shape["kv_heads"])
    writer.add_rope_dimension_count(shape["width"] // shape["heads"])
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)

    special = {token["id"] for token in tokenizer["added_tokens"]}
    tokens = sorted(vocabulary, key=vocabulary.get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL if id in special else gguf.TokenType.NORMAL for id in range(len(tokens))])
    writer.add_token_merges([" ".join(merge) for merge in tokenizer["model"]["merges"]])
    writer.add_eos_token_id(vocabulary[END])
    writer.add_pad_token_id(vocabulary[END_OF_TEXT])
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)

    for name, weight in weights.items():
        if "q_proj" in name or "k_proj" in name:
            weight = neighbours(weight, shape["heads" if "q_proj" in name else "kv_heads"])
        kind = matrices if weight.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(gguf_name(name), gguf.quants.quantize(np.ascontiguousarray(weight), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="holds checkpoint.pt and tokenizer.json; takes hf/, pocket.gguf (Q8_0) "
                        "and pocket-f16.gguf")
    parser.add_argument("--recipe", type=Path, default=HERE / "recipe.json")
    args = parser.parse_args()
    recipe = json.loads(args.recipe.read_text())
    tokenizer = json.loads((args.folder / "tokenizer.json").read_text(encoding="utf-8"))
    kept = torch.load(args.folder / "checkpoint.pt")
    weights = {name: weight.float().numpy() for name, weight in kept["model"].items()}
    write_huggingface(args.folder / "hf", weights, recipe, tokenizer)
    write_gguf(args.folder / "pocket.gguf", weights, recipe, tokenizer, gguf.GGMLQuantizationType.Q8_0)
    write_gguf(args.folder / "pocket-f16.gguf", weights, recipe, tokenizer, gguf.GGMLQuantizationType.F16)
    print(f"step {kept['step']}: {(args.folder / 'pocket.gguf').stat().st_size} bytes of GGUF")


if __name__ == "__main__":
    main()
