// The layout of weights on the device: formats, places in a buffer, and whether layers are streamed. Not for other
// modules.
#pragma once

#include "gpu/plan.h"
#include "model/tied_tables.h"

namespace weft {

// The format of a matrix made of these sources: the wanted one, or else the coarsest that holds all their numbers. If
// no format does, it is f16 if one of them is f16, and q8 otherwise.
Format format_of(std::optional<Format> wanted, std::span<const TensorView* const> sources);

// Format of a vocabulary table. A table that is only gathered from keeps the file's bits. Output tables are rounded a
// second time in their basis, so they get at least 8 bits, unless 4 are wanted, or no basis.
Format table_format(const DeviceFormats& wanted, const TensorView& table, bool projected);
// True if the table that is projected on has no basis: only the head `full` reads it then.
bool is_plain(const DeviceFormats& wanted);

// Format of the table of per-layer embeddings. It is the largest part of a model that has one, so that it has 8 bits at
// most unless 16 are wanted.
Format layer_input_format(std::optional<Format> wanted, const TensorView& table);

// Gives each of the pieces its format, or two where its parts can so keep fewer bytes, and its place in one buffer;
// returns the buffer's bytes.
uint64_t set_offsets(const Pieces& pieces, const Parts::Sources& sources, std::optional<Format> wanted);

// Bytes of the vocabulary's tables, of all layers, and of the largest layer.
struct WeightSizes {
  uint64_t tables = 0, layers = 0, largest = 0;
  std::vector<uint64_t> each_table = {}, each_layer = {};
};
WeightSizes weight_sizes(const Config& config, Parts& parts, const VocabularyTables& vocabulary,
                         const DeviceFormats& wanted);

// The matrix that a vocabulary table becomes on the device, without its memory.
Matrix table_matrix(const TensorView& table, const VocabularyTables& vocabulary, const DeviceFormats& wanted);

// Bytes of a buffer for a streamed layer: the largest layer's; 0 if all weights fit in three quarters of the plan's
// memory budget. Throws Error(out_of_memory) if the vocabulary and two such buffers do not fit in the budget, and
// Error(unsupported) if the model's layers cannot be streamed.
uint64_t layer_buffer_bytes(const Plan& plan, const Config& config, Parts& parts, const VocabularyTables& vocabulary,
                            const DeviceFormats& wanted, const std::string& file);

}  // namespace weft
