// Gumbel noise of a token: a function of seed, position and id alone. Needs `params`.
#include "lib/philox.glsl"

// -ln(-ln(1 - v)) for v in the middle of one of 2^32 steps of (0, 1). The greatest noise decides, so it is small v that must be
// right: there ln(1 - v) is summed as a series, because Vulkan lets log() of a number near 1 be off by 2^-21, or give 0.
float gumbel(uint word) {
  const float v = (float(word) + 0.5) * (1.0 / 4294967296.0), rest = (float(~word) + 0.5) * (1.0 / 4294967296.0);
  const float waiting = v < 1.0 / 32 ? v * (1 + v * (1.0 / 2 + v * (1.0 / 3 + v * (1.0 / 4)))) : -log(rest);
  return -log(waiting);
}

// Random words of ids 4 quad .. 4 quad + 3, when the context has `end` tokens.
uvec4 noise_words(uint quad, uint end) {
  return philox(uvec4(quad, end, 0, 0), uvec2(params.seed_low, params.seed_high));
}
float noise_of(uint id, uint end) { return gumbel(noise_words(id / 4, end)[id % 4]); }
