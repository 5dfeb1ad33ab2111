// The code of each format of super-blocks.
#include "formats/q6.glsl"
#include "formats/q4k.glsl"
#include "formats/q5k.glsl"
