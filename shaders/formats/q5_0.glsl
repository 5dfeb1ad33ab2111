// Q5_0 and Q5_1 (abi.h).

// The fifth bits of columns 8 eight to 8 eight + 7 of a block: the highest of each byte of two words.
uvec2 fifth_bits(uint upper, uint eight) { return (uvec2(upper, upper << 1) << (eight * 2)) & 0x80808080u; }

// Eight times the integers of Q5_0, as signed bytes.
uvec2 q5_0_bytes(uint lower, uint upper, uint eight) { return (uvec2(lower << 3, lower >> 1) & 0x78787878u) | fifth_bits(upper, eight); }

// The integers of Q5_1, as bytes.
uvec2 q5_1_bytes(uint lower, uint upper, uint eight) { return (uvec2(lower, lower >> 4) & 0x0f0f0f0fu) | fifth_bits(upper, eight) >> 3; }
