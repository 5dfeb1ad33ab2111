// Blocks of FORMAT_Q4 of a cache (abi.h). The includer has lib/half.glsl and GL_EXT_control_flow_attributes.

// Steps of 1, 2 and 4 of a block's Hadamard matrix, after the signs, for the eight dimensions from `first` on. With them comes 1 / sqrt(32).
void eight_rotated(inout vec4 low, inout vec4 high, uint first) {
  const uvec4 at = uvec4(0, 1, 2, 3);
  const uvec4 signs = uvec4(KEY_SIGNS >> first);
  low = uintBitsToFloat(floatBitsToUint(low) ^ (signs >> at & 1u) << 31) * 0.17677669529663689;
  high = uintBitsToFloat(floatBitsToUint(high) ^ (signs >> (at + 4) & 1u) << 31) * 0.17677669529663689;
  low = vec4(low.xz + low.yw, low.xz - low.yw).xzyw;
  low = vec4(low.xy + low.zw, low.xy - low.zw);
  high = vec4(high.xz + high.yw, high.xz - high.yw).xzyw;
  high = vec4(high.xy + high.zw, high.xy - high.zw);
  const vec4 difference = low - high;
  low += high;
  high = difference;
}

void rotate_block(inout float v[BLOCK]) {
  [[unroll]] for (uint i = 0; i < BLOCK; i += 8) {
    vec4 low = vec4(v[i], v[i + 1], v[i + 2], v[i + 3]), high = vec4(v[i + 4], v[i + 5], v[i + 6], v[i + 7]);
    eight_rotated(low, high, i);
    [[unroll]] for (uint j = 0; j < 4; ++j) {
      v[i + j] = low[j];
      v[i + 4 + j] = high[j];
    }
  }
  [[unroll]] for (uint i = 0; i < 8; ++i) {
    const float a = v[i] + v[i + 8], b = v[i] - v[i + 8], c = v[i + 16] + v[i + 24], d = v[i + 16] - v[i + 24];
    v[i] = a + c;
    v[i + 8] = b + d;
    v[i + 16] = a - c;
    v[i + 24] = b - d;
  }
}

// Scale and minimum of a block whose values go from `least` to `most`.
uint q4_note(float least, float most) {
  const uint minimum = packHalf2x16(vec2(max(least, -65504), 0)) & 0xffff;
  return packHalf2x16(vec2(min((most - scale_of(minimum)) / 15, 65504), 0)) & 0xffff | minimum << 16;
}

// Eight dimensions as a 32-bit word.
uint q4_word(vec4 low, vec4 high, uint note) {
  const float scale = scale_of(note), minimum = scale_of(note >> 16), inverse = scale > 0 ? 1 / scale : 0;
  const uvec4 lower = uvec4(clamp(round((low - minimum) * inverse), 0, 15)), upper = uvec4(clamp(round((high - minimum) * inverse), 0, 15));
  const uvec4 bytes = lower | upper << 4;
  return bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
}
