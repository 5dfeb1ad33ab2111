// The code of each native format.
#include "formats/mxfp4.glsl"
#include "formats/q4_0.glsl"
#include "formats/q5_0.glsl"
#include "formats/q6.glsl"
#include "formats/q4k.glsl"
#include "formats/q5k.glsl"
