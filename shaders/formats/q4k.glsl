// Q4_K (abi.h), and the scales of Q5_K.

// The factor of a block's integers, and what is added then. notes: the last word of its super-block.
vec2 scale_and_minimum(uvec4 notes, uint block) {
  const uint b = block % SUPER_BLOCKS;
  const uvec2 lower = (notes.xy >> (b * 4)) & 15u, upper = (uvec2(notes.z, notes.z >> 16) >> (b * 2)) & 3u, six = lower | upper << 4;
  return vec2(scale_of(notes.w), -scale_of(notes.w >> 16)) * vec2(six);
}

// The integers of columns 8 eight to 8 eight + 7 of a block, as bytes of two words.
uvec2 q4k_bytes(uint lower) { return uvec2(lower, lower >> 4) & 0x0f0f0f0fu; }
