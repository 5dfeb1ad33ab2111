// Whose the rows of a pass are: one session's, or those of a batch's sessions, whose caches lie side by side. The includer has MEMBER_TOKENS: the
// rows of each session of a batch, else 0.
layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 0) readonly buffer Members { BatchMember members[]; };

struct Owner {
  uint token;     // of the session's tokens in the pass
  uint position;  // of the token
  uint end, context;
  uint slot;  // of the caches
};

Owner owner_of(uint row) {
  if (MEMBER_TOKENS == 0) return Owner(row, state.pos + row, state.end, state.context, 0);
  const uint tokens = max(MEMBER_TOKENS, 1), member = row / tokens, token = row % tokens;
  return Owner(token, members[member].pos + token, members[member].end, members[member].context, members[member].slot);
}

// True for a row after the session's last one; its first one is always computed.
bool is_spare(Owner o) { return o.token > 0 && o.position >= o.end; }
