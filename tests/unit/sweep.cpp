// Everything outside of Weft fails, one call after another: Vulkan and files. Each failure is a documented status, and
// the failed call then succeeds with the result that it would have had. WEFT_SWEEP=1 tries every call,
// WEFT_SWEEP=17 every seventeenth from the first on, WEFT_SWEEP=17:5 from the fifth on: 17:1 to 17:17 are every call in
// parts. Without it some of them.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/capi_options.h"
#include "support/failing_file.h"
#include "support/last_point.h"
#include "support/losable_vulkan.h"
#include "support/model_maker.h"
#include "support/source_folder.h"
#include "weft/batch.h"
#include "weft/convert.h"
#include "weft/recover.h"
#include "weft/speculate.h"

namespace weft::test {
namespace {

using Ids = std::vector<uint32_t>;

size_t g_every = 0, g_first = 1;  // g_every 0: each fault's own stride
const bool g_asked = [] {
  const char* text = std::getenv("WEFT_SWEEP");
  return text && std::sscanf(text, "%zu:%zu", &g_every, &g_first) >= 1;
}();

// Makes the n-th call of a step fail; 0: none. fired: true if there were n calls. what: the call that failed.
struct Fault {
  std::string name;
  std::function<void(size_t n)> arm;
  std::function<bool()> fired;
  std::function<std::string()> what;
  std::vector<weft_status> documented;
  size_t stride = 1;  // of the calls that are tried, unless all are
};

Fault vulkan_fault(const char* name, VulkanFault fault, std::vector<weft_status> documented, size_t stride) {
  return {name,
          [fault](size_t n) { fail_vulkan_at(fault, n); },
          [] { return failed_vulkan_call() != nullptr; },
          [] { return std::string(failed_vulkan_call() ? failed_vulkan_call() : ""); },
          std::move(documented),
          stride};
}

Fault file_fault(const char* name, FileFault fault, std::vector<weft_status> documented, size_t stride) {
  const auto failing = std::make_shared<std::optional<FailFile>>();
  return {name,
          [=](size_t n) {
            failing->reset();
            if (n > 0) failing->emplace(fault, n);
          },
          [=] { return *failing && (*failing)->failed(); },
          [=] { return std::string((*failing)->function()); },
          std::move(documented),
          stride};
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

struct Variant {
  weft_policy policy = WEFT_POLICY_THROUGHPUT;
  bool streamed = false, recovers = false;
  uint64_t budget = 0;  // of device memory
};

// An application that uses Weft. A step can be repeated, and appends its results to `out` if it succeeds.
class Application {
 public:
  Application(const std::filesystem::path& folder, const Variant& variant) : folder_(folder), variant_(variant) {}
  ~Application() { free(); }
  void free() {
    weft_session_free(std::exchange(session_, nullptr));
    weft_encoder_free(std::exchange(encoder_, nullptr));
    weft_model_free(std::exchange(model_, nullptr));
    weft_model_free(std::exchange(bert_, nullptr));
  }

  weft_error error = {};
  std::string out;

  // Brings a lost device back.
  weft_status recover() {
    weft_status status = WEFT_OK;
    for (weft_model* model : {model_, bert_})
      if (model && status == WEFT_OK) status = weft_model_recover(model, &error);
    return status;
  }

  weft_status load() {
    weft_model_options options = weft_model_options_default();
    options.memory_budget = variant_.budget;
    weft_model* model = nullptr;
    const weft_status status = weft_model_load((folder_ / "m.gguf").c_str(), &options, &model, &error);
    if (status != WEFT_OK) return status;
    weft_model_free(std::exchange(model_, model));
    EXPECT_EQ(test::info_of(model).streamed_bytes > 0, variant_.streamed);
    return weft_model_set_recovery(model, variant_.recovers, &error);
  }
  weft_status create() {
    weft_session_options options = session_options(100, WEFT_TYPE_FILE, variant_.policy);
    weft_session* session = nullptr;
    const weft_status status = weft_session_create(model_, &options, &session, &error);
    if (status != WEFT_OK) return status;
    weft_session_free(std::exchange(session_, session));
    weft_sampling sampling = weft_sampling_default();
    sampling.seed = 11;
    return test::set_sampling(session, sampling, &error);
  }
  weft_status answer() {
    weft_session_reset(session_);
    const weft_status status = weft_session_prompt(session_, prompt_.data(), prompt_.size(), &error);
    return status == WEFT_OK ? generate(6) : status;
  }
  // An answer by a request with some changes, which goes after it.
  template <class Change>
  weft_status answer_by(const Change& change) {
    weft_status status = test::change_request(session_, change, &error);
    if (status == WEFT_OK) status = answer();
    return status == WEFT_OK ? test::change_request(
                                   session_, [](weft_request&) {}, &error)
                             : status;
  }
  weft_status text() {
    Ids ids(100);
    size_t count = 0;
    const std::string text = "some words, and \xc3\xa9 more";
    weft_status status = weft_tokenize(model_, text.data(), text.size(), 1, 1, ids.data(), ids.size(), &count, &error);
    char* words = nullptr;
    if (status == WEFT_OK) status = weft_detokenize(model_, ids.data(), count, &words, nullptr, &error);
    const weft_message messages[] = {{"user", "a question"}, {"assistant", "an answer"}, {"user", "another"}};
    if (status == WEFT_OK)
      status = weft_apply_chat_template(model_, messages, 3, ids.data(), ids.size(), &count, &error);
    if (status == WEFT_OK) append(words, ids.data(), count);
    weft_string_free(words);
    return status;
  }
  weft_status describe() {
    char* json = nullptr;
    const weft_status status = weft_model_describe(model_, &json, &error);
    weft_string_free(json);
    return status;
  }
  weft_status logits() {
    std::vector<float> logits(test::info_of(model_).vocab_size);
    weft_status status = with_context();
    if (status == WEFT_OK) status = weft_session_logits(session_, logits.data(), logits.size(), &error);
    const size_t best = static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    if (status == WEFT_OK) out += std::to_string(best) + " ";
    return status;
  }
  weft_status score() {
    std::vector<float> nll(prompt_.size() - 1);
    const weft_status status = weft_session_score(session_, prompt_.data(), prompt_.size(), nll.data(), &error);
    for (const float one : nll) out += status == WEFT_OK ? std::to_string(std::lround(one * 1000)) + " " : "";
    return status;
  }
  weft_status save() {
    weft_status status = with_context();
    if (status == WEFT_OK) status = weft_session_save(session_, saved().c_str(), "a note", &error);
    return status;
  }
  weft_status restore() {
    char* note = nullptr;
    weft_status status = weft_session_restore(session_, saved().c_str(), &note, &error);
    if (status != WEFT_OK) return status;
    const std::string noted = note;
    weft_string_free(note);
    status = generate(3);
    if (status == WEFT_OK) out += noted;
    return status;
  }
  weft_status grammar() {
    return answer_by([](weft_request& request) {
      request.grammar_kind = WEFT_GRAMMAR_REGEX;
      request.grammar = "[a-p]{30,60}";
      request.grammar_place = "test";
    });
  }
  weft_status head() {
    return answer_by([](weft_request& request) { request.head = "certified+keep:ascii"; });
  }
  weft_status speculate() {
    return answer_by([](weft_request& request) { request.speculation = WEFT_SPECULATE_LOOKUP; });
  }
  weft_status draft() {
    return answer_by([this](weft_request& request) {
      request.speculation = WEFT_SPECULATE_DRAFT;
      request.draft = model_;
    });
  }
  weft_status batch() {
    weft_session* group[2] = {};
    weft_session_options options = session_options(100, WEFT_TYPE_FILE, variant_.policy);
    weft_status status = weft_session_create_group(model_, &options, group, 2, &error);
    Ids ids[2];
    const weft_generate_options first = test::generate_options(6, 1, collect, &ids[0]),
                                second = test::generate_options(6, 1, collect, &ids[1]);
    weft_batch_entry entries[] = {{group[0], &first, {}}, {group[1], &second, {}}};
    for (const weft_batch_entry& entry : entries) {
      if (status != WEFT_OK) break;
      weft_session_reset(entry.session);
      status = weft_session_prompt(entry.session, prompt_.data(), prompt_.size(), &error);
    }
    if (status == WEFT_OK) status = weft_generate_batch(entries, 2, &error);
    for (const Ids& one : ids)
      if (status == WEFT_OK) append("", one.data(), one.size());
    for (weft_session* one : group) weft_session_free(one);
    return status;
  }
  weft_status keep() {
    const std::string list = (folder_ / "kept").string();
    Ids ids(600);
    size_t count = 0;
    weft_status status = weft_vocab_save(model_, prompt_.data(), prompt_.size(), list.c_str(), &error);
    if (status == WEFT_OK) status = weft_vocab_keep(model_, list.c_str(), ids.data(), ids.size(), &count, &error);
    if (status == WEFT_OK) append("", ids.data(), count);
    return status;
  }
  weft_status embed() {
    const std::string bert = (folder_ / "bert").string();
    const Ids ids = {2, 5, 7, 3};
    weft_status status = WEFT_OK;
    if (!bert_) status = weft_model_load(bert.c_str(), nullptr, &bert_, &error);
    if (status == WEFT_OK && !encoder_) status = weft_encoder_create(bert_, &encoder_, &error);
    if (status == WEFT_OK) status = weft_encoder_run(encoder_, ids.data(), ids.size(), &error);
    if (status != WEFT_OK) return status;
    std::vector<float> values(test::info_of(bert_).width);
    status = weft_encoder_embedding(encoder_, WEFT_POOL_MEAN, values.data(), values.size(), &error);
    if (status != WEFT_OK) return status;
    for (const float value : values) out += std::to_string(std::lround(value * 1000)) + " ";
    weft_encoder_free(std::exchange(encoder_, nullptr));
    weft_model_free(std::exchange(bert_, nullptr));
    return status;
  }
  weft_status convert() {
    weft_convert_options options = weft_convert_options_default();
    options.type = WEFT_FILE_TYPE_Q4_1;
    options.replace = 1;
    const std::filesystem::path to = folder_ / "converted.gguf";
    const weft_status status = weft_convert((folder_ / "m.gguf").c_str(), to.c_str(), &options, nullptr, &error);
    if (status == WEFT_OK) out += std::to_string(std::hash<std::string>()(bytes_of(to)));
    return status;
  }
  weft_status devices() {
    char* json = nullptr;
    const weft_status status = weft_devices(&json, &error);
    if (status == WEFT_OK) out += json;
    weft_string_free(json);
    return status;
  }

  uint64_t weight_bytes() const {
    const weft_model_info info = test::info_of(model_);
    return info.vocab_bytes + info.layer_bytes;
  }

 private:
  static int collect(void* user, uint32_t id, const char*, size_t) {
    if (id != WEFT_NO_TOKEN) static_cast<Ids*>(user)->push_back(id);
    return 0;
  }
  std::filesystem::path saved() const { return folder_ / "saved"; }

  // The prompt alone.
  weft_status with_context() {
    weft_session_reset(session_);
    return weft_session_prompt(session_, prompt_.data(), prompt_.size(), &error);
  }
  weft_status generate(uint32_t count) {
    Ids ids;
    weft_generate_options options = test::generate_options(count, 1, collect, &ids);
    const weft_status status = weft_session_generate(session_, &options, nullptr, &error);
    if (status == WEFT_OK) append("", ids.data(), ids.size());
    return status;
  }
  void append(const char* words, const uint32_t* ids, size_t count) {
    out += words;
    for (size_t i = 0; i < count; ++i) out += std::to_string(ids[i]) + " ";
  }

  const Ids prompt_ = {5, 9, 2, 7, 7, 3, 1, 8, 5, 9, 2};
  std::filesystem::path folder_;
  Variant variant_;
  weft_model *model_ = nullptr, *bert_ = nullptr;
  weft_session* session_ = nullptr;
  weft_encoder* encoder_ = nullptr;
};

struct Step {
  const char* name;
  weft_status (Application::*run)();
};

int keep_loaded(dl_phdr_info* info, size_t, void*) {
  if (*info->dlpi_name) dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  return 0;
}

class SweepTest : public testing::Test {
 protected:
  void SetUp() override {
    say_point_in_a_crash();
    std::string name = (std::filesystem::temp_directory_path() / "weft-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    setenv("WEFT_CACHE_DIR", (folder_ / "cache").c_str(), 1);
    LlamaShape shape;
    shape.layers = 6;
    shape.ffn = 640;  // most of the memory is the layers'
    make_gguf(folder_ / "m.gguf", shape,
              {DType::q8_0, 5, "{% for m in messages %}<{{ m['role'] }}>{{ m.content | trim }}{% endfor %}"});
    Application first(folder_, {});
    const weft_status status = first.load();
    if (status == WEFT_NO_DEVICE) GTEST_SKIP() << "there is no device";
    ASSERT_EQ(status, WEFT_OK) << first.error.sentence;
    budget_ = first.weight_bytes() * 5 / 4;  // weights are streamed that need more than three quarters
    make_encoder();
    dl_iterate_phdr(keep_loaded, nullptr);  // what drivers leak is known by their names
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
    EXPECT_EQ(live_vulkan_objects(), 0u);
    EXPECT_EQ(open_devices(), 0u);
  }

  // A tiny encoder, with a tokenizer.
  void make_encoder() {
    const std::filesystem::path from = source_folder() / "tests/model/golden_encoders/bert", to = folder_ / "bert";
    std::filesystem::create_directory(to);
    for (const char* name : {"config.json", "model.safetensors"}) std::filesystem::copy_file(from / name, to / name);
    std::ofstream(to / "tokenizer.json")
        << R"({"model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",)"
        << R"("max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3}}})";
  }

  // Each call of the steps fails in turn. again: each time with a new application, else with one that has a session.
  void sweep(const Fault& fault, const Variant& variant, const std::vector<Step>& steps, bool again) {
    std::string name = fault.name + ", " + steps.back().name;
    Application one(folder_, variant);
    if (!again) {
      ASSERT_EQ(one.load(), WEFT_OK) << one.error.sentence;
      ASSERT_EQ(one.create(), WEFT_OK) << one.error.sentence;
      ASSERT_EQ(one.answer(), WEFT_OK) << one.error.sentence;
      ASSERT_EQ(one.save(), WEFT_OK) << one.error.sentence;
    }
    std::string want;
    for (int time = 0; time < 2; ++time) {  // the second has the caches of the first
      one.out.clear();
      for (const Step& step : steps) ASSERT_EQ((one.*step.run)(), WEFT_OK) << name << " " << one.error.sentence;
      want = one.out;
      if (again) one.free();
    }
    const size_t stride = g_every ? g_every : fault.stride;
    for (size_t n = g_first;; n += stride) {
      std::snprintf(g_point, sizeof g_point, "%s, number %zu\n", name.c_str(), n);
      one.out.clear();
      bool fired = false;
      std::string what;
      const auto disarm = [&] {
        if (fault.fired()) fired = true, what = fault.what();
        fault.arm(0);
      };
      fault.arm(n);
      for (const Step& step : steps) {
        const std::string before = one.out;
        const weft_status status = (one.*step.run)();
        if (status == WEFT_OK) continue;
        disarm();
        ASSERT_TRUE(fired) << g_point << step.name << " failed of itself: " << one.error.sentence;
        ASSERT_NE(std::ranges::find(fault.documented, status), fault.documented.end())
            << g_point << step.name << " " << what << " " << weft_status_name(status) << " " << one.error.sentence
            << " " << one.error.place;
        ASSERT_NE(one.error.sentence[0], 0) << g_point;
        ++outcomes_[weft_status_name(status)];
        if (status == WEFT_DEVICE_LOST) {
          ASSERT_EQ(one.recover(), WEFT_OK) << g_point << one.error.sentence;
        }
        one.out = before;
        ASSERT_EQ((one.*step.run)(), WEFT_OK)
            << g_point << step.name << " after " << what << " " << one.error.sentence << " " << one.error.place;
      }
      if (again) one.free();
      disarm();
      ASSERT_EQ(one.out, want) << g_point << what;
      ASSERT_EQ(fences_destroyed_under_way(), 0u) << g_point << what;
      if (again) {
        ASSERT_EQ(live_vulkan_objects(), 0u) << g_point << what;
        ASSERT_EQ(open_devices(), 0u) << g_point << what;
      }
      if (!fired) break;
      ++points_;
    }
  }

  // Everything, cold and warm.
  void sweep_all(const Fault& fault, Variant variant = {}) {
    using A = Application;
    if (variant.streamed) variant.budget = budget_;
    ASSERT_NO_FATAL_FAILURE(
        sweep(fault, variant, {{"load", &A::load}, {"create", &A::create}, {"answer", &A::answer}}, true));
    const std::vector<Step> some = {{"answer", &A::answer}, {"restore", &A::restore}};
    const std::vector<Step> all = {{"create", &A::create},     {"answer", &A::answer},   {"text", &A::text},
                                   {"describe", &A::describe}, {"logits", &A::logits},   {"score", &A::score},
                                   {"save", &A::save},         {"restore", &A::restore}, {"grammar", &A::grammar},
                                   {"head", &A::head},         {"guess", &A::speculate}, {"draft", &A::draft},
                                   {"batch", &A::batch},       {"keep", &A::keep},       {"embed", &A::embed},
                                   {"convert", &A::convert},   {"devices", &A::devices}};
    const bool plain = variant.policy == WEFT_POLICY_THROUGHPUT && !variant.streamed && !variant.recovers;
    for (const Step& step : plain ? all : some) ASSERT_NO_FATAL_FAILURE(sweep(fault, variant, {step}, false));
    report(fault);
  }

  void report(const Fault& fault) {
    std::cout << fault.name << ": " << points_ << " points";
    for (const auto& [status, count] : outcomes_) std::cout << ", " << count << " " << status;
    std::cout << std::endl;
    ASSERT_GT(points_, 0u) << fault.name << " reached no call";
    points_ = 0;
    outcomes_.clear();
  }

  std::filesystem::path folder_;
  uint64_t budget_ = 0;
  size_t points_ = 0;
  std::map<std::string, size_t> outcomes_;
};

const Variant kVariants[] = {
    {WEFT_POLICY_THROUGHPUT, false, false}, {WEFT_POLICY_POLITE, false, false}, {WEFT_POLICY_THROUGHPUT, true, false}};

// All of them where WEFT_SWEEP is set, else the one.
std::span<const Variant> variants(size_t one) {
  return g_asked ? std::span(kVariants) : std::span(kVariants).subspan(one, 1);
}

// For faults of which nothing may be noticed: a session that answers and is restored, unless all calls are asked for.
Variant variant_unnoticed() { return g_asked ? Variant{} : kVariants[1]; }

TEST_F(SweepTest, VulkanHasNoMemory) {
  for (const Variant& variant : variants(1))
    sweep_all(vulkan_fault("host memory of Vulkan", kHostMemory, {WEFT_OUT_OF_MEMORY}, 1499), variant);
  for (const Variant& variant : variants(2))
    sweep_all(vulkan_fault("device memory", kDeviceMemory, {WEFT_OUT_OF_MEMORY}, 1499), variant);
}

TEST_F(SweepTest, VulkanLosesTheDevice) {
  for (const Variant& variant : variants(0))
    sweep_all(vulkan_fault("device lost once", kLostOnce, {WEFT_DEVICE_LOST}, 1999), variant);
  for (const Variant& variant : variants(1))
    sweep_all(vulkan_fault("device lost", kLost, {WEFT_DEVICE_LOST}, 2999), variant);
  for (Variant variant : variants(2)) {
    variant.recovers = true;
    sweep_all(vulkan_fault("device lost, recovers", kLost, {WEFT_DEVICE_LOST}, 601), variant);
  }
}

TEST_F(SweepTest, VulkanTakesLonger) { sweep_all(vulkan_fault("timeout", kTimeout, {}, 1201), variant_unnoticed()); }

// The loader's functions are the process's: no instance is made while another is being destroyed.
TEST_F(SweepTest, InstancesTakeTurns) {
  destroy_instances_slowly(true);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for (int time = 0; time < 30; ++time) {
        char* json = nullptr;
        EXPECT_EQ(weft_devices(&json, nullptr), WEFT_OK);
        weft_string_free(json);
      }
    });
  for (std::thread& thread : threads) thread.join();
  destroy_instances_slowly(false);
  EXPECT_EQ(instances_made_meanwhile(), 0u);
}

TEST_F(SweepTest, FilesFail) {
  const Variant unnoticed = variant_unnoticed();
  sweep_all(file_fault("EIO", FileFault::io, {WEFT_IO, WEFT_OUT_OF_MEMORY}, 199));
  sweep_all(file_fault("ENODEV", FileFault::no_map, {}, 37), unnoticed);
  sweep_all(file_fault("ENOSPC", FileFault::no_space, {WEFT_IO}, 89));
  sweep_all(file_fault("EINTR", FileFault::interrupted, {}, 397), unnoticed);
  sweep_all(file_fault("a part", FileFault::part, {}, 397), unnoticed);
}

// Linux tells of a failed write to the disk once: the next fsync succeeds, and the file has holes.
TEST_F(SweepTest, AFailedSyncIsAnError) {
  Application one(folder_, {});
  for (const auto step : {&Application::load, &Application::create, &Application::answer, &Application::save})
    ASSERT_EQ((one.*step)(), WEFT_OK) << one.error.sentence;
  std::string function;
  weft_status status = WEFT_OK;
  for (size_t n = 1; function != "fsync"; ++n) {
    const FailFile failing(FileFault::no_space, n);
    status = one.save();
    ASSERT_TRUE(failing.failed()) << "save() syncs nothing";
    function = failing.function();
  }
  EXPECT_EQ(status, WEFT_IO);
  EXPECT_EQ(one.restore(), WEFT_OK) << one.error.sentence;  // the file of before
}

}  // namespace
}  // namespace weft::test
