#include "reference/route.h"

#include <cmath>

#include "support/op_inputs.h"

namespace weft::test {
namespace {

class RouteTest : public GpuTest {};

std::vector<abi::RoutedExpert> run(const Tuning& tuning, const ops::Experts& experts, const reference::Rows& logits,
                                   uint32_t tokens, const std::vector<float>& bias = {}) {
  const auto device = open_device(tuning);
  const Activations in = make_activations(device, tokens, logits);
  const Buffer state = make_state(device, 3, 3 + logits.rows, 100);
  const Buffer chosen = upload(device, "chosen", std::vector<abi::RoutedExpert>(tokens * experts.used, {77, -1}));
  const Buffer biases = upload(device, "biases", bias.empty() ? std::vector<float>(1) : bias);
  run_op(device, reduction("route", device->plan()), [&](Recorder& recorder) {
    ops::route(recorder, experts, state, in.buffer, bias.empty() ? View() : View(biases), chosen, tokens);
  });
  return download_as<abi::RoutedExpert>(device, chosen);
}

void check_route(const Tuning& tuning, const ops::Experts& experts, const reference::Rows& logits, uint32_t tokens,
                 const std::vector<float>& bias = {}) {
  SCOPED_TRACE(tuning.name() + " " + std::to_string(experts.used) + " of " + std::to_string(experts.count) +
               ", active " + std::to_string(logits.rows) + " of " + std::to_string(tokens) +
               (experts.sigmoid ? " sigmoid" : "") + (experts.normalised ? " normalised" : ""));
  const std::vector<abi::RoutedExpert> got = run(tuning, experts, logits, tokens, bias);
  const reference::Router router = {experts.used, experts.sigmoid, experts.normalised, experts.scale};
  for (uint32_t t = 0; t < tokens; ++t)
    for (uint32_t rank = 0; rank < experts.used; ++rank) {
      const abi::RoutedExpert& routed = got[t * experts.used + rank];
      if (t >= logits.rows) {
        EXPECT_EQ(routed.expert, 77u) << "token " << t << " is none";
        continue;
      }
      const reference::Choice want = reference::route(logits.row(t), router, bias)[rank];
      EXPECT_EQ(routed.expert, want.expert) << t << " " << rank;
      EXPECT_NEAR(routed.weight, want.weight, 1e-5 * want.weight + 1e-30) << t << " " << rank;
    }
}

reference::Rows random_logits(uint32_t tokens, uint32_t count) {
  Random random(count + tokens);
  reference::Rows logits(tokens, count);
  for (double& value : logits.values) value = random.normal() * 3;
  return logits;
}

TEST_F(RouteTest, ExpertsAndChunks) {
  for (const Tuning& tuning : reduction_tunings())
    for (const ops::Experts experts : {ops::Experts{1, 1}, {5, 2}, {8, 8}, {33, 4}, {160, 6}})
      for (const auto& [tokens, active] : {std::pair(1u, 1u), {16u, 11u}, {80u, 70u}})
        check_route(tuning, experts, random_logits(active, experts.count), tokens);
  check_route({}, {ops::kMostExperts, 8}, random_logits(3, ops::kMostExperts), 3);
}

TEST_F(RouteTest, KindsOfWeights) {
  for (const bool sigmoid : {false, true})
    for (const bool normalised : {false, true})
      for (const bool biased : {false, true})
        for (const ops::Experts experts :
             {ops::Experts{5, 2, sigmoid, normalised, 1}, {70, 6, sigmoid, normalised, 2.5f}})
          check_route({}, experts, random_logits(9, experts.count), 9,
                      biased ? Random(experts.count).normals(experts.count) : std::vector<float>());
}

TEST_F(RouteTest, EqualsGoToTheFirstAndFarOnesGetNothing) {
  reference::Rows logits(3, 5);
  logits.values = {1, 2, 2, 2, 1, 0, 0, 0, 0, 0, -300, 200, 0.5, -1, 300};
  check_route({}, {5, 4}, logits, 3);
}

// A network gone wrong must not send the products to an expert that is not there.
TEST_F(RouteTest, NoNumbersChooseExpertsThatAreThere) {
  reference::Rows logits(2, 5);
  for (double& value : logits.values) value = NAN;
  logits.row(1)[2] = 1;
  for (const abi::RoutedExpert& routed : run({}, {5, 3}, logits, 2)) EXPECT_LT(routed.expert, 5u);
}

TEST_F(RouteTest, RefusesWrongShapes) {
  const auto device = open_device();
  const Buffer any(device, "any", 1 << 16, Memory::device);
  for (const ops::Experts experts : {ops::Experts{4, 0}, {4, 5}, {0, 0}, {ops::kMostExperts + 1, 1}})
    EXPECT_THROW(
        run_op(device, "route", [&](Recorder& recorder) { ops::route(recorder, experts, any, any, View(), any, 1); }),
        Error);
}

}  // namespace
}  // namespace weft::test
