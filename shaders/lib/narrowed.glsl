// Order and weight of scores, as filter and what comes before it see them.

// Unsigned integers in the order of the floats they come from; 0 is below all of them.
uint key_of(float value) {
  const uint bits = floatBitsToUint(value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
float value_of(uint key) { return uintBitsToFloat((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key); }

// Share of the peak's weight in units of 2^-26, below 2^26: top-p and typical-p add whole units, so that sums have no order.
uint units_of(float share) { return min(uint(share * 67108864.0), 67108863u); }

// A sum of units, whose bits from 13 on and whose lower bits are added up apart: enough for 2^19 scores.
float total(uvec2 sum) { return float(sum.x) * 8192.0 + float(sum.y); }

// The bin of a score, 0 at the peak: 32 bins for each doubling of the distance, from 2^-6 to 2^10. It never falls where the distance grows.
uint bin_of(float score, float peak) {
  precise const float distance = peak - score;
  const int bin = int(floatBitsToUint(distance) >> 18) - int(floatBitsToUint(0.015625) >> 18);
  return uint(clamp(distance > 0 ? bin : 0, 0, FILTER_BINS - 1));
}

bool has_top_k(SampleParams params, uint count) { return params.top_k > 0 && params.top_k < count; }
