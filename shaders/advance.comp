// The end of a pass: moves the position past the tokens it computed and, if one was sampled, appends it to the context where the next pass
// will gather it, notes it for the penalties, decides whether the text ends, and leaves it for the CPU to read.
//
// A pass that checks a draft has this several times: once to move the end back before the draft, then for each token after another. The
// first one that the draft does not have ends the pass; those after it do nothing. If the draft is a tree, these tokens are a path from the
// root. state.path notes its rows, for follow_rows.comp and follow_cache.comp.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
layout(constant_id = 0) const uint THREADS = 64;
layout(local_size_x_id = 0) in;
#define BEST_LANES THREADS
#include "lib/best_lane.glsl"

layout(std430, binding = 0) buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Params { SampleParams params; };
layout(std430, binding = 2) readonly buffer Candidates { Candidate candidates[]; };
layout(std430, binding = 3) buffer History { uint history[]; };
layout(std430, binding = 4) buffer TokenFlags { uint token_flags[]; };  // TOKEN_FLAGS
layout(std430, binding = 5) writeonly buffer Ring { RingEntry ring[]; };  // (RING)
layout(push_constant) uniform Push { AdvancePush p; };

// The row of a tree that has token id after the chosen ones; 0: the tree has none. The context has overwritten only rows before these, because a
// row is no less than its depth.
uint row_of(uint id) {
  const uint length = PATH_LENGTH(state.path), last = length > 0 ? PATH_ROW(state.path, length) : 0;
  for (uint row = last + 1; row <= state.drafted; ++row)
    if (PARENT_OF(state.tree, row) == last && history[state.root + row] == id) return row;
  return 0;
}

// True if the draft has token id after the chosen ones. Moves on in it.
bool follow(uint id) {
  if (state.tree == 0) {
    if (state.drafted == 0 || history[state.end] != id) return false;
    state.drafted -= 1;
    return true;
  }
  const uint row = row_of(id);
  if (row != 0) state.path = (state.path | row << (4 * (PATH_LENGTH(state.path) + 1))) + 1;
  return row != 0;
}

void append(uint id) {
  const uint position = state.end;
  uint finished = 0;
  if (id == 0xffffffffu) {
    finished = FINISH_NOT_FINITE;
  } else {
    const bool drafted = follow(id);
    history[position] = id;
    token_flags[id / 32] |= 1u << (id % 32);
    token_flags[TOKEN_FLAG_COUNTS(p.rows) + id] += 1;
    state.pos = position;
    state.end = position + 1;
    if (p.drafted != 0 && !drafted) finished = FINISH_DRAFT;
    if (position + 1 >= state.context) finished = FINISH_CONTEXT;
    for (uint i = 0; i < params.stop_count; ++i)
      if (params.stop_ids[i] == id) finished = FINISH_STOP;
  }
  state.finished = finished;
  ring[position % RING] = RingEntry(id, ENTRY_FLAGS(finished, state.head.mode), state.head.refine_counts,
                                    state.head.exact_count + state.head.first_count + state.head.leader_count);
}

void main() {
  const uint lane = gl_LocalInvocationID.x;
  if (p.candidates == 0) {
    if (lane > 0) return;
    if (p.drafted != 0)
      state.end -= state.drafted;
    else
      state.pos = min(state.pos + p.pass_tokens, state.end);
    return;
  }
  Candidate best = NO_CANDIDATE;
  for (uint i = lane; i < p.candidates; i += THREADS)
    if (better(candidates[i], best)) best = candidates[i];
  best = best_lane(best, lane);
  if (lane == 0 && state.finished == 0) append(best.id);
}
