// The owners of a dispatch's tokens: one session, or the sessions of a batch, whose caches lie side by side. The includer has MEMBER_TOKENS: the
// tokens of each session of a batch, else 0. It may define TREE: true if the pass checks a draft that is a tree (abi.h, StepState).
layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 0) readonly buffer StateAsMembers { BatchMember members[]; };
#ifndef TREE
#define TREE false
#endif

struct Owner {
  uint row;       // of the pass
  uint token;     // of the session's tokens in the pass
  uint position;  // of the token
  uint place;     // position whose slot has its key and value; another one only in a tree
  uint end, context;
  uint slot;  // of the caches
};

// Rows of a tree from row `row` up to the root, as bits.
uint path_to(uint row) {
  uint rows = 1u;
  for (uint i = 1; i < TREE_ROWS && row > 0; ++i) {
    rows |= 1u << row;
    row = PARENT_OF(state.tree, row);
  }
  return rows;
}

// i: counts the dispatch's tokens.
Owner owner_of(uint i) {
  if (TREE) return Owner(i, i, state.pos + bitCount(path_to(i)) - 1, state.pos + i, state.end, state.context, 0);
  if (MEMBER_TOKENS == 0) return Owner(i, i, state.pos + i, state.pos + i, state.end, state.context, 0);
  const uint tokens = max(MEMBER_TOKENS, 1), token = i % tokens;
  const BatchMember m = members[i / tokens];
  return Owner(m.member * tokens + token, token, m.pos + token, m.pos + token, m.end, m.context, m.slot);
}

// True for a token after the session's last one; its first one is always computed.
bool is_spare(Owner o) { return o.token > 0 && o.place >= o.end; }
