#!/usr/bin/env python3
"""Writes tests/model/golden_images/qwen3-vl: a tiny random Qwen3-VL as a Hugging Face folder, its text model and its encoder as GGUF files,
and what Transformers computes in fp32: the encoder's rows for pictures, and the logits and greedy ids of prompts with them. Needs the PyPI
packages transformers 5.24, torch, pillow 12 (13 resizes rows and columns in another order) and gguf, and is needed only to make the model
anew: qwen3_vl_goldens.py CHECKOUT (after picture_goldens.py)
"""
import json
import math
import pathlib
import shutil
import sys

import gguf
import numpy as np
import torch
from PIL import Image
from safetensors import safe_open
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2VLImageProcessorPil, Qwen3VLConfig, Qwen3VLForConditionalGeneration

STEPS = 32
PROMPTS = [["rgb70x50.png"], ["rgb120x3.png"], ["rgb30x90.png", "rgb70x50.png"], []]
TEXT = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1, head_dim=24,
            max_position_embeddings=1024, rope_theta=10000.0,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "mrope_interleaved": True, "mrope_section": [6, 3, 3]})
VISION = dict(hidden_size=24, intermediate_size=40, depth=4, num_heads=3, patch_size=4, spatial_merge_size=2, temporal_patch_size=2,
              out_hidden_size=32, num_position_embeddings=36, deepstack_visual_indexes=[0, 2])
PIXELS = {"shortest_edge": 256, "longest_edge": 1600}
# Qwen3-VL's, without tools and videos.
TEMPLATE = ("{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% if message['content'] is string %}{{ message['content'] }}"
            "{% else %}{% for item in message['content'] %}{% if item['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
            "{% else %}{{ item['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def make_tokenizer():
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [("t", "h"), ("i", "n"), ("Ġ", "a"), ("th", "e")]
    vocab = {token: i for i, token in enumerate(letters + ["".join(pair) for pair in pairs])}
    tokenizer = Tokenizer(models.BPE(vocab, pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    tokenizer.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in names])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=TEMPLATE,
                                   model_input_names=["input_ids", "attention_mask"])


def fill(model, seed):
    """Weights that make every part of the network matter, and not so much that rounding to f16 is blown up by it."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            values = torch.randn(weight.shape, generator=generator)
            if name.endswith("language_model.norm.weight"):  # of either sign: a tied head would else answer each token with itself
                weight.copy_(values * 0.2 + values.sign())
            elif weight.dim() == 1:
                weight.copy_(values * 0.2 + ("norm" in name and name.endswith("weight")))
            elif "embed_tokens" in name or "pos_embed" in name:
                weight.copy_(values * 0.4)
            else:
                weight.copy_(values / math.sqrt(weight[0].numel()) * (0.3 if "deepstack" in name else 1))


def add(writer, name, weight):
    half = weight.ndim == 2 and "position" not in name
    writer.add_tensor(name, weight.astype(np.float16 if half else np.float32))


def close(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_mmproj(folder, config):
    """Writes an mmproj as llama.cpp's converter does."""
    vision = config.vision_config
    writer = gguf.GGUFWriter(folder / "mmproj.gguf", "clip")
    writer.add_type("mmproj")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", "qwen3vl_merger")
    writer.add_bool("clip.use_gelu", True)
    size = math.isqrt(vision.num_position_embeddings) * vision.patch_size
    for key, value in {"image_size": size, "patch_size": vision.patch_size, "embedding_length": vision.hidden_size,
                       "feed_forward_length": vision.intermediate_size, "block_count": vision.depth, "attention.head_count": vision.num_heads,
                       "projection_dim": vision.out_hidden_size, "spatial_merge_size": vision.spatial_merge_size,
                       "image_min_pixels": PIXELS["shortest_edge"], "image_max_pixels": PIXELS["longest_edge"]}.items():
        writer.add_uint32("clip.vision." + key, value)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-6)
    writer.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    writer.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    writer.add_array("clip.vision.is_deepstack_layers", [i in vision.deepstack_visual_indexes for i in range(vision.depth)])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, vision.depth)
    mergers = {"merger.norm": "v.post_ln", "merger.linear_fc1": "mm.0", "merger.linear_fc2": "mm.2"}
    for i, layer in enumerate(vision.deepstack_visual_indexes):
        for part, own in {"norm": "norm", "linear_fc1": "fc1", "linear_fc2": "fc2"}.items():
            mergers[f"deepstack_merger_list.{i}.{part}"] = f"v.deepstack.{layer}.{own}"
    with safe_open(folder / "model.safetensors", "np") as file:
        for name in file.keys():
            if not name.startswith("model.visual."):
                continue
            weight, name = file.get_tensor(name), name.removeprefix("model.visual.")
            stem, kind = name.rsplit(".", 1)
            if name == "patch_embed.proj.weight":
                add(writer, "v.patch_embd.weight", weight[:, :, 0])
                add(writer, "v.patch_embd.weight.1", weight[:, :, 1])
            elif stem in mergers:
                add(writer, f"{mergers[stem]}.{kind}", weight)
            else:
                add(writer, names.get_name("visual." + name, try_suffixes=(".weight", ".bias")), weight)
    close(writer)


def write_text(folder, config, tokenizer):
    """Writes the text model as llama.cpp's converter does."""
    text = config.text_config
    writer = gguf.GGUFWriter(folder / "text.gguf", "qwen3vl")
    writer.add_context_length(text.max_position_embeddings)
    writer.add_embedding_length(text.hidden_size)
    writer.add_block_count(text.num_hidden_layers)
    writer.add_feed_forward_length(text.intermediate_size)
    writer.add_head_count(text.num_attention_heads)
    writer.add_head_count_kv(text.num_key_value_heads)
    writer.add_key_length(text.head_dim)
    writer.add_value_length(text.head_dim)
    writer.add_layer_norm_rms_eps(text.rms_norm_eps)
    writer.add_rope_freq_base(text.rope_parameters["rope_theta"])
    writer.add_rope_dimension_sections(text.rope_parameters["mrope_section"] + [0])
    writer.add_num_deepstack_layers(len(config.vision_config.deepstack_visual_indexes))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL if token.startswith("<|") and len(token) > 4 else gguf.TokenType.NORMAL for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_chat_template(TEMPLATE)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN3VL, text.num_hidden_layers)
    with safe_open(folder / "model.safetensors", "np") as file:
        for name in file.keys():
            if name.startswith("model.visual."):
                continue
            known = name.replace("language_model.", "")
            add(writer, names.get_name(known, try_suffixes=(".weight", ".bias")), file.get_tensor(name))
    close(writer)


def rounded(array):
    return json.loads(json.dumps(np.asarray(array, np.float64).tolist()), parse_float=lambda text: float(f"{float(text):.7g}"))


def reference(model, processor, tokenizer, paths):
    texts = ["What is in the picture?", "And what is here?"]
    content = [part for path, text in zip(paths, texts) for part in ({"type": "image"}, {"type": "text", "text": text})]
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": content or "What is in the sea?"}], add_generation_prompt=True, tokenize=False)
    inputs, grids = {}, []
    expanded = prompt
    if paths:
        inputs = dict(processor(images=[Image.open(path).convert("RGB") for path in paths], return_tensors="pt"))
        grids = [[int(h) // 2, int(w) // 2] for _, h, w in inputs["image_grid_thw"]]
        for height, width in grids:
            expanded = expanded.replace("<|image_pad|>", "<|pad|>" * (height * width), 1)
        expanded = expanded.replace("<|pad|>", "<|image_pad|>")
    ids, greedy = torch.tensor([tokenizer(expanded)["input_ids"]]), []
    for _ in range(STEPS):  # without a cache: every step computes everything
        all_ids = torch.cat([ids, torch.tensor([greedy], dtype=torch.long)], 1)
        types = (all_ids == model.config.image_token_id).long()
        with torch.no_grad():
            out = model(input_ids=all_ids, mm_token_type_ids=types, use_cache=False, **inputs)
        logits = logits if greedy else out.logits[0, -1]
        greedy.append(int(out.logits[0, -1].argmax()))
    result = {"pictures": [path.name for path in paths], "grids": grids, "prompt": tokenizer(prompt)["input_ids"], "ids": ids[0].tolist()}
    if paths:
        with torch.no_grad():
            seen = model.model.visual(inputs["pixel_values"], inputs["image_grid_thw"])
            embedded = model.get_input_embeddings()(ids)
            embedded[0, ids[0] == model.config.image_token_id] = seen.pooler_output
            plain = model(inputs_embeds=embedded, use_cache=False).logits[0, -1]
        print("as plain rows: logits differ by", float((plain - logits).abs().max() / logits.std()), "of the spread", flush=True)
        result |= {"rows": rounded(seen.pooler_output), "deepstack": [rounded(rows) for rows in seen.deepstack_features]}
    print(result["pictures"], grids, ids.shape[1], "tokens", flush=True)
    return result | {"logits": rounded(logits), "greedy": greedy}


def main(folder):
    shutil.rmtree(folder, ignore_errors=True)
    tokenizer = make_tokenizer()
    ids = {key: tokenizer.convert_tokens_to_ids(token) for key, token in
           dict(image_token_id="<|image_pad|>", video_token_id="<|video_pad|>", vision_start_token_id="<|vision_start|>",
                vision_end_token_id="<|vision_end|>").items()}
    config = Qwen3VLConfig(text_config=TEXT | dict(vocab_size=len(tokenizer)), vision_config=VISION, tie_word_embeddings=True, **ids)
    model = Qwen3VLForConditionalGeneration._from_config(config, attn_implementation="eager")
    fill(model, 3)
    model.half().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tokenizer.save_pretrained(folder)
    processor = Qwen2VLImageProcessorPil(size=PIXELS, patch_size=VISION["patch_size"], temporal_patch_size=2, merge_size=2,
                                         image_mean=[0.5] * 3, image_std=[0.5] * 3)
    processor.save_pretrained(folder)
    (folder / "video_preprocessor_config.json").write_text('{"video_processor_type": "Qwen3VLVideoProcessor"}\n')
    model = Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    pictures = folder.parent / "pictures"
    lines = [json.dumps(reference(model, processor, tokenizer, [pictures / name for name in names])) for names in PROMPTS]
    (folder / "reference.json").write_text("[" + ",\n".join(lines) + "]\n")
    write_mmproj(folder, config)
    write_text(folder, config, tokenizer)
    print(sum(file.stat().st_size for file in folder.iterdir()) // 1024, "KiB", [p.name for p in folder.iterdir()], flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(pathlib.Path(sys.argv[1]) / "tests/model/golden_images/qwen3-vl")
