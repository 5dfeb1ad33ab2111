// The operations of linear attention: layers whose state is a matrix for each head (Gated DeltaNet, Mamba-2). Rows and
// states are laid out as shaders/abi.h has it.
#pragma once

#include "ops/ops.h"

namespace weft::ops {

struct LinearShape {
  bool delta;  // the gated delta rule; else Mamba-2
  uint32_t key_heads, heads;
  uint32_t key_dim, value_dim;  // key_dim: at most kMostKeyDim
  uint32_t taps;                // of the convolution, 1 to kMostTaps
  bool biased;                  // the convolution has biases
  bool tiled;                   // head h reads the keys of head h % key_heads; else neighbouring heads share keys

  uint32_t keys() const { return key_heads * key_dim; }
  uint32_t values() const { return heads * value_dim; }
  uint32_t conv_cols() const { return 2 * keys() + values(); }
  uint32_t prepared_cols() const { return conv_cols() + 2 * heads; }
  uint32_t kept_cols() const { return conv_cols() + keys() + values() + 2 * heads; }
  // Columns of a projected row: delta: q, k, v | z | a | b; Mamba-2: z | x, B, C | dt.
  uint32_t projected_cols() const { return conv_cols() + values() + (delta ? 2 : 1) * heads; }
  uint32_t conv_at() const { return delta ? 0 : values(); }
  uint32_t z_at() const { return delta ? conv_cols() : 0; }
  uint32_t gates_at() const { return conv_cols() + values(); }
  // The convolution's weights (conv_cols, taps) and biases, A, dt_bias; Mamba-2 also D.
  uint32_t weight_floats() const { return conv_cols() * (taps + (biased ? 1 : 0)) + (delta ? 2 : 3) * heads; }
};
inline constexpr uint32_t kMostKeyDim = MOST_KEY_DIM;
inline constexpr uint32_t kScanWindow = SCAN_WINDOW;
// Tokens that may be taken back after they were computed: the state of a window before them is there.
inline constexpr uint32_t kScanReach = (SCAN_SLOTS - 1) * SCAN_WINDOW;
inline constexpr uint32_t kKeptRows = SCAN_SLOTS * SCAN_WINDOW;

// The state that a session keeps of a layer.
struct LinearState {
  View matrices;  // (SCAN_SLOTS, stride_of(heads * key_dim * value_dim)) floats
  View rows;      // (kKeptRows, stride_of(kept_cols)) floats: a ring, in which position p is in row p % kKeptRows
  // Not 0: both are those of all sessions whose states lie side by side, as CacheView has it.
  uint32_t member_tokens = 0;
};
uint64_t matrices_bytes(const LinearShape& shape);
uint64_t kept_rows_bytes(const LinearShape& shape);

// prepared = what scan reads of the projected rows. epsilon: of the norms of q and k.
// projected (tokens, stride_of(projected_cols)), weights (weight_floats), prepared (tokens, stride_of(prepared_cols))
void scan_inputs(Recorder& recorder, const LinearShape& shape, const View& state, const View& projected,
                 const View& weights, const LinearState& kept, const View& prepared, float epsilon, uint32_t tokens);
// y[t] = S[t]^T q[t], where S[t] is the state after token t; Mamba-2: + D v[t]. It is S[t - 1] decayed, changed by
// k[t] and v[t] (scan.comp has the formulas).       y (tokens, stride_of(values))
void scan(Recorder& recorder, const LinearShape& shape, const View& state, const View& prepared, const View& weights,
          const LinearState& kept, const View& y, uint32_t tokens);
// Keeps the pass's last rows, after scan_inputs and scan have read the older ones.
void keep_rows(Recorder& recorder, const LinearShape& shape, const View& state, const View& projected,
               const View& prepared, const LinearState& kept, uint32_t tokens);

enum class GateKind : uint32_t {
  sigmoid = GATE_SIGMOID,
  after_norm = GATE_AFTER_NORM,
  then_norm = GATE_THEN_NORM,
  of_gelu = GATE_OF_GELU,
  of_group = GATE_OF_GROUP
};
struct GateShape {
  GateKind kind;
  uint32_t groups, cols;     // cols: of a group
  uint32_t gate_cols;        // of a row with gates
  uint32_t gate_at;          // column of the first gate
  bool own_weights = false;  // of each group; else all groups have the same ones
  float epsilon = 0;
};
// In place: sigmoid: x = x sigmoid(gate); after_norm: x = rms(x) weight silu(gate); then_norm: x = rms(x silu(gate))
// weight, each group by itself; of_gelu: x = gelu_tanh(x) gate; of_group: as sigmoid, with one gate for a group. Only
// norms have weights.
// x (tokens, stride_of(groups * cols)), gates (tokens, stride_of(gate_cols)), weight (cols) or (groups * cols)
void gate(Recorder& recorder, const GateShape& shape, const View& state, const View& gates, const View& weight,
          const View& x, uint32_t tokens);

}  // namespace weft::ops
