// Models that are used before their last layers are loaded.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "run/schedule.h"
#include "session/batch.h"
#include "support/model_test.h"

namespace weft::test {
namespace {

constexpr uint32_t kLayers = 5;

class LayerLoaderTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    LlamaShape shape;
    shape.layers = kLayers;
    make_gguf(path(), shape, {DType::f16, 5, ""});
  }
  std::filesystem::path path() const { return folder_.path() / "m.gguf"; }

  // progress: on the thread that loads the layers.
  std::unique_ptr<Model> begin(const std::function<void(float)>& progress = {}) const {
    const auto file = std::make_shared<const ModelFile>(open_model(path()));
    Config config = read_config(*file);
    const std::thread::id mine = std::this_thread::get_id();
    Weights weights = begin_weights(open_device(), file, config, Format::f16, [=](float done) {
      if (progress && std::this_thread::get_id() != mine) progress(done);
    });
    return std::unique_ptr<Model>(new Model{open_device(), config, std::move(weights)});
  }

  static std::string refusal(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  TemporaryFolder folder_;
};

bool all_zero(const View& view) {
  return std::ranges::all_of(download(open_device(), view), [](std::byte byte) { return byte == std::byte{0}; });
}

// The last layer is held back until the device has computed the one before it, which is read from the cache.
TEST_F(LayerLoaderTest, AFirstPassGoesThroughTheLayersThatAreThere) {
  const ModelFile file = open_model(path());
  uint64_t total = 0, last = 0;
  for (const TensorView& tensor : file.tensors) {
    total += tensor.bytes.size();
    // Norms before attention are loaded before all layers.
    const bool of_last = tensor.name.starts_with("blk." + std::to_string(kLayers - 1) + ".");
    last += of_last && !tensor.name.ends_with(".attn_norm.weight") ? tensor.bytes.size() : 0;
  }
  ASSERT_GT(last, 0u);
  std::atomic<const ContextState*> watched = nullptr;
  std::atomic<bool> held = false, before = false, behind = true;
  const auto model = begin([&](float done) {
    if (held || done * static_cast<double>(total) <= static_cast<double>(total - last) + 1) return;
    held = true;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!before && std::chrono::steady_clock::now() < deadline)
      if (const ContextState* const cache = watched)
        before = !all_zero(std::get<AttentionState>(cache->layers[kLayers - 2]).cache.keys);
    if (watched) behind = !all_zero(std::get<AttentionState>(watched.load()->layers[kLayers - 1]).cache.keys);
  });

  const std::vector<uint32_t> ids = some_ids(5, model->config.vocab);
  const uint32_t chunk = model->device->plan().chunk_tokens;
  ActivationBuffers activations(*model, chunk);
  ContextState cache(*model, 64, chunk, Format::f16);
  StepBuffers step(*model, 64, 64);
  run_once(model->device, "zeros", [&](Recorder& r) {
    for (const Buffer& buffer : cache.buffers->buffers) r.fill(buffer, 0);
  });
  abi::StepState& state = *step.state.as<abi::StepState>();
  state.end = static_cast<uint32_t>(ids.size());
  state.context = 64;
  std::memcpy(step.history.data(), ids.data(), ids.size() * 4);
  const std::atomic<bool> cancelled = false;
  Duty duty(cancelled);
  Schedule schedule({*model, activations, step, cache, 1}, Policy::throughput, duty);
  watched = &cache;
  schedule.submit(chunk, {Tail::Kind::greedy});
  schedule.wait_all();
  EXPECT_TRUE(held);
  EXPECT_TRUE(before);   // the layer before the last had been computed while the last was not there
  EXPECT_FALSE(behind);  // which had not
  EXPECT_GT(schedule.queue().submissions(), 1u);

  const auto whole = load_model(open_device(), path(), Format::f16);
  Session session(*whole, 64, {});
  session.set_sampling(greedy());
  const std::vector<uint32_t> want = generate(session, ids, 1);
  EXPECT_EQ(step.ring.as<abi::RingEntry>()[ids.size() % RING].id, want[0]);
  // With all layers there, a pass is one submission.
  const uint64_t submissions = schedule.queue().submissions();
  schedule.submit(1, {Tail::Kind::greedy});
  schedule.wait_all();
  EXPECT_EQ(schedule.queue().submissions(), submissions + 1);
}

// The thread that loads the layers begins when the sessions do.
TEST_F(LayerLoaderTest, EveryUseGivesTheSame) {
  const auto whole = load_model(open_device(), path(), Format::f16);
  const std::vector<uint32_t> ids = some_ids(70, whole->config.vocab);
  const auto use = [&](const Model& model, std::atomic<bool>* go, Policy policy, int way) {
    Session session(model, 128, {}, Format::f16, policy);
    session.set_sampling(greedy());
    if (go) *go = true;
    std::vector<float> results;
    if (way == 0) {
      for (const uint32_t id : generate(session, ids, 10)) results.push_back(static_cast<float>(id));
    } else if (way == 1) {
      results = session.score(ids);
    } else {
      session.prompt(std::span(ids).first(1));
      generate_batch(
          {{session, 8, true, [&](uint32_t id) { return results.push_back(static_cast<float>(id)), true; }}});
    }
    return results;
  };
  for (const Policy policy : {Policy::throughput, Policy::polite})
    for (const int way : {0, 1, 2}) {
      std::atomic<bool> go = false;
      const auto model = begin([&](float) { go.wait(false); });
      const auto run = [&] {
        std::vector<float> results;
        std::thread release([&] {  // wait() of an atomic needs to be told
          while (!go) std::this_thread::yield();
          go.notify_all();
        });
        results = use(*model, &go, policy, way);
        release.join();
        return results;
      };
      EXPECT_EQ(run(), use(*whole, nullptr, policy, way)) << "way " << way;
      EXPECT_EQ(refusal([&] { model->weights.wait(); }), "");
    }
}

TEST_F(LayerLoaderTest, TakesItsMemoryAndNamesItsTensorsAtOnce) {
  const auto whole = load_model(open_device(), path(), Format::f16);
  const uint64_t before = open_device()->memory_use().device;
  std::atomic<bool> go = false;
  const auto model = begin([&](float) {
    while (!go) std::this_thread::yield();
  });
  const uint64_t begun = open_device()->memory_use().device;
  EXPECT_EQ(model->weights.device_bytes(), whole->weights.device_bytes());
  EXPECT_EQ(model->bytes_per_token(), whole->bytes_per_token());
  EXPECT_EQ(model->parameters(), whole->parameters());
  EXPECT_EQ(model->weights.type(), whole->weights.type());
  go = true;
  model->weights.wait();
  EXPECT_EQ(open_device()->memory_use().device, begun);
  EXPECT_GE(begun - before, whole->weights.device_bytes());
  ASSERT_EQ(model->weights.tensors.size(), whole->weights.tensors.size());
  auto next = model->weights.tensors.begin();
  for (const TensorReport& want : whole->weights.tensors) {
    const TensorReport& got = *next++;
    EXPECT_EQ(got.name, want.name);
    EXPECT_EQ(got.shape, want.shape);
    EXPECT_EQ(got.device_bytes, want.device_bytes);
    EXPECT_EQ(got.rounding.largest_error, want.rounding.largest_error) << want.name;
  }
}

TEST(LayerLoader, StopsAfterTheCurrentLayer) {
  constexpr uint32_t kMany = 100;
  std::atomic<uint32_t> loaded = 0;
  {
    LayerLoader loader(kMany, [&](uint32_t) {
      ++loaded;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    });
    EXPECT_GE(loader.wait(1), 1u);
  }
  EXPECT_LT(loaded, kMany);
}

TEST(LayerLoader, TriesAgainWhatFailed) {
  std::atomic<int> failures = 2;
  std::vector<uint32_t> loaded;
  LayerLoader loader(4, [&](uint32_t layer) {
    if (layer == 2 && failures-- > 0) throw Error(Code::out_of_memory, "no room for it", "layer 2");
    loaded.push_back(layer);
  });
  EXPECT_GE(loader.wait(2), 2u);
  for (int i = 0; i < 2; ++i) EXPECT_THROW(loader.wait(3), Error);
  EXPECT_EQ(loader.wait(4), SIZE_MAX);
  EXPECT_EQ(loaded, (std::vector<uint32_t>{0, 1, 2, 3}));
}

// Model and thread end in the middle of it.
TEST_F(LayerLoaderTest, StopsWithTheModel) {
  const uint64_t before = open_device()->memory_use().device;
  for (int i = 0; i < 5; ++i) begin();
  EXPECT_EQ(open_device()->memory_use().device, before);
  EXPECT_EQ(open_device()->memory_use().host, 0u);
}

TEST_F(LayerLoaderTest, ANumberThatCannotBeHeldIsEveryCallsError) {
  {
    const ModelFile file = open_model(path());
    const TensorView& tensor = *file.find("blk.3.ffn_down.weight");
    const auto at = tensor.bytes.data() - file.files[0].bytes().data();
    std::fstream(path(), std::ios::in | std::ios::out | std::ios::binary).seekp(at).write("\x00\x7c", 2);  // infinity
  }
  EXPECT_NE(refusal([&] { load_model(open_device(), path(), Format::f16); }).find("blk.3.ffn_down.weight"),
            std::string::npos);
  const auto model = begin();
  Session session(*model, 64, {});
  for (int i = 0; i < 2; ++i)
    EXPECT_NE(refusal([&] { generate(session, some_ids(5, 512), 3); }).find("blk.3.ffn_down.weight"),
              std::string::npos);
  EXPECT_NE(refusal([&] { session.score(some_ids(5, 512)); }).find("inf"), std::string::npos);
  EXPECT_NE(refusal([&] { model->weights.wait(); }), "");
}

// At any moment.
TEST_F(LayerLoaderTest, AFileThatIsCutWhileItIsRead) {
  LlamaShape shape;
  shape.layers = kLayers;
  shape.width = 512;
  shape.ffn = 2048;
  const std::string copy = folder_.path() / "copy.gguf";
  make_gguf(copy, shape, {DType::f16, 5, ""});
  for (int i = 0; i < 24; ++i) {
    std::filesystem::copy_file(copy, path(), std::filesystem::copy_options::overwrite_existing);
    const auto model = begin();
    std::this_thread::sleep_for(std::chrono::microseconds(1500 * i));
    std::filesystem::resize_file(path(), 5000);
    const std::string problem = refusal([&] { model->weights.wait(); });
    EXPECT_TRUE(problem.empty() || problem.find("cut") != std::string::npos) << problem;
  }
}

TEST_F(LayerLoaderTest, AFileThatIsCutMeanwhileIsAnErrorAndNoCrash) {
  std::atomic<bool> cut = false;
  const auto model = begin([&](float) {
    while (!cut) std::this_thread::yield();
  });
  const uint64_t bytes = std::filesystem::file_size(path());
  std::filesystem::resize_file(path(), bytes / 2);
  cut = true;
  Session session(*model, 64, {});
  const std::string problem = refusal([&] { generate(session, some_ids(5, 512), 3); });
  EXPECT_NE(problem.find("cut while it was in use"), std::string::npos) << problem;
  EXPECT_NE(problem.find(std::to_string(bytes)), std::string::npos) << problem;
  EXPECT_NE(problem.find(path().string()), std::string::npos) << problem;
}

}  // namespace
}  // namespace weft::test
