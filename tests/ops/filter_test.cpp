#include "reference/filter.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/filter.h"
#include "shaders/narrowed.h"
#include "support/op_inputs.h"

namespace weft::test {
namespace {

class FilterTest : public GpuTest {};

std::string describe(const reference::Filters& filters) {
  return "top_k " + std::to_string(filters.top_k) + " top_p " + std::to_string(filters.top_p) + " min_p " +
         std::to_string(filters.min_p) + " typical_p " + std::to_string(filters.typical_p);
}

// One vocabulary's scores on the device, and filter after filter over them.
class Filtering {
 public:
  Filtering(const Tuning& tuning, const std::vector<float>& scores)
      : device_(open_device(tuning)),
        pool_(device_),
        fence_(device_),
        host_(scores),
        logits_(upload(device_, "logits", scores)),
        state_(make_state(device_, 0, 1, 10)),
        params_(device_, "params", sizeof(abi::SampleParams), Memory::shared) {
    const uint32_t rows = static_cast<uint32_t>(scores.size());
    scores_ = share(device_, "scores", std::vector<uint8_t>(ops::score_bytes(rows)));
    token_flags_ = share(device_, "token flags", std::vector<uint32_t>(TOKEN_FLAG_WORDS(rows)));
    Recorder recorder(pool_, "filter");
    ops::penalize(recorder, state_, params_, token_flags_, logits_, scores_, {rows});
    ops::filter(recorder, state_, params_, scores_, {rows});
    commands_ = recorder.finish(true);
  }

  // The ids that the device's threshold lets through.
  std::vector<bool> run(const reference::Filters& filters) {
    auto* params = params_.as<abi::SampleParams>();
    *params = {};
    params->inverse_temperature = params->repeat_penalty = 1;
    params->top_k = filters.top_k;
    params->top_p = static_cast<float>(filters.top_p);
    params->log_min_p = filters.min_p > 0 ? static_cast<float>(std::log(filters.min_p)) : -1e30f;
    params->typical_p = static_cast<float>(filters.typical_p);
    state_.as<abi::StepState>()->threshold = state_.as<abi::StepState>()->ceiling = NAN;
    device_->submit({&commands_}, fence_);
    fence_.wait();
    const uint64_t scratch_at = ops::filter_scratch(scores_, static_cast<uint32_t>(host_.size())).offset;
    const abi::Narrowed scratch = *reinterpret_cast<const abi::Narrowed*>(scores_.as<std::byte>() + scratch_at);
    const abi::Narrowed zeros = {};
    EXPECT_EQ(std::memcmp(&scratch, &zeros, sizeof zeros), 0) << "the next token finds the scratch as this one did";
    const float threshold = state_.as<abi::StepState>()->threshold;
    const float ceiling = state_.as<abi::StepState>()->ceiling;
    EXPECT_TRUE(std::isfinite(threshold) && std::isfinite(ceiling)) << threshold << " " << ceiling;
    std::vector<bool> ids(host_.size());
    for (size_t id = 0; id < ids.size(); ++id)
      ids[id] = std::isfinite(host_[id]) && host_[id] >= threshold && host_[id] <= ceiling;
    return ids;
  }

  void check(const reference::Filters& filters) {
    SCOPED_TRACE(std::to_string(host_.size()) + " rows, " + describe(filters));
    const reference::Allowed want = reference::filter(host_, filters);
    ASSERT_GT(want.margin, 2e-6) << "too close to call in fp32: choose another case";
    const std::vector<bool> got = run(filters);
    EXPECT_EQ(got, want.ids) << std::ranges::count(got, true) << " ids instead of "
                             << std::ranges::count(want.ids, true);
  }

 private:
  std::shared_ptr<Device> device_;
  CommandPool pool_;
  Fence fence_;
  std::vector<float> host_;
  Buffer logits_, scores_, state_, params_, token_flags_;
  CommandBuffer commands_;
};

// A top_p half way between what `count` and what count + 1 best scores hold.
double top_p_between(std::vector<float> scores, size_t count) {
  std::ranges::sort(scores, std::greater());
  double total = 0, share = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    const double weight = std::exp(double{scores[i]} - scores[0]);
    total += weight;
    if (i < count) share += weight;
    if (i == count) share += weight / 2;
  }
  return share / total;
}

std::vector<float> finite(std::vector<float> scores) {
  std::erase_if(scores, [](float score) { return !std::isfinite(score); });
  return scores;
}

std::vector<Tuning> tunings() {
  std::vector<Tuning> list;
  for (const bool plain : {false, true})
    for (const uint32_t threads : {64u, 256u}) {
      Tuning tuning;
      tuning.plain = plain;
      tuning.reduce_threads = threads;
      list.push_back(tuning);
    }
  return list;
}

TEST_F(FilterTest, EachFilterAndAllTogether) {
  for (const Tuning& tuning : tunings()) {
    SCOPED_TRACE(tuning.name());
    for (const uint32_t rows : {1u, 3u, 64u, 65u, 300u, 4000u}) {
      Random random(rows);
      const std::vector<float> scores = random.normals(rows, 3);
      Filtering filtering(tuning, scores);
      filtering.check({});
      for (const uint32_t k : {1u, 2u, 40u, rows - 1, rows, rows + 1, 0xffffffffu}) filtering.check({k, 1, 0});
      for (const uint32_t count : {0u, 1u, 2u, 63u})
        if (count * 4 < rows) filtering.check({0, top_p_between(scores, count), 0});
      for (const double p : {1e-30, 0.1, 0.5, 0.9, 0.95, 0.99}) filtering.check({0, p, 0});
      for (const double p : {1e-20, 0.05, 0.3, 0.9}) filtering.check({0, 1, p});
      for (const uint32_t k : {2u, 40u})
        for (const double p : {0.3, 0.8, 0.97})
          for (const double least : {0.0, 0.02, 0.4}) filtering.check({k, p, least});
    }
  }
}

TEST_F(FilterTest, Typical) {
  for (const Tuning& tuning : tunings()) {
    SCOPED_TRACE(tuning.name());
    for (const uint32_t rows : {1u, 3u, 65u, 300u, 4000u}) {
      Random random(rows + 1);
      Filtering filtering(tuning, random.normals(rows, 2));
      for (const double p : {0.05, 0.3, 0.7, 0.97}) {
        filtering.check({0, 1, 0, p});
        filtering.check({40, 0.9, 0.01, p});
      }
    }
    // One score has almost all, so that its surprise is the entropy: it is the only typical one, or a cheap one of
    // many.
    Filtering peaked(tuning, {10, 0, 0.5f, -1, -2, 1});
    peaked.check({0, 1, 0, 0.5});
    // The likeliest are left out where most of the mass lies in a tail of many.
    std::vector<float> scores(2000, 0.0f);
    scores[7] = 3;
    scores[8] = -4;
    Filtering flat(tuning, scores);
    flat.check({0, 1, 0, 0.5});
    EXPECT_FALSE(flat.run({0, 1, 0, 0.5})[7]);
    EXPECT_TRUE(flat.run({0, 1, 0, 0.5})[9]);
  }
}

TEST_F(FilterTest, Ties) {
  for (const Tuning& tuning : tunings()) {
    SCOPED_TRACE(tuning.name());
    std::vector<float> scores(500);
    Random random(8);
    for (float& score : scores) score = static_cast<float>(static_cast<int>(random.below(11)) - 5);  // -5 .. 5
    Filtering filtering(tuning, scores);
    for (const uint32_t k : {1u, 20u, 60u, 100u, 250u, 499u}) filtering.check({k, 1, 0});
    for (const double p : {0.01, 0.3, 0.6, 0.9, 0.99}) filtering.check({0, p, 0});
    for (const double p : {0.3, 0.9}) filtering.check({60, p, 0.1});
    // More ties than the shader keeps of what top-k leaves, and a top-k of more than it keeps.
    Filtering many(tuning, std::vector<float>(1500, 0.75f));
    many.check({5, 0.5, 0});
    std::vector<float> steps(1500);
    for (size_t i = 0; i < steps.size(); ++i) steps[i] = static_cast<float>(i % 700) / 100;
    Filtering more(tuning, steps);
    for (const uint32_t k : {512u, 514u, 600u}) more.check({k, 0.4, 0});
    Filtering same(tuning, std::vector<float>(77, -2.5f));
    same.check({5, 1, 0});
    same.check({0, 0.5, 0});
    same.check({0, 1, 0.5});
    Filtering zeros(tuning, {0.0f, -0.0f, -1, -0.0f, 0.0f});  // equal, though their bits differ
    zeros.check({1, 1, 0});
    zeros.check({2, 1, 0});
    zeros.check({0, 0.1, 0});
  }
}

TEST_F(FilterTest, FarAndNonFiniteScores) {
  for (const Tuning& tuning : tunings()) {
    SCOPED_TRACE(tuning.name());
    std::vector<float> scores = {NAN, 1, INFINITY, 3, -INFINITY, 2, -1e30f, NAN, 2.5f, -200, 1e-40f, -1e-40f};
    Filtering filtering(tuning, scores);
    for (const uint32_t k : {0u, 1u, 2u, 4u, 5u}) filtering.check({k, 1, 0});
    for (const double p : {0.1, 0.6, 0.9}) filtering.check({0, p, 0});
    filtering.check({0, 1, 0.5});
    for (float& score : scores) score = score * 1e25f - 1e30f;  // all negative
    Filtering far(tuning, scores);
    far.check({2, 1, 0});
    far.check({0, 0.7, 0});
  }
}

// Several workgroups, whose scores lie in few bins or in all, and fit in shared memory or not.
TEST_F(FilterTest, LargeVocabularies) {
  for (const Tuning& tuning : {Tuning{}, Tuning{.plain = true, .reduce_threads = 256}}) {
    SCOPED_TRACE(tuning.name());
    for (const uint32_t rows : {2048u, 2049u, 20000u, 70000u})
      for (const float spread : {0.001f, 3.0f, 2000.0f}) {
        Random random(rows);
        std::vector<float> scores = random.normals(rows, spread);
        for (size_t i = 0; i < scores.size(); i += 97) scores[i] = i % 2 ? NAN : -INFINITY;
        Filtering filtering(tuning, scores);
        filtering.check({});
        for (const uint32_t k : {1u, 40u, 600u, rows - 5}) filtering.check({k, 1, 0});
        if (spread < 1) continue;  // all weigh the same: the rest is too close to call
        filtering.check({40, 0.95, 0.05});
        filtering.check({0, top_p_between(finite(scores), 3), 0});
        if (spread > 3) continue;
        filtering.check({0, 0.9, 0.02});
        filtering.check({0, 1, 0.3, 0.8});
        filtering.check({50, 0.9, 0, 0.5});
      }
  }
}

TEST_F(FilterTest, NothingFinite) {
  Filtering filtering({}, {NAN, INFINITY, -INFINITY});
  for (const reference::Filters& filters : {reference::Filters{}, {2, 1, 0}, {0, 0.5, 0}, {0, 1, 0.5}, {0, 1, 0, 0.5}})
    EXPECT_EQ(filtering.run(filters), std::vector<bool>(3, false));
}

TEST_F(FilterTest, LeavesTheRestOfTheStateAlone) {
  const auto device = open_device();
  const Buffer state = share(device, "state", std::vector<abi::StepState>{{11, 12, 1, 99, 0, 5, 6, 7, 8, 9, 10, {}}});
  const Buffer scores = share(device, "scores", std::vector<float>(ops::score_bytes(3) / 4));
  std::copy_n(std::begin({1.0f, 2.0f, 3.0f}), 3, scores.as<float>());
  scores.as<uint32_t>()[stride_of(3)] = 0xc0400000;  // the peak's key
  abi::SampleParams params = {};
  params.top_k = 2, params.top_p = 1, params.log_min_p = -1e30f, params.typical_p = 1;
  const Buffer sampling = upload(device, "params", std::vector{params});
  run_op(device, "narrow, " + reduction("filter", device->plan()),
         [&](Recorder& recorder) { ops::filter(recorder, state, sampling, scores, {3}); });
  const abi::StepState got = *state.as<abi::StepState>();
  EXPECT_EQ(got.threshold, 2);
  EXPECT_EQ(std::vector<uint32_t>({got.pos, got.end, got.finished, got.context}),
            std::vector<uint32_t>({11, 12, 1, 99}));
}

}  // namespace
}  // namespace weft::test
