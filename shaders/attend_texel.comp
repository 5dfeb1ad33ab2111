// attend.comp for llvmpipe: eight lanes, a subgroup, do the query heads of one key/value head at once. Nothing is shared but by shuffles, which
// llvmpipe makes one instruction of; barriers it runs as switches of coroutines, and it reads buffers in loops lane by lane. For heads of whole
// texels: eight dimensions in f16, sixteen in q8, 32 of keys and 64 of values in q4.
// Variant of: attend
// Optional: biases rope_table new_keys new_values parts sinks
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/alibi.glsl"
#include "lib/bytes.glsl"
#include "lib/half.glsl"
#include "lib/lanes.glsl"
#include "lib/soft_cap.glsl"
#include "lib/spread.glsl"

layout(constant_id = 0) const uint SOFT_CAP = 0;  // as in attend.comp
layout(constant_id = 1) const uint ALIBI = 0;
layout(constant_id = 2) const uint MASK = MASK_CAUSAL;
layout(constant_id = 3) const uint BIASED = 0;
layout(constant_id = 4) const uint HEADS = 1;  // query heads of a workgroup
layout(constant_id = 5) const uint DIM = 64;   // of a head
// 1: of one token, whose q|k|v are the queries: rotated here, and its key and value written here (rope.comp). They reach its own scores in
// registers, the others' workgroups do not need them.
layout(constant_id = 6) const uint ROTATES = 0;
layout(constant_id = 7) const uint ADJACENT = 0;
layout(constant_id = 8) const uint ROTARY_DIM = 0;
layout(constant_id = 9) const uint PARTED = 0;  // 1: several workgroups do a head (lib/parts.glsl)
layout(constant_id = 10) const uint KEY_FORMAT = FORMAT_F16;  // of the cache
layout(constant_id = 13) const uint VALUE_FORMAT = FORMAT_F16;
layout(constant_id = 11) const uint MEMBER_TOKENS = 0;  // of each session of a batch
layout(constant_id = 12) const uint SINKS = 0;  // as in attend.comp
layout(local_size_x = 8) in;

#define STEPS 2  // positions a lane has in a block
const uint SHARES = (DIM + 31) / 32;  // of a query, in texels a lane
const uint VALUE_TEXELS = (DIM + 63) / 64;   // of a value, likewise

layout(binding = 1) uniform usamplerBuffer qkv;      // (pass tokens, q_stride) floats
layout(binding = 2) uniform usamplerBuffer keys;     // layout in rope.comp and abi.h
layout(binding = 3) uniform usamplerBuffer values;
layout(std430, binding = 4) writeonly buffer Output { float y[]; };      // (pass tokens, out_stride)
layout(std430, binding = 5) readonly buffer Biases { float biases[]; };  // as in attend.comp
layout(binding = 6) uniform usamplerBuffer rope_table;  // as in rope.comp
layout(std430, binding = 7) writeonly buffer NewKeys { uvec4 new_keys[]; };
layout(std430, binding = 8) writeonly buffer NewValues { uvec4 new_values[]; };
layout(std430, binding = 9) coherent buffer PartsBuffer { float parts[]; };  // abi.h
layout(std430, binding = 9) coherent buffer PartsAsArrivals { uint arrivals[]; };
layout(std430, binding = 10) readonly buffer Sinks { float sinks[]; };  // as in attend.comp
layout(push_constant) uniform Push { AttendPush p; };
#define TREE (MASK == MASK_TREE)
#include "lib/members.glsl"
#include "lib/query_scale.glsl"
#include "lib/window.glsl"
#include "lib/parts.glsl"

vec4 input_at(uint i) { return uintBitsToFloat(texelFetch(qkv, int(i))); }
vec4 rope_table_at(uint i) { return uintBitsToFloat(texelFetch(rope_table, int(i))); }
#include "lib/rotate.glsl"

uvec4 halves_of(vec4 low, vec4 high) {
  return uvec4(packHalf2x16(low.xy), packHalf2x16(low.zw), packHalf2x16(high.xy), packHalf2x16(high.zw));
}
vec4 low_of(uvec4 halves) { return vec4(unpackHalf2x16(halves.x), unpackHalf2x16(halves.y)); }
vec4 high_of(uvec4 halves) { return vec4(unpackHalf2x16(halves.z), unpackHalf2x16(halves.w)); }

// A 32-bit word of texels.
uint word_of(uvec4 texel, uint word) {
  const uvec2 half_texel = (word & 2) != 0 ? texel.zw : texel.xy;
  return (word & 1) != 0 ? half_texel.y : half_texel.x;
}

// Slot of the position that is `i` after the one in slot `first`; the ring holds more than a block.
uint slot_after(uint first, uint i) { return first + i < p.capacity ? first + i : first + i - p.capacity; }

void main() {
  const uint part_index = spread(gl_WorkGroupID.z, gl_NumWorkGroups.z);
  const uint index = spread(gl_WorkGroupID.y, gl_NumWorkGroups.y), lane = gl_SubgroupInvocationID, head = gl_WorkGroupID.x * HEADS;
  const Owner owner = owner_of(index);
  if (is_spare(owner)) return;
  const uint own = owner.position, token = owner.row;
  const uint length = MASK == MASK_SOURCE ? state.source : min(MASK == MASK_NONE ? end_of_window(owner) : owner.place + 1, owner.context);
  if (TREE) followed = path_to(token);
  const uint seen = seen_of(owner, length), first = length - seen + part_index * p.span, row = index * p.heads + head;
  if (PARTED != 0 && first >= length) return;
  const Parts all = Parts((seen + p.span - 1) / p.span, gl_NumWorkGroups.y * p.heads, gl_NumWorkGroups.z, p.arrivals);
  const bool parted = PARTED != 0 && all.count > 1;
  const uint kv_head = head / (p.heads / p.kv_heads);
  const uint slots = (owner.slot * p.kv_heads + kv_head) * p.capacity;  // before the key/value head's first

  vec4 query[HEADS][SHARES];
  float query_sum[HEADS][SHARES];  // FORMAT_Q4: of all lanes' dimensions, for the minima of blocks
  vec4 acc[HEADS][VALUE_TEXELS * 2];  // the lane's dimensions: 8 * (part * LANES + lane) and on
  float peak[HEADS], total[HEADS];
  const float scale = query_scale(own);
  [[unroll]] for (uint h = 0; h < HEADS; ++h) {
    [[unroll]] for (uint s = 0; s < SHARES; ++s) {
      const uint texel = (token * p.q_stride + (head + h) * DIM) / 4, quad = s * LANES + lane;
      query[h][s] = scale * (ROTATES != 0 ? rotated(texel, quad, own) : input_at(texel + quad));
      if (KEY_FORMAT == FORMAT_Q4) query_sum[h][s] = lanes_sum(dot(query[h][s], vec4(1)));
    }
    [[unroll]] for (uint i = 0; i < VALUE_TEXELS * 2; ++i) acc[h][i] = vec4(0);
    peak[h] = -1e30;
    total[h] = 0;  // the lane's positions'
  }
  uint last = min(length, first + p.span);
  if (ROTATES != 0 && last == length) {  // the part with the token's own position, which is not in the cache yet
    last = own;
    const uint slot = own % p.capacity;
    const uint key_texel = token * p.q_stride / 4 + (p.heads + kv_head) * (DIM / 4), value_texel = key_texel + p.kv_heads * (DIM / 4);
    // The first workgroup of a key/value head writes it, and no more than rope would.
    const bool writes = head % (p.heads / p.kv_heads) == 0 && own < owner.context;
    float partial[HEADS];
    [[unroll]] for (uint h = 0; h < HEADS; ++h) partial[h] = 0;
    [[unroll]] for (uint part = 0; part < VALUE_TEXELS; ++part) {
      const uint word = part * LANES + lane;
      const bool there = word < DIM / 8;
      const uint from = there ? word * 2 : 0;
      const uvec4 key = halves_of(rotated(key_texel, from, own), rotated(key_texel, from + 1, own));
      const uvec4 value = halves_of(input_at(value_texel + from), input_at(value_texel + from + 1));
      if (there && writes) {
        new_keys[(slots + slot / TILE_ROWS * TILE_ROWS) * (DIM / 8) + IN_KEYS(slot % TILE_ROWS, word, DIM / 8)] = key;
        new_values[(slots + slot) * (DIM / 8) + word] = value;
      }
      // The lane's part of the query lies four dimensions apart from these: a word's two quads are those of lanes 2 word and 2 word + 1.
      [[unroll]] for (uint h = 0; h < HEADS; ++h) {
        const uint quad = from % LANES;
        vec4 q0 = vec4(0), q1 = vec4(0);
        [[unroll]] for (uint i = 0; i < 2; ++i) {
          const uint s = min(part * 2 + i, SHARES - 1);
          const vec4 a = subgroupShuffle(query[h][s], quad), b = subgroupShuffle(query[h][s], quad + 1);
          if (from / LANES == s) q0 = a, q1 = b;
        }
        partial[h] += there ? dot(low_of(key), q0) + dot(high_of(key), q1) : 0;
        acc[h][part * 2] = low_of(value);
        acc[h][part * 2 + 1] = high_of(value);
      }
    }
    [[unroll]] for (uint h = 0; h < HEADS; ++h) {
      peak[h] = lanes_sum(partial[h]);
      if (SOFT_CAP != 0) peak[h] = soft_capped(peak[h], p.soft_cap);
      total[h] = lane == 0 ? 1 : 0;
    }
  }

  for (uint start = first; start < last; start += STEPS * LANES) {
    const uint start_slot = start % p.capacity, count = min(last - start, STEPS * LANES);
    uint key[STEPS];     // texel of its first word
    uint scales[STEPS];  // FORMAT_Q8: 32-bit word of its first two scales; FORMAT_Q4: of its first scale and minimum
    vec2 value_scales[STEPS][VALUE_TEXELS], value_minima[STEPS][VALUE_TEXELS];  // of the lane's positions
    float score[HEADS][STEPS];
    [[unroll]] for (uint u = 0; u < STEPS; ++u) {
      const uint slot = slot_after(start_slot, min(u * LANES + lane, count - 1));
      const uint tile = slots + slot / TILE_ROWS * TILE_ROWS, r = slot % TILE_ROWS;
      const uint first_key = tile * CACHE_SLOT_WORDS(KEY_FORMAT, DIM), key_words = CACHE_WORDS(KEY_FORMAT, DIM);
      key[u] = first_key / 4 + IN_KEYS(r, 0, key_words);
      scales[u] = first_key + TILE_ROWS * key_words * 4 + IN_KEYS(r, 0, CACHE_SCALE_WORDS(KEY_FORMAT, DIM));
      const uint value_scale_words = CACHE_SCALE_WORDS(VALUE_FORMAT, DIM);
      const uint first_value_scale = tile * CACHE_SLOT_WORDS(VALUE_FORMAT, DIM) + TILE_ROWS * CACHE_WORDS(VALUE_FORMAT, DIM) * 4 + r * value_scale_words;
      [[unroll]] for (uint part = 0; part < VALUE_TEXELS; ++part) {
        if (VALUE_FORMAT == FORMAT_Q8) {
          const uint at = first_value_scale + part;
          value_scales[u][part] = note_of(word_of(texelFetch(values, int(at / 4)), at));
        }
        if (VALUE_FORMAT == FORMAT_Q4) {
          const uint at = first_value_scale + part * 2;
          const uvec4 notes = texelFetch(values, int(at / 4));
          const vec2 first_note = note_of((at & 2) != 0 ? notes.z : notes.x), second = note_of((at & 2) != 0 ? notes.w : notes.y);
          value_scales[u][part] = vec2(first_note.x, second.x);
          value_minima[u][part] = vec2(first_note.y, second.y);
        }
      }
      [[unroll]] for (uint h = 0; h < HEADS; ++h) score[h][u] = 0;
    }
    // Unrolled, as only shuffles by a constant are one instruction: by others llvmpipe goes lane by lane.
    if (KEY_FORMAT == FORMAT_Q4) [[unroll]] for (uint s = 0; s < SHARES; ++s) {  // a block
      float partial[HEADS][STEPS];
      [[unroll]] for (uint h = 0; h < HEADS; ++h) [[unroll]] for (uint u = 0; u < STEPS; ++u) partial[h][u] = 0;
      uvec4 block[STEPS];
      [[unroll]] for (uint u = 0; u < STEPS; ++u) block[u] = texelFetch(keys, int(key[u] + s * KEY_ROWS));
      [[unroll]] for (uint j = 0; j < 8; ++j) {
        vec4 four[STEPS];
        [[unroll]] for (uint u = 0; u < STEPS; ++u) four[u] = fours_of(block[u][j / 2] >> (j % 2 * 4));
        [[unroll]] for (uint h = 0; h < HEADS; ++h) {
          const vec4 q = subgroupShuffle(query[h][s], j);
          [[unroll]] for (uint u = 0; u < STEPS; ++u) partial[h][u] += dot(four[u], q);
        }
      }
      [[unroll]] for (uint u = 0; u < STEPS; ++u) {
        const uint at = scales[u] + s * KEY_ROWS;
        const vec2 note = note_of(word_of(texelFetch(keys, int(at / 4)), at));
        [[unroll]] for (uint h = 0; h < HEADS; ++h) score[h][u] += partial[h][u] * note.x + query_sum[h][s] * note.y;
      }
    }
    if (KEY_FORMAT == FORMAT_Q8) [[unroll]] for (uint s = 0; s < SHARES; ++s) {  // likewise
      float partial[HEADS][STEPS];
      [[unroll]] for (uint h = 0; h < HEADS; ++h) [[unroll]] for (uint u = 0; u < STEPS; ++u) partial[h][u] = 0;
      [[unroll]] for (uint k = 0; k < min(DIM / 16 - s * 2, 2); ++k) {
        uvec4 bytes[STEPS];
        [[unroll]] for (uint u = 0; u < STEPS; ++u) bytes[u] = texelFetch(keys, int(key[u] + (s * 2 + k) * KEY_ROWS));
        [[unroll]] for (uint j = 0; j < 4; ++j) {
          vec4 four[STEPS];
          [[unroll]] for (uint u = 0; u < STEPS; ++u) four[u] = signed_bytes(bytes[u][j]);
          [[unroll]] for (uint h = 0; h < HEADS; ++h) {
            const vec4 q = subgroupShuffle(query[h][s], k * 4 + j);
            [[unroll]] for (uint u = 0; u < STEPS; ++u) partial[h][u] += dot(four[u], q);
          }
        }
      }
      [[unroll]] for (uint u = 0; u < STEPS; ++u) {
        const uint at = scales[u] + s / 2 * KEY_ROWS;
        const float scale = scale_of(word_of(texelFetch(keys, int(at / 4)), at) >> (s % 2 * 16));
        [[unroll]] for (uint h = 0; h < HEADS; ++h) score[h][u] += partial[h][u] * scale;
      }
    }
    if (KEY_FORMAT == FORMAT_F16) [[unroll]] for (uint s = 0; s < SHARES; ++s)
      [[unroll]] for (uint k = 0; k < min(DIM / 8 - s * 4, 4); ++k) {
        vec4 low[STEPS], high[STEPS];
        [[unroll]] for (uint u = 0; u < STEPS; ++u) {
          const uvec4 halves = texelFetch(keys, int(key[u] + (s * 4 + k) * KEY_ROWS));
          low[u] = low_of(halves);
          high[u] = high_of(halves);
        }
        [[unroll]] for (uint h = 0; h < HEADS; ++h) {
          const vec4 q0 = subgroupShuffle(query[h][s], k * 2), q1 = subgroupShuffle(query[h][s], k * 2 + 1);
          [[unroll]] for (uint u = 0; u < STEPS; ++u) score[h][u] += dot(low[u], q0) + dot(high[u], q1);
        }
      }
    [[unroll]] for (uint h = 0; h < HEADS; ++h) {
      float block_peak = peak[h];
      [[unroll]] for (uint u = 0; u < STEPS; ++u) {
        const uint position = start + u * LANES + lane;
        float s = score[h][u];
        if (SOFT_CAP != 0) s = soft_capped(s, p.soft_cap);
        if (ALIBI != 0) s -= alibi_slope(head + h, p.heads) * (float(length - 1) - float(position));
        if (BIASED != 0) {
          const int reach = int(p.reach), distance = clamp(int(min(position, length - 1)) - int(own), -reach, reach);
          s += biases[(head + h) * (2 * p.reach + 1) + uint(distance + reach)];
        }
        score[h][u] = position < last && (!TREE || is_followed(position)) ? s : -1e30;
        block_peak = max(block_peak, score[h][u]);
      }
      const float new_peak = lanes_max(block_peak), shrink = exp(peak[h] - new_peak);
      peak[h] = new_peak;
      total[h] *= shrink;
      [[unroll]] for (uint i = 0; i < VALUE_TEXELS * 2; ++i) acc[h][i] *= shrink;
      [[unroll]] for (uint u = 0; u < STEPS; ++u) {
        score[h][u] = exp(score[h][u] - new_peak);
        total[h] += score[h][u];
      }
    }
    [[unroll]] for (uint u = 0; u < STEPS; ++u) [[unroll]] for (uint i = 0; i < LANES; ++i) {
      const uint slot = slot_after(start_slot, min(u * LANES + i, count - 1));
      float weight[HEADS];
      [[unroll]] for (uint h = 0; h < HEADS; ++h) weight[h] = subgroupShuffle(score[h][u], i);
      [[unroll]] for (uint part = 0; part < VALUE_TEXELS; ++part) {
        const uint word = min(part * LANES + lane, DIM / 8 - 1);
        vec4 low, high;
        if (VALUE_FORMAT == FORMAT_F16) {
          const uvec4 halves = texelFetch(values, int((slots + slot) * (DIM / 8) + word));
          low = low_of(halves);
          high = high_of(halves);
        } else {
          const uint row_words = CACHE_WORDS(VALUE_FORMAT, DIM), tile = (slots + slot) / TILE_ROWS * (TILE_ROWS / 4) * CACHE_SLOT_WORDS(VALUE_FORMAT, DIM);
          const uvec4 bytes = texelFetch(values, int(tile + slot % TILE_ROWS * row_words + word / (VALUE_FORMAT == FORMAT_Q4 ? 4 : 2)));
          const float first_block = subgroupShuffle(value_scales[u][part].x, i), second = subgroupShuffle(value_scales[u][part].y, i);
          const float scale = lane < LANES / 2 ? first_block : second;
          if (VALUE_FORMAT == FORMAT_Q4) {
            const float first_least = subgroupShuffle(value_minima[u][part].x, i), second_least = subgroupShuffle(value_minima[u][part].y, i);
            const float least = lane < LANES / 2 ? first_least : second_least;
            const uint own_word = word_of(bytes, word);
            low = scale * fours_of(own_word) + least;
            high = scale * fours_of(own_word >> 4) + least;
          } else {
            low = scale * signed_bytes((word & 1) != 0 ? bytes.z : bytes.x);
            high = scale * signed_bytes((word & 1) != 0 ? bytes.w : bytes.y);
          }
        }
        [[unroll]] for (uint h = 0; h < HEADS; ++h) {
          acc[h][part * 2] += weight[h] * low;
          acc[h][part * 2 + 1] += weight[h] * high;
        }
      }
    }
  }

  if (SINKS != 0 && part_index == 0)
    [[unroll]] for (uint h = 0; h < HEADS; ++h) {
      const float sink = sinks[head + h], highest = max(peak[h], sink), shrink = exp(peak[h] - highest);
      total[h] = total[h] * shrink + (lane == 0 ? exp(sink - highest) : 0);
      [[unroll]] for (uint i = 0; i < VALUE_TEXELS * 2; ++i) acc[h][i] *= shrink;
      peak[h] = highest;
    }
  [[unroll]] for (uint h = 0; h < HEADS; ++h) {
    const float sum = lanes_sum(total[h]), factor = parted ? 1 : 1 / sum;
    const uint y_row = token * p.out_stride + (head + h) * DIM, part_row = part_at(all, part_index, row + h, DIM);
    if (parted && lane == 0) {
      const uint at = sums_at(all, part_index, row + h, DIM);
      parts[at] = peak[h];
      parts[at + 1] = sum;
    }
    [[unroll]] for (uint part = 0; part < VALUE_TEXELS; ++part) {
      const uint word = part * LANES + lane;
      if (word < DIM / 8) {
        [[unroll]] for (uint i = 0; i < 8; ++i) {
          const float value = acc[h][part * 2 + i / 4][i % 4] * factor;
          if (parted)
            parts[part_row + word * 8 + i] = value;
          else
            y[y_row + word * 8 + i] = value;
        }
      }
    }
  }
  if (PARTED == 0 || !parted) return;
  for (uint h = 0; h < HEADS; ++h)
    if (comes_last(all, row + h, lane))
      for (uint d = lane; d < DIM; d += LANES) y[token * p.out_stride + (head + h) * DIM + d] = joined(all, row + h, DIM, d);
}
