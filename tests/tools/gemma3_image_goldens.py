#!/usr/bin/env python3
"""Writes tests/model/golden_images/gemma3: a tiny random Gemma 3 with pictures as a Hugging Face folder, its encoder as a GGUF file, and
what Transformers computes in fp32: the encoder's rows for pictures, and the logits and greedy ids of prompts with them. Needs the PyPI
packages transformers 5.24, torch, pillow 12 (13 resizes rows and columns in another order) and gguf, and is needed only to make the model anew:
gemma3_image_goldens.py CHECKOUT (after picture_goldens.py)
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
from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3ImageProcessorPil, Gemma3Processor, PreTrainedTokenizerFast

STEPS = 12
PROMPTS = [["rgb70x50.png"], ["rgb1x1.png"], ["rgb30x90.png", "rgb70x50.png"]]
ROWS = 81  # more than a pass of a software driver has
TEXT = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
            query_pre_attn_scalar=16, max_position_embeddings=1024, sliding_window=96,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"])
VISION = dict(hidden_size=40, intermediate_size=56, num_hidden_layers=2, num_attention_heads=5, image_size=72, patch_size=4, vision_use_head=False)
# Gemma 3's, without its first message.
TEMPLATE = ("{{ bos_token }}{% for message in messages %}<start_of_turn>{{ 'model' if message['role'] == 'assistant' else message['role'] }}\n"
            "{% if message['content'] is string %}{{ message['content'] | trim }}{% else %}{% for item in message['content'] %}"
            "{% if item['type'] == 'image' %}<start_of_image>{% else %}{{ item['text'] | trim }}{% endif %}{% endfor %}{% endif %}"
            "<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}")


def make_tokenizer():
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [("t", "h"), ("i", "n"), ("Ġ", "a"), ("th", "e")]
    vocab = {token: i for i, token in enumerate(letters + ["".join(pair) for pair in pairs])}
    tokenizer = Tokenizer(models.BPE(vocab, pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    names = ["<bos>", "<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>", "<image_soft_token>"]
    tokenizer.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in names])
    extra = dict(boi_token="<start_of_image>", eoi_token="<end_of_image>", image_token="<image_soft_token>")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<bos>", eos_token="<end_of_turn>", extra_special_tokens=extra,
                                   model_input_names=["input_ids", "attention_mask"])


def fill(model, seed):
    """Weights that make every part of the network matter, and not so much that rounding to f16 is blown up by it."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            values = torch.randn(weight.shape, generator=generator)
            about_one = "vision_tower" in name and "norm" in name and name.endswith("weight")  # Gemma's own norms add 1
            if name.endswith("language_model.norm.weight"):  # of either sign: a tied head would else answer each token with itself
                weight.copy_(values * 0.2 + values.sign() - 1)
            elif weight.dim() == 1:
                weight.copy_(values * 0.2 + about_one)
            elif "embed_tokens" in name or "position" in name:
                weight.copy_(values * 0.4)
            elif name.endswith("projection_weight"):
                weight.copy_(values / math.sqrt(weight.shape[0]))
            else:
                weight.copy_(values / math.sqrt(weight[0].numel()))


def write_gguf(folder, config):
    """Writes an mmproj as llama.cpp's converter does."""
    vision = config.vision_config
    writer = gguf.GGUFWriter(folder / "mmproj.gguf", "clip")
    writer.add_type("mmproj")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", "gemma3")
    writer.add_bool("clip.use_gelu", True)
    scale = vision.image_size // vision.patch_size // math.isqrt(config.mm_tokens_per_image)
    for key, value in {"image_size": vision.image_size, "patch_size": vision.patch_size, "embedding_length": vision.hidden_size,
                       "feed_forward_length": vision.intermediate_size, "block_count": vision.num_hidden_layers,
                       "attention.head_count": vision.num_attention_heads, "projection_dim": config.text_config.hidden_size,
                       "projector.scale_factor": scale}.items():
        writer.add_uint32("clip.vision." + key, value)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", vision.layer_norm_eps)
    writer.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    writer.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, vision.num_hidden_layers)
    with safe_open(folder / "model.safetensors", "np") as file:
        for name in file.keys():
            if "language_model" in name:
                continue
            weight = file.get_tensor(name)
            if "soft_emb_norm" in name:
                weight = weight + 1
            half = weight.ndim == 2 and "position" not in name
            known = name.replace("vision_tower.", "vision_tower.vision_model.").replace("projection_weight", "projection.weight")
            writer.add_tensor(names.get_name(known, try_suffixes=(".weight", ".bias")), weight.astype(np.float16 if half else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def rounded(array):
    return json.loads(json.dumps(np.asarray(array, np.float64).tolist()), parse_float=lambda text: float(f"{float(text):.7g}"))


def reference(model, processor, paths):
    # Transformers would join newlines before a picture's own to one token; Google's programs and Weft do not.
    texts = ["What is in the picture?", "And what is here?"]
    content = [part for _, text in zip(paths, texts) for part in ({"type": "text", "text": text}, {"type": "image"})]
    prompt = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
    images = [Image.open(path).convert("RGB") for path in paths]
    inputs = processor(text=prompt, images=[images], return_tensors="pt")
    ids, greedy = inputs["input_ids"], []
    for _ in range(STEPS):  # without a cache: every step computes everything
        all_ids = torch.cat([ids, torch.tensor([greedy], dtype=torch.long)], 1)
        types = (all_ids == model.config.image_token_id).long()
        with torch.no_grad():
            out = model(input_ids=all_ids, pixel_values=inputs["pixel_values"], token_type_ids=types, use_cache=False)
        logits, ends = (logits, ends) if greedy else (out.logits[0, -1], out.logits[0, ids[0] == model.config.image_token_id][-1])
        rows = rows if greedy else out.image_hidden_states
        greedy.append(int(out.logits[0, -1].argmax()))
    with torch.no_grad():
        causal = model(input_ids=ids, pixel_values=inputs["pixel_values"], token_type_ids=0 * inputs["token_type_ids"], use_cache=False).logits[0, -1]
    print(paths[0].name, ids.shape[1], "tokens; causal logits differ by", float((causal - logits).abs().max() / logits.std()), "of the spread", flush=True)
    return {"picture": paths[0].name, "more": [path.name for path in paths[1:]], "prompt": processor.tokenizer(prompt)["input_ids"],
            "ids": ids[0].tolist(), "rows": rounded(rows), "logits": rounded(logits), "picture_logits": rounded(ends), "greedy": greedy}


def main(folder):
    shutil.rmtree(folder, ignore_errors=True)
    tokenizer = make_tokenizer()
    ids = {key: tokenizer.convert_tokens_to_ids(token) for key, token in
           dict(image_token_index="<image_soft_token>", boi_token_index="<start_of_image>", eoi_token_index="<end_of_image>").items()}
    config = Gemma3Config(text_config=TEXT | dict(vocab_size=len(tokenizer)), vision_config=VISION, mm_tokens_per_image=ROWS, **ids)
    model = Gemma3ForConditionalGeneration._from_config(config, attn_implementation="eager")
    fill(model, 3)
    model.half().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    images = Gemma3ImageProcessorPil(size={"height": VISION["image_size"], "width": VISION["image_size"]})
    processor = Gemma3Processor(images, tokenizer, chat_template=TEMPLATE, image_seq_length=ROWS)
    processor.save_pretrained(folder)
    model = Gemma3ForConditionalGeneration.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    pictures = folder.parent / "pictures"
    lines = [json.dumps(reference(model, processor, [pictures / name for name in names])) for names in PROMPTS]
    (folder / "reference.json").write_text("[" + ",\n".join(lines) + "]\n")
    write_gguf(folder, config)
    print(sum(file.stat().st_size for file in folder.iterdir()) // 1024, "KiB", [p.name for p in folder.iterdir()], flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(pathlib.Path(sys.argv[1]) / "tests/model/golden_images/gemma3")
