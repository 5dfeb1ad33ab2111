#include "ops/support.h"

#include "rotate.spv.h"

namespace weft::ops {

namespace {

void record(Recorder& recorder, const Matrix& table, const View& plain, const View& rotated, uint32_t tokens,
            bool inverse) {
  require(table.layout == Layout::planes, "rotate", "the matrix has no basis of its own");
  const uint32_t stride = stride_of(table.cols);
  require_bytes(plain, uint64_t{tokens} * stride * 4, "rotate", "the plain rows");
  require_bytes(rotated, uint64_t{tokens} * stride * 4, "rotate", "the rotated rows");
  // llvmpipe switches coroutines at each of a row's twelve barriers, one for every eight lanes.
  const uint32_t threads = recorder.device().plan().texel_products ? 8 : 64;
  recorder.dispatch({shaders::rotate, {threads}}, {table.basis_words, plain, rotated},
                    abi::RotatePush{table.basis->cols(), table.basis->width(), stride, inverse ? 1u : 0u}, {tokens});
}

}  // namespace

void rotate(Recorder& recorder, const Matrix& table, const View& x, const View& y, uint32_t tokens) {
  record(recorder, table, x, y, tokens, false);
}

void rotate_back(Recorder& recorder, const Matrix& table, const View& y, const View& x, uint32_t tokens) {
  record(recorder, table, x, y, tokens, true);
}

}  // namespace weft::ops
