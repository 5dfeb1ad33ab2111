#include "model/linear.h"

#include <algorithm>

#include "model/adapter.h"
#include "model/network.h"

namespace weft {
namespace {

const Adapter::Pair* pair_for(const Linear& linear, const Pass& session) {
  return session.adapter.adapter ? session.adapter.adapter->find(linear) : nullptr;
}

// A session's rows of what the pass's tokens have together.
View own_rows(const Network& n, const Pass& session, const View& rows, uint32_t stride) {
  const uint64_t first = (session.a.x.offset - n.a.x.offset) / (uint64_t{stride_of(n.c.width)} * 4);
  return rows.part(first * stride * 4, uint64_t{session.tokens} * stride * 4);
}

// y += B (A x), for each session that has a pair. All products with A come first: no barrier stands between sessions.
void add_adapters(const Network& n, const Linear& linear, const ops::Input& x, const View& y) {
  for (const Pass& one : n.pass.sessions()) {
    const Adapter::Pair* const pair = pair_for(linear, one);
    if (!pair) continue;
    ops::Input own = x;
    own.x = own_rows(n, one, x.x, x.end ? ops::begun_stride(linear.base.cols) : stride_of(linear.base.cols));
    ops::matmul(n.r, pair->a, one.step.state, own, one.adapter.scratch, one.tokens, ops::Output::write);
  }
  for (const Pass& one : n.pass.sessions())
    if (const Adapter::Pair* const pair = pair_for(linear, one))
      ops::matmul(n.r, pair->b, one.step.state, one.adapter.scratch, own_rows(n, one, y, stride_of(linear.base.rows)),
                  one.tokens, ops::Output::add);
}

}  // namespace

bool Linear::adapted(const Network& n) const {
  return std::ranges::any_of(n.pass.sessions(), [&](const Pass& one) { return pair_for(*this, one) != nullptr; });
}

// If y is added to, the adapters come first: what begins a norm needs the whole sum.
void Linear::apply(const Network& n, const ops::Input& x, const View& y, ops::Output output,
                   const ops::BeginNorm* begin) const {
  if (output == ops::Output::add) add_adapters(n, *this, x, y);
  ops::matmul(n.r, base, n.state, x, y, n.tokens, output, begin);
  if (output == ops::Output::write) add_adapters(n, *this, x, y);
}

}  // namespace weft
