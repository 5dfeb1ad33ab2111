#include "ops/tune.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>

#include "base/error.h"
#include "gpu/tuning.h"
#include "gpu/upload.h"
#include "ops/ops.h"

namespace weft {
namespace {

constexpr double kWorthIt = 0.97;  // of the default's time
constexpr int kRuns = 7;

// Sizes of a small model: large enough to fill a device, small enough to be packed quickly.
constexpr uint32_t kWidth = 1024, kRows = 4096, kVocab = 16384, kContext = 1024, kPromptTokens = 64;
constexpr ops::HeadShape kHeads = {16, 8, 64};

// Numbers evenly spread over [-1, 1].
std::vector<float> numbers(uint64_t count) {
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(i * 2654435761u + 12345u)) * 0x1p-31);
  return values;
}

bool of_prompts(std::string_view tunable) {
  return tunable == "block_tokens" || tunable == "matrix_side" || tunable == "tile_tokens";
}

// A device with a plan, and all buffers of the timed work.
class Bench {
 public:
  Bench(std::string_view selector, const Plan& plan)
      : device_(Device::open(selector, [&plan](const Caps&) { return plan; })),
        pool_(device_),
        fence_(device_),
        uploader_(device_),
        layer_(make_matrix(Format::q8, kRows, Layout::values, layer_buffer_)),
        table_(make_matrix(Format::q8, kVocab, Layout::planes, table_buffer_)),
        x_(make(uint64_t{kPromptTokens} * stride_of(kWidth))),
        weight_(make(kWidth)),
        halves_(device_, "halves", uint64_t{kPromptTokens} * ops::halves_stride(kWidth) * 4, Memory::device),
        y_(device_, "y", uint64_t{kPromptTokens} * stride_of(kRows) * 4, Memory::device),
        logits_(device_, "logits", uint64_t{kVocab} * 4, Memory::device),
        normed_(device_, "normed", uint64_t{kWidth} * 4, Memory::device),
        attended_(device_, "attended", uint64_t{kWidth} * 4, Memory::device),
        keys_(device_, "keys", ops::key_bytes(kHeads, kContext), Memory::device),
        values_(device_, "values", ops::value_bytes(kHeads, kContext), Memory::device),
        parts_(device_, "parts", std::max<uint64_t>(ops::part_bytes(plan, kHeads, kContext, 1), 4), Memory::device),
        one_(make_state(kContext - 1, 1)),
        prompt_(make_state(0, kPromptTokens)) {
    // Small halves everywhere in the cache: 0x2e66 is 0.1.
    run_once(device_, "cache",
             [&](Recorder& r) { r.fill(keys_, 0x2e662e66), r.fill(values_, 0x2e662e66), r.fill(parts_, 0); });
  }

  // Runs the work that a tunable changes, and gives what came out of it.
  std::vector<float> results(std::string_view tunable) {
    run_once(device_, "tune", [&](Recorder& r) { record(r, tunable); });
    std::vector<float> all;
    for (const Buffer* buffer : outputs(tunable)) {
      const std::vector<float> values = download_as<float>(device_, *buffer);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  double seconds(std::string_view tunable) {
    Recorder recorder(pool_, "tune");
    // Many, where a submission costs more than the work.
    const int repeats = device_->caps().kind == DeviceKind::cpu ? 1 : 16;
    for (int i = 0; i < repeats; ++i) record(recorder, tunable);
    const CommandBuffer commands = recorder.finish(true);
    double least = std::numeric_limits<double>::max();
    const auto begin = std::chrono::steady_clock::now();
    for (int run = 0; run <= kRuns; ++run) {
      if (run > 1 && std::chrono::steady_clock::now() - begin > std::chrono::seconds(1)) break;
      const auto start = std::chrono::steady_clock::now();
      device_->submit({&commands}, fence_);
      fence_.wait();
      if (run > 0)  // the first one warms up
        least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return least / repeats;
  }

 private:
  Matrix make_matrix(Format format, uint32_t rows, Layout layout, Buffer& buffer) {
    const std::vector<float> values = numbers(uint64_t{rows} * kWidth);
    const TensorView tensor = {"numbers", DType::f32, {rows, kWidth}, std::as_bytes(std::span<const float>(values))};
    const TensorView* const parts[] = {&tensor};
    Matrix matrix = {format, rows, kWidth, {}, layout};
    if (layout == Layout::planes) matrix.basis = std::make_shared<Basis>(kWidth);
    buffer = Buffer(device_, "matrix", matrix.bytes(), Memory::device);
    uploader_.upload(buffer, matrix.tile_bytes(), [&](uint64_t offset, std::span<std::byte> out) {
      pack_tiles(matrix, parts, static_cast<uint32_t>(offset / matrix.tile_bytes()), out);
    });
    matrix.view = buffer;
    return matrix;
  }
  Buffer make(uint64_t count) {
    const std::vector<float> values = numbers(count);
    Buffer buffer(device_, "numbers", count * 4, Memory::device);
    uploader_.upload(View(buffer), std::span<const float>(values));
    return buffer;
  }
  Buffer make_state(uint32_t pos, uint32_t tokens) {
    Buffer buffer(device_, "state", sizeof(abi::StepState), Memory::shared);
    *buffer.as<abi::StepState>() = {pos, pos + tokens, 0, pos + tokens + 1, 0, 0, 0, 0, {}};
    return buffer;
  }

  void record(Recorder& r, std::string_view tunable) {
    if (tunable == "reduce_threads") {
      ops::norm(r, {kWidth, 1e-5f}, one_, x_, weight_, normed_, 1, false);
      ops::attend(r, kHeads, {0.125f}, one_, x_, {keys_, values_, kContext, Format::f16, parts_}, attended_, 1);
    } else if (of_prompts(tunable)) {
      ops::Input input = x_;
      input.halves = halves_;
      ops::matmul(r, layer_, prompt_, input, y_, kPromptTokens, ops::Output::write);
    } else {  // split, row_tiles
      ops::matmul(r, layer_, one_, x_, y_, 1, ops::Output::write);
      ops::project(r, table_, x_, logits_, 1);
    }
  }
  std::vector<const Buffer*> outputs(std::string_view tunable) const {
    if (tunable == "reduce_threads") return {&normed_, &attended_};
    if (of_prompts(tunable)) return {&y_};
    return {&logits_};
  }

  std::shared_ptr<Device> device_;
  CommandPool pool_;
  Fence fence_;
  Uploader uploader_;
  Buffer layer_buffer_, table_buffer_;
  Matrix layer_, table_;
  Buffer x_, weight_, halves_, y_, logits_, normed_, attended_, keys_, values_, parts_, one_, prompt_;
};

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (const float value : a) most = std::max(most, std::abs(double{value}));
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(double{a[i]} - b[i]) <= 1e-4 * most)) return false;
  return true;
}

}  // namespace

TuneResult tune(std::string_view selector, const std::function<void(float)>& done) {
  TuneResult result;
  {
    const std::shared_ptr<Device> device = Device::open(selector, make_plan);
    result.caps = device->caps();
    result.plan = device->plan();
  }
  const Plan defaults = result.plan;
  size_t count = 0, tried = 0;
  for (const Tunable& tunable : tunables()) count += tunable.candidates(result.caps, defaults).size();
  for (const Tunable& tunable : tunables()) {
    const uint32_t usual = defaults.*tunable.field;
    std::vector<uint32_t> candidates = tunable.candidates(result.caps, defaults);
    std::erase(candidates, usual);
    candidates.insert(candidates.begin(), usual);  // what the others are compared with
    std::vector<float> expected;
    double best = 0;
    uint32_t chosen = usual;
    for (const uint32_t value : candidates) {
      TuneTrial trial = {tunable.name, value, 0, {}};
      Plan plan = result.plan;
      plan.*tunable.field = value;
      try {
        if (candidates.size() > 1) {
          Bench bench(selector, plan);
          std::vector<float> got = bench.results(tunable.name);
          if (value == usual) expected = std::move(got);
          if (value != usual && !same(expected, got))
            trial.refusal = "its results are not those of the default";
          else
            trial.seconds = bench.seconds(tunable.name);
        }
      } catch (const Error& failure) {
        if (value == usual) throw;
        trial.refusal = failure.sentence();
      }
      if (value == usual) best = trial.seconds * kWorthIt;
      if (value != usual && trial.refusal.empty() && trial.seconds < best) best = trial.seconds, chosen = value;
      result.trials.push_back(std::move(trial));
      done(static_cast<float>(++tried) / static_cast<float>(count));
    }
    result.plan.*tunable.field = chosen;
  }
  return result;
}

}  // namespace weft
