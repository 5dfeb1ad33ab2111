"""How tools store quantised matrices, for quantised_goldens.py. Each function takes a matrix (rows, columns) of float32 and gives the
tensors of a module, and the numbers that these stand for, in float32. The rounding itself is the simplest one: of interest is only
how the integers are stored."""
import json

import numpy as np
import torch
from bitsandbytes.functional import dequantize_4bit, int8_vectorwise_dequant, quantize_4bit
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32, unpack_from_int32
from transformers.integrations.finegrained_fp8 import _dequantize_fp8_weight


def words(fields, bits):
    """The last axis in words of 32 bits, the first lowest."""
    per = 32 // bits
    parts = fields.astype(np.uint32).reshape(*fields.shape[:-1], -1, per)
    shifts = np.arange(per, dtype=np.uint32) * bits
    return torch.from_numpy(np.bitwise_or.reduce(parts << shifts, axis=-1).view(np.int32))


def integers(weight, bits, group_of, symmetric, round=np.float16):
    """-> integers (rows, columns), scales and zero points (rows, groups), the numbers. round: of the scales."""
    groups = int(group_of.max()) + 1
    most = 2**bits - 1
    quants = np.zeros(weight.shape, np.int64)
    scales = np.zeros((weight.shape[0], groups), np.float32)
    zeros = np.zeros((weight.shape[0], groups), np.int64)
    values = np.zeros(weight.shape, np.float32)
    for group in range(groups):
        own = weight[:, group_of == group]
        low, high = np.minimum(own.min(1), 0), np.maximum(own.max(1), 0)
        if symmetric:
            high = np.maximum(-low, high)
            low = -high
        scale = round((high - low) / most)
        zero = np.full(len(own), (most + 1) // 2) if symmetric else np.clip(np.rint(-low / scale.astype(np.float32)), 0, most).astype(np.int64)
        quant = np.clip(np.rint(own / scale.astype(np.float32)[:, None]) + zero[:, None], 0, most).astype(np.int64)
        quants[:, group_of == group] = quant
        values[:, group_of == group] = scale.astype(np.float32)[:, None] * (quant - zero[:, None]).astype(np.float32)
        scales[:, group], zeros[:, group] = scale, zero
    return quants, scales, zeros, values


def neighbours(columns, group):
    return np.arange(columns) // (columns if group == -1 else group)


def gptq(weight, bits, group, order, version, symmetric, rng):
    """AutoGPTQ and GPTQModel. order: as with desc_act, any columns make a group. Version 1 stores zero points less by one, which
    GPTQModel subtracts from the words."""
    groups = neighbours(weight.shape[1], group)
    if order:
        groups = rng.permutation(groups)
    quants, scales, zeros, values = integers(weight, bits, groups, symmetric)
    packed = words(zeros.T, bits)
    if version == 1:
        one = np.uint32(0x11111111 if bits == 4 else 0x01010101)
        packed = torch.from_numpy((packed.numpy().view(np.uint32) - one).view(np.int32))
    return {"qweight": words(quants, bits).T, "qzeros": packed, "scales": torch.from_numpy(scales.T.astype(np.float16)),
            "g_idx": torch.from_numpy(groups.astype(np.int32))}, values


def awq(weight, group):
    """AutoAWQ, version gemm: eight rows in a word, in this order from the lowest bits on."""
    quants, scales, zeros, values = integers(weight, 4, neighbours(weight.shape[1], group), False)
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def interleaved(fields):
        return words(fields.reshape(len(fields), -1, 8)[:, :, order].reshape(len(fields), -1), 4)

    return {"qweight": interleaved(quants.T), "qzeros": interleaved(zeros.T), "scales": torch.from_numpy(scales.T.astype(np.float16))}, values


def brain(values):
    return torch.from_numpy(np.asarray(values, np.float32)).bfloat16().float().numpy()


def compressed(weight, bits, group, symmetric, rng, order=False, packed=True):
    """compressed-tensors. group: columns; -1: a row, 0: the matrix. Its numbers are signed, and words have 2^(bits - 1) more."""
    rows, columns = weight.shape
    own = weight.reshape(1, -1) if group == 0 else weight
    groups = neighbours(own.shape[1], max(group, -1) or -1)
    if order:
        groups = rng.permutation(groups)
    quants, scales, zeros, values = integers(own, bits, groups, symmetric, brain)
    middle = 2**(bits - 1)
    quants, values = quants.reshape(rows, columns), values.reshape(rows, columns)
    signed = torch.from_numpy((quants - middle).astype(np.int8))
    parts = {"weight_scale": torch.from_numpy(scales).bfloat16()}
    if group == 0:
        parts["weight_scale"] = parts["weight_scale"].reshape(1)
    signed_zeros = torch.from_numpy((zeros - middle).astype(np.int8))
    if not packed:
        parts["weight"] = signed
        if not symmetric:
            parts["weight_zero_point"] = signed_zeros
    else:
        parts |= {"weight_packed": words(quants, bits), "weight_shape": torch.tensor([rows, columns])}
        assert torch.equal(parts["weight_packed"], pack_to_int32(signed, bits))
        if not symmetric:
            parts["weight_zero_point"] = words(zeros.T, bits).T
            assert torch.equal(unpack_from_int32(parts["weight_zero_point"].contiguous(), bits, zeros.shape, packed_dim=0), signed_zeros)
    if order:
        parts["weight_g_idx"] = torch.from_numpy(groups.astype(np.int32))
    return parts, values


def fp8(weight, block, input_scale=False):
    """E4M3 with a scale for the matrix ("tensor"), for each row ("channel"), or for blocks (rows, columns), as Transformers stores it."""
    rows, columns = weight.shape
    down, across = (rows, columns) if block == "tensor" else (1, columns) if block == "channel" else block
    whole = torch.zeros(-(-rows // down) * down, -(-columns // across) * across)
    whole[:rows, :columns] = torch.from_numpy(weight)
    blocks = whole.reshape(whole.shape[0] // down, down, whole.shape[1] // across, across)
    scales = blocks.abs().amax((1, 3)) / 448
    quants = (blocks / scales[:, None, :, None]).to(torch.float8_e4m3fn)
    values = (quants.float() * scales[:, None, :, None]).reshape(whole.shape)[:rows, :columns]
    quants = quants.view(torch.uint8).reshape(whole.shape)[:rows, :columns].contiguous().view(torch.float8_e4m3fn)
    assert torch.equal(values, _dequantize_fp8_weight(quants, scales, [down, across], torch.float32))
    if not isinstance(block, str):
        return {"weight": quants, "weight_scale_inv": scales}, values.numpy()
    parts = {"weight": quants, "weight_scale": scales.reshape(1) if block == "tensor" else scales}
    return parts | ({"input_scale": torch.tensor(0.5)} if input_scale else {}), values.numpy()


def four_bits(weight, kind, nested):
    """bitsandbytes rounds; the numbers are computed here from the tensors that it stores."""
    quants, state = quantize_4bit(torch.from_numpy(weight), blocksize=64, compress_statistics=nested, quant_type=kind)
    stored = {"weight." + name: value for name, value in state.as_dict(packed=True).items()}
    stored["weight"] = quants
    words = json.loads(bytes(stored["weight.quant_state.bitsandbytes__" + kind].numpy()))
    factors = stored["weight.absmax"].numpy()
    if nested:
        blocks = np.arange(len(factors)) // words["nested_blocksize"]
        factors = stored["weight.nested_quant_map"].numpy()[factors] * stored["weight.nested_absmax"].numpy()[blocks]
        factors = factors + np.float32(words["nested_offset"])
    pairs = quants.numpy().reshape(-1, 1)
    fields = np.concatenate([pairs >> 4, pairs & 15], 1).reshape(-1)
    values = (stored["weight.quant_map"].numpy()[fields].reshape(-1, words["blocksize"]) * factors[:, None]).reshape(weight.shape)
    np.testing.assert_allclose(values, dequantize_4bit(quants, state).numpy(), rtol=1e-6, atol=1e-9)
    return stored, values


def eight_bits(weight):
    """bitsandbytes: a row's largest number becomes 127."""
    factors = np.abs(weight).max(1)
    quants = np.rint(weight * (127 / factors)[:, None]).astype(np.int8)
    values = (factors / np.float32(127))[:, None] * quants.astype(np.float32)
    parts = {"weight": torch.from_numpy(quants), "SCB": torch.from_numpy(factors), "weight_format": torch.tensor(0, dtype=torch.uint8)}
    np.testing.assert_allclose(values, int8_vectorwise_dequant(parts["weight"], parts["SCB"]).numpy(), rtol=1e-6)
    return parts, values
