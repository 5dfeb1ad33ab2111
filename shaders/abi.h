// Definitions shared by C++ and GLSL: layouts of buffers, push constants, and the meaning of specialisation constants.
// Both include this file, so nothing is written twice. It has only 32-bit scalars, and structs and arrays of them:
// std430 and C++ agree on their layout.
#ifndef WEFT_ABI_H
#define WEFT_ABI_H

#ifdef __cplusplus
#include <cstdint>
namespace weft::abi {
using uint = uint32_t;
#endif

// ---- Tiled matrices ----
//
// A matrix (rows, cols) is stored in tiles of TILE_ROWS rows, a row for each lane of a workgroup; the last tile is
// filled up with zero rows. Columns are filled up with zeros to blocks of BLOCK. Within a tile, the 16-byte words of
// GROUP_ROWS rows are interleaved: word k of row r, of `count` words a row, is at IN_TILE(r, k, count). So neighbouring
// lanes read neighbouring words. On a CPU eight lanes with four rows each read a group from front to back, one stream,
// which it prefetches; it does not follow four streams in turn (a line of memory took five times as long).
//
//   FORMAT_F16: word k holds columns 8k .. 8k+7 as halves.
//   FORMAT_Q8:  word k holds columns 16k .. 16k+15 as signed bytes. After the words of a tile come its scales: halves,
//               two blocks to a 32-bit word, word j (blocks 2j, 2j+1) of row r at IN_TILE(r, j, (blocks + 1) / 2).
//               Value = scale * byte.
//   FORMAT_Q4:  word k is block k: columns 8i .. 8i+7 of it in its 32-bit word i, 4 bits each, lowest first. After the
//               words of a tile come the blocks' 32-bit words of two halves, scale below minimum: that of block k of
//               row r at IN_TILE(r, k, blocks). Value = scale * q + minimum, q of 0 .. 15.
//
// The formats of super-blocks copy types of GGUF files, to the last bit. Rows are whole super-blocks of SUPER_BLOCKS
// blocks, as in these files. A number has `bits` bits, and a super-block SUPER_WORDS(bits) words of 16 bytes:
//
//   word 0:     scales.
//   lower bits: a word a block, of the lower four bits. Byte 4i + k has those of column 8i + k in its lower half, and
//               those of column 8i + 4 + k in its upper half. Numbers of 2 and 3 bits have a word of two blocks, 8
//               bytes for either, of the lower two bits. Byte 4h + k of these has those of columns 16h + k, 16h + 4 +
//               k, 16h + 8 + k and 16h + 12 + k, the first in its lowest bits.
//   upper bits: bits - 4 32-bit words for each block; of 3 bits, one, of 2 none. The 16-byte word that holds those of
//               2 blocks (of 6 bits) or of 4 lies before these blocks' lower bits: so a row is read from front to back,
//               which a processor prefetches (the scales behind all numbers cost it a third of its speed).
//
//   FORMAT_Q6 (Q6_K, 6 bits): two 32-bit words of upper bits for each block, 16 columns each. Together with the lower
//               bits they are two's complement; column 4j + k of the 16 has bits 8k + 7 - 2j and the next lower one.
//               Word 0 has a signed byte for each 16 columns. After the words of a tile come the super-blocks'
//               halves d, two to a 32-bit word, word j of row r at IN_TILE(r, j, (super-blocks + 1) / 2).
//               Value = (d * byte) * integer.
//   FORMAT_Q5K, FORMAT_Q4K (Q5_K and Q4_K, 5 and 4 bits): Q5_K has a 32-bit word of upper bits for each block, where
//               column 4j + k has bit 8k + j. Word 0 has four of 32 bits: the lower four bits of the blocks'
//               scales, block b's from bit 4b on; those of their minima; the upper two bits of the scales, block b's
//               from bit 2b on, and, 16 bits higher, of the minima; the halves d and, above it, dmin.
//               Value = (d * scale) * integer - (dmin * minimum).
//   FORMAT_Q2K (Q2_K, 2 bits): word 0 has a byte for each 16 columns, the scale in its lower half, the
//               minimum in its upper one. After the words of a tile come the super-blocks' 32-bit words, d and above it
//               dmin, that of super-block j of row r at IN_TILE(r, j, super-blocks).
//               Value as Q4_K's.
//   FORMAT_IQ4_XS, FORMAT_IQ3_XXS, FORMAT_IQ3_S (4 bits): scales as Q4_K has them, without minima.
//               Value = (d * (scale - 32)) * number, half of it for IQ3_XXS. The four bits stand for a number: for
//               IQ4_XS one of a list (formats/iq4.glsl); for IQ3_XXS half of 4, 12, 20, 28, 36, 44, 52 or 62, its
//               fourth bit is the sign; for IQ3_S in two's complement i, for 2i + 1.
//   FORMAT_Q3K, FORMAT_IQ2, FORMAT_IQ1 (3 bits): column 4j + k of a block has bit 8k + j of its word of upper bits.
//               Word 0 has the scales of each 16 columns, in two's complement: 32-bit word k those of blocks 2k and
//               2k + 1, 6 bits each, lowest first. Above these, words 0 and 2 have the lower half of the half d, 1 and
//               3 its upper half. Value = (d * scale) * number, an eighth of it for IQ2 and IQ1. Q3K: two's complement.
//               IQ2 and IQ1: the upper bit is the sign, the others stand for 8, 25 or 43, and for 1, 7 or 9. Files of
//               these types and of IQ3's name whole groups of numbers in a code book; here each number has its own
//               bits.
//
// Other formats copy types of files whose blocks have BLOCK columns, likewise to the last bit. A block has a word of 16
// bytes, in the order that super-blocks have the lower four bits.
//
//   FORMAT_Q5_0, FORMAT_Q5_1: after the words of a tile come the fifth bits, a 32-bit word a block, that of block
//               k of row r at IN_TILE(r, k, blocks). Column 4j + k has bit 8k + 7 - j.
//   FORMAT_Q4_0, FORMAT_Q5_0: then come the scales, as FORMAT_Q8 has them. The integers are two's complement.
//               Value = scale * integer.
//   FORMAT_IQ4_NL: scales likewise. Value = scale * number of the list of IQ4_XS.
//   FORMAT_Q5_1: then come scales and minima, as FORMAT_Q4 has them. Value = scale * integer + minimum.
//   FORMAT_MXFP4: the file's four bits of a number, but 0 for its -0. Then come the scales, likewise, each the upper
//               half of a float's bits. Value = scale * twice the number: 0, 1, 2, 3, 4, 6, 8, 12, and those below 0.
#define SUPER_BLOCKS 8
#define SUPER_BLOCK (SUPER_BLOCKS * BLOCK)
#define SUPER_WORDS(bits) (2 * (bits) + 1)
#define TILE_ROWS 64
#define GROUP_ROWS 32
#define TILE_THREADS 128  // of a workgroup that computes many tokens of a tile
#define IN_GROUPS(group, row, k, count) ((row) / (group) * (group) * (count) + (k) * (group) + (row) % (group))
#define IN_TILE(row, k, count) IN_GROUPS(GROUP_ROWS, row, k, count)
#define BLOCK 32
//
// A vocabulary table is stored in another basis of the columns (ops/basis.h). First come the LEADING columns, which
// decide most of a logit, with 16 bits each. The rest, whole blocks, is rotated and stored as planes of its bits, most
// significant first: estimates read only the first planes. The tiles, rows and groups are the same. A tile is these
// words of 16 bytes, those of a part at IN_TILE(r, k, words of the part); `rest` is the number of blocks of the rest:
//
//   header: eight halves: the leading columns' scale | the product with the mean state; then factor | error of each
//   stage of estimates (ops/table_row.h): from plane 0, from planes 0 and 1, from planes 0 to 2.
//   leading columns: value = scale * (h + l / 256), h a signed byte, l an unsigned one. Two words of h; l comes last.
//   planes 0 and 1: a bit of each value; a 32-bit word is a block, word k blocks 4k .. 4k + 3.
//   plane 2: two bits of each; word k is blocks 2k and 2k + 1, two 32-bit words each.
//   plane 3 (not FORMAT_Q4): four bits; a word is a block.
//   plane 4 (FORMAT_F16): eight bits, a byte each in the order of the columns; two words are a block.
//
// Together the planes are an integer i of 4, 8 or 16 bits in two's complement. Value = scale * i, of 16 bits scale * i
// / 256. Element 4j + k of a block (k < 4) has in planes 0 and 1 bit 8k + 7 - j; in plane 2 bits 8k + 6 - 2 (j / 2) and
// the next of 32-bit word j % 2; in plane 3 bits 8k + 4 - 4 (j / 4) and the next three of 32-bit word j % 4. So a shift
// and a mask give a quad of elements, and two planes of b bits become words of 2b bits by a shift and a mask each
// (lib/planes.glsl). After these words come the blocks' scales: halves, two to a 32-bit word, word j of row r at
// IN_TILE(r, j, TABLE_PAIRS).
#define LEADING 32
#define TABLE_QUADS(rest) (((rest) + 3) / 4)
#define TABLE_PAIRS(rest) (((rest) + 1) / 2)
// Words of a row before a part:
#define TABLE_HEADER 0
#define TABLE_LEADING 1
#define TABLE_PLANE_0 3
#define TABLE_PLANE_1(rest) (3 + TABLE_QUADS(rest))
#define TABLE_PLANE_2(rest) (3 + 2 * TABLE_QUADS(rest))
#define TABLE_PLANE_3(rest) (TABLE_PLANE_2(rest) + TABLE_PAIRS(rest))
#define TABLE_PLANE_4(rest) (TABLE_PLANE_3(rest) + (rest))
#define TABLE_LOW(format, rest)                  \
  ((format) == FORMAT_Q4   ? TABLE_PLANE_3(rest) \
   : (format) == FORMAT_Q8 ? TABLE_PLANE_4(rest) \
                           : TABLE_PLANE_4(rest) + 2 * (rest))
#define TABLE_SCALES(format, rest) (TABLE_LOW(format, rest) + 2)
// Stages of estimates that are worth having. A stage has 1, 2 or 4 bits of the rest.
#define ESTIMATE_STAGES(format) ((format) == FORMAT_Q4 ? 2 : 3)
#define FORMAT_F16 0
#define FORMAT_Q8 1
#define FORMAT_Q4 2
#define FORMAT_Q6 3  // from here on native, for layers' matrices only (lib/tiles.glsl compares numbers)
#define FORMAT_Q5K 4
#define FORMAT_Q4K 5
#define FORMAT_Q4_0 6
#define FORMAT_Q5_0 7
#define FORMAT_Q5_1 8
#define FORMAT_MXFP4 9
#define FORMAT_IQ4_NL 10
#define FORMAT_Q3K 11  // from here on super-blocks (lib/tiles.glsl compares numbers)
#define FORMAT_IQ4_XS 12
#define FORMAT_IQ3_XXS 13
#define FORMAT_IQ3_S 14
#define FORMAT_IQ2 15
#define FORMAT_IQ1 16
#define FORMAT_Q2K 17
//
// A layer's cache: keys and values of each key/value head, one head after the other, by slot (rope.comp). Keys are a
// matrix of slots like those above, but in groups of KEY_ROWS, and filled up to 16-byte words only. Values are slot
// after slot. Keys and values may have different formats:
//
//   FORMAT_F16: values have two dimensions to a 32-bit word, and are not filled up.
//   FORMAT_Q8:  bytes; after those of TILE_ROWS slots their blocks' scales, two to a 32-bit word.
//   FORMAT_Q4:  a 16-byte word is a block. Byte k of its 32-bit word i has dimension 8i + k in its lower half, and
//               dimension 8i + 4 + k in its upper half. After the words of TILE_ROWS slots comes, for each block, a
//               32-bit word of two halves, scale below minimum. Value = scale * q + minimum. Before that, queries and
//               keys are rotated block by block, which keeps their products. Only whole blocks are. Dimension i changes
//               its sign if bit i of KEY_SIGNS is set, then the block is multiplied by a Hadamard matrix. So the few
//               large dimensions of keys are spread over a block (Ashkboos et al. 2024, "QuaRot", section 4).
//
// A slot has, of keys as of values (of FORMAT_F16: of keys), words of 16 bytes, then 32-bit words of scales:
#define KEY_ROWS 8
#define IN_KEYS(slot, k, count) IN_GROUPS(KEY_ROWS, slot, k, count)
#define CACHE_WORDS(format, head_dim)                         \
  ((format) == FORMAT_Q4   ? ((head_dim) + BLOCK - 1) / BLOCK \
   : (format) == FORMAT_Q8 ? ((head_dim) + 15) / 16           \
                           : ((head_dim) + 7) / 8)
#define CACHE_SCALE_WORDS(format, head_dim) \
  ((format) == FORMAT_Q4 ? ((head_dim) + BLOCK - 1) / BLOCK : (format) == FORMAT_Q8 ? ((head_dim) + 63) / 64 : 0)
#define CACHE_SLOT_WORDS(format, head_dim) (4 * CACHE_WORDS(format, head_dim) + CACHE_SCALE_WORDS(format, head_dim))
// Signs of the dimensions of a block of FORMAT_Q4, chosen at random:
#define KEY_SIGNS 0x5b2c86e9u

// ---- The part of a state that a head which reads less than every row keeps (vocab/heads/pruned.h) ----

// Estimates of every row, by how much of it they read; each reads what the one before does, too.
#define HEAD_LEADING 0    // the leading columns
#define HEAD_SIGNS 1      // plane 0 of the rest
#define HEAD_TWO_BITS 2   // plane 1
#define HEAD_FOUR_BITS 3  // plane 2; not FORMAT_Q4
#define HEAD_ALL 4        // no estimates: every row is computed
#define ESTIMATES 3       // planes that estimates read, or refine
struct Indirect {         // what vkCmdDispatchIndirect reads: workgroups
  uint x, y, z;
};
struct HeadState {
  uint positions;                    // how many rows may be chosen, before a mask
  uint mode;                         // HEAD_*: how this token's rows are found
  uint wait;                         // tokens until a mode that reads less is tried again
  uint backoff;                      // what wait was last set to
  uint leader_count;                 // rows scored first
  float cut;                         // a row whose score cannot reach it cannot be chosen
  float floor;                       // with cut_mass: every row whose score reaches it is listed
  uint refine_counts[ESTIMATES];     // by stage: rows listed for refine, which reads that stage's plane of them
  uint exact_count;                  // rows listed, whose logits are computed
  uint every;                        // 1: those listed first did not decide top-p, so every row is listed
  uint first_count;                  // then: how many were listed first
  float undecided;                   // share of the last tokens whose top-p was not decided, the latest weighing most
  Indirect estimates[2 * HEAD_ALL];  // 2 * mode for every slice but the last, 2 * mode + 1 for the last
  Indirect refine[ESTIMATES];        // by stage
  Indirect leaders, exact;
};

// ---- A session's state on the device ----
//
// history[0 .. end) are the token ids of the context; the caches hold positions [0, pos). A pass computes
// min(tokens of the pass, end - pos) tokens from pos on. Sampling appends a token: history[end] = id, end += 1.
// An id from SOFT_ID on is a soft token: it has row id - SOFT_ID of the session's own rows (insert_rows.comp).
#define SOFT_ID 0x80000000u
struct StepState {
  uint pos;
  uint end;
  uint finished;    // 0: running; else FINISH_*
  uint context;     // most tokens the session can hold
  float threshold;  // scores below it cannot be sampled
  float ceiling;    // nor those above it, which only typical-p lowers
  uint source;      // of an encoder-decoder: positions of the encoder's output
  uint drafted;     // length of the draft that the pass checks: the last ids before end
  uint tree;        // of a draft that is a tree: TREE_OF its rows' parents; 0: the draft is a chain
  uint root;        // of a tree: position of the pass's first token
  uint path;        // PATH_*: the rows of a tree whose tokens were chosen
  HeadState head;
};
// A draft that is a tree (Cai et al. 2024, "Medusa", section 2.2). Row 0 of the pass is the pending token, the root;
// row i is a guess that follows the token of row PARENT_OF(tree, i) < i. A row's position is root + its depth, and its
// key and value lie where position root + i would. There are at most 8 rows, 4 bits for each.
#define TREE_ROWS 8
#define TREE_MARK 15u  // row 0 has no parent
#define PARENT_OF(tree, row) ((tree) >> (4 * (row)) & 15u)
// 4 bits of each depth from 1 on: the row that was chosen there. Before them, how many were.
#define PATH_LENGTH(path) ((path)&15u)
#define PATH_ROW(path, depth) ((path) >> (4 * (depth)) & 15u)
// One of the sessions of a batch whose caches lie side by side, for a pass. The first four words are those of the
// session's state when the pass begins.
struct BatchMember {
  uint pos, end, finished, context;
  uint slot;    // of the caches
  uint member;  // of the batch: its rows begin at member * tokens of a session
  uint unused[2];
};
#define FINISH_STOP 1u        // a stop token was sampled
#define FINISH_CONTEXT 2u     // the context is full
#define FINISH_NOT_FINITE 3u  // no logit was a finite number
#define FINISH_DRAFT 4u       // the token is the last of its pass: the draft ends before it, or has another there

// Result that the CPU reads back for a token: its id, and the finish reason after it. The token at position p has entry
// p % RING.
struct RingEntry {
  uint id;
  uint flags;               // ENTRY_*
  uint refined[ESTIMATES];  // HeadState's refine_counts
  uint exact;               // exact_count, first_count and the leaders
};
#define ENTRY_FINISHED(flags) ((flags) % 16)  // FINISH_*
#define ENTRY_MODE(flags) ((flags) / 16)      // HEAD_*
#define ENTRY_FLAGS(finished, mode) ((finished) + 16 * (mode))
#define RING 16

#define MAX_STOP_IDS 16
struct SampleParams {
  float inverse_temperature;  // 0: greedy
  uint top_k;                 // 0: all
  float top_p;                // 1: all
  float log_min_p;            // ln(min_p); -infinity as -1e30: all
  float repeat_penalty;       // 1: none
  uint seed_low, seed_high;
  uint cut_rank;     // the choice needs what reaches the cut_rank-th best score ...
  float cut_margin;  // ... less this. cut_rank 0: it needs every row
  uint cut_noise;    // 1: scores with their noise are meant, because no filter but top-p restricts the choice
  uint cut_mass;     // 1: top-p asks for the mass of the rows: those within cut_margin of the best score are listed too
  uint least_mode;   // HEAD_*: estimates read at least that
  // How far a row's logit can be above an estimate, as a share of what Cauchy and Schwarz allow: 1 is proven
  // (vocab/heads/pruned.h).
  float leading_spread, rest_spread;
  float soft_cap;                             // of the logits (lib/soft_cap.glsl); 0: none
  float presence_penalty, frequency_penalty;  // of tokens that were generated: once, and for each time; 0: none
  uint biased;                                // 1: TOKEN_FLAGS has biases
  float most_added;  // what bias and these penalties add to a logit at most, at least 0; above 3e38: no limit
  float typical_p;   // 1: all
  uint logprobs;     // how many of the likeliest tokens logprobs names
  uint stop_count;   // 0: never stop
  uint stop_ids[MAX_STOP_IDS];
};

// Values of a session for each token, in one buffer of 32-bit words, TOKEN_FLAGS: bits (bit i: token i is in the
// context) | counts (rows: how often a token was generated) | biases (rows: floats, added to logits).
#define TOKEN_FLAG_COUNTS(rows) (((rows) + 31) / 32)
#define TOKEN_FLAG_BIASES(rows) (TOKEN_FLAG_COUNTS(rows) + (rows))
#define TOKEN_FLAG_WORDS(rows) (TOKEN_FLAG_BIASES(rows) + (rows))

// Result of logprobs for the token at position p, at p % RING.
#define MAX_LOGPROBS 20
struct TokenLogprobs {
  float chosen;  // ln p of the token
  uint count;
  uint ids[MAX_LOGPROBS];  // the likeliest first
  float logprobs[MAX_LOGPROBS];
};

// A candidate of one workgroup of sample, or of project.
struct Candidate {
  float score;
  uint id;
};
// Guess of a Medusa head (best.comp).
struct Guess {
  uint id;      // 0xffffffff: there is no other finite logit
  float share;  // of the mass that the best rows of the workgroups have
};
#define READ_BYTES 32768  // one workgroup of read_bandwidth reads
#define SAMPLE_ROWS 1024  // scores one workgroup of sample looks at

// ---- Heads that read less than every row ----
//
// Positions run over the rows that may be chosen: all of them, or ALLOWED_ROWS's ids; at most `rows`, those of the
// table. ALLOWED_ROWS is ids (rows) | bits (rows): a mask, bit i for id i. LISTS is one buffer of 32-bit words:
//   bounds (rows: upper bounds of logits as floats, by position) | estimates (rows: floats, by position) | refine
//   (two lists, rows each: positions; stages alternate between them) | needed (rows: the logits that those must reach,
//   as floats, by position) | ids (rows: to be computed) | leaders (MAX_LEADERS ids; NO_ROW for a strip without one) |
//   their logits (MAX_LEADERS floats) | their positions (MAX_LEADERS)
#define MAX_LEADERS 256
#define SELECT_ROWS 2048                          // positions a workgroup of select looks at: a bit of a word each
#define LIST_STRIDE(rows) (((rows) + 3) / 4 * 4)  // each list begins at a word of 16 bytes
#define LIST_BOUNDS(rows) 0
#define LIST_ESTIMATES(rows) LIST_STRIDE(rows)
#define LIST_REFINE(rows, stage) ((2 + (stage) % 2) * LIST_STRIDE(rows))
#define LIST_NEEDED(rows) (4 * LIST_STRIDE(rows))
#define LIST_IDS(rows) (5 * LIST_STRIDE(rows))
#define LIST_LEADERS(rows) (6 * LIST_STRIDE(rows))
#define LIST_LEADER_LOGITS(rows) (LIST_LEADERS(rows) + MAX_LEADERS)
#define LIST_LEADER_POSITIONS(rows) (LIST_LEADERS(rows) + 2 * MAX_LEADERS)
#define LIST_WORDS(rows) (LIST_LEADERS(rows) + 3 * MAX_LEADERS)
#define BOUND_OF_LISTED -3.4028e38f  // the bound of a leader that is among the ids: less than any cut, -3.4e38 too
#define NO_ROW 0xffffffffu
// Factors for estimates, from the hidden state less the mean state, in words of 16 bytes. First its floats, in blocks
// of 8 words, the leading block first. Then eight words for each four of the rest's blocks: word k has bit k of the
// blocks' elements in the places of plane 0; bits 0 to 6 are an amount of scale bit_scale, bit 7 is its sign. Then 12
// floats: the sums of the leading columns and of the amounts, and the bounds of errors (lib/estimate.glsl, Known).
#define FACTOR_BITS(rest) (8 * ((rest) + 1))
#define FACTOR_KNOWN(rest) (FACTOR_BITS(rest) + 8 * TABLE_QUADS(rest))
#define FACTOR_WORDS(rest) (FACTOR_KNOWN(rest) + 8)
// A basis (ops/basis.h), 32-bit words: the source of each stored column, NO_COLUMN: a zero (cols) | signs of each round
// of the rotation (cols / 32 words, a bit a column, 1: minus) | the mean state in this basis (cols floats) | factors of
// the columns, for a state on its way into the basis and for a row on its way out (cols floats; 0 for NO_COLUMN).
// cols: stored columns.
#define NO_COLUMN 0xffffffffu
#define ROTATIONS 6  // rounds
#define BASIS_SIGNS(cols, round) ((cols) + (round) * ((cols) / 32))
#define BASIS_MEAN(cols) BASIS_SIGNS(cols, ROTATIONS)
#define BASIS_SCALES(cols) (BASIS_MEAN(cols) + (cols))
#define BASIS_WORDS(cols) (BASIS_SCALES(cols) + (cols))
// Column of element j of block c in a round, of `rest` blocks. Rounds alternate between columns far apart and
// neighbours. The first neighbours begin in the middle of a block, because columns far apart alone keep blocks apart if
// `rest` is a multiple of 64.
#define ROTATED(round, rest, c, j) \
  ((round) % 2 == 0 ? (c) + (j) * (rest) : ROTATED_WRAPPED((c)*32 + (j) + ((round) == 1 ? 16 : 0), (rest)*32))
#define ROTATED_WRAPPED(i, count) ((i) < (count) ? (i) : (i) - (count))

// ---- Push constants, by shader ----

#define TABLE_VALUES 0  // whole values one after the other, as layers' matrices have them
#define TABLE_PLANES 1
struct GatherPush {
  uint cols;      // of the table
  uint stride;    // floats between rows of the output
  uint row_base;  // first row of the bound slice
  uint rows;      // rows in it
  float scale;    // of every element
};
struct RotatePush {
  uint cols;    // of the rotated rows, as stored
  uint width;   // of the plain rows
  uint stride;  // floats between rows of either
  // Where a norm is done first or begun last:
  uint last_only;  // 1: of the pass's last token only, to row 0
  uint begun_stride;
  float epsilon;
};
struct AddPush {
  uint count;
};
struct AddPositionsPush {
  uint cols;
  uint stride;     // floats between rows of the output
  uint positions;  // rows of the table
};
struct InsertRowsPush {
  uint cols;
  uint stride;  // floats between rows, of the soft tokens' and of the output
  uint rows;    // of the soft tokens
};
#define NORM_RMS 0
#define NORM_LAYER 1
struct NormPush {
  uint cols;
  uint in_stride, out_stride;  // floats between rows
  uint last_only;              // 1: only the pass's last token, written to row 0
  float epsilon;
  uint begun_stride;  // if a norm is begun: floats between its rows
  float scale;        // if the norm is added: of the sum
};
struct NormHeadsPush {
  uint heads, kv_heads, head_dim;
  uint stride;  // floats between rows of q|k|v
  float epsilon;
  uint whole;  // 1: all heads of q are one row, and all of k
};
// A row of an RMSNorm that is begun: x times the norm's weights; from NORM_SUMS_AT on partial sums of x^2, which the
// norm divides by the root of. The padding of both, up to multiples of 64, is zero.
#define NORM_SUMS_AT(cols) (((cols) + 63) / 64 * 64)
struct MatmulPush {
  uint cols;          // of the matrix, before padding
  uint rows;          // of the bound slice
  uint row_base;      // first row of the slice: where its results go
  uint in_stride;     // floats between tokens of the input; a multiple of BLOCK, zeros after cols
  uint out_stride;    // floats between tokens of the output
  uint first_token;   // of the pass, where the grid begins
  uint tokens;        // of the pass
  uint sums;          // in a product that ends a norm: partial sums of an input's squares
  float epsilon;      // of that norm
  uint begun_stride;  // in a product that begins a norm: floats between its rows
};
// A row of halves (shaders/halves.comp): x = power / HALVES_PEAK * (high + low). A block is 32 halves `high`, then 32
// halves `low`. After all blocks come floats: for each block the sum of its (high + low), and then the row's power.
#define HALVES_PEAK 16384.0
#define HALVES_STRIDE(cols) (((cols) + BLOCK - 1) / BLOCK * (BLOCK + 1) / BLOCK * BLOCK + BLOCK)  // floats
struct HalvesPush {
  uint cols;
  uint in_stride, out_stride;  // floats between rows
};
struct RoutedExpert {  // of a token: an expert, and what its result is multiplied by
  uint expert;
  float weight;
};
#define MOST_EXPERTS 1024
struct RoutePush {
  uint experts;
  uint used;        // of them, by a token
  uint in_stride;   // floats between rows of logits
  uint normalised;  // 1: a token's weights are divided by their sum
  float scale;      // of the weights, in the end
};
struct MatmulExpertPush {
  uint cols;         // of an expert's matrix, before padding
  uint rows;         // of an expert's matrix
  uint tiles;        // of an expert's matrix
  uint slice_first;  // tile of all experts' that the bound slice begins with
  uint slice_tiles;  // in it
  uint in_stride, out_stride;
  uint used;  // choices of a token
  uint sums;  // 1: an input row is a choice's, and the choices' products, times their weights, are added to the output;
              // 0: an input row is a token's, and each choice has an output row
  uint biased;  // 1: experts have biases
};
struct RopePush {
  uint heads, kv_heads, head_dim;
  uint in_stride;   // floats between rows of q|k|v
  uint out_stride;  // floats between rows of rotated q
  uint adjacent;    // 1: pairs (2i, 2i+1), GGUF llama; 0: pairs (i, i + d/2), Hugging Face
  uint capacity;    // slots of the cache, a multiple of TILE_ROWS
  uint rotary_dim;  // leading dimensions of a head that turn; even
};
#define MASK_CAUSAL 0  // a token sees all positions up to its own
#define MASK_NONE 1    // all of the pass's state
#define MASK_SOURCE 2  // those of the encoder's output
#define MASK_TREE 3    // of a draft that is a tree: positions up to the root's, and the rows that it follows
struct AttendPush {
  uint heads, kv_heads, head_dim;
  uint q_stride, out_stride;  // floats between rows
  uint capacity;              // slots of the cache: the whole context, or window + pass tokens - 1 at least
  float scale;                // of the scores
  uint window;                // positions a token sees, itself the last; MASK_NONE: as many after it; 0xffffffff: all
  float soft_cap;             // of the scores, where the kernel's constant says so
  uint reach;                 // of biases, likewise: those of a head are (2 * reach + 1)
  uint span;                  // positions a workgroup goes through
  uint arrivals;              // words of the parts' buffer: where the arrivals end
  float growth;               // of queries by position (lib/query_scale.glsl); 0: they stay
  uint growth_step;           // positions between two steps of the growth
};
// If a cache is longer than `span`, several workgroups compute a head and leave parts. First, for each part, token and
// head, the sum of values weighted by exp(score - peak), head_dim floats; after all of those, for each the peak and the
// sum of the weights. At the end, from the last word backwards, for each token and head the number of workgroups that
// have left their part; the last workgroup joins the parts. These counts are 0 between dispatches, which may differ in
// tokens and parts.
#define CONV_TOKENS 8  // of a session, that a workgroup of short_conv computes; at least MOST_TAPS - 1
#define MOST_TAPS 9
struct ShortConvPush {
  uint cols;
  uint in_stride, out_stride;  // floats between rows of gates and of results
  uint stride;                 // floats between rows of kept inputs
  uint capacity;               // rows of kept inputs of a session
  uint tokens;                 // of a session in the pass, at most
};
// Linear attention: rows of a layer's inputs, in floats.
//   prepared, a token's: k (key_heads * key_dim) | v (heads * value_dim) | decay (heads) | rate (heads) | q (as k)
//   kept, a ring of them for each session: the convolution's inputs | k | v | decay | rate
// The states of a session are SCAN_SLOTS times (heads, key_dim, value_dim), filled up to 64 floats: those after each
// SCAN_WINDOW positions, the one of n tokens in slot n / SCAN_WINDOW % SCAN_SLOTS. A pass begins from the last one that
// has no more tokens than the pass's first position, and goes through the tokens between once more, from the kept rows.
#define SCAN_WINDOW 8
#define SCAN_SLOTS 3
#define MOST_KEY_DIM 256
struct ScanInputsPush {
  uint in_stride, out_stride;       // floats between projected rows and between prepared rows
  uint kept_stride, kept_capacity;  // floats between kept rows; rows of a session
  uint conv_at, gates_at;           // columns of a projected row
  float epsilon;                    // of the norms of q and k
};
struct ScanPush {
  uint in_stride, out_stride;  // floats between prepared rows and between results
  uint kept_stride, kept_capacity;
  uint kept_at;  // column of k in a kept row
  uint skip_at;  // of the layer's weights: D
  uint tokens;   // of a session in the pass, at most
};
struct KeepRowsPush {
  uint in_stride, in_at, in_cols;       // of projected rows: the convolution's inputs
  uint prepared_stride, prepared_cols;  // of prepared rows: the first columns
  uint kept_stride, kept_capacity;
  uint tokens;  // of a session in the pass, at most
};
#define GATE_SIGMOID 0     // y = x sigmoid(gate)
#define GATE_AFTER_NORM 1  // y = norm(x) silu(gate), group by group
#define GATE_THEN_NORM 2   // y = norm(x silu(gate)), group by group
#define GATE_OF_GELU 3     // y = gelu_tanh(x) gate
#define GATE_OF_GROUP 4    // y = x sigmoid(gate), where a group has one gate
struct GatePush {
  uint cols;                  // of a group
  uint stride;                // floats between rows of x
  uint gate_stride, gate_at;  // floats between rows with gates, and their first column
  uint weight_stride;         // floats between the groups' weights of the norm; 0: they share them
  float epsilon;
};
#define ACTIVATION_SILU 0
#define ACTIVATION_GELU 1
#define ACTIVATION_GELU_TANH 2
#define ACTIVATION_RELU 3
#define ACTIVATION_TANH 4
#define ACTIVATION_CLAMPED 5  // only of a gate
#define ACTIVATION_RELU_SQUARED 6
struct ActivatePush {
  uint cols;  // of the result; a gated input has gate and up, cols each, one after the other
  uint in_stride, out_stride;
  uint copies;  // rows of a token
};
struct ProjectPush {
  uint cols;
  uint rows;         // of the bound slice
  uint row_base;     // first row of the slice
  uint in_stride;    // floats between hidden states
  uint out_stride;   // floats between rows of logits, or candidates between those of two tokens
  uint first_token;  // row of logits the bound inputs begin with
  uint first_group;  // workgroups of the slices before
};
struct ResidualPush {
  uint cols;
  uint stride;  // floats between rows
};
struct BestPush {
  uint rows;
  uint logit_stride;  // floats between rows of logits
  uint stride;        // candidates between those of two states
  uint ranks;         // guesses of a state
};
// Moves what a tree's chosen rows left to where a chain would have left it (StepState).
struct FollowRowsPush {
  uint words;        // of a row
  uint stride;       // words between rows
  uint first, last;  // depths; row PATH_ROW(path, depth) becomes row `depth`
};
struct FollowCachePush {
  uint head_dim;
  uint capacity;  // slots of the cache
};
struct PenalizePush {
  uint rows;
};
struct SamplePush {
  uint rows;  // of the table; of a list, HeadState.exact_count are there
};
struct ProjectRowsPush {
  uint cols;
  uint row_base, slice_rows;  // of the bound slice
  uint ids_at;                // word of the lists where the ids begin
  uint leaders;               // 1: they are the leaders, and the logits go after them
  uint out_at;                // word of the output where the logits begin
};
struct ScatterRowsPush {
  uint rows;  // of the table; HeadState.exact_count are listed
};
struct QuantisePush {
  uint cols;                    // stored
  uint format;                  // FORMAT_*
  uint full_tiles, last_tiles;  // of a slice and of the last one; 0: positions are listed
  uint rows_per_group;          // positions that a workgroup of estimate, refine and project_rows covers
  uint estimates;               // 0: nothing follows that would bound rows, so all are computed
};
struct EstimatePush {
  uint cols;
  uint row_base, slice_rows;  // of the bound slice
  uint rows;                  // of the table
  uint masked;                // 1: the mask says which ids may be chosen
};
struct LeadersPush {
  uint rows;
};
struct CutPush {
  uint rows;
  uint rows_per_group;
};
struct DecidePush {
  uint rows;
};
struct RefinePush {
  uint cols;
  uint row_base, slice_rows;
  uint rows;
};
struct SelectPush {
  uint rows;
  uint masked;
  uint stages;  // of estimates of the table: a row whose estimate has fewer is refined
  uint rows_per_group;
  uint again;  // 1: lists every row if HeadState.every, else nothing
};
struct AdvancePush {
  uint candidates;   // entries sample or project left; 0: only move on past this pass's tokens
  uint pass_tokens;  // most tokens of the pass
  uint rows;         // of the vocabulary
  uint drafted;      // 1: in a pass that checks a draft
};
struct LogprobsPush {
  uint rows;
  uint candidates;
};
struct TimestampsPush {
  uint rows;   // of the vocabulary
  uint first;  // timestamp
};
struct NllPush {
  uint rows;       // of the vocabulary
  uint stride;     // floats between rows of logits
  uint first;      // of the pass's tokens, the one in row 0 of the logits
  float soft_cap;  // of the logits, where the kernel's constant says so
};
#define MAX_SOFTMAXES 16
// The clusters of an adaptive softmax: the rows of each of its softmaxes but the first, which is always computed. Zero
// when a token begins.
struct ClusterState {
  uint read;                           // bit k: softmax k has its logits
  uint fresh;                          // those that the latest choose_clusters added
  uint done;                           // workgroups of choose_clusters that have finished
  uint bounds[MAX_SOFTMAXES];          // key of the best score that a row of a cluster can have (lib/narrowed.glsl)
  uint better[MAX_SOFTMAXES];          // how many computed rows have a better one
  Indirect groups[2 * MAX_SOFTMAXES];  // to project it: 2 * k for every slice but the last, 2 * k + 1 for the last
};
struct LogSumPush {
  uint stride;  // floats between rows of logits
  uint first;   // softmax
};
struct ClustersPush {
  uint rows;            // of the vocabulary
  uint count;           // softmaxes
  uint again;           // 0: the first choice for a token, which takes the one cluster with the greatest bound
  uint slice_rows;      // of a slice of the table but the last
  uint rows_per_group;  // that a workgroup of project computes
};
struct MixPush {
  uint rows;    // of the vocabulary
  uint stride;  // floats between rows of logits
  uint count;   // softmaxes
};

#ifdef __cplusplus
}  // namespace weft::abi
#endif
#endif  // WEFT_ABI_H
