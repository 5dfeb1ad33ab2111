// LoRA adapters against PEFT in fp32: random ones of tests/tools/adapter_goldens.py, as PEFT's folders and as GGUF, on
// models of both kinds.
#include "model/adapter.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/error.h"
#include "session/batch.h"
#include "support/golden.h"
#include "support/model_test.h"
#include "support/scripted_drafter.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

using Ids = std::vector<uint32_t>;

std::filesystem::path model_folder(const std::string& name) { return source_folder() / "tests/model/golden" / name; }
std::filesystem::path adapter_folder(const std::string& name) {
  return source_folder() / "tests/model/golden_adapters" / name;
}

// A model with its file, which adapters are checked against.
struct Loaded {
  explicit Loaded(const std::filesystem::path& path, Format format = Format::f16)
      : file(open_model(path)), model(load_model(open_device(), path, format)) {}
  Adapter adapter(const std::filesystem::path& path, float scale = 1) const {
    return Adapter(*model, file, open_adapter(path), scale);
  }
  std::unique_ptr<Session> session(const Adapter* adapter, StatePlace place = {}) const {
    auto made =
        std::make_unique<Session>(*model, 256, Ids(), Format::f16, Policy::throughput, nullptr, std::move(place));
    made->set_sampling(greedy());
    made->set_adapter(adapter);
    return made;
  }
  ModelFile file;
  std::unique_ptr<Model> model;
};

class AdapterTest : public GpuTest, public testing::WithParamInterface<const char*> {};

TEST_P(AdapterTest, EqualsPeft) {
  const Golden golden = read_golden(adapter_folder(GetParam()));
  for (const std::filesystem::path& path : {model_folder(GetParam()), model_folder(GetParam()) / "model.gguf"}) {
    const Loaded loaded(path);
    EXPECT_GT(distance(*loaded.model, golden).logits, 0.1) << "the adapter changes nothing";
    for (const std::filesystem::path& file :
         {adapter_folder(GetParam()), adapter_folder(GetParam()) / "adapter.gguf"}) {
      SCOPED_TRACE(path.filename().string() + " " + file.filename().string());
      const Adapter adapter = loaded.adapter(file);
      const double worst = distance(*loaded.model, golden, &adapter).logits;
      std::printf("%s, %s: %.1e of the spread\n", path.filename().c_str(), file.filename().c_str(), worst);
      EXPECT_LT(worst, kTolerance);
      expect_greedy_ids(*loaded.model, golden, &adapter);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, AdapterTest,
                         testing::Values("llama3", "qwen3", "gemma2", "lfm2-tied", "granite-hybrid"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

class AdapterProductsTest : public GpuTest {};

// Products that only some models have. An adapter of the last layer gives what a model of the sums W + B A gives: no
// router comes after it, which rounding could make choose other experts.
TEST_F(AdapterProductsTest, GatesAndSharedExperts) {
  const std::pair<const char*, std::vector<std::string>> cases[] = {
      {"qwen2-moe/model.gguf",
       {"blk.1.ffn_up_shexp.weight", "blk.1.ffn_down_shexp.weight", "blk.1.ffn_gate_inp_shexp.weight"}},
      {"granite-hybrid-moe/model.gguf", {"blk.4.ffn_gate_shexp.weight", "blk.4.ffn_down_shexp.weight"}},
      {"lfm3-gated", {"model.layers.5.self_attn.gate_proj.weight", "model.layers.5.feed_forward.w1.weight"}}};
  for (const auto& [path, names] : cases) {
    SCOPED_TRACE(path);
    const Loaded loaded(model_folder(path));
    ModelFile sums = open_model(model_folder(path)), file;
    std::vector<std::vector<float>> kept;
    const auto bytes_of = [&](std::vector<float> numbers) {
      return std::as_bytes(std::span<const float>(kept.emplace_back(std::move(numbers))));
    };
    const bool gguf = sums.kind == ModelFile::Kind::gguf;
    file.kind = sums.kind;
    file.path = "adapter";
    if (gguf) {
      file.metadata["general.type"] = "adapter";
      file.metadata["adapter.type"] = "lora";
      file.metadata["general.architecture"] = loaded.model->config.traits->architecture;
    } else {
      file.metadata["peft_type"] = "LORA";
      file.metadata["lora_alpha"] = 1;
    }
    const auto add = [&](const std::string& name, const std::vector<uint64_t>& shape, std::vector<float> numbers) {
      file.index[name] = file.tensors.size();
      file.tensors.push_back({name, DType::f32, shape, bytes_of(std::move(numbers))});
    };
    for (const std::string& name : names) {
      TensorView& tensor = sums.tensors[sums.index.at(name)];
      const uint64_t cols = tensor.shape.back(), rows = element_count(tensor.shape) / cols;
      std::vector<float> sum(rows * cols), a(cols), b(rows);  // of a rank of 1
      to_float(tensor, 0, sum);
      for (uint64_t i = 0; i < cols; ++i) a[i] = static_cast<float>(i * 7 % 13) / 4 - 1.5f;  // f16 holds these
      for (uint64_t i = 0; i < rows; ++i) b[i] = static_cast<float>(i * 5 % 11) / 4 - 1.25f;
      for (uint64_t i = 0; i < sum.size(); ++i) sum[i] += b[i / cols] * a[i % cols];
      tensor.dtype = DType::f32;
      tensor.bytes = bytes_of(std::move(sum));
      const std::string stem = gguf ? name : "base_model.model." + name.substr(0, name.rfind("weight"));
      add(stem + (gguf ? ".lora_a" : "lora_A.weight"), {1, cols}, std::move(a));
      add(stem + (gguf ? ".lora_b" : "lora_B.weight"), {rows, 1}, std::move(b));
    }
    const Adapter adapter(*loaded.model, loaded.file, std::move(file), 1);
    Config config = read_config(sums);
    Weights weights = load_weights(open_device(), sums, config, Format::f16, [](float) {});
    const Model summed = {open_device(), config, std::move(weights)};
    const auto logits = [](const Model& model, const Adapter* own) {
      Session session(model, 64, {});
      session.set_adapter(own);
      session.prompt(some_ids(12, model.config.vocab));
      return session.logits();
    };
    const std::vector<float> made = logits(summed, nullptr);
    const std::vector<double> want(made.begin(), made.end());
    EXPECT_GT(distance_of(logits(*loaded.model, nullptr), want), 0.1) << "the adapter changes nothing";
    EXPECT_LT(distance_of(logits(*loaded.model, &adapter), want), 5 * kTolerance);
  }
}

class AdapterUseTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped()) loaded_.emplace(model_folder("llama3"), Format::q8);
  }
  Adapter adapter(float scale = 1) const { return loaded_->adapter(adapter_folder("llama3"), scale); }
  Ids text() const { return some_ids(40, loaded_->model->config.vocab); }
  Ids anew(const Adapter* adapter) const { return generate(*loaded_->session(adapter), text(), 20); }

  std::optional<Loaded> loaded_;
};

TEST_F(AdapterUseTest, IsSwitched) {
  const Adapter first = adapter(), second = adapter(-0.7f), none = adapter(0);
  EXPECT_NE(anew(&first), anew(nullptr));
  EXPECT_NE(anew(&first), anew(&second));
  const auto session = loaded_->session(nullptr);
  for (const Adapter* one : {&first, &second, static_cast<const Adapter*>(nullptr), &first}) {
    session->set_adapter(one);
    EXPECT_EQ(generate(*session, text(), 20), anew(one));
  }
  EXPECT_EQ(anew(&none), anew(nullptr));
}

TEST_F(AdapterUseTest, SessionsOfABatchHaveTheirOwn) {
  const Adapter first = adapter(), second = adapter(-0.7f);
  const Adapter* const adapters[] = {&first, nullptr, &second, &first};
  for (const bool grouped : {false, true}) {
    const auto group = std::make_shared<StateGroup>(4u);
    std::vector<std::unique_ptr<Session>> sessions;
    std::vector<BatchEntry> entries;
    std::vector<Ids> want, got(4);
    for (uint32_t i = 0; i < 4; ++i) {
      want.push_back(anew(adapters[i]));
      sessions.push_back(loaded_->session(adapters[i], grouped ? StatePlace{group, i} : StatePlace()));
      sessions.back()->prompt(text());
      entries.push_back({*sessions.back(), 20, true, [&got, i](uint32_t id) {
                           got[i].push_back(id);
                           return true;
                         }});
    }
    generate_batch(entries);
    EXPECT_EQ(got, want);
  }
}

TEST_F(AdapterUseTest, DraftsChangeNothing) {
  const Adapter one = adapter();
  const Ids want = anew(&one);
  Ids all = text();
  all.insert(all.end(), want.begin(), want.end());
  const auto drafted = loaded_->session(nullptr);
  for (const Adapter* use : {static_cast<const Adapter*>(nullptr), &one}) {  // the passes are recorded anew
    drafted->set_adapter(use);
    drafted->set_drafter(std::make_unique<Scripted>(along(all, 7, 3, loaded_->model->config.vocab)));
    EXPECT_EQ(generate(*drafted, text(), 20), anew(use));
  }
}

TEST_F(AdapterUseTest, StatesBelongToAnAdapter) {
  const Adapter one = adapter(), other = adapter(2), same = adapter();
  TemporaryFolder folder;
  const auto first = loaded_->session(&one), second = loaded_->session(&other), third = loaded_->session(&same);
  const Ids want = anew(&one);
  generate(*first, text(), 5);
  second->prompt(text());
  EXPECT_EQ(second->copy_prefix(*first), 0u);
  EXPECT_EQ(generate(*second, text(), 20), anew(&other));
  first->save(folder.path() / "saved", "");
  EXPECT_THROW(second->restore(folder.path() / "saved"), Error);
  EXPECT_THROW(loaded_->session(nullptr)->restore(folder.path() / "saved"), Error);
  third->restore(folder.path() / "saved");
  EXPECT_EQ(generate(*third, text(), 20), want);
}

TEST_F(AdapterUseTest, ComesBackWithTheDevice) {
  Adapter one = adapter();
  const Ids want = anew(&one);
  const auto session = loaded_->session(&one);
  session->prompt(text());
  session->leave_device();
  one.leave_device();
  one.enter_device();
  session->enter_device();
  EXPECT_EQ(generate(*session, text(), 20), want);
}

TEST_F(AdapterUseTest, RefusesOneOfAnotherModel) {
  const Loaded other(model_folder("llama3"));
  const Adapter one = adapter();
  EXPECT_THROW(other.session(&one), Error);
}

// The refusal of a changed file.
std::string refusal(const Loaded& loaded, ModelFile file) {
  file.index.clear();
  for (size_t place = 0; place < file.tensors.size(); ++place) file.index[file.tensors[place].name] = place;
  try {
    Adapter(*loaded.model, loaded.file, std::move(file), 1);
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "not refused";
  return {};
}

TEST_F(AdapterUseTest, NamesTheTensorThatDoesNotFit) {
  for (const std::filesystem::path& path : {adapter_folder("llama3"), adapter_folder("llama3") / "adapter.gguf"}) {
    const auto expect_named = [&](const std::string& name, const std::string& what,
                                  const std::function<void(ModelFile&)>& change) {
      ModelFile file = open_adapter(path);
      change(file);
      const std::string said = refusal(*loaded_, std::move(file));
      EXPECT_NE(said.find("'" + name + "'" + what), std::string::npos) << said;
    };
    const std::vector<TensorView> good = open_adapter(path).tensors;
    for (size_t i = 0; i < good.size(); ++i) {
      const std::string& name = good[i].name;
      const bool is_b = name.ends_with("lora_b") || name.ends_with("lora_B.weight");
      expect_named(name, " has the shape", [&](ModelFile& file) { file.tensors[i].shape[1] += 1; });
      if (is_b) expect_named(name, " has the shape", [&](ModelFile& file) { file.tensors[i].shape[0] -= 1; });
      expect_named(name, " has the shape", [&](ModelFile& file) { file.tensors[i].shape = {}; });
      expect_named(name, " is missing",
                   [&](ModelFile& file) { file.tensors.erase(file.tensors.begin() + static_cast<ptrdiff_t>(i)); });
      expect_named(name, " is missing", [&](ModelFile& file) { file.tensors[i].name += "s"; });
    }
    static const std::vector<std::byte> bytes(8);
    for (const char* other : {"token_embd.weight.lora_a", "base_model.model.lm_head.lora_A.weight",
                              "blk.99.attn_q.weight.lora_a", "base_model.model.model.norm.weight", "x"})
      expect_named(other, "", [&](ModelFile& file) { file.tensors.push_back({other, DType::f32, {1, 2}, bytes}); });
    expect_named(good[1].name, "", [&](ModelFile& file) {  // a number that f16 does not have
      static std::vector<float> huge(element_count(good[1].shape), 1e30f);
      file.tensors[1].dtype = DType::f32;
      file.tensors[1].bytes = std::as_bytes(std::span(huge));
    });
    expect_named(good[0].name, " has a number that is not finite", [&](ModelFile& file) {
      static std::vector<float> wrong(element_count(good[0].shape), std::numeric_limits<float>::quiet_NaN());
      file.tensors[0].dtype = DType::f32;
      file.tensors[0].bytes = std::as_bytes(std::span(wrong));
    });
  }
}

TEST_F(AdapterUseTest, RefusesOtherKindsOfFiles) {
  const std::filesystem::path folder = adapter_folder("llama3");
  for (const auto& [key, value] : std::vector<std::pair<const char*, JsonValue>>{{"peft_type", "IA3"},
                                                                                 {"use_dora", true},
                                                                                 {"bias", "all"},
                                                                                 {"alpha_pattern", {{"a", 1}}},
                                                                                 {"init_lora_weights", "pissa"},
                                                                                 {"layer_replication", {1}},
                                                                                 {"lora_alpha", "x"}}) {
    ModelFile file = open_adapter(folder);
    file.metadata[key] = value;
    EXPECT_NE(refusal(*loaded_, std::move(file)).find(key), std::string::npos) << key;
  }
  EXPECT_NE(refusal(*loaded_, open_model(model_folder("llama3") / "model.gguf")).find("not a LoRA adapter"),
            std::string::npos);
  EXPECT_NE(refusal(*loaded_, open_adapter(adapter_folder("gemma2") / "adapter.gguf")).find("'gemma2'"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::test
