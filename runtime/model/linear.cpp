#include "model/linear.h"

#include <algorithm>

#include "model/adapter.h"
#include "model/network.h"
#include "model/product_inputs.h"

namespace weft {
namespace {

const Adapter::Pair* pair_for(const Linear& linear, const Pass& session) {
  return session.adapter.adapter ? session.adapter.adapter->find(linear) : nullptr;
}

// y += B (A x), for each session that has a pair. All products with A come first: no barrier stands between sessions.
void add_adapters(const Network& n, const Linear& linear, const ops::Input& x, const View& y) {
  for (const Pass& one : n.pass.sessions()) {
    const Adapter::Pair* const pair = pair_for(linear, one);
    if (!pair) continue;
    ops::Input own = x;
    own.x =
        n.rows_of(one.a, x.x, x.end ? ops::begun_stride(linear.base.cols) : stride_of(linear.base.cols), one.tokens);
    ops::matmul(n.r, pair->a, one.step.state, own, one.adapter.scratch, one.tokens, ops::Output::write);
  }
  for (const Pass& one : n.pass.sessions())
    if (const Adapter::Pair* const pair = pair_for(linear, one))
      ops::matmul(n.r, pair->b, one.step.state, one.adapter.scratch,
                  n.rows_of(one.a, y, stride_of(linear.base.rows), one.tokens), one.tokens, ops::Output::add);
}

}  // namespace

bool Linear::adapted(const Network& n) const {
  return std::ranges::any_of(n.pass.sessions(), [&](const Pass& one) { return pair_for(*this, one) != nullptr; });
}

// If y is added to, the adapters come first: what begins a norm needs the whole sum.
void Linear::apply(const Network& n, const ops::Input& x, const View& y, ops::Output output,
                   const ops::BeginNorm* begin) const {
  if (n.pass.inputs) n.pass.inputs->take(n, *this, x);
  if (output == ops::Output::add) add_adapters(n, *this, x, y);
  ops::Input input = x;
  input.halves = n.a.halves;
  ops::matmul(n.r, base, n.state, input, y, n.tokens, output, begin);
  if (output == ops::Output::write) add_adapters(n, *this, x, y);
}

}  // namespace weft
