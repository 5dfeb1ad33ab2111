// A long-running application: turns of everything that a session does, random by a seed. Memory, file
// descriptors and Vulkan objects must not grow. WEFT_SOAK_SECONDS: how long (3); WEFT_SOAK_SEED: which turns (1);
// WEFT_SOAK_JSON: a file for the curve, of which tests/tools/soak_picture.py makes a picture.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "support/capi_options.h"
#include "support/losable_vulkan.h"
#include "support/model_maker.h"
#include "support/source_folder.h"
#include "weft/audio.hpp"
#include "weft/batch.hpp"
#include "weft/weft.hpp"

// AddressSanitizer's, in programs that have it. mallinfo2 does not know its malloc, and freed memory stays resident for
// long.
extern "C" {
__attribute__((weak)) int __sanitizer_install_malloc_and_free_hooks(void (*allocated)(const volatile void*, size_t),
                                                                    void (*freed)(const volatile void*));
__attribute__((weak)) size_t __sanitizer_get_allocated_size(const volatile void* block);
}

namespace weft::test {
namespace {

using Clock = std::chrono::steady_clock;
using Ids = std::vector<uint32_t>;

// Most Vulkan objects that come after the first sample: a pass is recorded once more when it must not wait for the
// recording in flight (turns.h), which depends on the load of the machine. A leak of one object a turn is soon more.
constexpr size_t kLateRecordings = 48;
constexpr size_t kTurnsOfASample = 20;
constexpr double kMostGrowth = 1024;  // bytes a turn
// Least seconds of a run after which growth differs from noise. Drivers take and free memory for compiled code by tens
// of MiB.
constexpr double kLongRun = 60, kLongRunOfResident = 3600;
constexpr double kWarmUp = 0.4;  // share of the samples: allocators and drivers fill their pools

double from_environment(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atof(text) : otherwise;
}

struct Sample {
  double seconds;
  size_t turns, heap, resident, descriptors, objects;
};

// With a sanitizer: bytes in blocks that malloc has given since watch_heap and not got back. Without large blocks: with
// this model Weft has them for moments only, but SwiftShader keeps stacks of 1 MiB, as many as invocations ever waited
// at once. LeakSanitizer finds a large block that is lost.
constexpr size_t kLargeBlock = 512 << 10;
std::atomic<size_t> watched_bytes = 0;

bool watch_heap() {
  if (!__sanitizer_install_malloc_and_free_hooks) return false;
  return __sanitizer_install_malloc_and_free_hooks(
             [](const volatile void* block, size_t bytes) {
               if (block && bytes < kLargeBlock) watched_bytes += bytes;
             },
             [](const volatile void* block) {
               const size_t bytes = block ? __sanitizer_get_allocated_size(block) : 0;
               if (bytes < kLargeBlock) watched_bytes -= bytes;
             }) > 0;
}

// Bytes that malloc has given and not got back.
size_t heap_bytes(bool watched) {
  if (watched) return watched_bytes;
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

size_t resident_bytes() {
  ::malloc_trim(0);  // what is free need not stay
  std::ifstream statm("/proc/self/statm");
  size_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

size_t open_descriptors() {
  const std::filesystem::directory_iterator begin("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin, std::filesystem::directory_iterator())) - 1;  // its own
}

// Least squares of a member over turns: bytes a turn.
double growth(std::span<const Sample> samples, size_t Sample::*bytes) {
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const Sample& s : samples) x += double(s.turns), y += double(s.*bytes);
  x /= double(samples.size()), y /= double(samples.size());
  for (const Sample& s : samples) {
    xx += (double(s.turns) - x) * (double(s.turns) - x);
    xy += (double(s.turns) - x) * (double(s.*bytes) - y);
  }
  return xx > 0 ? xy / xx : 0;
}

class Application {
 public:
  Application(std::filesystem::path folder, uint64_t seed)
      : folder_(std::move(folder)), model_((folder_ / "m.gguf").string()), random_(seed) {}

  static constexpr size_t kKinds = 11;
  void turn() { turn(below(kKinds)); }
  void turn(size_t kind) {
    ++turns_;
    try {
      do_turn(kind);
    } catch (const api::Failure& failure) {
      ADD_FAILURE() << "turn " << turns_ << " of kind " << kind << ": " << failure.what() << " " << failure.place();
      throw;
    }
  }
  void do_turn(size_t kind) {
    while (sessions_.size() < 3) sessions_.push_back(make_session());
    api::Session& session = sessions_[below(sessions_.size())];
    switch (kind) {
      case 0:
        return chat(session);
      case 1:
        return cancel(session);
      case 2:
        return save_and_restore(session);
      case 3:
        return batch();
      case 4:
        return continuous_batch();
      case 5:
        return grammar(session);
      case 6:
        return head(below(std::size(kHeads)));
      case 7:
        return look(session);
      case 8:
        sessions_[below(sessions_.size())] = make_session();
        return;
      case 9:
        return listen();
      default:
        return settings(session);
    }
  }
  // One turn of each kind, with every head and grammar: all that is made once is made then.
  void all_turns() {
    for (int time = 0; time < 3; ++time)
      for (size_t kind = 0; kind < kKinds; ++kind) turn(kind);
    for (size_t i = 0; i < std::size(kHeads); ++i) head(i);
    load_another();
  }
  // Rarely.
  void load_another() {
    const api::Model other((folder_ / "m.gguf").string());
    api::Session session(other, 64);
    session.prompt(prompt());
    session.generate(2);
  }
  // Without sessions, as at the beginning.
  void rest() { sessions_.clear(); }
  std::string device() const { return model_.info().device; }

 private:
  static constexpr const char* kHeads[] = {"full",   "certified",  "sure",
                                           "fast:5", "keep:ascii", "certified+keep:!digits"};

  size_t below(size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(random_); }
  std::string words(size_t most) {
    std::string text;
    for (size_t i = 1 + below(most); i > 0; --i) {
      for (size_t letters = 1 + below(6); letters > 0; --letters) text += static_cast<char>('a' + below(26));
      text += ' ';
    }
    return text;
  }
  Ids prompt() {
    Ids ids = model_.tokenize(words(12), true);
    ids.resize(std::min<size_t>(ids.size(), 60));
    return ids;
  }
  api::Session make_session() {
    return api::Session(model_, 128, below(2) ? WEFT_TYPE_Q8 : WEFT_TYPE_F16,
                        below(4) ? WEFT_POLICY_THROUGHPUT : WEFT_POLICY_POLITE);
  }

  void chat(api::Session& session) {
    std::vector<api::Message> messages;
    for (size_t i = 0; i <= below(3); ++i) messages.push_back({i % 2 ? "assistant" : "user", words(4)});
    Ids ids = model_.apply_chat_template(messages);
    ids.resize(std::min<size_t>(ids.size(), 100));
    session.prompt(ids);
    std::string answer;
    session.generate(10, [&](uint32_t, std::string_view text) { return answer += text, true; });
    model_.detokenize(session.ids());
  }
  void cancel(api::Session& session) {
    session.prompt(prompt());
    session.generate(20, [&](uint32_t, std::string_view) { return weft_session_cancel(session.get()), true; });
    session.generate(3);
  }
  void save_and_restore(api::Session& session) {
    session.prompt(prompt());
    session.generate(4);
    const std::string path = (folder_ / "saved").string();
    session.save(path, words(3));
    session.restore(path);
    session.generate(4);
  }
  void batch() {
    const weft_generate_options options = test::generate_options(6);
    weft_batch_entry entries[3] = {};
    for (size_t i = 0; i < 3; ++i) {
      sessions_[i].prompt(prompt());
      entries[i] = {sessions_[i].get(), &options, WEFT_STOP_LENGTH};
    }
    api::detail::check([&](weft_error* error) { return weft_generate_batch(entries, 3, error); });
  }
  void continuous_batch() {
    api::Batch batch(model_);
    for (api::Session& session : sessions_) {
      session.prompt(prompt());
      batch.add(session, static_cast<uint32_t>(1 + below(8)), {}, true);
      batch.step();
    }
    while (batch.size() > 0) batch.step();
  }
  void grammar(api::Session& session) {
    const std::string text =
        std::string("[a-") + static_cast<char>('b' + below(20)) + "]{3," + std::to_string(4 + below(9)) + "}";
    session.set_grammar(WEFT_GRAMMAR_REGEX, text);
    session.prompt(prompt());
    session.generate(12);
    session.set_grammar(WEFT_GRAMMAR_JSON_SCHEMA, R"({"type": "object", "properties": {"a": {"type": "integer"}}})");
    session.generate(6);
    session.set_grammar(WEFT_GRAMMAR_NONE);
  }
  void head(size_t which) {
    api::Session session = make_session();
    session.set_head(kHeads[which]);
    session.prompt(prompt());
    session.generate(8);
  }
  void look(api::Session& session) {
    session.score(prompt());
    session.prompt(prompt());
    session.logits();
    session.set_logprobs(5);
    session.generate(3, [&](uint32_t, std::string_view) { return session.logprobs().likeliest.size() == 5; });
    session.set_logprobs(0);
    model_.describe();
  }
  void settings(api::Session& session) {
    weft_sampling sampling = weft_sampling_default();
    sampling.temperature = below(2) ? 0 : 0.8f;
    sampling.seed = below(1000);
    sampling.repeat_penalty = below(2) ? 1 : 1.2f;
    session.set_sampling(sampling);
    session.set_stops({words(1), words(1)});
    session.set_logit_bias({{static_cast<uint32_t>(below(500)), 2.0f}});
    session.set_speculation(below(2) ? WEFT_SPECULATE_LOOKUP : WEFT_SPECULATE_OFF);
    session.prompt(prompt());
    session.generate(8);
    session.set_stops({});
  }

  // A recording in pieces, of any of two rates; some are given up after the first segment.
  void listen() {
    api::Listener listener(speech_);
    const uint32_t rate = below(2) ? 16000 : 11025;
    std::vector<float> piece(rate / 10);
    const size_t pieces = 1 + below(20), most = below(3) ? SIZE_MAX : 1;
    const float pitch = 0.02f + 0.001f * static_cast<float>(below(100));
    size_t told = 0;
    try {
      listener.begin({"de", false, words(3), rate, {0}, below(2) == 0},
                     [&](const weft_heard&) { return ++told < most; });
      for (size_t i = 0; i < pieces; ++i) {
        for (size_t j = 0; j < piece.size(); ++j)
          piece[j] = 0.3f * std::sin(pitch * static_cast<float>(i * piece.size() + j));
        listener.feed(piece);
      }
      listener.finish();
    } catch (const api::Failure& failure) {
      if (failure.status() != WEFT_CANCELLED) throw;
    }
  }

  std::filesystem::path folder_;
  api::Model model_;
  const api::Model speech_{(source_folder() / "tests/model/golden_whisper/speech").string()};
  std::mt19937_64 random_;
  std::vector<api::Session> sessions_;
  size_t turns_ = 0;
};

// Keeps drivers loaded, so that reports of their leaks contain their names.
int keep_loaded(dl_phdr_info* info, size_t, void*) {
  if (*info->dlpi_name) dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  return 0;
}

void write_json(const std::string& path, const std::string& device, double seed, std::span<const Sample> samples,
                double heap_slope, double resident_slope) {
  char date[16];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
  nlohmann::ordered_json json = {{"date", date},
                                 {"device", device},
                                 {"seed", seed},
                                 {"heap_bytes_a_turn", heap_slope},
                                 {"resident_bytes_a_turn", resident_slope}};
  for (const Sample& s : samples)
    json["samples"].push_back({{"seconds", s.seconds},
                               {"turns", s.turns},
                               {"heap_bytes", s.heap},
                               {"resident_bytes", s.resident},
                               {"descriptors", s.descriptors},
                               {"vulkan_objects", s.objects}});
  std::ofstream(path) << json.dump(1) << "\n";
}

TEST(Soak, NothingGrows) {
  std::string folder = (std::filesystem::temp_directory_path() / "weft-test-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  setenv("WEFT_CACHE_DIR", (folder + "/cache").c_str(), 1);
  LlamaShape shape;
  shape.context = 128;
  make_gguf(folder + "/m.gguf", shape,
            {DType::q8_0, 5, "{% for m in messages %}<{{ m['role'] }}>{{ m.content | trim }}{% endfor %}"});
  const double seconds = from_environment("WEFT_SOAK_SECONDS", 3), seed = from_environment("WEFT_SOAK_SEED", 1);
  std::vector<Sample> samples;
  std::string device;
  const bool watched = watch_heap();
  try {
    Application application(folder, static_cast<uint64_t>(seed));
    device = application.device();
    dl_iterate_phdr(keep_loaded, nullptr);
    application.all_turns();
    const auto start = Clock::now();
    const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
    for (size_t turns = 0; samples.size() < 2 || elapsed() < seconds;) {
      for (size_t i = 0; i < kTurnsOfASample; ++i, ++turns) application.turn();
      if (samples.size() % 10 == 9) application.load_another();
      application.rest();
      samples.push_back(
          {elapsed(), turns, heap_bytes(watched), resident_bytes(), open_descriptors(), live_vulkan_objects()});
    }
  } catch (const api::Failure& failure) {
    std::filesystem::remove_all(folder);
    if (failure.status() == WEFT_NO_DEVICE) GTEST_SKIP() << "there is no device";
    FAIL() << failure.what();
  }
  std::filesystem::remove_all(folder);
  EXPECT_EQ(live_vulkan_objects(), 0u);
  const auto steady = std::span(samples).subspan(static_cast<size_t>(kWarmUp * static_cast<double>(samples.size())));
  const double heap_slope = growth(steady, &Sample::heap), resident_slope = growth(steady, &Sample::resident);
  if (const char* path = std::getenv("WEFT_SOAK_JSON"))
    write_json(path, device, seed, samples, heap_slope, resident_slope);
  std::cout << samples.back().turns << " turns, " << heap_slope << " bytes of heap and " << resident_slope
            << " resident a turn, " << samples.back().heap / 1024 << " and " << samples.back().resident / 1024
            << " KiB, " << samples.back().descriptors << " descriptors, " << samples.back().objects << " Vulkan objects"
            << std::endl;
  for (const Sample& sample : samples) {
    ASSERT_EQ(sample.descriptors, samples.front().descriptors) << "after " << sample.turns << " turns";
    ASSERT_LE(sample.objects, samples.front().objects + kLateRecordings) << "after " << sample.turns << " turns";
  }
  if (seconds >= kLongRun) {
    EXPECT_LT(heap_slope, kMostGrowth);
  }
  if (seconds >= kLongRunOfResident && !watched) {
    EXPECT_LT(resident_slope, kMostGrowth);
  }
}

}  // namespace
}  // namespace weft::test
