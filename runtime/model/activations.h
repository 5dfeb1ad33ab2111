// The scratch of a session: the activations of a pass, and the small state that drives it.
#pragma once

#include "model/context_state.h"
#include "model/model.h"
#include "model/step_state.h"

namespace weft {

// The activations of a pass of up to `tokens` tokens, as floats. Rows are stride_of(columns) apart. `sampled`: tokens
// of the pass that a next token is sampled for.
struct Activations {
  View x;         // (tokens, width) the residual stream
  View normed;    // (tokens, width)
  View begun;     // (tokens, ops::begun_stride(width)) of a norm (ops::BegunNorm)
  View rotated;   // (tokens, width) in the vocabulary table's basis
  View qkv;       // (tokens, q + k + v)
  View q;         // (tokens, q) after RoPE
  View attended;  // (tokens, q)
  View gates;     // (tokens, q) of gated attention; without columns if the model has none
  // Buffers of short convolutions; no columns if the model has none.
  View conv_gates;  // (tokens, 3 * width): B, C, x
  View convolved;   // (tokens, width)
  // Rows of linear attention (ops/linear_attention.h); without columns if the model has none.
  View projected;  // (tokens, projected_cols)
  View prepared;   // (tokens, prepared_cols)
  View scanned;    // (tokens, values)
  // Buffers of per-layer embeddings (layer_input.h); without columns if the model has none.
  View layer_inputs;  // (tokens, layers * layer_input)
  View layer_gate;    // (tokens, layer_input)
  View sound;         // (SoundInput::kTaps * tokens, width) of an encoder that reads sound; else no columns
  View gate_up;       // (tokens, 2 * ffn); not gated: (tokens, ffn); without columns if all tokens go through experts
  View inner;         // (tokens, ffn)
  // Buffers of experts; without columns if the model has none. Rows of a token's choices are stride_of(cols) apart.
  View routing;         // (tokens, experts) the router's logits
  View chosen;          // (tokens, used) of abi::RoutedExpert
  View expert_gate_up;  // (tokens, used, 2 * expert_ffn)
  View expert_inner;    // (tokens, used, expert_ffn)
  View shared_gate;     // (tokens, 1)
  View halves;      // (tokens, ops::halves_stride(of the widest input)); no columns if no product multiplies matrices
  View logits;      // (sampled, vocab)
  View head;        // OutputHead::scratch_bytes of a head with weights of its own; no columns without one
  View scores;      // (sampled, vocab) logits after penalty and temperature
  View candidates;  // (sampled, candidate_stride()) of abi::Candidate
};

// Distance between the candidates of two sampled tokens: the most that sample or project can leave for one. table: that
// of the output.
uint32_t candidate_stride(const Plan& plan, const Matrix& table);
inline uint32_t candidate_stride(const Model& model) {
  if (!model.weights.embedding) return 0;  // an image encoder
  return candidate_stride(model.device->plan(), model.weights.output_table().matrix());
}

// Bytes of a buffer with all of them.
uint64_t activation_bytes(const Config& config, const Plan& plan, uint32_t candidate_stride, uint32_t tokens,
                          uint32_t sampled = 1);

// The buffer that holds them.
struct ActivationBuffers : Activations {
  ActivationBuffers(const Model& model, uint32_t tokens, uint32_t sampled = 1);
  ActivationBuffers(const ActivationBuffers&) = delete;  // the views point to the buffer
  ActivationBuffers& operator=(const ActivationBuffers&) = delete;
  uint64_t bytes() const { return buffer.bytes(); }
  // Views of `count` tokens from token `row` on; requires sampled == tokens.
  Activations rows(uint32_t row, uint32_t count = 1) const;

  Buffer buffer;  // holds all of it

 private:
  struct Part {
    View Activations::*view;
    uint64_t row_bytes;
  };
  std::vector<Part> parts_;
};

// StepBuffers::bytes(), before the buffers are made. Both throw Error(unsupported) for a context of more positions than
// the model's table has.
uint64_t step_bytes(const Config& config, uint32_t context, uint32_t table_positions);

// The state that the device and the CPU share. The CPU writes it only while nothing is in flight.
struct StepBuffers {
  // first_position: of row 0 of the RoPE tables.
  StepBuffers(const Model& model, uint32_t context, uint32_t table_positions, uint32_t first_position = 0);
  uint64_t bytes() const;
  ops::StepViews views(const Activations& a) const {
    return {state, params, a.candidates, history, token_flags, ring, rows};
  }

  StepState state;
  Buffer params;       // abi::SampleParams
  Buffer history;      // (context) ids
  Buffer token_flags;  // abi.h, TOKEN_FLAGS
  Buffer ring;         // (RING) abi::RingEntry: what the CPU reads for each token
  Buffer logprobs;     // (RING) abi::TokenLogprobs: what it reads if they are wanted
  uint32_t rows;       // of the vocabulary
  // By rope: (table_positions, rotary_dim / 2) of (cosine, sine). Row i is of the token at place i of the context,
  // whose position is first_position + i, but not after a picture (session/pictures.h).
  std::vector<Buffer> rope_tables;
};

}  // namespace weft
