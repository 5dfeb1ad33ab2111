// Q2_K (abi.h).

// The factor of the integers of a block's first or second 16 columns, and what is added then. notes: the scales of the block and its neighbour;
// the super-block's d and dmin.
vec2 q2k_line(uvec2 notes, uint block, uint half_) {
  const uint byte = notes.x >> (block % 2 * 16 + half_ * 8);
  return vec2(scale_of(notes.y), -scale_of(notes.y >> 16)) * vec2(byte & 15u, byte >> 4 & 15u);
}

// The integers of columns 8 eight to 8 eight + 7 of a block, as bytes of two words.
uvec2 q2k_bytes(uint lower) { return uvec2(lower, lower >> 2) & 0x03030303u; }
