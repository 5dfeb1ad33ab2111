// All scratch of a session: what flows through the network during a pass, and the small state that drives it.
#pragma once

#include "model/model.h"

namespace weft {

// What flows through the network during a pass of up to `tokens` tokens, as floats. Strides are stride_of(columns).
struct Flow {
  View x;           // (tokens, width) the residual stream
  View normed;      // (tokens, width)
  View qkv;         // (tokens, q + k + v)
  View q;           // (tokens, q) turned
  View attended;    // (tokens, q)
  View gate_up;     // (tokens, 2 * ffn), or (tokens, ffn) where nothing is gated
  View inner;       // (tokens, ffn)
  View routing;     // (tokens, experts) the router's logits
  View chosen;      // (tokens, used) abi::ExpertChoice, one token's behind the other's
  View logits;      // (choices, vocab)
  View scores;      // (choices, vocab) logits after penalty and temperature
  View candidates;  // (choices, candidate_stride()) of abi::Candidate
};

// From the candidates of one choice to those of the next: as many as pick or project can leave.
uint32_t candidate_stride(const Model& model);

// The memory behind it.
struct Activations : Flow {
  // choices: tokens of a pass that another is chosen behind.
  Activations(const Model& model, uint32_t tokens, uint32_t choices = 1);
  Activations(const Activations&) = delete;  // the views point to the buffer
  Activations& operator=(const Activations&) = delete;
  uint64_t bytes() const { return buffer.bytes(); }
  // That of token `row` alone, of as many choices as tokens.
  Flow row(uint32_t row) const;

  Buffer buffer;  // holds all of it

 private:
  struct Part {
    View Flow::*view;
    uint64_t row_bytes;
  };
  std::vector<Part> parts_;
};

// The state the device and the CPU share. Written by the CPU only while nothing is in flight.
struct StepBuffers {
  StepBuffers(const Model& model, uint32_t context, uint32_t table_positions);
  uint64_t bytes() const;
  ops::StepViews views(const Flow& a) const { return {state, params, a.candidates, history, marks, ring, rows}; }

  Buffer state;               // abi::StepState
  Buffer params;              // abi::SampleParams
  Buffer history;             // (context) ids
  Buffer marks;               // abi.h, MARKS
  Buffer ring;                // (RING) abi::RingEntry: all the CPU reads of a token ...
  Buffer logprobs;            // (RING) abi::TokenLogprobs: ... unless it asks for these
  uint32_t rows;              // of the vocabulary
  std::vector<Buffer> turns;  // by rope: (table_positions, rotary_dim / 2) cosine and sine
};

// Keys and values of every layer, as f16 or q8. Layers that see a window keep what it spans for passes of up to
// pass_tokens.
struct KvCache {
  KvCache(const Model& model, uint32_t context, uint32_t pass_tokens, Format format = Format::f16);
  uint64_t bytes() const;  // of keys and values
  uint64_t scratch_bytes() const { return parts.empty() ? 0 : parts[0].bytes(); }
  // Whether what a token at `position` sees before itself is there, when the highest position ever written is
  // `written` - 1.
  bool holds(const Config& config, uint64_t position, uint64_t written) const;

  std::vector<Buffer> buffers;  // by layer
  std::vector<Buffer> parts;    // scratch of attend, one for all layers; none where it needs none
  std::vector<ops::CacheView> layers;
};

}  // namespace weft
