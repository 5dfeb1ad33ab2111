#include <algorithm>
#include <bit>

#include "ops/support.h"

#include "rotate.spv.h"

namespace weft::ops {

namespace {

// Norm in the same dispatch as the rotation: a whole norm before it, or the begin of a norm after it.
struct OfNorm {
  View state, weight, written;
  bool last_only = false;
  float epsilon = 0;
  bool turns = true;  // false: no rotation, only the begin of a norm
};

// A row with a word more for each block, the signs of its rounds, and what the norm's sum takes: shaders/rotate.comp.
bool fits_in_shared(const Device& device, uint32_t cols, uint32_t threads) {
  return (cols + cols / 32 + ROTATIONS * (cols / 32) + threads) * 4 <= device.caps().max_shared - 256;
}

void record(Recorder& recorder, const Matrix& table, const View& plain, const View& rotated, uint32_t tokens, bool back,
            const OfNorm& norm) {
  const bool has_basis = table.layout == Layout::planes, turns = has_basis && norm.turns;
  require(has_basis || !back, "rotate", "the matrix has no basis of its own");
  const uint32_t stride = stride_of(table.cols);
  require_bytes(plain, uint64_t{tokens} * stride * 4, "rotate", "the plain rows");
  require_bytes(rotated, uint64_t{tokens} * stride * 4, "rotate", "the rotated rows");
  const bool norms = norm.weight.buffer != nullptr;
  if (norms) require_bytes(norm.weight, uint64_t{table.cols} * 4, "rotate", "norm weight");
  // A lane takes four elements of a step, if there are so many lanes. Software drivers, which have no tiles, get no
  // variant for each width: their shared memory is memory as any other, and SwiftShader compiles for seconds. llvmpipe
  // switches coroutines at each of a row's twelve barriers, one for every eight lanes.
  const Device& device = recorder.device();
  const Plan& plan = device.plan();
  const bool software = plan.tile_tokens == 0;
  const uint32_t cols = has_basis ? table.basis->cols() : table.blocks() * BLOCK;
  const uint32_t most = plan.reduce_threads < 256 ? plan.reduce_threads : std::min(device.caps().max_threads, 512u);
  const uint32_t wide = std::clamp(std::bit_ceil(cols / 4), 64u, most);
  const uint32_t threads = plan.texel_products ? 8 : software ? 64 : wide;
  const uint32_t shared_cols = turns && !software && fits_in_shared(device, cols, threads) ? cols : 0;
  const abi::RotatePush push = {
      cols,        has_basis ? table.basis->width() : table.cols, stride, norm.last_only, begun_stride(table.cols),
      norm.epsilon};
  recorder.dispatch(shaders::rotate,
                    shaders::Rotate::Constants{.threads = threads,
                                               .back = back,
                                               .norm = norms,
                                               .turns = turns,
                                               .shared_cols = shared_cols,
                                               .plain = !has_basis},
                    shaders::Rotate::Bindings{.basis = table.basis_words,
                                              .plain = plain,
                                              .rotated = rotated,
                                              .state = norm.state,
                                              .weight = norm.weight,
                                              .normed = norm.written},
                    push, {norm.last_only ? 1 : tokens});
}

}  // namespace

void rotate(Recorder& recorder, const Matrix& table, const View& x, const View& y, uint32_t tokens) {
  record(recorder, table, x, y, tokens, false, {});
}

void rotate_back(Recorder& recorder, const Matrix& table, const View& y, const View& x, uint32_t tokens,
                 const BeginNorm* begin) {
  if (begin) require_bytes(begin->rows, uint64_t{tokens} * begun_stride(table.cols) * 4, "rotate", "begun norm");
  record(recorder, table, x, y, tokens, true, begin ? OfNorm{{}, begin->weight, begin->rows} : OfNorm());
}

void begin_norm(Recorder& recorder, const Matrix& table, const View& x, const BeginNorm& begin, uint32_t tokens) {
  require_bytes(begin.rows, uint64_t{tokens} * begun_stride(table.cols) * 4, "rotate", "begun norm");
  record(recorder, table, x, x, tokens, true, {{}, begin.weight, begin.rows, false, 0, false});
}

void rotate_normed(Recorder& recorder, const Matrix& table, const NormShape& shape, const View& state, const View& x,
                   const View& weight, const View& normed, const View& y, uint32_t tokens, bool last_only) {
  require(shape.kind == NormKind::rms && shape.cols == table.cols, "rotate", "another norm");
  require_bytes(normed, uint64_t{last_only ? 1 : tokens} * stride_of(table.cols) * 4, "rotate", "the norm");
  record(recorder, table, x, y, tokens, false, {state, weight, normed, last_only, shape.epsilon});
}

}  // namespace weft::ops
