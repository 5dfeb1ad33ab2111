// Rotary position embedding (rope.comp) one dimension at a time. The including shader has q|k|v as floats in qkv[], and rope_table[].

// Dimension d of the head that starts at qkv[head], rotated for a position.
float rotated(uint head, uint d, uint position, uint rotary_dim, bool adjacent) {
  if (d >= rotary_dim) return qkv[head + d];
  const uint half_dim = rotary_dim / 2;
  const bool first = adjacent ? d % 2 == 0 : d < half_dim;
  const uint pair = adjacent ? d / 2 : d % half_dim;
  const uint partner = adjacent ? d ^ 1 : (first ? d + half_dim : d - half_dim);
  const vec2 angle = rope_table[position * half_dim + pair];
  return qkv[head + d] * angle.x + (first ? -angle.y : angle.y) * qkv[head + partner];
}
