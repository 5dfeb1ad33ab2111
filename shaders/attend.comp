// Grouped-query attention over the cache, with the running softmax of Milakov and Gimelshein (2018): a block of positions at a time, so that any
// context fits into shared memory. A workgroup does ROWS queries of one key/value head, which share what it reads: some heads of a token, or of
// neighbours in a prompt (Dao 2023, "FlashAttention-2").
// Variants: subgroup
// Optional: biases parts sinks
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "abi.h"
#include "lib/alibi.glsl"
#include "lib/bytes.glsl"
#include "lib/half.glsl"
#include "lib/soft_cap.glsl"

layout(constant_id = 0) const uint THREADS = 64;
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SOFT_CAP = 0;  // 1: scores are capped
layout(constant_id = 2) const uint ALIBI = 0;     // 1: scores fall with the distance (Press et al. 2022)
layout(constant_id = 3) const uint MASK = MASK_CAUSAL;
layout(constant_id = 4) const uint BIASED = 0;  // 1: scores have biases, by distance (Raffel et al. 2020, "T5")
layout(constant_id = 5) const uint KEY_FORMAT = FORMAT_F16;  // of the cache
layout(constant_id = 16) const uint VALUE_FORMAT = FORMAT_F16;
layout(constant_id = 6) const uint PARTED = 0;  // 1: several workgroups do a head (lib/parts.glsl)
// 1: of one token, whose q|k|v are the queries: rotated here, and its key and value written here (rope.comp). The workgroups that need them
// make them themselves, the first of a key/value head writes them. Only for f16 and whole 16-byte words, without biases.
layout(constant_id = 7) const uint ROTATES = 0;
layout(constant_id = 8) const uint ADJACENT = 0;
layout(constant_id = 9) const uint ROTARY_DIM = 0;
layout(constant_id = 10) const uint MEMBER_TOKENS = 0;  // of each session of a batch
layout(constant_id = 11) const uint DIM = 64;           // of a head
layout(constant_id = 12) const uint ROWS = 1;    // queries of a workgroup: some heads of each of its tokens
layout(constant_id = 17) const uint TOKENS = 1;  // several: with the causal mask, no window, and one part
layout(constant_id = 14) const uint MOST_PARTS = 64;
layout(constant_id = 13) const uint STEP = 4;  // loads of 16 bytes that a lane has under way at once
layout(constant_id = 15) const uint SINKS = 0;  // 1: the softmax has one more score, a head's own, and no value for it (Xiao et al. 2023)

const uint HEADS = ROWS / TOKENS;          // of a token; those of the next one follow
const uint WORDS = (DIM + 7) / 8;          // of eight dimensions
const uint KEY_STEP = KEY_FORMAT == FORMAT_Q4 && STEP > 2 ? 2 : STEP;  // of keys; each has more numbers in FORMAT_Q4, and needs more registers
const uint QUADS = KEY_FORMAT == FORMAT_Q4 ? (DIM + 31) / 32 * 8 : (DIM + 15) / 16 * 4;  // of a query, filled up
const uint GROUPS = THREADS / WORDS;       // of lanes that have the words of a value
const uint POSITIONS = 128;                // of a block
const uint TURNS = (POSITIONS + THREADS - 1) / THREADS;

layout(std430, binding = 1) readonly buffer Queries { float qkv[]; };  // (pass tokens, q_stride): q, or q|k|v
layout(std430, binding = 2) readonly buffer Keys { uvec4 keys[]; };  // layout in rope.comp and abi.h
layout(std430, binding = 2) readonly buffer KeysAsScales { uint key_scales[]; };
layout(std430, binding = 3) readonly buffer Values { uint values[]; };
layout(std430, binding = 3) readonly buffer ValuesAsPairs { uvec2 value_pairs[]; };
layout(std430, binding = 3) readonly buffer ValuesAsWords { uvec4 value_words[]; };
layout(std430, binding = 4) writeonly buffer Output { float y[]; };  // (pass tokens, out_stride)
layout(std430, binding = 5) readonly buffer Biases { float biases[]; };  // (heads, 2 * reach + 1): key - query from -reach to reach
layout(std430, binding = 5) readonly buffer BiasesAsRopeTable { vec2 rope_table[]; };  // as in rope.comp
layout(std430, binding = 2) writeonly buffer KeysAsNew { uvec4 new_keys[]; };
layout(std430, binding = 3) writeonly buffer ValuesAsNew { uint new_values[]; };
layout(std430, binding = 6) coherent buffer PartsBuffer { float parts[]; };  // abi.h
layout(std430, binding = 6) coherent buffer PartsAsPairs { vec2 part_pairs[]; };
layout(std430, binding = 6) coherent buffer PartsAsArrivals { uint arrivals[]; };
layout(std430, binding = 7) readonly buffer Sinks { float sinks[]; };  // (heads)
layout(push_constant) uniform Push { AttendPush p; };
#define TREE (MASK == MASK_TREE)
#include "lib/members.glsl"
#include "lib/query_scale.glsl"
#include "lib/window.glsl"
#include "lib/rotate_one.glsl"
#include "lib/parts.glsl"
#include "lib/reduce_rows.glsl"

shared vec4 query[ROWS * QUADS];          // scaled, zeros after DIM
shared float weights[ROWS * POSITIONS];   // scores, then softmax numerators of the block; then weights of parts
shared vec4 sums[THREADS * 2];             // a head's partial outputs, to be joined
shared uvec4 own_key[WORDS];               // of the token, if it is rotated here

// Query h times eight dimensions of a key.
float dot_word(uvec4 halves, uint h, uint k) {
  return dot(vec4(unpackHalf2x16(halves.x), unpackHalf2x16(halves.y)), query[h * QUADS + k * 2]) +
         dot(vec4(unpackHalf2x16(halves.z), unpackHalf2x16(halves.w)), query[h * QUADS + k * 2 + 1]);
}

// Query h times sixteen dimensions of a key.
float dot_bytes(uvec4 bytes, uint h, uint k) {
  const uint quad = h * QUADS + k * 4;
  return dot(signed_bytes(bytes.x), query[quad]) + dot(signed_bytes(bytes.y), query[quad + 1]) + dot(signed_bytes(bytes.z), query[quad + 2]) +
         dot(signed_bytes(bytes.w), query[quad + 3]);
}

// The queries times eight dimensions of a key of FORMAT_Q4. note: of the block.
void add_eight(inout float scores[ROWS], uint word, vec2 note, uint quad) {
  const vec4 low = fours_of(word) * note.x + note.y, high = fours_of(word >> 4) * note.x + note.y;
  [[unroll]] for (uint h = 0; h < ROWS; ++h) scores[h] += dot(low, query[h * QUADS + quad]) + dot(high, query[h * QUADS + quad + 1]);
}

// The queries times the key in a slot. head_slots: how many slots the key/value heads before this one have.
void dot_key(out float scores[ROWS], uint head_slots, uint slot) {
  [[unroll]] for (uint h = 0; h < ROWS; ++h) scores[h] = 0;
  const uint tile = head_slots + slot / TILE_ROWS * TILE_ROWS, r = slot % TILE_ROWS;
  const uint words = CACHE_WORDS(KEY_FORMAT, DIM), first = tile * CACHE_SLOT_WORDS(KEY_FORMAT, DIM);
  const uint key = first / 4 + IN_KEYS(r, 0, words), scales = first + TILE_ROWS * words * 4;
  uint two_scales = 0;
  [[dont_unroll]] for (uint k = 0; k < words; k += KEY_STEP) {
    uvec4 loaded[KEY_STEP];
    [[unroll]] for (uint j = 0; j < KEY_STEP; ++j) loaded[j] = keys[key + min(k + j, words - 1) * KEY_ROWS];
    [[unroll]] for (uint j = 0; j < KEY_STEP; ++j) {
      if (k + j >= words) break;
      if (KEY_FORMAT == FORMAT_Q4) {
        const vec2 note = note_of(key_scales[scales + IN_KEYS(r, k + j, words)]);
        [[unroll]] for (uint i = 0; i < 4; ++i) add_eight(scores, loaded[j][i], note, (k + j) * 8 + i * 2);
      } else if (KEY_FORMAT == FORMAT_F16) {
        [[unroll]] for (uint h = 0; h < ROWS; ++h) scores[h] += dot_word(loaded[j], h, k + j);
      } else {  // half a block
        if ((k + j) % 4 == 0) two_scales = key_scales[scales + IN_KEYS(r, (k + j) / 4, CACHE_SCALE_WORDS(FORMAT_Q8, DIM))];
        const float scale = scale_of(two_scales >> ((k + j) / 2 % 2 * 16));
        [[unroll]] for (uint h = 0; h < ROWS; ++h) scores[h] += dot_bytes(loaded[j], h, k + j) * scale;
      }
    }
  }
}

// Dimensions d and d + 1.
uint two_rotated(uint head, uint d, uint position) {
  return packHalf2x16(vec2(rotated(head, d, position, ROTARY_DIM, ADJACENT != 0), rotated(head, d + 1, position, ROTARY_DIM, ADJACENT != 0)));
}

// The token's own key to own_key, and with its value to the cache if `writes`. slots: before the key/value head's first.
void rotate_own(uint token, uint own, uint kv_head, uint slots, bool writes) {
  const uint slot = own % p.capacity;
  const uint key = token * p.q_stride + (p.heads + kv_head) * DIM, value = key + p.kv_heads * DIM;
  for (uint w = gl_LocalInvocationID.x; w < WORDS; w += THREADS) {
    own_key[w] = uvec4(two_rotated(key, w * 8, own), two_rotated(key, w * 8 + 2, own), two_rotated(key, w * 8 + 4, own), two_rotated(key, w * 8 + 6, own));
    if (writes) new_keys[(slots + slot / TILE_ROWS * TILE_ROWS) * WORDS + IN_KEYS(slot % TILE_ROWS, w, WORDS)] = own_key[w];
  }
  if (writes)
    for (uint w = gl_LocalInvocationID.x; w < DIM / 2; w += THREADS)
      new_values[(slots + slot) * (DIM / 2) + w] = packHalf2x16(vec2(qkv[value + w * 2], qkv[value + w * 2 + 1]));
  barrier();
}

// Eight dimensions of the value in a slot, of all heads' slots, as they lie; of FORMAT_Q8 two words, and of FORMAT_Q4 one, and their scales.
uvec4 value_at(uint slot, uint word) {
  if (VALUE_FORMAT != FORMAT_F16) {
    const uint tile = slot / TILE_ROWS * TILE_ROWS * CACHE_SLOT_WORDS(VALUE_FORMAT, DIM), r = slot % TILE_ROWS, row_words = CACHE_WORDS(VALUE_FORMAT, DIM) * 4;
    const uint row = tile + r * row_words, scales = tile + TILE_ROWS * row_words + r * CACHE_SCALE_WORDS(VALUE_FORMAT, DIM);
    if (VALUE_FORMAT == FORMAT_Q4) return uvec4(values[row + word], 0, values[scales + word / 4], 0);
    return uvec4(value_pairs[row / 2 + word], values[scales + word / 8], 0);
  }
  if (DIM % 8 == 0) return value_words[slot * WORDS + word];
  uvec4 loaded = uvec4(0);
  [[unroll]] for (uint i = 0; i < 4; ++i)
    if (word * 4 + i < DIM / 2) loaded[i] = values[slot * (DIM / 2) + word * 4 + i];
  return loaded;
}
vec4 low_of(uvec4 loaded, uint word) {
  if (VALUE_FORMAT == FORMAT_Q4) return fours_of(loaded.x) * scale_of(loaded.z) + scale_of(loaded.z >> 16);
  if (VALUE_FORMAT == FORMAT_Q8) return signed_bytes(loaded.x) * scale_of(loaded.z >> (word / 4 % 2 * 16));
  return vec4(unpackHalf2x16(loaded.x), unpackHalf2x16(loaded.y));
}
vec4 high_of(uvec4 loaded, uint word) {
  if (VALUE_FORMAT == FORMAT_Q4) return fours_of(loaded.x >> 4) * scale_of(loaded.z) + scale_of(loaded.z >> 16);
  if (VALUE_FORMAT == FORMAT_Q8) return signed_bytes(loaded.y) * scale_of(loaded.z >> (word / 4 % 2 * 16));
  return vec4(unpackHalf2x16(loaded.z), unpackHalf2x16(loaded.w));
}

uint in_ring(uint slot) { return slot < p.capacity ? slot : slot - p.capacity; }

// The softmax so far, of each query: the highest score, the sum of the weights, and the lane's dimensions of the weighted values.
float peak[ROWS], all_weights[ROWS];
vec4 low[ROWS], high[ROWS];

// Adds the block of `count` positions whose first is `position`, in slot `start`. own, length: of the first token.
void add_block(uint slots, uint start, uint position, uint count, uint head, uint own, uint length) {
  const uint lane = gl_LocalInvocationID.x;
  float highest[ROWS], shrink[ROWS], added[ROWS];
  [[unroll]] for (uint h = 0; h < ROWS; ++h) highest[h] = -1e30;
  for (uint i = lane; i < count; i += THREADS) {
    float scores[ROWS];
    dot_key(scores, slots, in_ring(start + i));
    [[unroll]] for (uint h = 0; h < ROWS; ++h) {
      float score = scores[h];
      if (SOFT_CAP != 0) score = soft_capped(score, p.soft_cap);
      const uint later = h / HEADS;  // than the first token
      if (ALIBI != 0) score -= alibi_slope(head + h % HEADS, p.heads) * (float(length + later) - 1 - float(position + i));
      if (BIASED != 0) {
        const int reach = int(p.reach), distance = clamp(int(position + i) - int(own + later), -reach, reach);
        score += biases[(head + h % HEADS) * (2 * p.reach + 1) + uint(distance + reach)];
      }
      if (TOKENS > 1 && position + i >= length + later) score = -1e30;
      if (TREE && !is_followed(position + i)) score = -1e30;
      weights[h * POSITIONS + i] = score;
      highest[h] = max(highest[h], score);
    }
  }
  rows_max(highest);
  [[unroll]] for (uint h = 0; h < ROWS; ++h) {
    highest[h] = max(peak[h], highest[h]);
    shrink[h] = exp(peak[h] - highest[h]);
    peak[h] = highest[h];
    added[h] = 0;
  }
  for (uint i = lane; i < POSITIONS; i += THREADS)
    [[unroll]] for (uint h = 0; h < ROWS; ++h) {
      const float weight = i < count ? exp(weights[h * POSITIONS + i] - peak[h]) : 0;
      weights[h * POSITIONS + i] = weight;
      added[h] += weight;
    }
  rows_sum(added);
  barrier();  // the weights are written
  [[unroll]] for (uint h = 0; h < ROWS; ++h) {
    all_weights[h] = all_weights[h] * shrink[h] + added[h];
    low[h] *= shrink[h];
    high[h] *= shrink[h];
  }
  const uint word = lane % WORDS, group = lane / WORDS;
  for (uint i = group < GROUPS ? group : count; i < count; i += GROUPS * STEP) {
    uvec4 loaded[STEP];
    [[unroll]] for (uint j = 0; j < STEP; ++j) loaded[j] = value_at(slots + in_ring(start + min(i + j * GROUPS, count - 1)), word);
    [[unroll]] for (uint j = 0; j < STEP; ++j) {
      const vec4 value_low = low_of(loaded[j], word), value_high = high_of(loaded[j], word);
      [[unroll]] for (uint h = 0; h < ROWS; ++h) {
        const float weight = i + j * GROUPS < count ? weights[h * POSITIONS + i + j * GROUPS] : 0;
        low[h] += weight * value_low;
        high[h] += weight * value_high;
      }
    }
  }
  barrier();  // the weights are read
}

void add_sinks(uint head) {
  [[unroll]] for (uint h = 0; h < ROWS; ++h) {
    const float sink = sinks[head + h % HEADS], highest = max(peak[h], sink), shrink = exp(peak[h] - highest);
    all_weights[h] = all_weights[h] * shrink + exp(sink - highest);
    low[h] *= shrink;
    high[h] *= shrink;
    peak[h] = highest;
  }
}

// The parts of queries, joined by the workgroup that comes last: the softmax over all positions from those over some (Milakov and
// Gimelshein 2018, section 3.1). There are at most POSITIONS parts.
void join(Parts all, uint row, uint y_row) {
  const uint lane = gl_LocalInvocationID.x;
  vec2 noted[TURNS * ROWS];  // a part's highest score and sum of weights
  float highest[ROWS], total[ROWS];
  [[unroll]] for (uint h = 0; h < ROWS; ++h) highest[h] = -1e30, total[h] = 0;
  [[unroll]] for (uint turn = 0; turn < TURNS; ++turn)
    [[unroll]] for (uint h = 0; h < ROWS; ++h) noted[turn * ROWS + h] = part_pairs[sums_at(all, min(lane + turn * THREADS, all.count - 1), row + h, DIM) / 2];
  [[unroll]] for (uint turn = 0; turn < TURNS; ++turn)
    [[unroll]] for (uint h = 0; h < ROWS; ++h) highest[h] = max(highest[h], noted[turn * ROWS + h].x);
  rows_max(highest);
  [[unroll]] for (uint turn = 0; turn < TURNS; ++turn)
    [[unroll]] for (uint h = 0; h < ROWS; ++h) {
      const uint i = lane + turn * THREADS;
      const float weight = i < all.count ? exp(noted[turn * ROWS + h].x - highest[h]) : 0;
      if (i < POSITIONS) weights[h * POSITIONS + i] = weight;
      total[h] += weight * noted[turn * ROWS + h].y;
    }
  rows_sum(total);
  barrier();  // the weights are written
  for (uint e = lane; e < ROWS * DIM / 2; e += THREADS) {
    const uint h = e / (DIM / 2), d = e % (DIM / 2);
    vec2 sum = vec2(0);
    for (uint i = 0; i < all.count; i += 2 * STEP) {
      vec2 loaded[2 * STEP];
      [[unroll]] for (uint j = 0; j < 2 * STEP; ++j) loaded[j] = part_pairs[part_at(all, min(i + j, all.count - 1), row + h, DIM) / 2 + d];
      [[unroll]] for (uint j = 0; j < 2 * STEP; ++j) sum += weights[h * POSITIONS + i + j] * loaded[j];
    }
    float all_weight = total[0];
    [[unroll]] for (uint other = 1; other < ROWS; ++other) all_weight = h == other ? total[other] : all_weight;
    y[y_row + e * 2] = sum.x / all_weight;
    y[y_row + e * 2 + 1] = sum.y / all_weight;
  }
}

// Grid: x HEADS query heads, y TOKENS tokens, z parts of the cache.
void main() {
  const uint head = gl_WorkGroupID.x * HEADS, lane = gl_LocalInvocationID.x;
  const Owner owner = owner_of(gl_WorkGroupID.y * TOKENS);
  if (is_spare(owner)) return;
  const uint own = owner.position, token = owner.row;
  const uint length = MASK == MASK_SOURCE ? state.source : min(MASK == MASK_NONE ? end_of_window(owner) : owner.place + 1, owner.context);
  if (TREE) followed = path_to(token);
  const uint seen = seen_of(owner, length), part = gl_WorkGroupID.z, span = span_of(seen, p.span, MOST_PARTS);
  const uint first = length - seen + part * span;
  if (PARTED != 0 && first >= length) return;
  uint last = min(length, first + span);
  if (TOKENS > 1) last = max(length, min(length + TOKENS - 1, min(owner.end, owner.context)));
  const uint kv_head = head / (p.heads / p.kv_heads);
  const uint slots = (owner.slot * p.kv_heads + kv_head) * p.capacity;  // before the key/value head's first
  const uint q_row = token * p.q_stride + head * DIM;
  for (uint i = lane; i < ROWS * QUADS * 4; i += THREADS) {
    const uint h = i / (QUADS * 4), d = i % (QUADS * 4), q_head = q_row + h / HEADS * p.q_stride + h % HEADS * DIM;
    const float value = d >= DIM ? 0 : query_scale(own + h / HEADS) * (ROTATES != 0 ? rotated(q_head, d, own, ROTARY_DIM, ADJACENT != 0) : qkv[q_head + d]);
    query[i / 4][i % 4] = value;
  }
  barrier();

  [[unroll]] for (uint h = 0; h < ROWS; ++h) {
    peak[h] = -1e30;
    all_weights[h] = 0;
    low[h] = high[h] = vec4(0);
  }
  if (ROTATES != 0 && last == length) {  // the part with the token's own position, which is not in the cache yet
    last = length - 1;
    rotate_own(token, own, kv_head, slots, head % (p.heads / p.kv_heads) == 0 && own < owner.context);
    [[unroll]] for (uint h = 0; h < ROWS; ++h) {
      peak[h] = 0;
      for (uint w = lane; w < WORDS; w += THREADS) peak[h] += dot_word(own_key[w], h, w);
    }
    rows_sum(peak);
    const uint value = token * p.q_stride + (p.heads + p.kv_heads + kv_head) * DIM + lane % WORDS * 8;
    [[unroll]] for (uint h = 0; h < ROWS; ++h) {
      if (SOFT_CAP != 0) peak[h] = soft_capped(peak[h], p.soft_cap);
      all_weights[h] = 1;
      if (lane >= WORDS) continue;
      const uint zero = p.heads >> 31;
      low[h] = vec4(rounded_to_halves(vec2(qkv[value], qkv[value + 1]), zero), rounded_to_halves(vec2(qkv[value + 2], qkv[value + 3]), zero));
      high[h] = vec4(rounded_to_halves(vec2(qkv[value + 4], qkv[value + 5]), zero), rounded_to_halves(vec2(qkv[value + 6], qkv[value + 7]), zero));
    }
  }

  uint start = first % p.capacity;  // in the ring, which the positions go round once at most
  for (uint position = first; position < last; position += POSITIONS) {
    const uint count = min(last - position, POSITIONS);
    add_block(slots, start, position, count, head, own, length);
    start = in_ring(start + count);
  }
  if (SINKS != 0 && part == 0) add_sinks(head);

  const Parts all = Parts((seen + span - 1) / span, gl_NumWorkGroups.y * p.heads, gl_NumWorkGroups.z, p.arrivals);
  const uint row = gl_WorkGroupID.y * p.heads + head, y_row = token * p.out_stride + head * DIM;  // row: of one token
  const bool parted = PARTED != 0 && all.count > 1;
  [[unroll]] for (uint h = 0; h < ROWS; ++h) {
    sums[lane * 2] = low[h];
    sums[lane * 2 + 1] = high[h];
    barrier();
    const uint part_row = part_at(all, part, row + h, DIM);
    for (uint quad = lane; quad < WORDS * 2; quad += THREADS) {
      vec4 result = sums[quad];
      for (uint g = 1; g < GROUPS; ++g) result += sums[g * WORDS * 2 + quad];
      if (!parted) result /= all_weights[h];
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        if (quad * 4 + i >= DIM) continue;
        if (parted)
          parts[part_row + quad * 4 + i] = result[i];
        else if (h < HEADS || owner.place + h / HEADS < owner.end)
          y[y_row + h / HEADS * p.out_stride + h % HEADS * DIM + quad * 4 + i] = result[i];
      }
    }
    if (parted && lane == 0) {
      const uint at = sums_at(all, part, row + h, DIM);
      parts[at] = peak[h];
      parts[at + 1] = all_weights[h];
    }
    barrier();  // the sums are read
  }
  if (parted && comes_last(all, row, lane)) join(all, row, y_row);
}
