// The operations of a network: each checks its shapes, selects its kernel and records its dispatches: usually one, for
// matrices one per slice. A pass computes `tokens` tokens at most: 1 when decoding, the sessions of a batch,
// kDraftPasses for a draft, plan.chunk_tokens for a prompt. How many there really are, and from which position on,
// kernels read from the state (abi::StepState). Activations are floats, rows stride_of(cols) apart; what lies after a
// row's columns is zero.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "gpu/recorder.h"
#include "ops/matrix.h"
#include "shaders/abi.h"

namespace weft {

// Floats from one row of activations to the next: each row begins where a view may begin (kViewAlignment).
inline uint32_t stride_of(uint32_t cols) { return (cols + 63) / 64 * 64; }

struct Plan;

namespace ops {

enum class Output { write, add };

// x[t] = table[history[pos + t]] * scale, or it is added to x[t].     table (rows, cols), history (context), x (tokens,
// stride_of(cols)). If the table has its own basis (ops/basis.h), x is in that basis.
void gather(Recorder& recorder, const Matrix& table, const View& state, const View& history, const View& x,
            uint32_t tokens, float scale = 1, Output output = Output::write);

// x[t] += table[pos + t].                               table (positions, cols) floats, x (tokens, stride_of(cols))
// Positions after the table add nothing.
void add_positions(Recorder& recorder, const View& state, const View& table, const View& x, uint32_t cols,
                   uint32_t tokens);

// x[t] = rows[history[pos + t] - SOFT_ID] where the id is a soft token's, or x[t] += that.
// history (context), rows (soft tokens, stride_of(cols)), x (tokens, stride_of(cols))
void insert_rows(Recorder& recorder, const View& state, const View& history, const View& rows, const View& x,
                 uint32_t cols, uint32_t tokens, Output output = Output::write);

// y[i] += x[i].                                         x, y (count)
void add(Recorder& recorder, const View& x, const View& y, uint32_t count);

enum class NormKind : uint32_t { rms = NORM_RMS, layer = NORM_LAYER };
struct NormShape {
  uint32_t cols;
  float epsilon;
  NormKind kind = NormKind::rms;
};
inline uint64_t weight_floats(const NormShape& shape) {
  return uint64_t{shape.cols} * (shape.kind == NormKind::layer ? 2 : 1);
}
// An RMSNorm in two halves, so that it needs no dispatch of its own: what writes x (BeginNorm) begins it, with x times
// the norm's weights and sums of x^2; the product that reads that (BegunNorm) ends it.
struct BegunNorm {
  View rows;  // (tokens, begun_stride(cols)), abi.h
  NormShape shape;
  uint32_t sums;  // partial sums of a row
};
uint32_t begun_stride(uint32_t cols);
struct BeginNorm {
  View weight;  // (cols)
  View rows;    // as BegunNorm has them
};

// rms: y[t] = x[t] / sqrt(mean(x[t]^2) + epsilon) * weight.
// layer: y[t] = (x[t] - mean(x[t])) / sqrt(variance(x[t]) + epsilon) * weight + bias; the biases lie after the
// weights. x, y (tokens, stride_of(cols)), weight (cols) or (2, cols). Output::add: y[t] = (y[t] + that) * scale.
// last_only: of the pass's last token only, to y[0]. begin: of the norm of y, with one sum.
void norm(Recorder& recorder, const NormShape& shape, const View& state, const View& x, const View& weight,
          const View& y, uint32_t tokens, bool last_only, Output output = Output::write,
          const BeginNorm* begin = nullptr, float scale = 1);

// y[t] = x[t] in the table's basis, and back; the latter overwrites y. begin: of the norm of x, with one sum.
// x, y (tokens, stride_of(table.cols))
void rotate(Recorder& recorder, const Matrix& table, const View& x, const View& y, uint32_t tokens);
void rotate_back(Recorder& recorder, const Matrix& table, const View& y, const View& x, uint32_t tokens,
                 const BeginNorm* begin = nullptr);
// Begins the norm of x, to the bit as rotate_back would have if x had come back.
void begin_norm(Recorder& recorder, const Matrix& table, const View& x, const BeginNorm& begin, uint32_t tokens);
// y[t] = normed[t] in the table's basis, normed[t] = norm(x[t]), of NormKind::rms. last_only: as norm has it.
void rotate_normed(Recorder& recorder, const Matrix& table, const NormShape& shape, const View& state, const View& x,
                   const View& weight, const View& normed, const View& y, uint32_t tokens, bool last_only);

enum class Activation : uint32_t {
  silu = ACTIVATION_SILU,
  gelu = ACTIVATION_GELU,
  gelu_tanh = ACTIVATION_GELU_TANH,
  relu = ACTIVATION_RELU,
  tanh = ACTIVATION_TANH,
  clamped = ACTIVATION_CLAMPED,  // of gates alone
  relu_squared = ACTIVATION_RELU_SQUARED
};

// Rows of floats as pairs of halves: halves (tokens, halves_stride(cols)) as abi.h has them.
// x (tokens, stride_of(cols))
void halves(Recorder& recorder, uint32_t cols, const View& state, const View& x, const View& halves, uint32_t tokens);
uint32_t halves_stride(uint32_t cols);  // in floats

// Input of a product: x (tokens, stride_of(cols)), or the rows of a norm that the product ends.
struct Input {
  Input(const View& plain) : x(plain) {}                        // NOLINT: a view is an input
  Input(const Buffer& plain) : x(plain) {}                      // NOLINT
  Input(const BegunNorm& begun) : x(begun.rows), end(begun) {}  // NOLINT

  View x;
  std::optional<BegunNorm> end;
  View halves;  // (tokens, halves_stride(cols)) scratch, without which no product multiplies matrices
};
// True if matmul begins and ends norms, and applies gates, in passes of `tokens` tokens; else norm and activate do it.
bool can_fuse(const Plan& plan, uint32_t tokens);
// True if products of more tokens multiply cooperative matrices, given a scratch for their inputs: if the plan wants it
// and the build's glslang knew them.
bool uses_matrices(const Plan& plan);
// True if a product of this matrix can begin the norm of its result: one in slices cannot.
bool can_begin_norm(const Plan& plan, const Matrix& weights, uint32_t tokens);
// Partial sums of a row that a product leaves with `rows` rows.
uint32_t norm_sums(const Plan& plan, uint32_t rows);

// y[t] = weights x[t] + bias, or y[t] += that.          weights (rows, cols), x (tokens, stride_of(cols)), y (tokens,
// stride_of(rows)); the bias is the matrix's, if it has one. begin: of the norm of y.
void matmul(Recorder& recorder, const Matrix& weights, const View& state, const Input& input, const View& y,
            uint32_t tokens, Output output, const BeginNorm* begin = nullptr);

// y[t] = f(gate) * up, the two halves of weights x[t] + bias: matmul and activate in one.
// weights (2 * cols of y, cols), y (tokens, stride_of(cols of y)); y's columns are whole tiles: can_gate
void matmul_gated(Recorder& recorder, const Matrix& weights, Activation activation, const View& state,
                  const Input& input, const View& y, uint32_t tokens);
bool can_gate(const Plan& plan, const Matrix& weights, uint32_t tokens);

// A mixture of experts: each token uses some of a layer's feed-forwards.
inline constexpr uint32_t kMostExperts = MOST_EXPERTS;
struct Experts {
  uint32_t count = 0;      // 0: one plain feed-forward; at most kMostExperts
  uint32_t used = 0;       // by a token; 1 to count
  bool sigmoid = false;    // an expert's weight is the sigmoid of its logit, else the softmax over all logits
  bool normalised = true;  // a token's weights are divided by their sum, which has 1e-6 more with sigmoids
  float scale = 1;         // of the weights after that
};
// The `used` experts of the highest scores, best first, of equals the first, and their weights. Scores are the logits;
// with `sigmoid` their sigmoids. biases (count): added to the scores alone; none: without a buffer.
// logits (tokens, stride_of(count)), chosen (tokens, used) of abi::RoutedExpert
void route(Recorder& recorder, const Experts& experts, const View& state, const View& logits, const View& biases,
           const View& chosen, uint32_t tokens);

// Only the chosen experts' rows are read. weights: an expert's shape, with a view of all experts' tiles, each expert's
// bytes() after the last one's; the bias, if there is one, is (count, rows).
// each: y[t][k] = W x[t] + bias of the expert that token t has chosen as number k; y (tokens, used, stride_of(rows)).
// sum: y[t] += sum over k of its weight * (W x[t][k] + bias); x (tokens, used, stride_of(cols)).
enum class OfChosen { each, sum };
void matmul_expert(Recorder& recorder, const Matrix& weights, const Experts& experts, const View& state,
                   const View& chosen, const View& x, const View& y, uint32_t tokens, OfChosen of);

inline constexpr uint32_t kMostHeadDim = 512;
struct HeadShape {
  uint32_t heads, kv_heads, head_dim;  // heads a multiple of kv_heads; head_dim even, at most kMostHeadDim
};
// Every head h of q and k, and of v if `values`, becomes h / sqrt(mean(h^2) + epsilon) * weight, in place.
// qkv (tokens, stride_of(q + k + v)), weight (3, head_dim): of queries, of keys, of values; without those that are not
// normed
void norm_heads(Recorder& recorder, const HeadShape& shape, const View& state, const View& weight, const View& qkv,
                float epsilon, uint32_t tokens, bool values = false);
// The same of q and of k as one row each, over all heads. weight (q + k)
void norm_rows(Recorder& recorder, const HeadShape& shape, const View& state, const View& weight, const View& qkv,
               float epsilon, uint32_t tokens);

// The types of cached keys and values: f16, q8 (integers of 8 bits, 32 dimensions of a head to a scale) or q4 (of 4
// bits, 32 dimensions to a scale and a minimum).
struct CacheFormat {
  CacheFormat(Format both = Format::f16) : keys(both), values(both) {}
  CacheFormat(Format of_keys, Format of_values) : keys(of_keys), values(of_values) {}
  bool operator==(const CacheFormat&) const = default;
  Format keys, values;
};
std::string name(const CacheFormat& format);  // "q8", or "q8/q4": of keys and of values

// A layer's cache: keys and values in `capacity` slots, a multiple of TILE_ROWS. A ring: position p is in slot
// p % capacity, and overwrites position p - capacity.
struct CacheView {
  View keys, values;
  uint32_t capacity;
  CacheFormat format = {};  // with keys of q4, rope rotates queries and keys once more (abi.h), so that both need it
  View parts = {};          // scratch of attend, part_bytes() of it; zero when first used, and the same ever after
  // Not 0: the caches of several sessions lie side by side, for each layer first the keys of all, then the values of
  // all. A pass has this many tokens of each of some sessions, and in place of the state an abi::BatchMember of each.
  uint32_t member_tokens = 0;
  bool tree = false;  // the pass of a session checks a draft that is a tree (abi.h, StepState); only causal attention
};
// Bytes of CacheView::parts for passes of up to `tokens`; 0: a workgroup of attend reads the whole cache.
uint64_t part_bytes(const Plan& plan, const HeadShape& shape, uint32_t capacity, uint32_t tokens);
uint64_t key_bytes(const HeadShape& shape, uint32_t capacity, Format format = Format::f16);
uint64_t value_bytes(const HeadShape& shape, uint32_t capacity, Format format = Format::f16);

enum class Pairs : uint32_t { halves = 0, adjacent = 1 };  // (i, i + rotary_dim / 2), (2i, 2i + 1)
// Rotates queries and keys, and writes keys and values to the cache.
// qkv (tokens, stride_of(q + k + v)), rope_table (context, rotary_dim / 2) of (cosine, sine), q (tokens,
// stride_of(heads * head_dim))
void rope(Recorder& recorder, const HeadShape& shape, Pairs pairs, uint32_t rotary_dim, const View& state,
          const View& qkv, const View& rope_table, const View& q, const CacheView& cache, uint32_t tokens);

enum class AttentionMask : uint32_t {
  causal = MASK_CAUSAL,  // all positions up to the token's own
  none = MASK_NONE,      // all of the state's
  source = MASK_SOURCE,  // the state's `source` positions, those of an encoder
};
// Added to the scores by how far a key lies after its query; farther than `reach` either way counts as reach.
struct ScoreBiases {
  View values;  // (heads, 2 * reach + 1) floats, from -reach to reach; none: without a buffer
  uint32_t reach = 0;
};
// Queries grow with their position: they are multiplied by 1 + rate * ln(1 + floor(position / step)) (Llama 4's
// "inference time temperature scaling", Meta 2025; after Nakanishi 2025, "Scalable-Softmax is superior for attention").
struct QueryGrowth {
  float rate = 0;     // 0: they do not grow
  uint32_t step = 1;  // positions, at least 1
};
struct Attention {
  float scale;  // of the scores
  // Positions a token sees, itself the last; with AttentionMask::none as many from itself on, too. 0: all that `mask`
  // lets it. Not with AttentionMask::source.
  uint32_t window = 0;
  float soft_cap = 0;  // scores s become soft_cap * tanh(s / soft_cap); 0: they stay
  // ALiBi: each head then adds its slope times the (negative) distance to its scores. Let n be the largest power of two
  // that is not above the number of heads. Head h < n has the slope 2^(-8 (h + 1) / n); later heads fill the gaps of
  // twice as many: 2^(-4 (2 (h - n) + 1) / n).
  bool alibi = false;
  AttentionMask mask = AttentionMask::causal;
  ScoreBiases biases = {};
  // (heads): a score of a head's own, which takes a share of the softmax and adds no value (Xiao et al. 2023,
  // "Efficient streaming language models with attention sinks"); none: without a buffer.
  View sinks = {};
  QueryGrowth growth = {};
};
struct FusedRope {
  Pairs pairs;
  uint32_t rotary_dim;
  View rope_table;  // as rope has it
};
// True if attend can do the work of rope too. tokens: of a session.
bool can_fuse_rope(const Plan& plan, const HeadShape& shape, const Attention& attention, const FusedRope& fused_rope,
                   const CacheFormat& cache, uint32_t tokens);
// y[t] = softmax(q K^T * scale + bias) V per head.      q, y (tokens, stride_of(heads * head_dim))
// fused_rope: rope is done first, for one token of a session; q is then qkv as rope has it.
// The cache must hold the whole context, or window + tokens - 1 positions: from the first that the pass's first token
// sees to what its last one wrote.
void attend(Recorder& recorder, const HeadShape& shape, const Attention& attention, const View& state, const View& q,
            const CacheView& cache, const View& y, uint32_t tokens, const FusedRope* fused_rope = nullptr);

// The inputs of a convolution that a session keeps: a ring, in which position p is in row p % capacity.
struct ConvInputs {
  View rows;          // (capacity, stride_of(cols)) floats
  uint32_t capacity;  // at least taps - 1
  // Not 0: rows are those of all sessions whose states lie side by side, as CacheView has it.
  uint32_t member_tokens = 0;
};
uint64_t conv_input_bytes(uint32_t cols, uint32_t capacity);
inline constexpr uint32_t kMostTaps = MOST_TAPS;
struct ConvShape {
  uint32_t cols, taps;  // taps: 1 to kMostTaps
  bool biased = false;
};
// y[t] = C[t] * (sum over k of kernel[k] * (B * x)[t - taps + 1 + k] + bias), column by column: a gated convolution.
// The products B * x of tokens before the pass are kept ones, those before the first token are zeros; the pass's last
// products are kept.
// gates (tokens, stride_of(3 * cols)): B, C, x; kernel (cols, taps), then, if biased, (cols) biases; y (tokens,
// stride_of(cols)). With member_tokens, at most CONV_TOKENS of them.
void short_conv(Recorder& recorder, const ConvShape& shape, const View& state, const View& gates, const View& kernel,
                const ConvInputs& inputs, const View& y, uint32_t tokens);

// gated: y[t] = f(gate[t]) * up[t].                     x (tokens, stride_of(2 cols)): gate, then up
// else:  y[t] = f(x[t]).                                x (tokens, stride_of(cols)); y (tokens, stride_of(cols))
// silu(v) = v / (1 + exp(-v)); gelu(v) = v Phi(v), with Phi the normal distribution's integral; gelu_tanh(v) =
// v (1 + tanh(sqrt(2 / pi) (v + 0.044715 v^3))) / 2; relu(v) = max(v, 0); relu_squared(v) = relu(v)^2; tanh(v).
// clamped, only gated: with g = min(gate, 7) and u = up within -7 .. 7, g / (1 + exp(-1.702 g)) * (u + 1).
// copies: rows of each token in x and in y.
void activate(Recorder& recorder, Activation activation, bool gated, const View& state, const View& x, const View& y,
              uint32_t cols, uint32_t tokens, uint32_t copies = 1);

struct RowRange {
  uint32_t first, count;  // first: a multiple of TILE_ROWS
};
// logits[t] = table x[t] for t < tokens.                table (rows, cols), x (tokens, stride_of(cols)), logits
// (tokens, stride_of(rows)); tokens is at most min(plan.block_tokens, 8), or a multiple of that.
// ranges: only of these rows, none of them twice; none: of all.
void project(Recorder& recorder, const Matrix& table, const View& x, const View& logits, uint32_t tokens,
             std::span<const RowRange> ranges = {});
// The same for one token and one range, if the device wants it: groups are two abi::Indirect, the workgroups of every
// slice but the last, and of the last (choose_clusters).
void project_if(Recorder& recorder, const Matrix& table, const View& x, const View& logits, const RowRange& range,
                const View& groups);
// For a greedy choice, which needs no logits: only the best of the rows that a workgroup has, as sample would leave it.
// candidates (tokens, stride) of abi::Candidate, best_count() of a token's written; tokens and ranges as project has
// them.
uint32_t best_count(const Plan& plan, const Matrix& table, std::span<const RowRange> ranges = {});
void project_best(Recorder& recorder, const Matrix& table, const View& x, const View& candidates, uint32_t stride,
                  uint32_t tokens, std::span<const RowRange> ranges = {});

// The best `ranks` rows of each state's logits, and their shares (best.comp). candidates: as sample leaves them of a
// greedy choice; they are changed. logits (states, stride_of(rows)), candidates (states, stride) of abi::Candidate,
// guesses (states, ranks) of abi::Guess
void best(Recorder& recorder, const View& logits, uint32_t rows, const View& candidates, uint32_t stride,
          const View& guesses, uint32_t states, uint32_t ranks);

// y[r] = x + silu(z[r]).                                x (stride_of(cols)); y, z (rows, stride_of(cols))
void residual(Recorder& recorder, const View& x, const View& z, const View& y, uint32_t cols, uint32_t rows);

// Rows to compute: `ids` has their ids from word ids_at on; the state has their number.
struct RowList {
  View ids;
  uint32_t ids_at;
  bool leaders;        // the state's leader_count, else its exact_count
  uint32_t logits_at;  // where in the output their logits begin
  View groups;         // abi::Indirect for rows_per_group rows a workgroup
};
// logits[logits_at + i] = the product of row ids[ids_at + i] with x, the same bits as project gives.
void project_rows(Recorder& recorder, const Matrix& table, const View& x, const View& state, const RowList& list,
                  const View& logits);

// Rows that a token is chosen from: all `rows` of the vocabulary in order, or the rows that a head listed (abi.h,
// LIST_IDS); their number is the state's exact_count.
struct Selectable {
  uint32_t rows;                // at most
  const View* lists = nullptr;  // none: all rows
};

// scores = logits with soft-cap, penalties, bias and temperature. params abi::SampleParams, token_flags abi.h,
// TOKEN_FLAGS
void penalize(Recorder& recorder, const View& state, const View& params, const View& token_flags, const View& logits,
              const View& scores, const Selectable& from);

// state.threshold, state.ceiling = the lowest and the highest score that top-k, top-p, min-p and typical-p let through.
// scores (from.rows)
void filter(Recorder& recorder, const View& state, const View& params, const View& scores, const Selectable& from);

// The best score of each group of SAMPLE_ROWS places.       candidates (candidate_count(rows)) of abi::Candidate
uint32_t candidate_count(uint32_t rows);
void sample(Recorder& recorder, const View& state, const View& params, const View& scores, const View& candidates,
            const Selectable& from);

// logits[ids[i]] = listed[i] of the state's exact_count listed rows, and -infinity in all others. lists: abi.h, LISTS;
// listed: as project_rows leaves them; logits (rows)
void scatter_rows(Recorder& recorder, const View& state, const View& lists, const View& listed, const View& logits,
                  uint32_t rows);

// out[end % RING] = ln p of the token that advance will append, and of the params.logprobs likeliest, as the model has
// them: softmax(logits), whatever was sampled by.       logits (from.rows), out (RING) of abi::TokenLogprobs
// scores: those of filter, whose scratch it uses.
void logprobs(Recorder& recorder, const View& state, const View& params, const View& logits, const View& candidates,
              const View& scores, const View& out, const Selectable& from);

// Whisper's rule for times: if the rows from `first` on are together likelier than the likeliest row before, the logits
// of the rows before become -infinity.       logits (from.rows)
// scores: those of filter, whose scratch it uses before them.
void timestamps(Recorder& recorder, const View& state, const View& logits, const View& scores, uint32_t first,
                const Selectable& from);

// Buffers that `advance` and `advance_draft` use.
struct StepViews {
  View state;        // abi::StepState
  View params;       // abi::SampleParams
  View candidates;   // abi::Candidate
  View history;      // (context) ids
  View token_flags;  // abi.h, TOKEN_FLAGS
  View ring;         // (RING) of abi::RingEntry
  uint32_t rows;     // of the vocabulary
};
// Moves past the pass's tokens and appends the best of `candidates` to the context; with 0 candidates it only moves.
void advance(Recorder& recorder, const StepViews& step, uint32_t candidates, uint32_t tokens);
// For a pass that checks a draft: with 0 candidates moves the end of the context back before the draft. Else appends
// the best of them; if the draft has another token there, or none, it sets FINISH_DRAFT, and the pass's later
// advance_draft do nothing.
void advance_draft(Recorder& recorder, const StepViews& step, uint32_t candidates);
// For a draft that is a tree, after an advance_draft: rows[d] = rows[row that was chosen at depth d], of depths first
// to last that have one. rows (TREE_ROWS, stride) of 32-bit words, of which the first `words` are moved.
void follow_rows(Recorder& recorder, const View& state, const View& rows, uint32_t words, uint32_t stride,
                 uint32_t first, uint32_t last);
// After the last one: moves the chosen rows' keys and values to the slots of their positions.
void follow_cache(Recorder& recorder, const HeadShape& shape, const View& state, const CacheView& cache);

// out[pos + first + t] = -ln softmax(logits[t])[history[pos + first + t + 1]].
// logits (tokens, stride_of(rows)), out (context)
// soft_cap: of the logits; 0: none.
// allowed_rows: abi.h, ALLOWED_ROWS; then the softmax is over the rows its mask has, and others' is infinite. None:
// all rows.
void nll(Recorder& recorder, const View& state, const View& history, const View& logits, const View& out, uint32_t rows,
         uint32_t first, uint32_t tokens, const View* allowed_rows = nullptr, float soft_cap = 0);

// sums[k] = ln sum exp(logits[k][i]) over the rows i of softmax k: from bounds[k][0] up to, without it, bounds[k][1].
// For `softmaxes` of them, from `first` on; with clusters (abi::ClusterState) only for those that are fresh.
// logits (first + softmaxes, stride_of(rows)), bounds (first + softmaxes, 2), sums (first + softmaxes)
// The last has log_sum_bytes(rows, first + softmaxes) bytes, for scratch after the sums: zero at the beginning.
uint64_t log_sum_bytes(uint32_t rows, uint32_t softmaxes);
void log_sum(Recorder& recorder, const View& logits, const View& bounds, const View& sums, uint32_t rows,
             uint32_t first, uint32_t softmaxes, const View* clusters = nullptr);
// mixed[i] = ln sum over the softmaxes k that have row i of q_k exp(logits[k][i] - sums[k]), where q is the softmax of
// the priors. FirstPrior::sum: that of the first is sums[0], and priors begin with the second's.
struct MixViews {
  View logits, bounds, sums;  // as log_sum has them
  View priors;                // (softmaxes), or one less
  View mixed;                 // (rows)
  View clusters = {};         // abi::ClusterState, if some softmaxes may not have been computed
};
enum class FirstPrior { given, sum };
// Rows of softmaxes that have not been computed: there are none; they get an upper bound; they get -infinity.
enum class Unread { none, bounded, excluded };
void mix(Recorder& recorder, const MixViews& views, uint32_t rows, uint32_t softmaxes, FirstPrior first,
         Unread unread = Unread::none);
// Adds the clusters of an adaptive softmax that can still win to clusters.read (shaders/choose_clusters.comp), and the
// number of their rows to state.head.exact_count. again: false in the first choice for a token.
struct ClusterViews {
  View state, params, token_flags;
  View logits;    // (rows) of mix, with bounds
  View bounds;    // (softmaxes, 2)
  View scores;    // (rows), overwritten
  View clusters;  // abi::ClusterState
};
void choose_clusters(Recorder& recorder, const Matrix& table, const ClusterViews& views, uint32_t softmaxes,
                     bool again);

// Reads a view and writes one sum for each READ_BYTES of it: for measuring bandwidth.
// words (a multiple of READ_BYTES), sums (4 bytes for each READ_BYTES)
void read_bandwidth(Recorder& recorder, const View& words, const View& sums);

}  // namespace ops
}  // namespace weft
