// IQ4_NL and IQ4_XS (abi.h), and the scale of all formats of super-blocks with four bits and no minimum.

// A block's scale of six bits. notes: the first word of its super-block.
int signed_scale(uvec4 notes, uint block) {
  const uint b = block % SUPER_BLOCKS, six = (notes.x >> (b * 4)) & 15u | ((notes.z >> (b * 2)) & 3u) << 4;
  return int(six) - 32;
}

// The numbers that 0 to 15 stand for: -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113. The polynomial is never further away
// than 0.45.
vec4 iq4_values(vec4 place) {
  const vec4 x = place - 7.5;
  return roundEven((((0.001586 * x + 0.07867) * x - 0.1372) * x + 11.52) * x - 4.301);
}
uint iq4_word(uint places) {
  const uvec4 whole = uvec4(ivec4(iq4_values(unsigned_bytes(places)))) & 255u;
  return whole.x | whole.y << 8 | whole.z << 16 | whole.w << 24;
}
uvec2 iq4_bytes(uint lower) { return uvec2(iq4_word(lower & 0x0f0f0f0fu), iq4_word((lower >> 4) & 0x0f0f0f0fu)); }
