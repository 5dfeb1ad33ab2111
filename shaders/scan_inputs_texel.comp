// scan_inputs.comp for llvmpipe: a subgroup of eight lanes has a head of a token, four columns a lane at a time. Buffers are read as texels
// (attend_texel.comp says why). For convolutions of four taps and columns of whole texels.
// Variant of: scan_inputs
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/lanes.glsl"

layout(constant_id = 0) const uint MEMBER_TOKENS = 0;  // as in scan_inputs.comp
layout(constant_id = 1) const uint BIASED = 0;
layout(constant_id = 2) const uint DELTA = 1;
layout(constant_id = 3) const uint KEY_HEADS = 1;
layout(constant_id = 4) const uint HEADS = 1;
layout(constant_id = 5) const uint KEY_DIM = 128;
layout(constant_id = 6) const uint VALUE_DIM = 128;
#include "lib/members.glsl"
layout(local_size_x = LANES) in;

layout(binding = 1) uniform usamplerBuffer projected;
layout(binding = 2) uniform usamplerBuffer weights;
layout(binding = 3) uniform usamplerBuffer kept;
layout(std430, binding = 4) writeonly buffer Prepared { vec4 prepared[]; };
layout(push_constant) uniform Push { ScanInputsPush p; };

const uint TAPS = 4, LANE_COLS = 4, COLS = LANES * LANE_COLS, BLOCKS = ((KEY_DIM > VALUE_DIM ? KEY_DIM : VALUE_DIM) + COLS - 1) / COLS;
const uint KEYS = KEY_HEADS * KEY_DIM, VALUES = HEADS * VALUE_DIM, CONV = 2 * KEYS + VALUES;

vec4 at(usamplerBuffer from, uint i) { return uintBitsToFloat(texelFetch(from, int(i / 4))); }
float one_at(usamplerBuffer from, uint i) { return at(from, i)[i % 4]; }
float softplus(float x) { return x > 20 ? x : log(1 + exp(x)); }

// Four columns of the convolution's input, `back` tokens before the owner's.
vec4 input_at(Owner o, uint col, uint back) {
  const vec4 own = at(projected, (o.row - min(back, o.token)) * p.in_stride + p.conv_at + col);
  const vec4 older = at(kept, (o.slot * p.kept_capacity + (o.position - min(back, o.position)) % p.kept_capacity) * p.kept_stride + col);
  return o.token >= back ? own : o.position < back ? vec4(0) : older;
}

vec4 convolved(Owner o, uint col) {
  vec4 sum = BIASED != 0 ? at(weights, CONV * TAPS + col) : vec4(0);
  mat4 taps;  // of a column each
  [[unroll]] for (uint i = 0; i < LANE_COLS; ++i) taps[i] = at(weights, (col + i) * TAPS);
  [[unroll]] for (uint back = 0; back < TAPS; ++back)
    sum += vec4(taps[0][TAPS - 1 - back], taps[1][TAPS - 1 - back], taps[2][TAPS - 1 - back], taps[3][TAPS - 1 - back]) * input_at(o, col, back);
  return sum / (1 + exp(-sum));
}

// Four of a token's decays and rates, which lie one behind the other.
vec4 decays_and_rates(Owner o, uint first) {
  vec4 four;
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    const bool is_rate = first + i >= HEADS;
    const uint head = is_rate ? first + i - HEADS : first + i, from = o.row * p.in_stride + p.gates_at + head, a_at = CONV * (TAPS + BIASED);
    const float dt = softplus(one_at(projected, from) + one_at(weights, a_at + HEADS + head));
    const float rate = DELTA != 0 ? 1 / (1 + exp(-one_at(projected, from + (DELTA != 0 ? HEADS : 0)))) : dt;
    four[i] = is_rate ? rate : exp(one_at(weights, a_at + head) * dt);
  }
  return four;
}

// Grid: x the heads of q, of k and of v, then one more; y the tokens.
void main() {
  const Owner owner = owner_of(gl_WorkGroupID.y);
  if (is_spare(owner) || owner.position >= owner.context) return;
  const uint unit = gl_WorkGroupID.x, lane_col = gl_SubgroupInvocationID * LANE_COLS, to = owner.row * p.out_stride;
  if (unit == 2 * KEY_HEADS + HEADS) {
    for (uint i = lane_col; i < 2 * HEADS; i += COLS) prepared[(to + KEYS + VALUES + i) / 4] = decays_and_rates(owner, i);
    return;
  }
  const bool is_query = unit < KEY_HEADS, is_key = !is_query && unit < 2 * KEY_HEADS;
  const uint head = is_query ? unit : is_key ? unit - KEY_HEADS : unit - 2 * KEY_HEADS;
  const uint dim = is_query || is_key ? KEY_DIM : VALUE_DIM;
  const uint query_at = DELTA != 0 ? 0 : VALUES + KEYS, key_at = DELTA != 0 ? KEYS : VALUES, value_at = DELTA != 0 ? 2 * KEYS : 0;
  const uint first = (is_query ? query_at : is_key ? key_at : value_at) + head * dim;
  vec4 values[BLOCKS];
  float squares = 0;
  [[unroll]] for (uint i = 0; i < BLOCKS; ++i) {
    const uint col = i * COLS + lane_col;
    values[i] = col < dim ? convolved(owner, first + min(col, dim - LANE_COLS)) : vec4(0);
    squares += dot(values[i], values[i]);
  }
  const bool is_normed = DELTA != 0 && (is_query || is_key);
  const float scale = is_normed ? inversesqrt(lanes_sum(squares) + p.epsilon) * (is_query ? inversesqrt(float(KEY_DIM)) : 1) : 1;
  const uint out_at = to + (is_query ? KEYS + VALUES + 2 * HEADS : is_key ? 0 : KEYS) + head * dim;
  [[unroll]] for (uint i = 0; i < BLOCKS; ++i)
    if (i * COLS + lane_col < dim) prepared[(out_at + i * COLS + lane_col) / 4] = values[i] * scale;
}
