// The slope of a head's biases (Press et al. 2022): ops.h, Attention.
float alibi_slope(uint head, uint heads) {
  const uint whole = 1u << findMSB(heads);
  return head < whole ? exp2(-8.0 * float(head + 1) / float(whole)) : exp2(-4.0 * float(2 * (head - whole) + 1) / float(whole));
}
