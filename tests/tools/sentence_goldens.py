#!/usr/bin/env python3
"""Writes tests/model/golden_sentences: tiny random models as sentence-transformers saves them, with tokenizers, prompts and
a limit of tokens, and what sentence-transformers makes of texts. Needs the PyPI packages sentence-transformers, tokenizers and gguf, and is needed
only to make the models anew: sentence_goldens.py CHECKOUT
"""
import json
import math
import pathlib
import shutil
import sys
import tempfile

import gguf
import numpy as np
import tokenizers
import torch
import transformers
from safetensors import safe_open
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.cross_encoder.modules import LogitScore
from sentence_transformers.sentence_transformer.modules import Pooling

TEXTS = ["The cat sat on the mat.", "How do I make tea?", "a", "", "Le chat dort; 42 gulls flew over the harbour before dawn, and nobody counted them all.",
         "\u00e9\u4e2d \U0001f600 three scripts"]
SHAPE = dict(hidden_size=48, intermediate_size=72, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
             max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=True)
TEMPLATE = """{%- set asked = messages | selectattr("role", "eq", "system") | map(attribute="content") | first -%}
<bos>{{ asked | default("Find passages.", true) }}
Query: {{ messages | selectattr("role", "eq", "query") | map(attribute="content") | first }}
Document: {{ messages | selectattr("role", "eq", "document") | map(attribute="content") | first }}<eos>
Answer: """


def make_tokenizer(begin):
    """Bytes and some merges. begin: the texts of an embedding model begin with <bos>; they always end with <eos>."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, special_tokens=["<pad>", "<bos>", "<eos>"], show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(TEXTS * 3 + ["yes", "no"] * 50, trainer)
    if begin is not None:
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single=("<bos> " if begin else "") + "$A <eos>", special_tokens=[("<bos>", 1), ("<eos>", 2)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>")


def save_body(folder, class_, config, tokenizer, seed):
    model = class_(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            values = torch.randn(weight.shape, generator=generator)
            one = 0 if "Gemma" in class_.__name__ else 1
            weight.copy_(values * 0.2 + one if weight.dim() == 1 else values * 0.2 if "embed" in name else values / math.sqrt(weight.shape[1]))
    model.half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def rounded(values):
    return [float(f"{value:.7g}") for value in np.asarray(values, np.float64).ravel().tolist()]


def finish(folder, cases):
    for name in "README.md", "generation_config.json":
        (folder / name).unlink(missing_ok=True)
    (folder / "reference.json").write_text("[" + ",\n".join(map(json.dumps, cases)) + "]\n")
    print(folder.name, sum(file.stat().st_size for file in folder.rglob("*")) // 1024, "KiB", flush=True)


def make_embedder(folder, class_, config, begin, pooling, dense, prompts, seed, limit):
    with tempfile.TemporaryDirectory() as body:
        tokenizer = make_tokenizer(begin)
        config.vocab_size = len(tokenizer)
        save_body(body, class_, config, tokenizer, seed)
        modules = [Transformer(body, max_seq_length=limit), Pooling(config.hidden_size, pooling_mode=pooling)]
        cols = config.hidden_size
        generator = torch.Generator().manual_seed(seed)
        for rows in dense:
            modules.append(Dense(cols, rows, bias=False, activation_function=torch.nn.Identity(),
                                 init_weight=torch.randn((rows, cols), generator=generator) / math.sqrt(cols)))
            cols = rows
        made = SentenceTransformer(modules=[*modules, Normalize()], device="cpu", prompts=prompts)
        made.save(str(folder))
    model = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": torch.float32})
    cases = []
    for name in [None, *prompts]:
        for dimensions in None, 10:
            found = model.encode(TEXTS, prompt_name=name, truncate_dim=dimensions, normalize_embeddings=True)
            cases += [{"text": text, "prompt": name, "dimensions": dimensions, "embedding": rounded(row)} for text, row in zip(TEXTS, found)]
    finish(folder, cases)


def write_reranker_gguf(folder, config):
    """As llama.cpp's converter does for Qwen3-Reranker, but with a chat template of our own."""
    writer = gguf.GGUFWriter(folder / "model.gguf", "qwen3")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_pooling_type(gguf.PoolingType.RANK)
    writer.add_classifier_output_labels(["yes", "no"])
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokens = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL] * (len(tokens) - 3))
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN3, config.num_hidden_layers)
    with safe_open(folder / "model.safetensors", "np") as file:
        for name in file.keys():
            weight = file.get_tensor(name)
            writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), weight if weight.ndim == 2 else weight.astype(np.float32))
        rows = file.get_tensor("model.embed_tokens.weight")[[tokens.index("yes"), tokens.index("no")]]
        writer.add_tensor("cls.output.weight", rows)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_reranker(folder, seed):
    with tempfile.TemporaryDirectory() as body:
        tokenizer = make_tokenizer(None)
        tokenizer.chat_template = TEMPLATE
        save_body(body, transformers.Qwen3ForCausalLM, transformers.Qwen3Config(vocab_size=len(tokenizer), **SHAPE), tokenizer, seed)
        yes, no = tokenizer.convert_tokens_to_ids(["yes", "no"])
        made = CrossEncoder(modules=[Transformer(body, transformer_task="text-generation"), LogitScore(yes, no)], device="cpu")
        made.save(str(folder))
    model = CrossEncoder(str(folder), device="cpu", model_kwargs={"dtype": torch.float32})
    cases = []
    for instruction in None, "Which is a recipe?":
        for query in TEXTS[1], TEXTS[4]:
            scores = model.predict([(query, text) for text in TEXTS], prompt=instruction)
            cases += [{"instruction": instruction, "query": query, "document": text, "score": score} for text, score in zip(TEXTS, rounded(scores))]
    write_reranker_gguf(folder, transformers.AutoConfig.from_pretrained(folder))
    finish(folder, cases)


if __name__ == "__main__":
    torch.set_num_threads(1)
    root = pathlib.Path(sys.argv[1]) / "tests/model/golden_sentences"
    shutil.rmtree(root, ignore_errors=True)
    make_embedder(root / "gemma3", transformers.Gemma3TextModel,
                  transformers.Gemma3TextConfig(**SHAPE, sliding_window=16, sliding_window_pattern=2, query_pre_attn_scalar=16, use_bidirectional_attention=True),
                  True, "mean", [80, 24], {"query": "task: search result | query: ", "document": "title: none | text: "}, 1, 24)
    make_embedder(root / "qwen3", transformers.Qwen3Model, transformers.Qwen3Config(**SHAPE), False, "lasttoken", [],
                  {"query": "Instruct: Given a web search query, retrieve relevant passages\nQuery:", "document": ""}, 2, 128)
    make_reranker(root / "qwen3-reranker", 3)
