// Shared code of the operations' tests: random inputs, tiled matrices, activations with padding, the state.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <random>

#include "ops/ops.h"
#include "reference/rows.h"
#include "reference/table_row.h"
#include "support/gpu_test.h"

namespace weft::test {

inline constexpr double kUntouched = std::numeric_limits<double>::quiet_NaN();

// The same numbers on every machine: only the engine is the library's.
class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  uint32_t word() { return engine_(); }
  uint32_t below(uint32_t count) { return static_cast<uint32_t>(uint64_t{engine_()} * count >> 32); }
  float uniform(float low, float high) { return low + (high - low) * static_cast<float>(engine_() >> 8) * 0x1p-24f; }
  float normal();  // mean 0, variance 1
  std::vector<float> normals(size_t count, float scale = 1);

 private:
  std::mt19937 engine_;
};

// A weight matrix on the device and the values it stands for, exactly. Values of a table in a basis of its own are in
// that basis: (rows, 32 * blocks), as reference::read_table_row finds them.
struct Tiled {
  Matrix matrix;
  std::unique_ptr<Buffer> buffer, basis_words;
  reference::Rows values;
};
inline uint32_t bits_of(Format format) { return format == Format::q4 ? 4 : format == Format::q8 ? 8 : 16; }
// A tensor as a table's tiles.
std::vector<std::byte> pack_table(Format format, const TensorView& tensor, std::shared_ptr<const Basis> basis);
// The (rows, width) values that a table stores of a tensor, in a basis for unknown states; in the tensor's columns.
std::vector<float> stored_table(Format format, const TensorView& tensor);
// A matrix of a native format has random blocks.
Tiled make_tiled(const std::shared_ptr<Device>& device, Format format, uint32_t rows, uint32_t cols, uint32_t seed,
                 Layout layout = Layout::values);
// The rows of two matrices as one matrix of two formats. The first has whole tiles.
Tiled join(const std::shared_ptr<Device>& device, const Tiled& first, const Tiled& second);
// Packs a tensor and uploads it. basis: of Layout::planes; none: the one of unknown states. `values` is filled in only
// for Layout::planes.
Tiled tile(const std::shared_ptr<Device>& device, Format format, uint32_t rows, uint32_t cols, const TensorView& tensor,
           Layout layout = Layout::values, std::shared_ptr<const Basis> basis = {});

// Activations of `tokens` rows, of which the first `active` hold values: padding after the columns is zero, and the
// other rows, which must not be read, are NaN.
struct Activations {
  reference::Rows values;  // (active, cols)
  uint32_t stride = 0;
  Buffer buffer;  // (tokens, stride)
};
Activations make_activations(const std::shared_ptr<Device>& device, uint32_t tokens, uint32_t active, uint32_t cols,
                             Random& random, float scale = 1);
Activations make_activations(const std::shared_ptr<Device>& device, uint32_t tokens, const reference::Rows& values);

// A draft that is a tree, as StepState has it. parents[i]: row that row i + 1 follows.
uint32_t tree_of(const std::vector<uint32_t>& parents);
// The rows of a tree from the root to a row.
std::vector<uint32_t> rows_to(uint32_t tree, uint32_t row);

// Expected output of (tokens, stride): the rows given, and nothing anywhere else.
std::vector<double> padded(const reference::Rows& rows, uint32_t tokens, uint32_t stride);

// Tunings of the products (matmul and project), at most so many: lanes that share a row, rows of a lane, and how inputs
// are read. 0: three, and all five with WEFT_SWEEP.
std::vector<Tuning> product_tunings(size_t most = 0);
// True with WEFT_SWEEP, as `./run soak` sets it: all combinations of variants and shapes run, which takes minutes.
// Every run has each variant and each shape. A software driver compiles half a second for each pipeline.
bool sweeps();
// Tunings that change how a row is reduced: subgroups or not, and the threads of a workgroup. With WEFT_TEST_PLAN both
// lists have the plan's own choices only.
std::vector<Tuning> reduction_tunings();
// Tunings of attention: the plan's own kernel, and sums in shared memory with parts of 64 positions. With WEFT_SWEEP
// also sums by subgroups, which are the own kernel of a GPU's plan.
std::vector<Tuning> attend_tunings();

// As many of `tokens` as the plan can fuse a norm or gates with: with tiles, those of a group.
inline uint32_t fusible(const Plan& plan, uint32_t tokens) {
  return plan.tile_tokens == 0 ? tokens : std::min(tokens, plan.block_tokens);
}

// Records, runs and waits. Fails unless exactly the kernels of `expected` were dispatched: operation and variant, in
// order of first appearance ("rope texel, attend texel").
void run_op(const std::shared_ptr<Device>& device, const std::string& expected,
            const std::function<void(Recorder&)>& record);
std::string kernels_of(const Recorder& recorder);  // in the form of `expected`
// Kernel that a plan should get for an operation that reduces rows ("nll subgroup"), or multiplies with them.
std::string reduction(const std::string& operation, const Plan& plan);
std::string product(const std::string& operation, const Plan& plan);
std::string split_product(const std::string& operation, const Plan& plan);  // whose columns are shared by lanes

Buffer make_state(const std::shared_ptr<Device>& device, uint32_t pos, uint32_t end, uint32_t context,
                  uint32_t source = 0);

// Where word k of row r of a tile lies, of `words` words a row: 32 rows are interleaved (shaders/abi.h), of a cache's
// keys 8 slots.
inline size_t place_in_tile(size_t row, size_t k, size_t words) { return (row / 32 * words + k) * 32 + row % 32; }
inline size_t place_in_keys(size_t slot, size_t k, size_t words) { return (slot / 8 * words + k) * 8 + slot % 8; }

inline std::vector<double> doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

}  // namespace weft::test
