// Q5_K (abi.h); q4k.glsl has its scales.
uvec2 q5k_bytes(uint lower, uint upper, uint eight) {
  const uint bits = upper >> (eight * 2);
  return q4k_bytes(lower) | (uvec2(bits, bits >> 1) & 0x01010101u) << 4;
}
