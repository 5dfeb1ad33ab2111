// The hidden states that the vocabulary projection reads, for every token of a text; and what they tell about the order
// in which a vocabulary table's columns are worth storing (ops/basis.h).
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "model/model.h"

namespace weft {

// (ids, width) after the final norm. ids: at most the model's context. Waits for all layers. Not for an encoder, nor an
// encoder-decoder.
std::vector<float> hidden_states(const Model& model, std::span<const uint32_t> ids);

// Of hidden states: their mean, and the columns in the order of their variance.
struct StateOrder {
  std::vector<uint32_t> columns;  // (width) the one of the largest variance first
  std::vector<float> mean;        // (width)
};
// The first few states are left out: models give the first tokens of a text states like no others.
StateOrder order_of(std::span<const float> states, uint32_t width);

// Where the order of a model of this fingerprint is kept: beside the pipeline caches; nothing if there is no place.
std::optional<std::filesystem::path> state_order_path(uint64_t fingerprint);
// Nothing if there is no such file, or one that is torn or of another width.
std::optional<StateOrder> read_state_order(const std::filesystem::path& path, uint32_t width);
// Throws Error(io).
void write_state_order(const std::filesystem::path& path, const StateOrder& order);

// A few hundred tokens of what models are used for: prose, talk, lists, code. Written for Weft.
extern const char kStateText[];

}  // namespace weft
