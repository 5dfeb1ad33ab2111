// weft/audio.h: speech, with a tiny random model of tests/tools/whisper_goldens.py.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/source_folder.h"
#include "weft/audio.hpp"

namespace weft::api {
namespace {

std::string folder_of(const char* name) { return (source_folder() / "tests/model" / name).string(); }

class AudioApi : public testing::Test {
 protected:
  AudioApi() {
    for (size_t i = 0; i < samples_.size(); ++i)
      samples_[i] = static_cast<float>(0.3 * std::sin(static_cast<double>(i * i) * 1e-6));
  }
  weft_status listen(const weft_listen_options& options, size_t count) {
    return weft_listen(listener_.get(), samples_.data(), count, &options, &error_);
  }
  Model model_{folder_of("golden_whisper/speech")};
  Listener listener_{model_};
  std::vector<float> samples_ = std::vector<float>(32000);
  weft_error error_ = {};
};

TEST_F(AudioApi, HearsTheSameTwice) {
  EXPECT_EQ(listener_.language(), "");
  std::vector<std::string> texts[2];
  for (std::vector<std::string>& own : texts)
    listener_.listen(samples_, {.language = "de", .temperatures = {0}}, [&](const weft_heard& heard) {
      own.push_back(heard.text);
      return true;
    });
  EXPECT_GE(texts[0].size(), 2u);
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(listener_.language(), "de");
}

TEST_F(AudioApi, RefusesWrongArguments) {
  weft_listen_options options = weft_listen_options_default();
  options.callback = [](void*, const weft_heard*) { return 0; };
  EXPECT_EQ(listen(options, 0), WEFT_OK);
  EXPECT_EQ(weft_listen(listener_.get(), samples_.data(), 1, nullptr, &error_), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_listen(listener_.get(), nullptr, 1, &options, &error_), WEFT_INVALID_ARGUMENT);
  options.language = "xx";
  EXPECT_EQ(listen(options, 100), WEFT_INVALID_ARGUMENT);
  options.language = nullptr;
  samples_[50] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(listen(options, 100), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(listen(options, 50), WEFT_OK);
  options.samples_per_second = 999;
  EXPECT_EQ(listen(options, 50), WEFT_INVALID_ARGUMENT);
  options.samples_per_second = 8000;
  const float temperatures[] = {0, 3};
  options.temperatures = temperatures;
  EXPECT_EQ(listen(options, 50), WEFT_INVALID_ARGUMENT);  // no temperature
  options.temperature_count = 1;
  EXPECT_EQ(listen(options, 50), WEFT_OK);
  options.temperature_count = 2;
  EXPECT_EQ(listen(options, 50), WEFT_INVALID_ARGUMENT);
  options.callback = nullptr;
  EXPECT_EQ(listen(options, 50), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_listener_begin(nullptr, &options, &error_), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_listener_feed(listener_.get(), samples_.data(), 1, &error_), WEFT_INVALID_ARGUMENT);  // none has begun
  EXPECT_EQ(weft_listener_finish(listener_.get(), &error_), WEFT_INVALID_ARGUMENT);
  EXPECT_THROW(Listener(Model(folder_of("golden_encoders/bert"))), Failure);
}

TEST_F(AudioApi, IsCancelled) {
  int told = 0;
  weft_listen_options options = weft_listen_options_default();
  const float greedy = 0;
  options.temperatures = &greedy;
  options.temperature_count = 1;
  options.language = "en";
  options.callback = [](void* user, const weft_heard*) { return ++*static_cast<int*>(user); };
  options.user = &told;
  EXPECT_EQ(listen(options, samples_.size()), WEFT_CANCELLED);
  EXPECT_EQ(told, 1);
  weft_listener_cancel(listener_.get());
  EXPECT_EQ(listen(options, samples_.size()), WEFT_CANCELLED);
  EXPECT_EQ(told, 1);
  weft_listener_cancel(listener_.get());
  listener_.clear_cancel();
  EXPECT_EQ(listen(options, samples_.size()), WEFT_CANCELLED);  // by the callback
  EXPECT_EQ(told, 2);
}

TEST_F(AudioApi, HearsPieces) {
  std::string whole, told;
  const ListenOptions options = {.language = "de", .prompt = "x", .samples_per_second = 44100, .temperatures = {0.5f}};
  listener_.listen(samples_, options, [&](const weft_heard& heard) { return whole += heard.text, true; });
  Listener other(model_);
  other.begin(options, [&](const weft_heard& heard) { return told += heard.text, true; });
  Listener moved = std::move(other);  // the callback moves along
  for (size_t begin = 0; begin < samples_.size(); begin += 441) {
    const auto from = samples_.begin() + static_cast<ptrdiff_t>(begin);
    moved.feed({from, from + static_cast<ptrdiff_t>(std::min<size_t>(441, samples_.size() - begin))});
  }
  EXPECT_THROW(moved.feed({std::numeric_limits<float>::infinity()}), Failure);  // and nothing has changed
  moved.finish();
  EXPECT_FALSE(whole.empty());
  EXPECT_EQ(told, whole);
  EXPECT_THROW(moved.finish(), Failure);

  moved.begin(options, [](const weft_heard&) { return true; });
  moved.feed(samples_);
  moved.cancel();
  EXPECT_THROW(moved.finish(), Failure);
  EXPECT_THROW(moved.feed(samples_), Failure);  // it has ended
}

}  // namespace
}  // namespace weft::api
