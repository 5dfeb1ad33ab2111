// A folder with quantised matrices. Input: "quantization_config", a zero byte, and the safetensors file.
#include "format/quantised.h"

#include "format/json.h"
#include "format/packed_row.h"
#include "format/safetensors.h"
#include "fuzz_support.h"

void weft::fuzz_input(const uint8_t* data, size_t size) {
  const auto input = at_zero(data, size);
  expect_answer_or_error([&] {
    ModelFile file;
    file.kind = ModelFile::Kind::huggingface;
    file.path = "fuzz";
    file.metadata["quantization_config"] = parse_json(input.first, "fuzz.json");
    file.tensors = parse_safetensors(std::as_bytes(std::span(input.second)), "fuzz.safetensors", true);
    read_quantised(file);
    decode_all(file.tensors);
    std::vector<std::byte> bytes;
    Rounding rounding;
    for (const TensorView& tensor : file.tensors)
      for (uint64_t row = 0; tensor.rows && row < tensor.shape[0]; ++row)
        for (const DType type : {tensor.dtype, DType::q4_1}) computed_row(tensor, row, type, bytes, rounding);
  });
}
