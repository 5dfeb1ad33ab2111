#!/usr/bin/env python3
"""Writes tests/model/golden_softmaxes: a tiny random Llama whose probabilities come from several softmaxes, as GGUF, with what PyTorch
and Transformers make of it in fp32: `mixture`, a mixture of softmaxes over one tied table, and `adaptive`, PyTorch's
AdaptiveLogSoftmaxWithLoss. Needs the PyPI packages transformers, torch and gguf, and is needed only to make the files anew:
softmax_goldens.py CHECKOUT
"""
import json
import pathlib
import sys
import zlib

import gguf
import numpy as np
import torch
import transformers

WIDTH, VOCAB, COUNT, CUTOFFS = 64, 300, 3, [100, 180]  # the third softmax of the adaptive begins within a tile of 64 rows
PROMPT, STEPS = 40, 32
POSITIONS = [0, 1, 39, 71]  # whose log-probabilities are kept


def halves(module):
    """The values that a file of halves gives back."""
    with torch.no_grad():
        for weight in module.parameters():
            if weight.dim() > 1:
                weight.copy_(weight.half().float())


class Mixture(torch.nn.Module):
    """Yang et al. 2018, section 2.4: p = sum over k of prior_k softmax(table tanh(W_k h + b_k))."""

    def __init__(self, table):
        super().__init__()
        self.table = table
        self.latent, self.prior = torch.nn.Linear(WIDTH, COUNT * WIDTH), torch.nn.Linear(WIDTH, COUNT, bias=False)
        torch.nn.init.normal_(self.latent.weight, std=0.2)
        torch.nn.init.normal_(self.prior.weight, std=0.2)

    def log_prob(self, h):
        states = torch.tanh(self.latent(h)).reshape(-1, COUNT, WIDTH)
        return (torch.log_softmax(self.prior(h), -1)[..., None] + torch.log_softmax(states @ self.table.T, -1)).logsumexp(1)

    def tensors(self):
        return {"softmax_states.weight": self.latent.weight, "softmax_states.bias": self.latent.bias,
                "softmax_priors.weight": self.prior.weight}


class Adaptive(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.softmax = torch.nn.AdaptiveLogSoftmaxWithLoss(WIDTH, VOCAB, CUTOFFS, div_value=4.0)
        for weight in self.softmax.parameters():  # logits spread by about 2
            torch.nn.init.normal_(weight, std=2 / weight.shape[1] ** 0.5)
        with torch.no_grad():
            self.softmax.head.weight[CUTOFFS[0]:] *= 2.5  # so that every softmax is the likeliest now and then

    def log_prob(self, h):
        return self.softmax.log_prob(h)

    def tensors(self):
        """A tail's rows are shorter than the width: zeros after them, and after the rows of its projection."""
        head, table, states = self.softmax.head.weight, torch.zeros(VOCAB, WIDTH), torch.zeros(len(CUTOFFS) * WIDTH, WIDTH)
        table[:CUTOFFS[0]] = head[:CUTOFFS[0]]
        for i, ((projection, out), first) in enumerate(zip(self.softmax.tail, CUTOFFS)):
            rows, columns = out.weight.shape
            table[first:first + rows, :columns] = out.weight
            states[i * WIDTH:i * WIDTH + columns] = projection.weight
        return {"output.weight": table, "softmax_states.weight": states, "softmax_priors.weight": head[CUTOFFS[0]:]}


def network(seed):
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(hidden_size=WIDTH, intermediate_size=80, num_hidden_layers=1, num_attention_heads=4,
                                      num_key_value_heads=2, vocab_size=VOCAB, max_position_embeddings=256)
    model = transformers.LlamaModel._from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            values = torch.randn(weight.shape)
            scale = 0.35 if "embed" in name else 1 / weight.shape[-1] ** 0.5
            # The last norm's weights are of either sign: a tied head would else answer each token with itself.
            weight.copy_(values * scale if weight.dim() > 1 else values * 0.2 + (values.sign() if name == "norm.weight" else 1))
    return model


def permuted(weight, heads):
    """Rows of q or k in the order that turns neighbours, as llama.cpp wants Llama's."""
    return weight.reshape(heads, 2, -1, WIDTH).swapaxes(1, 2).reshape(weight.shape)


def write_gguf(path, kind, model, tensors):
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(256)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_string("llama.softmax.kind", kind)
    if kind == "mixture":
        writer.add_uint32("llama.softmax.count", COUNT)
    else:
        writer.add_array("llama.softmax.cutoffs", CUTOFFS)
    words = [f"\u2581{a}{b}" for a in "bdfgklm" for b in "aeiou"] + ["\u2581", "\u2581a", "\u2581I", "\u2581you", "\u2581we", "\u2581the"]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + words
    assert len(tokens) == VOCAB
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 259 + [-float(i) for i in range(VOCAB - 259)])
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (VOCAB - 259))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 1)
    weights = {names.get_name("model." + name, try_suffixes=(".weight",)): weight for name, weight in model.named_parameters()} | tensors
    for name, weight in weights.items():
        weight = weight.detach().numpy()
        if "attn_q." in name or "attn_k." in name:
            weight = permuted(weight, 4 if "attn_q." in name else 2)
        writer.add_tensor(name, np.ascontiguousarray(weight, np.float16 if weight.ndim == 2 else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(folder):
    folder.mkdir(parents=True, exist_ok=True)
    seed = zlib.crc32(folder.name.encode())
    model = network(seed)
    halves(model)
    softmaxes = Mixture(model.embed_tokens.weight) if folder.name == "mixture" else Adaptive()
    halves(softmaxes)
    ids = prompt = np.random.default_rng(seed).integers(3, VOCAB, PROMPT).tolist()
    with torch.no_grad():
        for _ in range(STEPS):
            log_probs = softmaxes.log_prob(model(torch.tensor([ids]), use_cache=False).last_hidden_state[0])
            ids = ids + [int(log_probs[-1].argmax())]
        log_probs = softmaxes.log_prob(model(torch.tensor([ids]), use_cache=False).last_hidden_state[0])
    leads = log_probs[PROMPT - 1:-1].topk(2).values
    nll = -log_probs[:-1].gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    (folder / "reference.json").write_text(json.dumps({
        "prompt": prompt, "greedy": ids[PROMPT:], "leads": [round(float(a - b), 5) for a, b in leads],
        "nll": [round(float(x), 6) for x in nll], "positions": POSITIONS,
        "log_probs": [[round(float(x), 5) for x in log_probs[position]] for position in POSITIONS]}) + "\n")
    write_gguf(folder / "model.gguf", folder.name, model, softmaxes.tensors())
    greedy = ids[PROMPT:]
    print(folder.name, len(set(greedy)), "different ids, of them", sum(i >= CUTOFFS[0] for i in greedy), "after row", CUTOFFS[0],
          f"least lead {float((leads[:, 0] - leads[:, 1]).min()):.4f} spread {float(log_probs.std()):.2f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in ("mixture", "adaptive"):
        make(pathlib.Path(sys.argv[1]) / "tests/model/golden_softmaxes" / name)
