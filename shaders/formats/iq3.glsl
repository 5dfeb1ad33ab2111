// IQ3_XXS and IQ3_S (abi.h): multiples of the numbers of columns 8 eight to 8 eight + 7 of a block, as signed bytes of two words.

// Half the numbers 4, 12, 20, 28, 36, 44, 52 and 62; the highest bit is the sign.
uvec2 iq3_xxs_bytes(uint lower) {
  const uvec2 bits = uvec2(lower, lower >> 4), sign = (bits >> 3) & 0x01010101u;
  const uvec2 size = ((bits & 0x07070707u) << 2 | 0x02020202u) + (bits & (bits >> 1) & (bits >> 2) & 0x01010101u);
  return (size ^ (255 * sign)) + sign;  // no byte overflows, because there is no -0
}

// Eight times the odd numbers of -15 to 15.
uvec2 iq3_s_bytes(uint lower) { return (uvec2(lower << 4, lower) & 0xf0f0f0f0u) | 0x08080808u; }
