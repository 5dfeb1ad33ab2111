// Whose tokens a dispatch has: one session's, or those of a batch's sessions whose caches lie side by side. The includer has MEMBER_TOKENS: the
// tokens of each session of a batch, else 0.
layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 0) readonly buffer Members { BatchMember members[]; };

struct Owner {
  uint row;       // of the pass
  uint token;     // of the session's tokens in the pass
  uint position;  // of the token
  uint end, context;
  uint slot;  // of the caches
};

// i: counts the dispatch's tokens.
Owner owner_of(uint i) {
  if (MEMBER_TOKENS == 0) return Owner(i, i, state.pos + i, state.end, state.context, 0);
  const uint tokens = max(MEMBER_TOKENS, 1), token = i % tokens;
  const BatchMember m = members[i / tokens];
  return Owner(m.member * tokens + token, token, m.pos + token, m.end, m.context, m.slot);
}

// True for a token after the session's last one; its first one is always computed.
bool is_spare(Owner o) { return o.token > 0 && o.position >= o.end; }
