#include <array>

#include "format/gguf.h"

namespace weft {

// The numbers are ggml's enum ggml_type; 4, 5, 31 to 33 and 36 to 38 were once used and then removed.
std::string ggml_type_name(uint32_t type) {
  static constexpr std::array names = {
      "F32",        "F16",        "Q4_0",       "Q4_1",  "Q4_2",     "Q4_3",     "Q5_0",     "Q5_1",    "Q8_0",
      "Q8_1",       "Q2_K",       "Q3_K",       "Q4_K",  "Q5_K",     "Q6_K",     "Q8_K",     "IQ2_XXS", "IQ2_XS",
      "IQ3_XXS",    "IQ1_S",      "IQ4_NL",     "IQ3_S", "IQ2_S",    "IQ4_XS",   "I8",       "I16",     "I32",
      "I64",        "F64",        "IQ1_M",      "BF16",  "Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",   "TQ2_0",
      "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4", "NVFP4",    "Q1_0",     "Q2_0",
  };
  return type < names.size() ? names[type] : "type " + std::to_string(type);
}

std::optional<DType> dtype_of_ggml(uint32_t type) {
  for (const DType dtype : kDTypes)
    if (ggml_type(dtype) == type) return dtype;
  return std::nullopt;
}

uint32_t ggml_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 0;
    case DType::f16:
      return 1;
    case DType::q4_0:
      return 2;
    case DType::q4_1:
      return 3;
    case DType::q5_0:
      return 6;
    case DType::q5_1:
      return 7;
    case DType::q8_0:
      return 8;
    case DType::q2_k:
      return 10;
    case DType::q3_k:
      return 11;
    case DType::q4_k:
      return 12;
    case DType::q5_k:
      return 13;
    case DType::q6_k:
      return 14;
    case DType::bf16:
      return 30;
    case DType::mxfp4:
      return 39;
    case DType::iq4_nl:
      return 20;
    case DType::iq4_xs:
      return 23;
    case DType::iq3_xxs:
      return 18;
    case DType::iq3_s:
      return 21;
    case DType::iq2_xxs:
      return 16;
    case DType::iq2_xs:
      return 17;
    case DType::iq2_s:
      return 22;
    case DType::iq1_s:
      return 19;
    case DType::iq1_m:
      return 29;
    case DType::tq1_0:
      return 34;
    case DType::tq2_0:
      return 35;
    case DType::nvfp4:
      return 40;
    case DType::q1_0:
      return 41;
    case DType::q2_0:
      return 42;
    case DType::dequantised:
    case DType::u8:
    case DType::i8:
    case DType::i32:
    case DType::i64:
    case DType::f8_e4m3:
      break;
  }
  return 0;
}

}  // namespace weft
