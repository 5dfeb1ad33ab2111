// By its bits: compilers may assume that a float is no NaN and drop isnan().
bool is_finite(float value) { return (floatBitsToUint(value) & 0x7f800000u) != 0x7f800000u; }
