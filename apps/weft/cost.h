// The cost of a vocabulary table, for `weft inspect --cost`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common.h"

namespace weft::cli {

// Sizes of a model that need not be there.
struct ModelShape {
  std::string name;
  std::uint64_t rows, width, layers;  // layers 0: only the table is known
  std::uint64_t parameters;           // a shared table counts once; 0: not known
  bool tied;
  std::string type;    // of the table
  double table_bytes;  // of one table
};
// name: a published model's, or "ROWSxWIDTH" for a table alone; type: "bf16", "f16", "q8" or "q4". Throws
// UsageError.
ModelShape shape_of(const std::string& name, const std::string& type);
// "gpt2, llama2-7b, ..."
std::string shape_names();

struct TableCost {
  std::uint64_t parameters;  // of one table, and its multiplications for a token
  double share;              // of the model's parameters; tying saves as many
  double layers_equal;       // layers that have as many parameters
  double intensity;          // multiplications for each byte that is read, for one token
  double token_logits;       // bytes of a token's logits
};
TableCost cost_of(const ModelShape& shape);

// Time of the projection of one token on a described device: the larger one of its bytes and its instructions.
struct DeviceCost {
  std::string name;
  double microseconds;
  bool bound_by_bytes;
  double tokens;  // that one reading of the table may serve before instructions take longer than the bytes
};
std::vector<DeviceCost> device_costs(const ModelShape& shape);

// Prints the figures, for a pass of `tokens` scored tokens.
void print_cost(const ModelShape& shape, std::uint64_t tokens, bool json);
// The shares of tables and layers, and a bar for each device. Throws api::Failure.
void write_cost_plot(const ModelShape& shape, const std::string& path);

}  // namespace weft::cli
