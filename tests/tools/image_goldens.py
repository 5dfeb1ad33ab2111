#!/usr/bin/env python3
"""Writes tests/model/golden_images: tiny random models of Idefics3 as Hugging Face folders, the encoder of one as a GGUF file, and what
Transformers computes in fp32: the encoder's rows for pictures, and the logits and greedy ids of prompts with them. Needs the PyPI
packages transformers 4.47, torch, tokenizers, safetensors, pillow and gguf, and is needed only to make the models anew:
image_goldens.py CHECKOUT (after picture_goldens.py)
"""
import json
import math
import pathlib
import shutil
import sys

import gguf
import numpy as np
import torch
import transformers
from PIL import Image
from safetensors import safe_open
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import Idefics3Config, Idefics3ForConditionalGeneration, Idefics3ImageProcessor, Idefics3Processor, PreTrainedTokenizerFast

STEPS = 12
PICTURES = ["rgb70x50.png", "rgb30x90.png", "rgb1x1.png"]
TEXT = dict(model_type="llama", intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=1024, rms_norm_eps=1e-5)
# By name: the vision network, patches that are joined, tiles, whether pictures are split, whether the table is tied.
MODELS = {
    "idefics3": (dict(hidden_size=48, intermediate_size=72, num_hidden_layers=2, num_attention_heads=3, image_size=72, patch_size=8), 3,
                 dict(longest_edge=144, tile=72, split=True), True),
    # 64 pixels are 10 patches of 6 and a rest.
    "idefics3-rest": (dict(hidden_size=40, intermediate_size=56, num_hidden_layers=3, num_attention_heads=5, image_size=64, patch_size=6), 2,
                      dict(longest_edge=100, tile=64, split=False), False),
}
# SmolVLM's.
TEMPLATE = ("<|im_start|>{% for message in messages %}{{message['role'] | capitalize}}{% if message['content'][0]['type'] == 'image' %}{{':'}}"
            "{% else %}{{': '}}{% endif %}{% for line in message['content'] %}{% if line['type'] == 'text' %}{{line['text']}}"
            "{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}"
            "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}")


def make_tokenizer():
    """Bytes, some pairs, and SmolVLM's control tokens for up to 3 x 3 tiles."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [("t", "h"), ("i", "n"), ("Ċ", "Ċ"), ("Ġ", "a"), ("th", "e")]
    vocab = {token: i for i, token in enumerate(letters + ["".join(pair) for pair in pairs])}
    tokenizer = Tokenizer(models.BPE(vocab, pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    names = ["<|im_start|>", "<global-img>"] + [f"<row_{r}_col_{c}>" for r in (1, 2, 3) for c in (1, 2, 3)]
    names += ["<fake_token_around_image>", "<image>", "<end_of_utterance>"]
    tokenizer.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in names])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|im_start|>", eos_token="<end_of_utterance>",
                                   model_input_names=["input_ids", "attention_mask"])


def fill(model, seed):
    """Weights that make every part of the network matter, and not so much that rounding to f16 is blown up by it."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            values = torch.randn(weight.shape, generator=generator)
            if weight.dim() == 1:
                weight.copy_(values * 0.2 + (1 if "norm" in name and name.endswith("weight") else 0))
            elif "embed" in name and "patch" not in name or "lm_head" in name:
                weight.copy_(values * 0.4)
            else:
                weight.copy_(values / math.sqrt(weight[0].numel()))


def write_gguf(folder, config, sizes):
    """Writes an mmproj as llama.cpp's converter does."""
    vision = config.vision_config
    writer = gguf.GGUFWriter(folder / "mmproj.gguf", "clip")
    writer.add_type("mmproj")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", "idefics3")
    writer.add_bool("clip.use_gelu", True)
    for key, value in {"image_size": vision.image_size, "patch_size": vision.patch_size, "embedding_length": vision.hidden_size,
                       "feed_forward_length": vision.intermediate_size, "block_count": vision.num_hidden_layers,
                       "attention.head_count": vision.num_attention_heads, "projection_dim": config.text_config.hidden_size,
                       "projector.scale_factor": config.scale_factor, "preproc_image_size": sizes["longest_edge"]}.items():
        writer.add_uint32("clip.vision." + key, value)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", vision.layer_norm_eps)
    writer.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    writer.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, vision.num_hidden_layers)
    with safe_open(folder / "model.safetensors", "np") as file:
        for name in file.keys():
            if "text_model" in name or "lm_head" in name:
                continue
            weight = file.get_tensor(name)
            half = weight.ndim == 2 and "position" not in name
            writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), weight.astype(np.float16 if half else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def rounded(array):
    return json.loads(json.dumps(np.asarray(array, np.float64).tolist()), parse_float=lambda text: float(f"{float(text):.7g}"))


def reference(model, processor, path):
    """The results of a prompt with one picture."""
    messages = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is in the picture?"}]}]
    prompt = processor.apply_chat_template(messages, add_generation_prompt=True)
    image = Image.open(path).convert("RGB")
    inputs = processor(text=prompt, images=[image], return_tensors="pt", images_kwargs={"input_data_format": "channels_last"})
    ids, greedy = inputs.pop("input_ids"), []
    inputs.pop("attention_mask")
    for _ in range(STEPS):  # without a cache: every step computes everything
        with torch.no_grad():
            out = model(input_ids=torch.cat([ids, torch.tensor([greedy], dtype=torch.long)], 1), **inputs)
        logits = logits if greedy else out.logits[0, -1]
        greedy.append(int(out.logits[0, -1].argmax()))
    return {"picture": path.name, "prompt": processor.tokenizer(prompt)["input_ids"], "ids": ids[0].tolist(),
            "rows": rounded(out.image_hidden_states), "logits": rounded(logits), "greedy": greedy}


def make(folder, seed, vision, shuffle, sizes, tied):
    shutil.rmtree(folder, ignore_errors=True)
    tokenizer = make_tokenizer()
    image_id = tokenizer.convert_tokens_to_ids("<image>")
    text = TEXT | dict(vocab_size=len(tokenizer), tie_word_embeddings=tied, hidden_size=32 if tied else 24)
    config = Idefics3Config(vision_config=vision, text_config=text, scale_factor=shuffle, image_token_id=image_id,
                            tie_word_embeddings=tied, pad_token_id=0)
    config._attn_implementation = "eager"
    model = Idefics3ForConditionalGeneration(config)
    fill(model, seed)
    model.half().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    images = Idefics3ImageProcessor(size={"longest_edge": sizes["longest_edge"]}, max_image_size={"longest_edge": sizes["tile"]},
                                    do_image_splitting=sizes["split"])
    rows = (vision["image_size"] // vision["patch_size"] // shuffle) ** 2
    processor = Idefics3Processor(images, tokenizer, image_seq_len=rows, chat_template=TEMPLATE)
    processor.save_pretrained(folder)
    model = Idefics3ForConditionalGeneration.from_pretrained(folder, torch_dtype=torch.float32, attn_implementation="eager").eval()
    pictures = folder.parent / "pictures"
    lines = [json.dumps(reference(model, processor, pictures / name)) for name in PICTURES]
    (folder / "reference.json").write_text("[" + ",\n".join(lines) + "]\n")
    if sizes["split"]:  # llama.cpp always splits
        write_gguf(folder, config, sizes)
    print(folder.name, sum(file.stat().st_size for file in folder.iterdir()) // 1024, "KiB", [p.name for p in folder.iterdir()], flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    root = pathlib.Path(sys.argv[1]) / "tests/model/golden_images"
    for number, (name, settings) in enumerate(MODELS.items()):
        make(root / name, number, *settings)
