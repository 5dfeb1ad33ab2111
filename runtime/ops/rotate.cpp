#include "ops/support.h"

#include "rotate.spv.h"

namespace weft::ops {

namespace {

void record(Recorder& recorder, const Matrix& table, const View& from, const View& to, uint32_t tokens, bool inverse) {
  require(table.layout == Layout::planes, "rotate", "the matrix has no basis of its own");
  const uint32_t stride = stride_of(table.cols);
  require_bytes(from, uint64_t{tokens} * stride * 4, "rotate", "the input");
  require_bytes(to, uint64_t{tokens} * stride * 4, "rotate", "the output");
  recorder.dispatch({shaders::rotate}, {table.basis_words, from, to},
                    abi::RotatePush{table.basis->cols(), table.basis->width(), stride, stride, inverse ? 1u : 0u},
                    {tokens});
}

}  // namespace

void rotate(Recorder& recorder, const Matrix& table, const View& x, const View& y, uint32_t tokens) {
  record(recorder, table, x, y, tokens, false);
}

void rotate_back(Recorder& recorder, const Matrix& table, const View& y, const View& x, uint32_t tokens) {
  record(recorder, table, y, x, tokens, true);
}

}  // namespace weft::ops
