// Q4_0 (abi.h): sixteen times the integers of columns 8 eight to 8 eight + 7 of a block, as signed bytes of two words.
uvec2 q4_0_bytes(uint lower) { return uvec2(lower << 4, lower) & 0xf0f0f0f0u; }
