// Dot products of a layer matrix's rows with TOKENS inputs. The layout of tiles is in abi.h. WEFT_TWO_FORMATS: a matrix may have rows of two formats
// (lib/second_format.glsl).
#include "lib/product.glsl"
#include "lib/formats.glsl"

#ifdef WEFT_TWO_FORMATS
// Not 0: the tile of the bound slice from which on rows have SECOND_FORMAT.
layout(constant_id = 13) const uint SECOND_TILE = 0;
layout(constant_id = 14) const uint SECOND_FORMAT = FORMAT_F16;
#else
const uint SECOND_TILE = 0;
#endif

// 1: the first half of the matrix's rows are gates, the second half what they gate; a lane has as many of both, in this order. With one
// row a lane at once, or two formats, the includer asks for the gates and then for what they gate.
#ifdef WEFT_GATED
layout(constant_id = 4) const uint GATED = 0;
#else
const uint GATED = 0;
#endif
const bool GATES_APART = (ROW_TILES == 1 || SECOND_TILE > 0) && GATED != 0;

// Row i of the lane's, counted from the first of the workgroup's rows or gates. rows: of the matrix.
uint own_row(uint i, uint rows) {
  if (GATED == 0 || GATES_APART) return lane_row(i);
  return lane_row_of(i % (ROW_TILES / 2), ROW_TILES / 2) + (i < ROW_TILES / 2 ? 0 : rows / 2);
}

// Where a lane's row i begins. It is worked out before the loops: llvmpipe's compiler does not move out what they do not change.
struct Place {
  uint words;  // 16-byte word 0
  uint scales;  // WEFT_TEXEL: the 16-byte words of the first scales of the row's group; else its first scales, a 32-bit word
  uint fifth;   // its fifth bits, likewise
};

// Scales of the 32 rows of a group are eight texels, so eight lanes load one each and share them: one load for four rows of each.
#ifdef WEFT_TEXEL
const uint OF_SHARE = GATED != 0 && !GATES_APART && ROW_TILES < 8 ? ROW_TILES / 2 : 4;  // rows of a lane that are in one group
const uint SCALE_SHARES = (ROW_TILES + OF_SHARE - 1) / OF_SHARE;
#define SCALE_PLACE(tile, start, row, count) (((start) + IN_TILE((row) / GROUP_ROWS * GROUP_ROWS, 0, count)) / 4)
#define LOAD_NOTES(loaded, places, which, j) \
  [[unroll]] for (uint g = 0; g < SCALE_SHARES; ++g) loaded[g] = word_at(places[g * OF_SHARE].which + (j) * (GROUP_ROWS / 4) + gl_SubgroupInvocationID);
#define NOTES_OF(scales, i, row) subgroupShuffle(scales[(i) / OF_SHARE], (row) % GROUP_ROWS / 4)[(row) % 4]
#else
#define SCALE_SHARES ROW_TILES
#define SCALE_PLACE(tile, start, row, count) ((start) + IN_TILE(row, 0, count))
#define LOAD_NOTES(loaded, places, which, j) \
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) loaded[i].x = small_word_at(places[i].which + (j) * GROUP_ROWS);
#define NOTES_OF(scales, i, row) scales[i].x
#endif

// The eight 4-bit numbers of a word, lowest first.
void unpack_fours(out vec4 low, out vec4 high, uint word) {
#ifdef WEFT_SUBGROUP
  // The compilers that this variant is for make one instruction of a byte's conversion, so the numbers become bytes first.
  const vec4 even = unsigned_bytes(word & 0x0f0f0f0fu), odd = unsigned_bytes((word >> 4) & 0x0f0f0f0fu);
  low = vec4(even.x, odd.x, even.y, odd.y);
  high = vec4(even.z, odd.z, even.w, odd.w);
#else
  low = vec4((uvec4(word) >> uvec4(0, 4, 8, 12)) & 15u);
  high = vec4((uvec4(word) >> uvec4(16, 20, 24, 28)) & 15u);
#endif
}

// Blocks that a lane loads before it multiplies the first of them: more bytes are on their way at once.
#ifdef WEFT_LANE_ROWS
#define WEFT_STEP_ID 11
#endif
#ifdef WEFT_STEP_ID
layout(constant_id = WEFT_STEP_ID) const uint STEP = 1;
#else
const uint STEP = 1;
#endif
#ifdef WEFT_LANE_ROWS
// Words of an input that the workgroup brings to shared memory first; 0: lanes load inputs as they need them.
layout(constant_id = 12) const uint STAGED = 0;
shared vec4 staged[STAGED > 0 ? STAGED : 1];
#endif

#include "lib/format_rows.glsl"
#ifdef WEFT_TWO_FORMATS
#include "lib/second_format.glsl"
#endif
