// Positions that a token of attention sees. The includer has lib/members.glsl, MASK and the push constants `p`.

// The end of what a token sees, where it sees later ones too: those nearer than the window.
uint end_of_window(Owner o) { return o.end - min(o.position, o.end) > p.window ? o.position + p.window : o.end; }

uint followed = 0;  // of a tree: path_to() the token's row
// False for the place of a row that the token's row does not follow. Rows have the places from state.pos on.
bool is_followed(uint place) { return place < state.pos || (followed >> (place - state.pos) & 1) != 0; }

// How many positions before `length` it sees.
uint seen_of(Owner o, uint length) {
  if (MASK != MASK_NONE && MASK != MASK_TREE) return min(length, p.window);
  return o.position < p.window ? length : length - (o.position + 1 - p.window);
}
