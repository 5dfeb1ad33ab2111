// The scale in the low 16 bits of a word. Vulkan lets unpackHalf2x16 flush subnormal halves to zero, and with a scale a whole block of
// small weights would vanish. With EXACT_HALVES the driver is known to keep them. WEFT_EXACT_ID: of a specialisation constant that says so.
#if defined(WEFT_EXACT_HALVES)
const uint EXACT_HALVES = 1;
#elif defined(WEFT_EXACT_ID)
layout(constant_id = WEFT_EXACT_ID) const uint EXACT_HALVES = 0;
#else
const uint EXACT_HALVES = 0;
#endif
float scale_of(uint word) {
  if (EXACT_HALVES != 0) return unpackHalf2x16(word).x;
  const uint magnitude = word & 0x7fffu;
  const float value = magnitude < 0x400u ? float(magnitude) * (1.0 / 16777216.0) : unpackHalf2x16(magnitude).x;
  return (word & 0x8000u) != 0 ? -value : value;
}

// A word of two halves: a scale, and a minimum above it.
vec2 note_of(uint word) { return vec2(scale_of(word), scale_of(word >> 16)); }

// Floats rounded to halves. zero: 0, which the compiler must not know: NVIDIA's takes the float of a half for the float that it was made of.
vec2 rounded_to_halves(vec2 v, uint zero) { return unpackHalf2x16(packHalf2x16(v) ^ zero); }
