// The four bytes of a word, lowest first.
vec4 unsigned_bytes(uint word) { return vec4((uvec4(word) >> uvec4(0, 8, 16, 24)) & 255u); }

// The four bytes' lower halves.
vec4 fours_of(uint word) { return unsigned_bytes(word & 0x0f0f0f0fu); }

// The four signed bytes of a word, lowest first.
vec4 signed_bytes(uint word) {
  const int w = int(word);
  return vec4((w << 24) >> 24, (w << 16) >> 24, (w << 8) >> 24, w >> 24);
}
