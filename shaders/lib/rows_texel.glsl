// A block's products by texels, for a processor: few lanes, of which each instruction counts. A quad's bytes stay in their word, so that number c is
// 2^(8c) times too large (of q4, which has no bytes, 2^(4c)), and inputs are divided by that, once for all rows. Signed bytes but the last have 128 added,
// which a mask can take out, and the sum of their inputs takes the 128 away again. It is multiplied by a block's minimum, too.
const bool IN_PLACE = FORMAT != FORMAT_F16 && !IQ4;
const vec4 IN_WORD = IN_PLACE ? FORMAT == FORMAT_Q4 ? vec4(1, 1.0 / 16, 1.0 / 256, 1.0 / 4096) : vec4(1, 1.0 / 256, 1.0 / 65536, 1.0 / 16777216) : vec4(1);

// Quad j of a row's block, from its words.
vec4 quad_of(uvec4 words[BLOCK_WORDS], uvec2 upper, uint block, uint j) {
  if (FORMAT == FORMAT_F16) {
    const uvec4 word = words[j / 2 % BLOCK_WORDS];
    return j % 2 == 0 ? vec4(unpackHalf2x16(word.x), unpackHalf2x16(word.y)) : vec4(unpackHalf2x16(word.z), unpackHalf2x16(word.w));
  }
  if (FORMAT == FORMAT_Q4) return vec4(uvec4(words[0][j / 2] >> (j % 2 * 16)) & uvec4(0xf, 0xf0, 0xf00, 0xf000));
  const uint lower = lower_of(words[0], block, j / 2);
  if (IQ4) return iq4_values(unsigned_bytes(q4k_bytes(lower)[j % 2]));
  const uint bytes = FORMAT == FORMAT_Q8 ? words[j / 4 % BLOCK_WORDS][j % 4] : bytes_of_eight(lower, upper[j / 2 * UPPER / 4], j / 2)[j % 2];
  if (MINIMA) return vec4(uvec4(bytes) & uvec4(0x7f, 0x7f00, 0x7f0000, 0x7f000000));
  const uint raised = bytes ^ 0x808080u;
  return vec4(vec3(uvec3(raised) & uvec3(0xff, 0xff00, 0xff0000)), float(int(raised & 0xff000000u)));
}

// The factors of a row's numbers in the block's two halves, and after them the factors of their inputs' sums. scales: as block_scales() has them, or notes;
// units: of the super-block.
vec4 factors_of(uvec4 scales, vec2 units, uint block) {
  if (MINIMA) {
    const vec2 first = SUPER ? units * scales_of_line(scales, block, 0) : line_of(scales, block, 0);
    const vec2 second = SCALES == 2 ? units * scales_of_line(scales, block, 1) : first;
    return vec4(first.x, second.x, first.y, second.y);
  }
  vec2 factors = vec2(1);
  if (SUPER)
    factors = units.x * scales_of_halves(scales, block);
  else if (FORMAT != FORMAT_F16)
    factors = vec2(scale_of_pair(scales.x, block));
  return vec4(factors, (IN_PLACE ? -128 : 0) * factors);
}

// Sums of inputs over the block's two halves that have a factor each, or twice over all of it. share: the lane's quad.
vec2 sums_of_inputs(vec4 share) {
  float sum = share.x + share.y + share.z + (MINIMA ? share.w : 0);
  sum += subgroupShuffle(sum, gl_SubgroupInvocationID ^ 1);
  sum += subgroupShuffle(sum, gl_SubgroupInvocationID ^ 2);
  if (SCALES == 2) return vec2(subgroupShuffle(sum, 0), subgroupShuffle(sum, 4));
  return vec2(sum + subgroupShuffle(sum, gl_SubgroupInvocationID ^ 4));
}

// Adds the products of a block of the lane's rows with TOKENS inputs. first: the block's first word of the first token.
void multiply_block(inout float sums[SUMS], uvec4 words[ROW_TILES][BLOCK_WORDS], uvec2 upper[ROW_TILES], vec4 factors[ROW_TILES], uint block, uint first, uint stride) {
  [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
    const vec4 share = floats_at(first + t * stride + gl_SubgroupInvocationID);
    const vec2 input_sums = IN_PLACE ? sums_of_inputs(share) : vec2(0);
    const EightInputs x = EightInputs(floatBitsToUint(share * IN_WORD));
    float products[ROW_TILES];
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) products[i] = 0;
    [[unroll]] for (uint j = 0; j < 8; ++j) {
      const vec4 v = floats_of(x, j);
      if (SCALES == 2 && j == 4)
        [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
          sums[t * ROW_TILES + i] += factors[i].x * products[i] + factors[i].z * input_sums.x;
          products[i] = 0;
        }
      [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) products[i] += dot(quad_of(words[i], upper[i], block, j), v);
    }
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) sums[t * ROW_TILES + i] += factors[i].y * products[i] + factors[i].w * input_sums.y;
  }
}
