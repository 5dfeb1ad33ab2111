"""Writes the GGUF files of family_goldens.py as llama.cpp's convert_hf_to_gguf.py would: its names, metadata and order of rows."""
import json
import math
import re

import gguf
import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from family_models import rope


def permuted(weight, heads):
    """Rows of q or k in the order that turns neighbours, as llama.cpp wants Llama's."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def tiled(weight, groups, each, dim):
    """Value heads of `dim` rows: (groups, each) as (each, groups)."""
    return weight.reshape(groups, each, dim, *weight.shape[1:]).swapaxes(0, 1).reshape(weight.shape)


def convert_qwen35(config, name, weight):
    if name.endswith("norm.weight") and "linear_attn" not in name:
        return weight + 1
    if name.endswith("A_log"):
        weight = -np.exp(weight)
    groups, dim = config.linear_num_key_heads, config.linear_value_head_dim
    each, keys = config.linear_num_value_heads // groups, 2 * groups * config.linear_key_head_dim
    if "in_proj_qkv" in name or "conv1d" in name:
        return np.concatenate([weight[:keys], tiled(weight[keys:], groups, each, dim)])
    if "in_proj_z" in name:
        return tiled(weight, groups, each, dim)
    if any(part in name for part in ("in_proj_a", "in_proj_b", "A_log", "dt_bias")):
        return tiled(weight, groups, each, 1)
    if "linear_attn.out_proj" in name:
        return tiled(weight.T, groups, each, dim).T
    return weight


def convert(architecture, config, name, weight):
    """A tensor as GGUF has it."""
    heads, kv_heads = config.num_attention_heads, getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    if architecture in ("llama", "mistral3", "smollm3", "arcee", "olmo", "granitemoe", "granite", "granitehybrid"):
        if ".q_proj." in name:
            return permuted(weight, heads)
        if ".k_proj." in name:
            return permuted(weight, kv_heads)
    if (architecture == "nemotron" or architecture.startswith("gemma") and architecture != "gemma4") and name.endswith("norm.weight"):
        return weight + 1
    if architecture == "gpt2" and weight.ndim == 2 and ".c_" in name:
        return weight.T
    if architecture.startswith("qwen35"):
        weight = convert_qwen35(config, name, weight)
    if name.endswith("shared_expert_gate.weight"):
        return weight[0]
    if architecture == "granitehybrid":
        if name.endswith("A_log"):
            return -np.exp(weight)[:, None]
        if name.endswith(".D"):
            return weight[:, None]
        if name.endswith("mamba.norm.weight"):
            return weight.reshape(config.mamba_n_groups, -1)
    if (".conv.conv." in name or "conv1d" in name) and weight.ndim == 3:
        return weight.squeeze(1)
    if architecture in ("gptneox", "bloom") and "query_key_value" in name:
        return weight.reshape(heads, 3, -1, *weight.shape[1:]).swapaxes(0, 1).reshape(weight.shape)
    return weight


def llama3_factors(config):
    scaling, factors = config.rope_parameters, []
    for i in range(0, config.head_dim, 2):
        length = 2 * math.pi * scaling["rope_theta"] ** (i / config.head_dim)
        low, high, old = scaling["low_freq_factor"], scaling["high_freq_factor"], scaling["original_max_position_embeddings"]
        if length < old / high:
            factors.append(1)
        elif length > old / low:
            factors.append(scaling["factor"])
        else:
            smooth = (old / length - low) / (high - low)
            factors.append(1 / ((1 - smooth) / scaling["factor"] + smooth))
    return np.array(factors, dtype=np.float32)


def write_lfm2_metadata(writer, config):
    width = config.intermediate_size
    if getattr(config, "block_auto_adjust_ff_dim", False):
        step = config.block_multiple_of
        width = -(-int(config.block_ffn_dim_multiplier * int(2 * width / 3)) // step) * step
    writer.add_feed_forward_length(width)
    writer.add_head_count_kv([config.num_key_value_heads if kind == "full_attention" else 0 for kind in config.layer_types])
    writer.add_shortconv_l_cache(config.conv_L_cache)
    writer.add_layer_norm_rms_eps(config.norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])


def write_expert_metadata(writer, architecture, config):
    writer.add_expert_count(config.num_local_experts if hasattr(config, "num_local_experts") else config.num_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    if architecture == "lfm2moe":
        writer.add_leading_dense_block_count(config.num_dense_layers)
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        writer.add_expert_weights_norm(config.norm_topk_prob)
        writer.add_expert_weights_scale(config.routed_scaling_factor)
    if architecture in ("qwen2moe", "qwen3moe", "lfm2moe", "qwen35moe"):
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if architecture == "gpt-oss":
        writer.add_expert_feed_forward_length(config.intermediate_size)
    if architecture in ("qwen2moe", "qwen35moe"):
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    if architecture == "granitehybrid":
        writer.add_expert_shared_feed_forward_length(config.shared_intermediate_size)


def write_qwen35_metadata(writer, config):
    writer.add_full_attention_interval(config.layer_types.index("full_attention") + 1)
    writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
    writer.add_ssm_state_size(config.linear_key_head_dim)
    writer.add_ssm_group_count(config.linear_num_key_heads)
    writer.add_ssm_time_step_rank(config.linear_num_value_heads)
    writer.add_ssm_inner_size(config.linear_num_value_heads * config.linear_value_head_dim)
    writer.add_rope_dimension_sections([1, 1, 1, 0])


def write_granite_metadata(writer, config):
    writer.add_attention_scale(config.attention_multiplier)
    writer.add_embedding_scale(config.embedding_multiplier)
    writer.add_residual_scale(config.residual_multiplier)
    writer.add_logit_scale(config.logits_scaling)
    if config.model_type in ("granite", "granitemoe"):
        return
    writer.add_ssm_conv_kernel(config.mamba_d_conv)
    writer.add_ssm_state_size(config.mamba_d_state)
    writer.add_ssm_group_count(config.mamba_n_groups)
    writer.add_ssm_inner_size(config.mamba_expand * config.hidden_size)
    writer.add_ssm_time_step_rank(config.mamba_n_heads)
    writer.add_rope_scaling_finetuned(False)


def write_gemma4_metadata(writer, config):
    whole, local = (config.per_layer_config[kind] for kind in ("full_attention", "sliding_attention"))
    is_local = [kind == "sliding_attention" for kind in config.layer_types]
    first_shared = config.num_hidden_layers - config.num_kv_shared_layers
    wide = 2 if config.use_double_wide_mlp else 1
    writer.add_feed_forward_length([config.intermediate_size * (1 if i < first_shared else wide) for i in range(config.num_hidden_layers)])
    writer.add_head_count_kv([(local if own else whole).num_key_value_heads for own in is_local])
    writer.add_key_length(whole.head_dim)
    writer.add_value_length(whole.head_dim)
    writer.add_key_length_swa(local.head_dim)
    writer.add_value_length_swa(local.head_dim)
    writer.add_shared_kv_layers(config.num_kv_shared_layers)
    writer.add_embedding_length_per_layer_input(config.hidden_size_per_layer_input)
    writer.add_sliding_window(config.sliding_window)
    writer.add_sliding_window_pattern(is_local)
    writer.add_rope_dimension_count(whole.head_dim)
    writer.add_rope_dimension_count_swa(local.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["full_attention"]["rope_theta"])
    writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if config.final_logit_softcapping:
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    turning = int(whole.head_dim * config.rope_parameters["full_attention"]["partial_rotary_factor"] / 2)
    writer.add_tensor("rope_freqs.weight", np.array([1.0] * turning + [1e30] * (whole.head_dim // 2 - turning), dtype=np.float32))


def write_metadata(writer, architecture, config):
    width, heads = config.hidden_size, config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or width // heads
    writer.add_context_length(next(getattr(config, key) for key in ("seq_length", "max_seq_len", "max_position_embeddings") if hasattr(config, key)))
    writer.add_embedding_length(width)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(heads)
    if architecture == "bloom":
        writer.add_feed_forward_length(4 * width)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        return
    if architecture in ("gpt2", "starcoder"):
        writer.add_feed_forward_length(config.n_inner or 4 * width)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        if architecture == "starcoder":
            writer.add_head_count_kv(1)
        return
    if architecture == "falcon":
        writer.add_feed_forward_length(config.ffn_hidden_size)
        writer.add_head_count_kv(1)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        return
    if architecture == "mpt":
        writer.add_feed_forward_length(config.expansion_ratio * width)
        writer.add_layer_norm_eps(1e-5)
        return
    if getattr(config, "num_experts_per_tok", None):
        write_expert_metadata(writer, architecture, config)
    if architecture in ("lfm2", "lfm2moe"):
        write_lfm2_metadata(writer, config)
        return
    if architecture == "gemma4":
        write_gemma4_metadata(writer, config)
        return
    if architecture.startswith("qwen35"):
        write_qwen35_metadata(writer, config)
    if architecture.startswith("granite"):
        write_granite_metadata(writer, config)
    if architecture != "qwen35moe":
        writer.add_feed_forward_length(config.intermediate_size)
    parameters = config.rope_parameters or rope(10000.0)
    rope_ = parameters.get("full_attention", parameters)
    writer.add_rope_dimension_count(int(head_dim * rope_.get("partial_rotary_factor", 1)))
    if architecture == "gptneox":
        writer.add_layer_norm_eps(config.layer_norm_eps)
        writer.add_parallel_residual(config.use_parallel_residual)
        return
    if architecture == "granitehybrid":
        kinds = [kind == "full_attention" for kind in config.layer_types]
        writer.add_head_count_kv([config.num_key_value_heads * attends for attends in kinds])
    else:
        writer.add_head_count_kv(config.num_key_value_heads)
    if architecture in ("command-r", "cohere2"):
        writer.add_logit_scale(config.logit_scale)
    if architecture == "stablelm":
        writer.add_parallel_residual(config.use_parallel_residual)
    layer_norm = next((getattr(config, key) for key in ("layer_norm_eps", "norm_eps", "norm_epsilon") if hasattr(config, key)), None)
    if architecture == "olmo":
        layer_norm = 1e-5
    if layer_norm:
        writer.add_layer_norm_eps(layer_norm)
    else:
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    stretched = rope_["alpha"] ** (head_dim / (head_dim - 2)) if "alpha" in rope_ else 1
    writer.add_rope_freq_base(rope_["rope_theta"] * stretched)
    if rope_["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope_["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope_["original_max_position_embeddings"])
        if "llama_4_scaling_beta" in rope_:
            writer.add_rope_scaling_yarn_beta_fast(rope_["beta_fast"])
            writer.add_rope_scaling_yarn_beta_slow(rope_["beta_slow"])
            writer.add_rope_scaling_yarn_log_mul(rope_["mscale_all_dim"])
            writer.add_attn_temperature_scale(rope_["llama_4_scaling_beta"])
    if rope_["rope_type"] == "longrope":
        old = rope_["original_max_position_embeddings"]
        writer.add_rope_scaling_orig_ctx_len(old)
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(config.max_position_embeddings / old) / math.log(old)))
    if rope_["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope_["factor"])
    if getattr(config, "head_dim", None):
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    if architecture == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)


def is_of_experts(name):
    return ".experts." in name or "block_sparse_moe.input_linear" in name or "block_sparse_moe.output_linear" in name


def unpacked(blocks, scales):
    """gpt-oss's blocks, pairs of neighbours in a byte, as GGUF's: (experts, rows, bytes)."""
    numbers = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*blocks.shape[:-1], 32)
    halves = numbers[..., :16] | numbers[..., 16:] << 4
    return np.concatenate([scales[..., None], halves], axis=-1).reshape(*blocks.shape[:2], -1)


def write_experts(writer, file, architecture):
    """All experts' matrices of a kind as one tensor, gates and what they gate apart."""
    kinds = dict(w1="gate", w3="up", w2="down", gate_proj="gate", up_proj="up", down_proj="down")
    stacks = {}
    for name in file.keys():
        single = re.search(r"layers\.(\d+)\..*experts\.(\d+)\.(\w+)\.weight", name)
        if single:
            layer, number, kind = single.groups()
            stacks.setdefault(f"blk.{layer}.ffn_{kinds[kind]}_exps.weight", {})[int(number)] = file.get_tensor(name)
        elif is_of_experts(name) and not name.endswith("_scales"):
            write_stack(writer, file, name)
    for name, stack in stacks.items():
        writer.add_tensor(name, np.stack([stack[number] for number in range(len(stack))]))


def write_stack(writer, file, name):
    layer, weight = name.split(".")[2], file.get_tensor(name)
    type_ = None
    if name.endswith("_blocks"):
        weight = unpacked(weight, file.get_tensor(name.replace("_blocks", "_scales")))
        type_ = gguf.GGMLQuantizationType.MXFP4
    what = "bias" if name.endswith("_bias") else "weight"
    if ".experts." in name and what == "weight" and type_ is None:  # gpt-oss's
        weight = weight.swapaxes(1, 2)
    if what == "bias":
        weight = weight.astype(np.float32)
    parts = [("down", weight)]
    if "gate_up_proj" in name:
        parts = [("gate", weight[:, ::2]), ("up", weight[:, 1::2])]
    elif "input_linear" in name:
        parts = list(zip(("gate", "up"), np.split(weight, 2, axis=1)))
    for kind, rows in parts:
        writer.add_tensor(f"blk.{layer}.ffn_{kind}_exps.{what}", np.ascontiguousarray(rows), raw_dtype=type_)


def write_mxfp4(folder, config):
    """Experts as blocks of MXFP4, (experts, rows, blocks, 16) bytes of two neighbours each and (experts, rows, blocks) scales."""
    tensors = load_file(folder / "model.safetensors")
    for name in [name for name in tensors if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        weight = np.ascontiguousarray(tensors.pop(name).astype(np.float32).swapaxes(1, 2))
        blocks = gguf.quants.quantize(weight, gguf.GGMLQuantizationType.MXFP4).reshape(*weight.shape[:2], -1, 17)
        halves = blocks[..., 1:]
        numbers = np.concatenate([halves & 15, halves >> 4], axis=-1)
        tensors[name + "_blocks"] = np.ascontiguousarray(numbers[..., ::2] | numbers[..., 1::2] << 4)
        tensors[name + "_scales"] = np.ascontiguousarray(blocks[..., 0])
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    settings = json.loads((folder / "config.json").read_text())
    settings["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": [
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}
    (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n")


def write_gguf(folder, architecture, config):
    config.allow_global_per_layer_attribute_access = True  # to heads, which differ in Gemma 4's layers
    writer = gguf.GGUFWriter(folder / "model.gguf", architecture)
    write_metadata(writer, architecture, config)
    number = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == architecture)
    names = gguf.get_tensor_name_map(number, config.num_hidden_layers)
    if getattr(config, "rope_parameters", {}).get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(config))
    if getattr(config, "rope_parameters", {}).get("rope_type") == "longrope":
        for kind in ("long", "short"):
            writer.add_tensor(f"rope_factors_{kind}.weight", np.array(config.rope_parameters[f"{kind}_factor"], dtype=np.float32))
    with safe_open(folder / "model.safetensors", "np") as file:
        write_experts(writer, file, architecture)
        for name in file.keys():
            if is_of_experts(name):
                continue
            weight = convert(architecture, config, name, file.get_tensor(name).astype(np.float32))
            if architecture == "bloom":
                name = name.removeprefix("transformer.")
            # llama.cpp knows no Gemma without a tied head.
            name = name.replace(".dt_bias", ".dt_proj.bias").replace("layer_scalar", "layer_scalar.weight")
            name = name.replace("expert_bias", "expert_bias.bias")
            floats = any(part in name for part in ("moe.gate", "mlp.gate.", "feed_forward.gate", "router", ".conv.conv.", "conv1d", "mamba.norm",
                                                   "A_log", ".D"))
            type_ = np.float16 if weight.ndim == 2 and not floats else np.float32
            if "shared_mlp.input_linear" in name:
                end = "_shexp" if config.num_local_experts else ""
                for half, rows in zip(("ffn_gate", "ffn_up"), np.split(weight, 2)):
                    writer.add_tensor(f"blk.{name.split('.')[2]}.{half}{end}.weight", np.ascontiguousarray(rows, type_))
                continue
            if "shared_mlp.output_linear" in name:
                name = name.replace("shared_mlp.output_linear", "mlp.shared_expert.down_proj" if config.num_local_experts else "mlp.down_proj")
            if name.endswith("self_attn.sinks"):
                name += ".weight"
            writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")) or "output.weight",
                              np.ascontiguousarray(weight, type_))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
