// Linear attention: a state S (key_dim, value_dim) of each head goes through the tokens.
//   Gated delta rule (Yang, Kautz and Hatamizadeh 2024): S = decay S + k (rate (v - decay S^T k))^T, y = S^T q
//   Mamba-2 (Dao and Gu 2024):                           S = decay S + k (rate v)^T,                 y = S^T q + D v
// A workgroup has COLS columns of a head's state, in registers: LANES lanes share a column, ROWS rows each. It begins with the state of the
// last window before the pass (abi.h, SCAN_WINDOW) and reads the tokens between from the kept rows: the same numbers however a text is cut
// into passes, and whatever was computed after it and taken back.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"

layout(constant_id = 0) const uint THREADS = 128;  // LANES * COLS
layout(constant_id = 1) const uint MEMBER_TOKENS = 0;  // of each session of a batch
layout(constant_id = 2) const uint LANES = 4;
layout(constant_id = 3) const uint DELTA = 1;  // 0: Mamba-2
layout(constant_id = 4) const uint KEY_HEADS = 1;
layout(constant_id = 5) const uint HEADS = 1;
layout(constant_id = 6) const uint KEY_DIM = 128;
layout(constant_id = 7) const uint VALUE_DIM = 128;
layout(constant_id = 8) const uint TILED = 0;  // 1: head h reads keys h % KEY_HEADS; 0: neighbouring heads share keys
#include "lib/members.glsl"
layout(local_size_x_id = 0) in;

layout(std430, binding = 1) readonly buffer Prepared { float prepared[]; };  // (pass tokens, in_stride)
layout(std430, binding = 2) readonly buffer Kept { float kept[]; };          // of each session (kept_capacity, kept_stride)
layout(std430, binding = 3) readonly buffer Weights { float weights[]; };    // of the layer; Mamba-2: D (HEADS) at skip_at
layout(std430, binding = 4) buffer States { float states[]; };               // of each session (SCAN_SLOTS, slot_words)
layout(std430, binding = 5) writeonly buffer Output { float y[]; };          // (pass tokens, out_stride)
layout(push_constant) uniform Push { ScanPush p; };

const uint COLS = THREADS / LANES, ROWS = (KEY_DIM + LANES - 1) / LANES;
const uint KEYS = KEY_HEADS * KEY_DIM, VALUES = HEADS * VALUE_DIM;
const uint STEP = KEY_DIM <= MOST_KEY_DIM / 2 ? SCAN_WINDOW : SCAN_WINDOW / 2;  // tokens whose inputs are in shared memory

shared float keys[STEP * KEY_DIM];
shared float queries[STEP * KEY_DIM];
shared float values[STEP * COLS];
shared float decays[STEP];
shared float rates[STEP];
shared vec3 parts[2 * THREADS];

// The sum of the lanes of a column. turn: alternates, so that one barrier is enough.
vec3 column_sum(vec3 own, uint turn) {
  if (LANES == 1) return own;
  const uint lane = gl_LocalInvocationID.x, col = lane % COLS;
  parts[turn * THREADS + lane] = own;
  barrier();
  vec3 sum = parts[turn * THREADS + col];
  for (uint i = 1; i < LANES; ++i) sum += parts[turn * THREADS + i * COLS + col];
  return sum;
}

// Grid: x the blocks of columns of each head, y the sessions.
void main() {
  const uint blocks = (VALUE_DIM + COLS - 1) / COLS, head = gl_WorkGroupID.x / blocks;
  const uint key_head = TILED != 0 ? head % KEY_HEADS : head / (HEADS / KEY_HEADS);
  const Owner owner = owner_of(gl_WorkGroupID.y * MEMBER_TOKENS);
  if (owner.position >= owner.context) return;
  // The session's first token is always computed.
  const uint stop = owner.position + min(p.tokens, max(owner.end, owner.position + 1) - owner.position);
  const uint start = owner.position / SCAN_WINDOW * SCAN_WINDOW;
  const uint lane = gl_LocalInvocationID.x, first_row = lane / COLS * ROWS, first_col = gl_WorkGroupID.x % blocks * COLS;
  const uint col = first_col + lane % COLS;
  const bool has_col = col < VALUE_DIM;
  const uint own = (head * KEY_DIM + first_row) * VALUE_DIM + col, slot_words = (HEADS * KEY_DIM * VALUE_DIM + 63) / 64 * 64;
  const uint session = owner.slot * SCAN_SLOTS;

  float s[ROWS];
  for (uint i = 0; i < ROWS; ++i) {
    s[i] = 0;
    if (start > 0 && has_col && first_row + i < KEY_DIM)
      s[i] = states[(session + start / SCAN_WINDOW % SCAN_SLOTS) * slot_words + own + i * VALUE_DIM];
  }
  for (uint first = start; first < stop; first += STEP) {
    const uint count = min(STEP, stop - first);
    barrier();  // the last block's readers are done
    for (uint i = lane; i < count * (KEY_DIM + COLS + 2); i += THREADS) {
      const uint t = i / (KEY_DIM + COLS + 2), e = i % (KEY_DIM + COLS + 2), position = first + t;
      const bool is_kept = position < owner.position;
      const uint row = (owner.row + position - owner.position) * p.in_stride;
      const uint kept_row = (owner.slot * p.kept_capacity + position % p.kept_capacity) * p.kept_stride + p.kept_at;
      if (e < KEY_DIM) {
        const uint at = key_head * KEY_DIM + e;
        keys[t * KEY_DIM + e] = is_kept ? kept[kept_row + at] : prepared[row + at];
        queries[t * KEY_DIM + e] = is_kept ? 0 : prepared[row + KEYS + VALUES + 2 * HEADS + at];
      } else if (e < KEY_DIM + COLS) {
        const uint c = e - KEY_DIM, at = KEYS + head * VALUE_DIM + min(first_col + c, VALUE_DIM - 1);
        values[t * COLS + c] = is_kept ? kept[kept_row + at] : prepared[row + at];
      } else {
        const bool is_rate = e == KEY_DIM + COLS + 1;
        const uint at = KEYS + VALUES + (is_rate ? HEADS : 0) + head;
        const float value = is_kept ? kept[kept_row + at] : prepared[row + at];
        if (is_rate)
          rates[t] = value;
        else
          decays[t] = value;
      }
    }
    barrier();
    for (uint t = 0; t < count; ++t) {
      const float decay = decays[t], value = values[t * COLS + lane % COLS];
      vec3 own_part = vec3(0);  // S^T k, S^T q, k q
      for (uint i = 0; i < ROWS; ++i) {
        if (KEY_DIM % LANES != 0 && first_row + i >= KEY_DIM) break;
        const float k = keys[t * KEY_DIM + first_row + i], q = queries[t * KEY_DIM + first_row + i];
        own_part += vec3(k * s[i], q * s[i], k * q);
      }
      const vec3 sums = column_sum(own_part, t % 2);
      const float change = rates[t] * (DELTA != 0 ? value - decay * sums.x : value);
      for (uint i = 0; i < ROWS; ++i) {
        if (KEY_DIM % LANES != 0 && first_row + i >= KEY_DIM) break;
        s[i] = decay * s[i] + keys[t * KEY_DIM + first_row + i] * change;
      }
      const uint position = first + t;
      if (position < owner.position || !has_col || lane >= COLS) continue;
      float result = decay * sums.y + sums.z * change;
      if (DELTA == 0) result += weights[p.skip_at + head] * value;
      y[(owner.row + position - owner.position) * p.out_stride + head * VALUE_DIM + col] = result;
    }
    const uint end = first + count;
    if (end % SCAN_WINDOW != 0 || end <= owner.position || stop - end >= SCAN_SLOTS * SCAN_WINDOW || !has_col) continue;
    for (uint i = 0; i < ROWS; ++i)
      if (first_row + i < KEY_DIM) states[(session + end / SCAN_WINDOW % SCAN_SLOTS) * slot_words + own + i * VALUE_DIM] = s[i];
  }
}
