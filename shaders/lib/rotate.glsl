// Rotary position embedding (rope.comp) four dimensions at a time. The including shader has input_at(texel) and rope_table_at(texel), ROTARY_DIM and ADJACENT.

// Dimensions quad * 4 and on of the head that starts at texel `head`, rotated for a position; as they are after ROTARY_DIM.
vec4 rotated(uint head, uint quad, uint position) {
  const uint quads = ROTARY_DIM / 8;  // of a half
  const vec4 v = input_at(head + quad);
  // No branch where none is needed: llvmpipe takes both sides of each.
  const bool rotates_here = quad < quads * 2;
  if (ADJACENT != 0) {
    const vec4 angles = rope_table_at(position * quads * 2 + (rotates_here ? quad : 0));
    const vec4 t = vec4(v.x * angles.x - v.y * angles.y, v.y * angles.x + v.x * angles.y, v.z * angles.z - v.w * angles.w, v.w * angles.z + v.z * angles.w);
    return rotates_here ? t : v;
  }
  const bool first = quad < quads;
  const vec4 partner = input_at(head + (first ? quad + quads : quad - quads));
  const uint at = (position * quads + (first ? quad : rotates_here ? quad - quads : 0)) * 2;
  const vec4 low = rope_table_at(at), high = rope_table_at(at + 1);
  const vec4 cosines = vec4(low.xz, high.xz), sines = vec4(low.yw, high.yw);
  return rotates_here ? v * cosines + (first ? -sines : sines) * partner : v;
}
