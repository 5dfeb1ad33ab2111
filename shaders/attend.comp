// Grouped-query attention of one head and token over the cache, with the running softmax of Milakov and Gimelshein (2018): a
// block of positions at a time, so that any context fits into shared memory.
// Variants: subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "abi.h"
#include "lib/alibi.glsl"
#include "lib/bytes.glsl"
#include "lib/half.glsl"
#include "lib/reduce.glsl"
#include "lib/soft_cap.glsl"

layout(constant_id = 1) const uint SOFT_CAP = 0;  // 1: scores are capped
layout(constant_id = 2) const uint ALIBI = 0;     // 1: scores fall with the distance (Press et al. 2022)
layout(constant_id = 3) const uint MASK = MASK_CAUSAL;
layout(constant_id = 4) const uint BIASED = 0;  // 1: scores have biases, by distance (Raffel et al. 2020, "T5")
layout(constant_id = 5) const uint FORMAT = FORMAT_F16;  // of the cache
layout(constant_id = 6) const uint PARTED = 0;  // 1: several workgroups do a head (lib/parts.glsl)
// 1: of one token, whose q|k|v are the queries: rotated here, and its key and value written here (rope.comp). The workgroups that need them
// make them themselves, the first of a key/value head writes them. Of f16 and whole 16-byte words, without biases.
layout(constant_id = 7) const uint ROTATES = 0;
layout(constant_id = 8) const uint ADJACENT = 0;
layout(constant_id = 9) const uint ROTARY_DIM = 0;
layout(constant_id = 10) const uint MEMBER_TOKENS = 0;  // of each session of a batch

#define MAX_HEAD_DIM 256
#define POSITIONS 256  // of a block
const uint WORDS = (MAX_HEAD_DIM / 2 + THREADS - 1) / THREADS;  // of a value's pairs of dimensions, the most that a lane owns

layout(std430, binding = 1) readonly buffer Queries { float qkv[]; };  // (pass tokens, q_stride): q, or q|k|v
layout(std430, binding = 2) readonly buffer Keys { uvec4 keys[]; };  // layout in rope.comp and abi.h
layout(std430, binding = 2) readonly buffer KeyScales { uint key_scales[]; };
layout(std430, binding = 3) readonly buffer Values { uint values[]; };
layout(std430, binding = 4) writeonly buffer Output { float y[]; };  // (pass tokens, out_stride)
layout(std430, binding = 5) readonly buffer Biases { float biases[]; };  // (heads, 2 * reach + 1): key - query from -reach to reach
layout(std430, binding = 5) readonly buffer RopeTable { vec2 rope_table[]; };  // as in rope.comp
layout(std430, binding = 2) writeonly buffer NewKeys { uvec4 new_keys[]; };
layout(std430, binding = 3) writeonly buffer NewValues { uint new_values[]; };
layout(std430, binding = 6) coherent buffer PartsBuffer { float parts[]; };  // abi.h
layout(std430, binding = 6) coherent buffer Arrivals { uint arrivals[]; };
layout(push_constant) uniform Push { AttendPush p; };
#include "lib/members.glsl"
#include "lib/rotate_one.glsl"
#include "lib/parts.glsl"

shared vec4 query[MAX_HEAD_DIM / 4];      // scaled, zeros after head_dim
shared float weights[POSITIONS];          // scores, then softmax numerators of the block
shared vec2 sums[THREADS * WORDS];        // partial outputs, to be joined
shared uvec4 own_key[MAX_HEAD_DIM / 8];   // of the token, if it is rotated here

// The query times eight dimensions of a key.
float dot_word(uvec4 halves, uint k) {
  return dot(vec4(unpackHalf2x16(halves.x), unpackHalf2x16(halves.y)), query[k * 2]) +
         dot(vec4(unpackHalf2x16(halves.z), unpackHalf2x16(halves.w)), query[k * 2 + 1]);
}

// The query times the key in a slot. head_slots: how many slots the key/value heads before this one have.
float dot_key(uint head_slots, uint slot) {
  const uint tile = head_slots + slot / TILE_ROWS * TILE_ROWS, r = slot % TILE_ROWS;
  float sum = 0;
  if (FORMAT == FORMAT_F16) {
    const uint words = (p.head_dim + 7) / 8, key = tile * words + IN_KEYS(r, 0, words);
    for (uint k = 0; k < words; ++k) sum += dot_word(keys[key + k * KEY_ROWS], k);
    return sum;
  }
  const uint words = Q8_WORDS(p.head_dim), first = tile * Q8_SLOT_WORDS(p.head_dim);
  const uint key = first / 4 + IN_KEYS(r, 0, words), scales = first + TILE_ROWS * words * 4;
  uint two_scales = 0;
  for (uint k = 0; k < words; ++k) {  // half a block
    if (k % 4 == 0) two_scales = key_scales[scales + IN_KEYS(r, k / 4, Q8_SCALE_WORDS(p.head_dim))];
    const uvec4 bytes = keys[key + k * KEY_ROWS];
    const float part = dot(signed_bytes(bytes.x), query[k * 4]) + dot(signed_bytes(bytes.y), query[k * 4 + 1]) +
                       dot(signed_bytes(bytes.z), query[k * 4 + 2]) + dot(signed_bytes(bytes.w), query[k * 4 + 3]);
    sum += part * scale_of(two_scales >> (k / 2 % 2 * 16));
  }
  return sum;
}

// Dimensions d and d + 1.
uint two_rotated(uint head, uint d, uint position) {
  return packHalf2x16(vec2(rotated(head, d, position, ROTARY_DIM, ADJACENT != 0), rotated(head, d + 1, position, ROTARY_DIM, ADJACENT != 0)));
}

// The token's own key to own_key, and with its value to the cache if `writes`. slots: before the key/value head's first. The query is there.
void rotate_own(uint token, uint own, uint kv_head, uint slots, bool writes) {
  const uint slot = own % p.capacity, words = p.head_dim / 8;
  const uint key = token * p.q_stride + (p.heads + kv_head) * p.head_dim, value = key + p.kv_heads * p.head_dim;
  for (uint w = gl_LocalInvocationID.x; w < words; w += THREADS) {
    own_key[w] = uvec4(two_rotated(key, w * 8, own), two_rotated(key, w * 8 + 2, own), two_rotated(key, w * 8 + 4, own), two_rotated(key, w * 8 + 6, own));
    if (writes) new_keys[(slots + slot / TILE_ROWS * TILE_ROWS) * words + IN_KEYS(slot % TILE_ROWS, w, words)] = own_key[w];
  }
  if (writes)
    for (uint w = gl_LocalInvocationID.x; w < p.head_dim / 2; w += THREADS)
      new_values[(slots + slot) * (p.head_dim / 2) + w] = packHalf2x16(vec2(qkv[value + w * 2], qkv[value + w * 2 + 1]));
  barrier();
}

// Dimensions 2i and 2i + 1 of the value in a slot, of all heads' slots.
vec2 value_pair(uint slot, uint i) {
  if (FORMAT == FORMAT_F16) return unpackHalf2x16(values[slot * (p.head_dim / 2) + i]);
  const uint tile = slot / TILE_ROWS * TILE_ROWS * Q8_SLOT_WORDS(p.head_dim), r = slot % TILE_ROWS, row_words = Q8_WORDS(p.head_dim) * 4;
  const vec4 bytes = signed_bytes(values[tile + r * row_words + i / 2]);
  const uint two_scales = values[tile + TILE_ROWS * row_words + r * Q8_SCALE_WORDS(p.head_dim) + i / 32];
  return (i % 2 == 0 ? bytes.xy : bytes.zw) * scale_of(two_scales >> (i / 16 % 2 * 16));
}

// Values: a lane owns word `lane % words` of them (and, of heads wider than the workgroup, the next ones at stride THREADS). Where lanes are
// left over, they share the positions: groups of `words` lanes. Worked out where it is needed, without a division: that takes no register anywhere else.
uint value_words() { return p.head_dim / 2; }  // pairs of dimensions
uint by_words(uint i) { return i * p.per_word >> 16; }
uint value_word() { return gl_LocalInvocationID.x - by_words(gl_LocalInvocationID.x) * value_words(); }
uint value_groups() { return max(by_words(THREADS), 1); }
uint value_group() {
  const uint group = by_words(gl_LocalInvocationID.x);
  return group < value_groups() ? group : POSITIONS;  // of no position
}

void main() {
  const uint head = gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
  const Owner owner = owner_of(gl_WorkGroupID.y);
  if (is_spare(owner)) return;
  const uint own = owner.position, token = owner.row;
  const uint length = MASK == MASK_SOURCE ? state.source : min(MASK == MASK_NONE ? owner.end : own + 1, owner.context);
  const uint seen = min(length, p.window), part = gl_WorkGroupID.z;
  const uint first = length - seen + part * p.span;
  if (PARTED != 0 && first >= length) return;
  uint last = min(length, first + p.span);
  const uint kv_head = head / (p.heads / p.kv_heads);
  const uint slots = (owner.slot * p.kv_heads + kv_head) * p.capacity;  // before the key/value head's first
  const float slope = ALIBI != 0 ? alibi_slope(head, p.heads) : 0;
  const uint q_row = token * p.q_stride + head * p.head_dim;
  for (uint i = lane; i < (p.head_dim + BLOCK - 1) / BLOCK * 8; i += THREADS)
    for (uint j = 0; j < 4; ++j) {
      const uint d = i * 4 + j;
      query[i][j] = d >= p.head_dim ? 0 : p.scale * (ROTATES != 0 ? rotated(q_row, d, own, ROTARY_DIM, ADJACENT != 0) : qkv[q_row + d]);
    }
  barrier();

  vec2 acc[WORDS];
  [[unroll]] for (uint i = 0; i < WORDS; ++i) acc[i] = vec2(0);
  float peak = -1e30, total = 0;

  if (ROTATES != 0 && last == length) {  // the part with the token's own position, which is not in the cache yet
    last = length - 1;
    rotate_own(token, own, kv_head, slots, head % (p.heads / p.kv_heads) == 0 && own < owner.context);
    float score = 0;
    for (uint w = lane; w < p.head_dim / 8; w += THREADS) score += dot_word(own_key[w], w);
    peak = workgroup_sum(score);
    if (SOFT_CAP != 0) peak = soft_capped(peak, p.soft_cap);
    total = 1;
    const uint value = token * p.q_stride + (p.heads + p.kv_heads + kv_head) * p.head_dim;
    if (value_group() == 0)
      [[unroll]] for (uint i = 0; i < WORDS; ++i) {
        const uint w = value_word() + i * THREADS;
        if (w < value_words()) acc[i] = unpackHalf2x16(packHalf2x16(vec2(qkv[value + w * 2], qkv[value + w * 2 + 1])));
      }
  }

  uint left = last - first, start_slot = first % p.capacity;  // in the ring, which the positions go round once at most
  while (left > 0) {
    const uint count = min(left, POSITIONS);
    float block_peak = -1e30;
    for (uint i = lane; i < count; i += THREADS) {
      const uint slot = start_slot + i < p.capacity ? start_slot + i : start_slot + i - p.capacity;
      float score = dot_key(slots, slot);
      if (SOFT_CAP != 0) score = soft_capped(score, p.soft_cap);
      if (ALIBI != 0) score -= slope * float(length - 1 - (last - left + i));
      if (BIASED != 0) {
        const int reach = int(p.reach), distance = clamp(int(last - left + i) - int(own), -reach, reach);
        score += biases[head * (2 * p.reach + 1) + uint(distance + reach)];
      }
      weights[i] = score;
      block_peak = max(block_peak, score);
    }
    const float new_peak = max(peak, workgroup_max(block_peak));
    const float shrink = exp(peak - new_peak);
    peak = new_peak;
    float block_total = 0;
    for (uint i = lane; i < count; i += THREADS) {
      weights[i] = exp(weights[i] - peak);
      block_total += weights[i];
    }
    total = total * shrink + workgroup_sum(block_total);
    barrier();  // the weights are written
    [[unroll]] for (uint i = 0; i < WORDS; ++i) acc[i] *= shrink;
    const uint word = value_word(), groups = value_groups();
    for (uint i = value_group(); i < count; i += groups) {
      const uint slot = start_slot + i < p.capacity ? start_slot + i : start_slot + i - p.capacity;
      acc[0] += weights[i] * value_pair(slots + slot, word);
      [[unroll]] for (uint j = 1; j < WORDS; ++j)
        if (word + j * THREADS < value_words()) acc[j] += weights[i] * value_pair(slots + slot, word + j * THREADS);
    }
    left -= count;
    start_slot += count;
    barrier();  // the weights are read
  }

  const Parts all = Parts((seen + p.span - 1) / p.span, gl_NumWorkGroups.y * p.heads, gl_NumWorkGroups.z, p.arrivals);
  const uint row = gl_WorkGroupID.y * p.heads + head;
  const bool parted = PARTED != 0 && all.count > 1;
  [[unroll]] for (uint i = 0; i < WORDS; ++i) sums[lane + i * THREADS] = acc[i];
  barrier();
  const uint y_row = token * p.out_stride + head * p.head_dim, part_row = part_at(all, part, row, p.head_dim);
  const uint words = value_words(), groups = value_groups();
  for (uint w = lane; w < words; w += THREADS) {
    vec2 result = sums[w];
    for (uint g = 1; g < groups; ++g) result += sums[g * words + w];
    [[unroll]] for (uint i = 0; i < 2; ++i) {
      if (parted)
        parts[part_row + w * 2 + i] = result[i];
      else
        y[y_row + w * 2 + i] = result[i] / total;
    }
  }
  if (!parted) return;
  if (lane == 0) {
    const uint at = sums_at(all, part, row, p.head_dim);
    parts[at] = peak;
    parts[at + 1] = total;
  }
  if (!comes_last(all, row, lane)) return;
  for (uint d = lane; d < p.head_dim; d += THREADS) y[y_row + d] = joined(all, row, p.head_dim, d);
}
