// scan.comp for llvmpipe: a subgroup of eight lanes has 32 columns of a head's state, four a lane, with all their rows in registers. Nothing is
// shared but by shuffles, and buffers are read as texels (attend_texel.comp says why). For keys of whole blocks of 32 and columns of whole texels.
// Variant of: scan
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/lanes.glsl"

layout(constant_id = 0) const uint MEMBER_TOKENS = 0;  // as in scan.comp
layout(constant_id = 1) const uint DELTA = 1;
layout(constant_id = 2) const uint KEY_HEADS = 1;
layout(constant_id = 3) const uint HEADS = 1;
layout(constant_id = 4) const uint KEY_DIM = 128;
layout(constant_id = 5) const uint VALUE_DIM = 128;
layout(constant_id = 6) const uint TILED = 0;
#include "lib/members.glsl"
layout(local_size_x = LANES) in;

layout(binding = 1) uniform usamplerBuffer prepared;
layout(binding = 2) uniform usamplerBuffer kept;
layout(std430, binding = 3) readonly buffer Weights { float weights[]; };
layout(binding = 4) uniform usamplerBuffer states;
layout(std430, binding = 5) writeonly buffer NewStates { vec4 new_states[]; };  // the same buffer
layout(std430, binding = 6) writeonly buffer Output { vec4 y[]; };
layout(push_constant) uniform Push { ScanPush p; };

const uint KEYS = KEY_HEADS * KEY_DIM, VALUES = HEADS * VALUE_DIM;
const uint LANE_COLS = 4, COLS = LANES * LANE_COLS, TEXELS = KEY_DIM / COLS;  // TEXELS: of a key, a lane's

vec4 at(usamplerBuffer from, uint i) { return uintBitsToFloat(texelFetch(from, int(i / 4))); }
float one_at(usamplerBuffer from, uint i) { return at(from, i)[i % 4]; }

vec4 s[KEY_DIM];
vec4 own[TEXELS];  // of a key or a query: element 32 j + 4 lane + i is own[j][i] of that lane

void fetch(usamplerBuffer from, uint first) {
  [[unroll]] for (uint j = 0; j < TEXELS; ++j) own[j] = at(from, first + j * COLS + gl_SubgroupInvocationID * LANE_COLS);
}
float element(uint i) { return subgroupShuffle(own[i / COLS][i % LANE_COLS], i % COLS / LANE_COLS); }
vec4 product() {
  vec4 sum = vec4(0);
  [[unroll]] for (uint i = 0; i < KEY_DIM; ++i) sum += element(i) * s[i];
  return sum;
}
// The state after the token whose prepared row begins at `row`, and whose key is in `own`.
void advance(usamplerBuffer from, uint row, uint head, vec4 value) {
  const float decay = one_at(from, row + KEYS + VALUES + head), rate = one_at(from, row + KEYS + VALUES + HEADS + head);
  const vec4 change = rate * (DELTA != 0 ? value - decay * product() : value);
  [[unroll]] for (uint i = 0; i < KEY_DIM; ++i) s[i] = decay * s[i] + element(i) * change;
}

// Grid: x the blocks of columns of each head, y the sessions.
void main() {
  const uint blocks = (VALUE_DIM + COLS - 1) / COLS, head = gl_WorkGroupID.x / blocks;
  const uint key_at = (TILED != 0 ? head % KEY_HEADS : head / (HEADS / KEY_HEADS)) * KEY_DIM;
  const Owner owner = owner_of(gl_WorkGroupID.y * MEMBER_TOKENS);
  if (owner.position >= owner.context) return;
  // The session's first token is always computed.
  const uint stop = owner.position + min(p.tokens, max(owner.end, owner.position + 1) - owner.position);
  const uint start = owner.position / SCAN_WINDOW * SCAN_WINDOW;
  const uint wanted = gl_WorkGroupID.x % blocks * COLS + gl_SubgroupInvocationID * LANE_COLS, col = min(wanted, VALUE_DIM - LANE_COLS);
  const bool has_cols = wanted < VALUE_DIM;
  const uint state_at = head * KEY_DIM * VALUE_DIM + col, slot_words = (HEADS * KEY_DIM * VALUE_DIM + 63) / 64 * 64;
  const uint session = owner.slot * SCAN_SLOTS, value_at = KEYS + head * VALUE_DIM + col;

  const uint from = (session + start / SCAN_WINDOW % SCAN_SLOTS) * slot_words + state_at;
  [[unroll]] for (uint i = 0; i < KEY_DIM; ++i) s[i] = start > 0 ? at(states, from + i * VALUE_DIM) : vec4(0);
  for (uint position = start; position < owner.position; ++position) {
    const uint row = (owner.slot * p.kept_capacity + position % p.kept_capacity) * p.kept_stride + p.kept_at;
    fetch(kept, row + key_at);
    advance(kept, row, head, at(kept, row + value_at));
  }
  for (uint first = start; first < stop; first += SCAN_WINDOW) {
    const uint end = min(first + SCAN_WINDOW, stop);
    for (uint position = max(first, owner.position); position < end; ++position) {
      const uint token = owner.row + position - owner.position, row = token * p.in_stride;
      const vec4 value = at(prepared, row + value_at);
      fetch(prepared, row + key_at);
      advance(prepared, row, head, value);
      fetch(prepared, row + KEYS + VALUES + 2 * HEADS + key_at);
      vec4 result = product();
      if (DELTA == 0) result += weights[p.skip_at + head] * value;
      if (has_cols) y[(token * p.out_stride + head * VALUE_DIM + col) / 4] = result;
    }
    if (end % SCAN_WINDOW != 0 || stop - end >= SCAN_SLOTS * SCAN_WINDOW || !has_cols) continue;
    const uint to = (session + end / SCAN_WINDOW % SCAN_SLOTS) * slot_words + state_at;
    [[unroll]] for (uint i = 0; i < KEY_DIM; ++i) new_states[(to + i * VALUE_DIM) / 4] = s[i];
  }
}
