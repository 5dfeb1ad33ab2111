// IQ2 and IQ1 (abi.h): numbers of columns 8 eight to 8 eight + 7 of a block, as signed bytes of two words. The lower two bits say which number, the
// upper one is the sign.
uvec2 with_signs(uvec2 size, uint upper, uint eight) {
  const uvec2 sign = (uvec2(upper, upper >> 1) >> (eight * 2)) & 0x01010101u;
  return (size ^ (255 * sign)) + sign;  // no byte overflows, because there is no -0
}

// 8, 25 and 43.
uvec2 iq2_bytes(uint lower, uint upper, uint eight) {
  const uvec2 bits = uvec2(lower, lower >> 2);
  return with_signs(0x08080808u + 17 * (bits & 0x01010101u) + 35 * ((bits >> 1) & 0x01010101u), upper, eight);
}

// 1, 7 and 9: eight times the numbers.
uvec2 iq1_bytes(uint lower, uint upper, uint eight) {
  const uvec2 bits = uvec2(lower, lower >> 2);
  return with_signs(0x01010101u + 6 * (bits & 0x01010101u) + 8 * ((bits >> 1) & 0x01010101u), upper, eight);
}
