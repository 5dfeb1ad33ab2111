"""How tools store quantised matrices, for quantised_goldens.py. Each function takes a matrix (rows, columns) of float32 and gives the
tensors of a module, and the numbers that these stand for, in float32. The rounding itself is the simplest one: of interest is only
how the integers are stored."""
import numpy as np
import torch


def words(fields, bits):
    """The last axis in words of 32 bits, the first lowest."""
    per = 32 // bits
    parts = fields.astype(np.uint32).reshape(*fields.shape[:-1], -1, per)
    shifts = np.arange(per, dtype=np.uint32) * bits
    return torch.from_numpy(np.bitwise_or.reduce(parts << shifts, axis=-1).view(np.int32))


def integers(weight, bits, group_of, symmetric):
    """-> integers (rows, columns), f16 scales and zero points (rows, groups), the numbers."""
    groups = int(group_of.max()) + 1
    most = 2**bits - 1
    quants = np.zeros(weight.shape, np.int64)
    scales = np.zeros((weight.shape[0], groups), np.float16)
    zeros = np.zeros((weight.shape[0], groups), np.int64)
    values = np.zeros(weight.shape, np.float32)
    for group in range(groups):
        own = weight[:, group_of == group]
        low, high = np.minimum(own.min(1), 0), np.maximum(own.max(1), 0)
        if symmetric:
            high = np.maximum(-low, high)
            low = -high
        scale = ((high - low) / most).astype(np.float16)
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
    return {"qweight": words(quants, bits).T, "qzeros": packed, "scales": torch.from_numpy(scales.T.copy()),
            "g_idx": torch.from_numpy(groups.astype(np.int32))}, values


def awq(weight, group):
    """AutoAWQ, version gemm: eight rows in a word, in this order from the lowest bits on."""
    quants, scales, zeros, values = integers(weight, 4, neighbours(weight.shape[1], group), False)
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def interleaved(fields):
        return words(fields.reshape(len(fields), -1, 8)[:, :, order].reshape(len(fields), -1), 4)

    return {"qweight": interleaved(quants.T), "qzeros": interleaved(zeros.T), "scales": torch.from_numpy(scales.T.copy())}, values
