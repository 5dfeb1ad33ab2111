// Blocks of floats as halves and a power of two that they are to be multiplied with.

// The power of two at or below a peak, but at least 2^-110, such that 2^14 times its inverse is a number too.
float power_below(float peak) { return uintBitsToFloat(clamp(floatBitsToUint(peak) & 0x7f800000u, 0x08800000u, 0x7e800000u)); }
float inverse_power(float power) { return uintBitsToFloat(0x7f000000u - floatBitsToUint(power)); }
// packHalf2x16 may cut off, as AMD's does; this rounds.
uvec2 halves_of(vec4 v) { return uvec2(packFloat2x16(f16vec2(v.xy)), packFloat2x16(f16vec2(v.zw))); }
