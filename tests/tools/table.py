"""The vocabulary table of a GGUF file, for the tools that make goldens with numpy."""
import gguf
import numpy


def table_of(path):
    """Its values as float64, and where its bytes lie in the file."""
    tensor = next(one for one in gguf.GGUFReader(path).tensors if one.name == "token_embd.weight")
    values = numpy.float64(gguf.quants.dequantize(tensor.data, tensor.tensor_type)).reshape(-1, tensor.shape[0])
    return values, {"offset": int(tensor.data_offset), "row_bytes": int(tensor.n_bytes) // len(values)}
