// rows_dot() with inputs rounded to 8 bits, 127 for the largest magnitude of a block, as matmul_tiled does it. Four products
// of integers are added up by an instruction; those sums are exact. The workgroup rounds the inputs once, a chunk of columns at a time.
#extension GL_KHR_shader_subgroup_shuffle : require
#include "lib/dot_of_bytes.glsl"

// The inputs of a chunk: for each token and block its 32 bytes; of q4, in each four the even columns of eight and then the odd ones, as masks take a
// word's 4-bit numbers apart; its scale, and that times the sum of the bytes.
const uint CHUNK = 128 / TOKENS;  // blocks
shared uvec4 rounded[TOKENS * CHUNK * 2];
shared vec2 rounded_scales[TOKENS * CHUNK];

uint bytes_of(ivec4 v) { return uint(v.x & 255 | (v.y & 255) << 8 | (v.z & 255) << 16 | v.w << 24); }

// Rounds blocks first .. first + count - 1. Four neighbouring lanes of a subgroup have a block, of which each rounds eight columns.
void round_chunk(uint first, uint count, uint stride, uint first_token) {
  barrier();  // the previous chunk's last readers are done
  for (uint i = invocation(); i < TOKENS * count * 4; i += gl_WorkGroupSize.x * SPLIT) {
    const uint token = i / (count * 4), eight = i % (count * 4), at = (first_token + token) * stride + first * (BLOCK / 4) + eight * 2;
    const vec4 a = floats_at(at), b = floats_at(at + 1), larger = max(abs(a), abs(b));
    float peak = max(max(larger.x, larger.y), max(larger.z, larger.w));
    peak = max(peak, subgroupShuffleXor(peak, 1));
    peak = max(peak, subgroupShuffleXor(peak, 2));
    const float inverse = peak > 1e-30 ? 127 / peak : 0;
    const ivec4 p = ivec4(roundEven(a * inverse)), q = ivec4(roundEven(b * inverse));
    const bool fours = FORMAT == FORMAT_Q4;
    const uint low = bytes_of(fours ? ivec4(p.xz, q.xz) : p), high = bytes_of(fours ? ivec4(p.yw, q.yw) : q);
    int sum = dot_of_bytes(low, 0x01010101u, 0) + dot_of_bytes(high, 0x01010101u, 0);
    sum += subgroupShuffleXor(sum, 1);
    sum += subgroupShuffleXor(sum, 2);
    const uint block = token * CHUNK + eight / 4;
    rounded[block * 2 + eight % 4 / 2][eight % 2 * 2] = low;
    rounded[block * 2 + eight % 4 / 2][eight % 2 * 2 + 1] = high;
    if (eight % 4 == 0) rounded_scales[block] = vec2(peak / 127, peak / 127 * float(sum));
  }
  barrier();
}

const uint BESIDE = SUPER ? SUPER_TURN : RUN;  // blocks of a lane that lie side by side

// The product of a row's block and a rounded one, without their scales.
int dot_of_blocks(uvec4 words[BLOCK_WORDS], uvec2 upper, uvec4 x[2]) {
  int sum = 0;
  [[unroll]] for (uint i = 0; i < 8; ++i) {
    uint bytes = words[i / 4 % BLOCK_WORDS][i % 4];
    if (FORMAT == FORMAT_Q4) bytes = (words[0][i / 2] >> (i % 2 * 4)) & 0x0f0f0f0fu;
    if (PACKED) bytes = bytes_of_eight(words[0][i / 2], upper[i / 2 * UPPER / 4], i / 2)[i % 2];
    sum += dot_of_bytes(bytes, x[i / 4][i % 4], 0);
  }
  return sum;
}

void rounded_rows_dot(out float sums[SUMS], uint cols, uint rows, uint in_stride, uint first_token, uint first_row) {
  const uint blocks = (cols + BLOCK - 1) / BLOCK, stride = in_stride / 4;
  Place places[ROW_TILES];
  places_of(places, blocks, 0, rows, first_row);
  [[unroll]] for (uint s = 0; s < SUMS; ++s) sums[s] = 0;
  for (uint chunk = 0; chunk < blocks; chunk += CHUNK) {
    const uint end = min(chunk + CHUNK, blocks);
    round_chunk(chunk, end - chunk, stride, first_token);
    for (uint first = chunk + part() * BESIDE; first < end; first += SPLIT * BESIDE) {
      uvec4 scales[SCALE_SHARES];
      if (NOTED) LOAD_NOTES(scales, places, scales, first / RUN)
      if (SUPER)
        [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) scales[i] = super_scales(places[i].words, first);
      for (uint b = 0; b < BESIDE; ++b) {
        const uint block = first + b;
        if (b > 0 && block >= end) break;
        uvec4 words[ROW_TILES][BLOCK_WORDS];
        [[unroll]] for (uint i = 0; i < ROW_TILES; ++i)
          [[unroll]] for (uint k = 0; k < BLOCK_WORDS; ++k) words[i][k] = word_at(places[i].words + (block_word(block) + k) * GROUP_ROWS);
        uvec2 upper[ROW_TILES];
        if (FIFTH) {
          uvec4 fifth[SCALE_SHARES];
          LOAD_NOTES(fifth, places, fifth, block)
          [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) upper[i] = uvec2(NOTES_OF(fifth, i, first_row + own_row(i, rows)), 0);
        }
        vec2 lines[ROW_TILES];  // scales and minima
        [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
          if (!FIFTH) upper[i] = SUPER ? upper_bits(places[i].words, block) : uvec2(0);
          lines[i] = MINIMA ? line_of(scales[i], SUPER ? scales_block(block) : block, 0) : vec2(SUPER ? halves_of_super(scales[i], scales_block(block)).x : scale_of_pair(scales[i].x, block), 0);
        }
        [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
          const uint at = t * CHUNK + block - chunk;
          const vec2 scale = rounded_scales[at];
          const uvec4 x[2] = {rounded[at * 2], rounded[at * 2 + 1]};
          [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
            const uint s = t * ROW_TILES + i;
            sums[s] += lines[i].x * scale.x * float(dot_of_blocks(words[i], upper[i], x));
            if (MINIMA) sums[s] += lines[i].y * scale.y;
          }
        }
      }
    }
  }
  join_parts(sums);
}
