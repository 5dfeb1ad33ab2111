// Q4_K (abi.h), and the scales of Q5_K.

// A block's scale and minimum of six bits. notes: the first word of its super-block.
uvec2 scale_and_minimum(uvec4 notes, uint block) {
  const uint b = block % SUPER_BLOCKS;
  const uvec2 lower = (notes.xy >> (b * 4)) & 15u, upper = (uvec2(notes.z, notes.z >> 16) >> (b * 2)) & 3u;
  return lower | upper << 4;
}

// The integers of columns 8 eight to 8 eight + 7 of a block, as bytes of two words.
uvec2 q4k_bytes(uint lower) { return uvec2(lower, lower >> 4) & 0x0f0f0f0fu; }
