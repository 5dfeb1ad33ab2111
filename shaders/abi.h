// What C++ and GLSL share: layouts of buffers, push constants, and the meaning of specialisation constants. Included by
// both, so that nothing is typed twice. Scalars only, each 4 bytes: std430 and C++ agree on those.
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
//   FORMAT_Q8:  word k holds columns 16k .. 16k+15 as signed bytes. Behind the words of a tile come its scales: halves,
//               two blocks to a 32-bit word, word j (blocks 2j, 2j+1) of row r at IN_TILE(r, j, (blocks + 1) / 2).
//               Value = scale * byte.
//   FORMAT_Q4:  word k is block k: columns 8i .. 8i+7 of it in its 32-bit word i, 4 bits each, lowest first. Behind the
//               words of a tile come the blocks' 32-bit words of two halves, scale below minimum: that of block k of
//               row r at IN_TILE(r, k, blocks). Value = scale * q + minimum, q of 0 .. 15.
#define TILE_ROWS 64
#define GROUP_ROWS 32
#define IN_GROUPS(group, row, k, count) ((row) / (group) * (group) * (count) + (k) * (group) + (row) % (group))
#define IN_TILE(row, k, count) IN_GROUPS(GROUP_ROWS, row, k, count)
#define BLOCK 32
//
// A vocabulary table is a matrix whose values are stored as planes of their bits, most significant first, so that what
// is only estimated needs only the first. The tiles, rows and groups are the same; a tile is plane 0, plane 1, ...,
// then a few halves for each row:
//
//   FORMAT_Q8: value = scale * (u - 128) with u = 64 a + 16 b + c. Planes of a (2 bits), b (2 bits) and c (4 bits): 8,
//   8 and 16 bytes a block. In planes 0 and 1 a word holds two blocks, word k at IN_TILE(r, k, blocks / 2); the half
//   word of an odd last block follows, 8 bytes a row, row behind row. In plane 2 a word is a block. Element 4j + i of
//   the 16 in a 32-bit word of planes 0 and 1 has the bits from 2j + 8i on; its plane-2 bits are those from 4 (j % 2) +
//   8i on in 32-bit word j / 2 of the two that hold those 16 elements. So a shift and a mask give a quad of elements,
//   or (two fields of 16 bits) factors for one multiplication.
//
//   FORMAT_Q4: value = scale * q + minimum with q = 4 a + b. Planes of a and b, which lie as q8's planes 0 and 1 do.
//
//   FORMAT_F16: planes of the high and the low byte, 32 bytes a block each, words at IN_TILE(r, k, 2 blocks). A 32-bit
//   word holds elements (2, 0, 3, 1), lowest byte first.
//
// A row's halves, two to a 32-bit word, word j at IN_TILE(r, j, HALF_WORDS): for q8 the scales of its blocks, then
// norms, which limit how far an estimate can be off (shaders/quantise.comp):
#define Q8_HALF_WORDS(blocks) (((blocks) + 2) / 2 + 1)
// Two halves: |row - plane 0| (L2) over the first half of the columns and over the others, or |row - planes 0 and 1|
// where that is more, rounded up; then two bytes: what is left of either once plane 1 is known, in 255ths, rounded up.
#define Q8_NORMS_AT(blocks) (blocks)
// For q4 a word of scale (low half) and minimum for each block, then a word: |row - plane 0| over either half of the
// columns, rounded up.
#define Q4_HALF_WORDS(blocks) ((blocks) + 1)
// For f16 a word: |row - plane 0|, |row|; rounded up.
#define F16_HALF_WORDS 1
#define HALF_BLOCKS(blocks) ((blocks) / 4 * 2)  // blocks in that first half of the columns: whole words of plane 1
#define FORMAT_F16 0
#define FORMAT_Q8 1
#define FORMAT_Q4 2
//
// A layer's cache: keys and values of each key/value head, one head behind the other, by slot (rope.comp). Keys are a
// matrix of slots like those above, but in groups of KEY_ROWS, and filled up to 16-byte words only. Values are slot
// behind slot: FORMAT_F16: two dimensions to a 32-bit word; FORMAT_Q8: bytes, filled up likewise, then the blocks'
// scales, two to a word. So in FORMAT_Q8 a slot has, of keys as of values:
#define KEY_ROWS 8
#define IN_KEYS(slot, k, count) IN_GROUPS(KEY_ROWS, slot, k, count)
#define Q8_WORDS(head_dim) (((head_dim) + 15) / 16)        // 16-byte words
#define Q8_SCALE_WORDS(head_dim) (((head_dim) + 63) / 64)  // 32-bit words
#define Q8_SLOT_WORDS(head_dim) (4 * Q8_WORDS(head_dim) + Q8_SCALE_WORDS(head_dim))

// ---- The part of a state that a head which reads less than every row keeps (vocab/certified.h) ----

struct Indirect {  // what vkCmdDispatchIndirect reads: workgroups
  uint x, y, z;
};
struct HeadState {
  uint positions;         // how many rows may be chosen, before a mask
  uint mode;              // HEAD_*: how this token's rows are found
  uint wait;              // tokens until a mode that reads less is tried again
  uint backoff;           // what wait was last set to
  float hidden_norms[2];  // |x| as the estimates have it, rounded up: over either half of the columns; f16: 0, over all
  uint leader_count;      // rows scored first
  float cut;              // a row whose score cannot reach it cannot be chosen
  float best_cut;         // fast: what the best estimates reach
  uint refine_count;      // rows whose estimate was refined by more of plane 1
  uint rest_count;        // those of them that needed its second half
  uint exact_count;       // rows listed, whose logits are computed
  uint uncertain;         // 1: fast left out a row that might have been chosen
  Indirect estimates[6];  // 2 * mode for every slice but the last, 2 * mode + 1 for the last
  Indirect leaders, refine, exact;
};
#define HEAD_SWEEP 0u  // plane 0 of every row first
#define HEAD_HALF 1u   // and plane 1 of the first half of the columns
#define HEAD_BOTH 2u   // planes 0 and 1
#define HEAD_ALL 3u    // no estimates: every row is computed

// ---- A session's state on the device ----
//
// history[0 .. end) are the token ids of the context; the caches hold positions [0, pos). A pass computes
// min(tokens of the pass, end - pos) tokens from pos on. Sampling appends a token: history[end] = id, end += 1.
struct StepState {
  uint pos;
  uint end;
  uint finished;    // 0: running; else FINISH_*
  uint context;     // most tokens the session can hold
  float threshold;  // scores below it cannot be sampled
  float ceiling;    // nor those above it, which only typical-p lowers
  uint source;      // of an encoder-decoder: positions of the encoder's output
  float padding0;
  HeadState head;
};
#define FINISH_STOP 1u        // a stop token was sampled
#define FINISH_CONTEXT 2u     // the context is full
#define FINISH_NOT_FINITE 3u  // no logit was a finite number

// What the CPU reads back for a token: its id, and the finish reason after it. Entry of the token at position p: p %
// RING.
struct RingEntry {
  uint id;
  uint flags;    // ENTRY_*
  uint refined;  // rows: HeadState's refine_count
  uint exact;    // exact_count and the leaders
};
#define ENTRY_FINISHED(flags) ((flags) % 16)  // FINISH_*
#define ENTRY_MODE(flags) ((flags) / 16 % 4)  // HEAD_*
#define ENTRY_UNCERTAIN(flags) ((flags) / 64 % 2)
#define ENTRY_REST(flags) ((flags) / 128)  // rest_count
#define ENTRY_FLAGS(finished, mode, uncertain, rest) ((finished) + 16 * (mode) + 64 * (uncertain) + 128 * (rest))
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
  uint cut_noise;    // 1: scores with their noise are meant, because nothing else restricts the choice
  uint fast_rows;    // 0: certified; else so many of the best estimates are enough, at most MAX_LEADERS / 2
  float soft_cap;    // of the logits (lib/soft_cap.glsl); 0: none
  float presence_penalty, frequency_penalty;  // of tokens that were generated: once, and for each time; 0: none
  uint biased;                                // 1: TOKEN_FLAGS has biases
  float most_added;  // what bias and these penalties add to a logit at most, at least 0; above 3e38: no limit
  float typical_p;   // 1: all
  uint logprobs;     // how many of the likeliest tokens logprobs names
  uint stop_count;   // 0: never stop
  uint stop_ids[MAX_STOP_IDS];
};

// What a session knows of each token, in one buffer of 32-bit words, TOKEN_FLAGS: bits (bit i: token i is in the
// context) | counts (rows: how often a token was generated) | biases (rows: floats, added to logits).
#define TOKEN_FLAG_COUNTS(rows) (((rows) + 31) / 32)
#define TOKEN_FLAG_BIASES(rows) (TOKEN_FLAG_COUNTS(rows) + (rows))
#define TOKEN_FLAG_WORDS(rows) (TOKEN_FLAG_BIASES(rows) + (rows))

// What logprobs leaves of the token at position p, at p % RING.
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
#define READ_BYTES 32768  // one workgroup of read_bandwidth reads
#define SAMPLE_ROWS 1024  // scores one workgroup of sample looks at

// ---- Heads that read less than every row ----
//
// Positions run over the rows that may be chosen: all of them, or CHOICE's ids; at most `rows`, those of the table.
// CHOICE is ids (rows) | bits (rows): a mask, bit i for id i. LISTS is one buffer of 32-bit words:
//   bounds (rows, upper bounds of logits as floats, by position) | refine (rows: positions) | ids (rows: to be
//   computed) | leaders (MAX_LEADERS ids; NO_ROW where a strip has none) | their bounds | their logits (MAX_LEADERS
//   floats each)
// Once rows are selected, the bounds of those to be refined are relative to what they must reach.
#define MAX_LEADERS 256
#define SELECT_ROWS 1024  // positions a workgroup of select looks at
#define LIST_BOUNDS(rows) 0
#define LIST_REFINE(rows) (rows)
#define LIST_ESTIMATES(rows) LIST_REFINE(rows)  // floats, by position, until rows are selected
#define LIST_IDS(rows) (2 * (rows))
#define LIST_LEADERS(rows) (3 * (rows))
#define LIST_LEADER_BOUNDS(rows) (3 * (rows) + MAX_LEADERS)
#define LIST_LEADER_LOGITS(rows) (3 * (rows) + 2 * MAX_LEADERS)
#define LIST_WORDS(rows) (3 * (rows) + 3 * MAX_LEADERS)
#define NO_ROW 0xffffffffu
// What estimates take from the hidden state x, for each block of q8 or q4 columns: 16 factors, then ESTIMATE_*.
// x = scale * x8 + what that leaves, with x8 of 8 bits. Factor 8w + s (s < 8) holds x8 of the elements that meet fields
// s and s + 8 of word w when a word is shifted by 2s and masked to two fields of 16 bits, crosswise: in the product of
// the two 32-bit words the upper 16 bits then sum both elements' products. f16 tables: a bound on relative rounding
// errors, 3 words of nothing, then x.
#define ESTIMATE_WORDS 20
#define ESTIMATE_SCALE 16  // float
#define ESTIMATE_SUM 17    // int: sum of x8
// Float: bound on everything but the planes not read, for a q8 row of scale 1 or a q4 row of largest magnitude 1.
#define ESTIMATE_ERROR 18

// ---- Push constants, by shader ----

struct GatherPush {
  uint cols;      // of the table
  uint stride;    // floats between rows of the output
  uint row_base;  // first row of the bound slice
  uint rows;      // rows in it
  float scale;    // of every element
};
struct AddPush {
  uint count;
};
struct AddPositionsPush {
  uint cols;
  uint stride;     // floats between rows of the output
  uint positions;  // rows of the table
};
#define NORM_RMS 0
#define NORM_LAYER 1
struct NormPush {
  uint cols;
  uint in_stride, out_stride;  // floats between rows
  uint last_only;              // 1: only the pass's last token, written to row 0
  float epsilon;
};
struct NormHeadsPush {
  uint heads, head_dim;
  uint stride;  // floats between rows of q|k|v
  float epsilon;
};
// What becomes of a product's inputs x first. NORMED: norm's, RMSNorm; GATED: activate's, of gate and up.
#define INPUT_PLAIN 0
#define INPUT_NORMED 1
#define INPUT_GATED 2
struct MatmulPush {
  uint cols;         // of the matrix, before padding
  uint rows;         // of the bound slice
  uint row_base;     // first row of the slice: where its results go
  uint in_stride;    // floats between tokens of the input; a multiple of BLOCK, zeros behind cols
  uint out_stride;   // floats between tokens of the output
  uint first_token;  // of the pass, where the grid begins
  float epsilon;     // of INPUT_NORMED
  uint tokens;       // of the pass
};
struct ExpertChoice {  // of a token: an expert, and what its result is multiplied by
  uint expert;
  float weight;
};
struct RoutePush {
  uint experts;
  uint used;       // of them, by a token
  uint in_stride;  // floats between rows of logits
  uint tokens;     // most of the pass
};
struct MatmulExpertPush {
  uint cols;         // of an expert's matrix, before padding
  uint rows;         // of an expert's matrix
  uint tiles;        // of an expert's matrix
  uint slice_first;  // tile of all experts' that the bound slice begins with
  uint slice_tiles;  // in it
  uint in_stride, out_stride;
  uint accumulate;  // 1: add to the output, times the choice's weight
  uint used, rank;  // of a token's `used` choices, the one meant
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
struct AttendPush {
  uint heads, kv_heads, head_dim;
  uint q_stride, out_stride;  // floats between rows
  uint capacity;              // slots of the cache; at least the window
  float scale;                // of the scores
  uint window;                // positions a token sees, itself the last; 0xffffffff: all
  float soft_cap;             // of the scores, where the kernel's constant says so
  uint reach;                 // of biases, likewise: those of a head are (2 * reach + 1)
  uint span;                  // positions a workgroup goes through
};
// Where a cache is longer than that, attend leaves parts, and attend_merge joins them: for each part, token and head
// the sum of values weighted by exp(score - peak), head_dim floats; behind all of those for each the peak and the sum
// of the weights, which is 0 of a part without positions.
struct AttendMergePush {
  uint heads, head_dim;
  uint out_stride;
  uint parts;
};
#define ACTIVATION_SILU 0
#define ACTIVATION_GELU 1
#define ACTIVATION_GELU_TANH 2
#define ACTIVATION_RELU 3
struct ActivatePush {
  uint cols;  // of the result; a gated input has gate and up, cols each, one behind the other
  uint in_stride, out_stride;
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
  uint leaders;               // 1: they are the leaders, and the logits go behind them
  uint out_at;                // word of the output where the logits begin
};
struct QuantisePush {
  uint cols;
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
struct RefinePush {
  uint cols;
  uint row_base, slice_rows;
  uint rows;
  uint rows_per_group;
};
struct SelectPush {
  uint rows;
  uint masked;
  uint refines;  // 1: the table has a plane to refine by
  uint rows_per_group;
};
struct AdvancePush {
  uint candidates;   // entries sample or project left; 0: only move on past this pass's tokens
  uint pass_tokens;  // most tokens of the pass
  uint rows;         // of the vocabulary
};
struct LogprobsPush {
  uint rows;
  uint candidates;
};
struct NllPush {
  uint rows;       // of the vocabulary
  uint stride;     // floats between rows of logits
  uint first;      // of the pass's tokens, the one in row 0 of the logits
  float soft_cap;  // of the logits, where the kernel's constant says so
};

#ifdef __cplusplus
}  // namespace weft::abi
#endif
#endif  // WEFT_ABI_H
