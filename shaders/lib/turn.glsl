// Rotary position embedding (rope.comp) four dimensions at a time. The including shader has input_at(texel) and turns_at(texel), ROTARY_DIM and ADJACENT.

// Dimensions quad * 4 and on of the head that starts at texel `head`, turned for a position; as they are behind ROTARY_DIM.
vec4 turned(uint head, uint quad, uint position) {
  const uint quads = ROTARY_DIM / 8;  // of a half
  const vec4 v = input_at(head + quad);
  // No branch where none is needed: llvmpipe takes both sides of each.
  const bool turns_here = quad < quads * 2;
  if (ADJACENT != 0) {
    const vec4 turn = turns_at(position * quads * 2 + (turns_here ? quad : 0));
    const vec4 t = vec4(v.x * turn.x - v.y * turn.y, v.y * turn.x + v.x * turn.y, v.z * turn.z - v.w * turn.w, v.w * turn.z + v.z * turn.w);
    return turns_here ? t : v;
  }
  const bool first = quad < quads;
  const vec4 partner = input_at(head + (first ? quad + quads : quad - quads));
  const uint at = (position * quads + (first ? quad : turns_here ? quad - quads : 0)) * 2;
  const vec4 low = turns_at(at), high = turns_at(at + 1);
  const vec4 cosines = vec4(low.xz, high.xz), sines = vec4(low.yw, high.yw);
  return turns_here ? v * cosines + (first ? -sines : sines) * partner : v;
}
