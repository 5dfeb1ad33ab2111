// The hidden states that the vocabulary projection reads, for every token of a text; and what they tell about how a
// vocabulary table is best stored (vocab/table_basis.h).
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

// The first few states are left out: models give the first tokens of a text states like no others. Nothing if a state
// is not finite.
std::optional<StateStatistics> statistics_of(std::span<const float> states, uint32_t width);

// Path of the statistics of a model with this fingerprint, beside the pipeline caches; nothing if no place is known.
std::optional<std::filesystem::path> statistics_path(uint64_t fingerprint);
// Reads them. Returns nothing if the file is missing, torn or of another width.
std::optional<StateStatistics> read_statistics(const std::filesystem::path& path, uint32_t width);
// Throws Error(io).
void write_statistics(const std::filesystem::path& path, const StateStatistics& states);

// Some of each of what models are used for: prose, talk, lists, code; less than 200 tokens. Written for Weft.
extern const char kStateText[];

}  // namespace weft
