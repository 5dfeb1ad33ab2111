// Recordings that are damaged and cut, each read as `weft listen` reads it and heard by the same listener: text or an
// error. WEFT_DAMAGED: how many (30); WEFT_DAMAGED_SEED: which (1); WEFT_DAMAGED_MODEL: the folder of another Whisper;
// WEFT_DAMAGED_SPEECH: a folder of recordings whose first two seconds are taken, instead of sound that is made here.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sndfile.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "../weft/recording.h"
#include "support/source_folder.h"
#include "weft/audio.hpp"

namespace weft::test {
namespace {

using Samples = std::vector<float>;

constexpr uint32_t kLongest = 60;         // seconds that a damaged header may claim
constexpr size_t kManyRecordings = 1000;  // growth of memory differs from noise

std::string from_environment(const char* name, const std::string& otherwise) {
  const char* text = std::getenv(name);
  return text ? text : otherwise;
}

size_t heap_bytes() {
  const struct mallinfo2 info = ::mallinfo2();  // zeros with a sanitizer's malloc
  return info.uordblks + info.hblkhd;
}

size_t resident_bytes() {
  ::malloc_trim(0);
  std::ifstream statm("/proc/self/statm");
  size_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

size_t open_descriptors() {
  const std::filesystem::directory_iterator begin("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin, std::filesystem::directory_iterator())) - 1;  // its own
}

// A file in memory that libsndfile writes.
struct Written {
  std::string bytes;
  sf_count_t place = 0;
  static Written& of(void* user) { return *static_cast<Written*>(user); }
  static sf_count_t length(void* user) { return static_cast<sf_count_t>(of(user).bytes.size()); }
  static sf_count_t seek(sf_count_t offset, int whence, void* user) {
    Written& self = of(user);
    return self.place = offset + (whence == SEEK_SET ? 0 : whence == SEEK_CUR ? self.place : length(user));
  }
  static sf_count_t read(void* to, sf_count_t count, void* user) {
    Written& self = of(user);
    count = std::max<sf_count_t>(0, std::min(count, length(user) - self.place));
    std::memcpy(to, self.bytes.data() + self.place, static_cast<size_t>(count));
    self.place += count;
    return count;
  }
  static sf_count_t write(const void* from, sf_count_t count, void* user) {
    Written& self = of(user);
    const auto end = static_cast<size_t>(self.place + count);
    if (self.bytes.size() < end) self.bytes.resize(end);
    std::memcpy(&self.bytes[static_cast<size_t>(self.place)], from, static_cast<size_t>(count));
    self.place += count;
    return count;
  }
  static sf_count_t tell(void* user) { return of(user).place; }
};

std::string file_of(const Samples& mono, int rate, int channels, int format) {
  Written file;
  SF_VIRTUAL_IO io = {Written::length, Written::seek, Written::read, Written::write, Written::tell};
  SF_INFO info = {};
  info.samplerate = rate, info.channels = channels, info.format = format;
  SNDFILE* const sound = sf_open_virtual(&io, SFM_WRITE, &info, &file);
  EXPECT_NE(sound, nullptr) << sf_strerror(nullptr);
  if (!sound) return {};
  Samples all;
  for (const float sample : mono)
    for (int channel = 0; channel < channels; ++channel) all.push_back(sample);
  sf_writef_float(sound, all.data(), static_cast<sf_count_t>(mono.size()));
  sf_close(sound);
  return file.bytes;
}

// A tone that rises and falls, as loud as speech, with pauses.
Samples made_sound(int rate, double seconds, double pitch) {
  Samples samples(static_cast<size_t>(rate * seconds));
  double phase = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const double t = static_cast<double>(i) / rate, loud = std::max(0.0, std::sin(7 * t));
    phase += 2 * M_PI * pitch * (1 + 0.3 * std::sin(4 * t)) / rate;
    samples[i] =
        static_cast<float>(0.2 * loud * (std::sin(phase) + 0.5 * std::sin(3 * phase) + 0.2 * std::sin(9 * phase)));
  }
  return samples;
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Samples of a file, block by block. Throws as RecordingFile.
struct Read {
  uint32_t rate = 0;
  std::vector<Samples> blocks;
};
Read read(const std::string& bytes) {
  cli::RecordingFile file(bytes, "damaged", kLongest);
  Read all = {file.rate(), {}};
  for (const Samples* samples = &file.next(); !samples->empty(); samples = &file.next()) all.blocks.push_back(*samples);
  return all;
}

constexpr int kFormats[] = {SF_FORMAT_WAV | SF_FORMAT_PCM_16,    SF_FORMAT_WAV | SF_FORMAT_FLOAT,
                            SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM, SF_FORMAT_FLAC | SF_FORMAT_PCM_16,
                            SF_FORMAT_OGG | SF_FORMAT_VORBIS,    SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III};

// Undamaged recordings of each format.
std::vector<std::string> whole_recordings() {
  std::vector<std::string> files;
  const auto add = [&](const Samples& samples, int rate, int channels) {
    for (const int format : kFormats) files.push_back(file_of(samples, rate, channels, format));
  };
  if (const std::string folder = from_environment("WEFT_DAMAGED_SPEECH", ""); !folder.empty()) {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
    std::ranges::sort(paths);
    for (const std::filesystem::path& path : paths) {
      const Read speech = read(bytes_of(path));
      Samples samples;
      for (const Samples& block : speech.blocks) samples.insert(samples.end(), block.begin(), block.end());
      samples.resize(std::min<size_t>(samples.size(), 2 * speech.rate));
      add(samples, static_cast<int>(speech.rate), 1);
    }
  } else {
    add(made_sound(16000, 1.2, 150), 16000, 1);
    add(made_sound(44100, 0.7, 220), 44100, 2);
  }
  return files;
}

class Damage {
 public:
  Damage(std::vector<std::string> whole, uint64_t seed) : whole_(std::move(whole)), random_(seed) {}
  size_t below(size_t end) { return static_cast<size_t>(random_() % end); }
  // A recording with one to three damages: it is cut, bytes change, are lost or come twice, or two recordings mix.
  std::string next() {
    std::string file = whole_[below(whole_.size())];
    for (size_t more = 1 + below(3); more > 0 && !file.empty(); --more) apply(file);
    return file;
  }

 private:
  void apply(std::string& file) {
    const size_t at = below(file.size()), length = std::min(1 + below(below(2) ? 8 : 4096), file.size() - at);
    switch (below(8)) {
      case 0:
        return file.resize(below(2) ? at : below(std::min<size_t>(file.size(), 80)));
      case 1:
        file.erase(at, length);
        return;
      case 2:
        file.insert(at, file.substr(below(file.size()), length));
        return;
      case 3:
        for (size_t i = at; i < at + length; ++i) file[i] = static_cast<char>(below(256));
        return;
      case 4:
        std::fill_n(file.begin() + static_cast<ptrdiff_t>(at), length, below(2) ? '\0' : '\xff');
        return;
      case 5: {  // goes on as another one
        const std::string& other = whole_[below(whole_.size())];
        file.replace(at, file.npos, other, std::min(at, other.size()), other.npos);
        return;
      }
      case 6:  // the header
        file[below(std::min<size_t>(file.size(), 64))] = static_cast<char>(below(256));
        return;
      default:
        for (size_t i = 1 + below(30); i > 0; --i) file[below(file.size())] ^= static_cast<char>(1 << below(8));
    }
  }

  std::vector<std::string> whole_;
  std::mt19937_64 random_;
};

class Hearing {
 public:
  std::string text_of(const Read& recording, const api::ListenOptions& wanted) {
    api::ListenOptions options = wanted;
    options.samples_per_second = recording.rate;
    std::string text;
    listener_.begin(options, [&](const weft_heard& heard) { return text += heard.text, true; });
    for (const Samples& block : recording.blocks) listener_.feed(block);
    listener_.finish();
    return text;
  }
  // Texts of undamaged recordings.
  std::vector<std::string> texts_of(const std::vector<std::string>& files) {
    std::vector<std::string> texts;
    for (const std::string& file : files) texts.push_back(text_of(read(file), {.language = "en", .temperatures = {0}}));
    return texts;
  }
  std::string device() const { return model_.info().device; }

 private:
  const api::Model model_{
      from_environment("WEFT_DAMAGED_MODEL", (source_folder() / "tests/model/golden_whisper/speech").string())};
  api::Listener listener_{model_};
};

struct Counts {
  size_t heard = 0, words = 0, refused = 0, failed = 0;
  double kept_by_reader = 0;  // bytes of the heap
  std::map<std::string, size_t> reasons;
};

// The beginning of a failure's sentence, without numbers.
std::string reason(const api::Failure& failure) {
  std::string text = failure.sentence().substr(0, 60);
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

// Takes one recording through reading and hearing.
void hear_damaged(Hearing& hearing, Damage& damage, Counts& counts) {
  const std::string file = damage.next();
  // A second temperature takes as long again: for a few only.
  api::ListenOptions options = {.temperatures = {0}, .words = damage.below(8) == 0};
  if (damage.below(16) == 0) options.temperatures = {0, 0.6f};
  Read recording;
  const size_t before = heap_bytes();
  try {
    recording = read(file);
  } catch (const api::Failure& failure) {
    EXPECT_FALSE(failure.sentence().empty());
    EXPECT_EQ(failure.place(), "damaged");
    ++counts.reasons[reason(failure)];
    ++counts.refused;
  }
  if (recording.blocks.empty()) {
    counts.kept_by_reader += static_cast<double>(heap_bytes()) - static_cast<double>(before);
    return;
  }
  size_t own = 0;
  for (const Samples& block : recording.blocks) own += block.capacity() * sizeof(float);
  counts.kept_by_reader += static_cast<double>(heap_bytes()) - static_cast<double>(before + own);
  try {
    counts.words += !hearing.text_of(recording, options).empty();
    ++counts.heard;
  } catch (const api::Failure& failure) {
    EXPECT_FALSE(failure.sentence().empty());
    ++counts.reasons["listener: " + reason(failure)];
    ++counts.failed;
  }
}

TEST(DamagedRecordings, EndInTextOrAnError) {
  const size_t count = std::stoul(from_environment("WEFT_DAMAGED", "30"));
  const std::vector<std::string> whole = whole_recordings();
  Damage damage(whole, std::stoul(from_environment("WEFT_DAMAGED_SEED", "1")));
  std::optional<Hearing> hearing;
  try {
    hearing.emplace();
  } catch (const api::Failure& failure) {
    if (failure.status() == WEFT_NO_DEVICE) GTEST_SKIP() << "there is no device";
    throw;
  }
  const std::vector<std::string> want = hearing->texts_of(whole);
  EXPECT_TRUE(std::ranges::any_of(want, [](const std::string& text) { return !text.empty(); }));
  Counts counts;
  const auto begin = std::chrono::steady_clock::now();
  size_t warm_heap = 0, warm_resident = 0, warm_at = 0;
  double warm_reader = 0;
  const size_t descriptors = open_descriptors();
  for (size_t i = 0; i < count; ++i) {
    hear_damaged(*hearing, damage, counts);
    if (i == count * 4 / 10)
      warm_heap = heap_bytes(), warm_resident = resident_bytes(), warm_at = i, warm_reader = counts.kept_by_reader;
    if ((i + 1) % 500 == 0) {
      ASSERT_EQ(hearing->texts_of(whole), want) << "after " << i + 1;
    }
    if ((i + 1) * 20 / count > i * 20 / count)
      std::cout << i + 1 << " recordings: " << counts.heard << " heard, " << counts.refused << " refused, heap "
                << heap_bytes() / 1024 << " KiB, resident " << resident_bytes() / 1024 << " KiB" << std::endl;
  }
  const double later = static_cast<double>(count - warm_at);
  const double reader = (counts.kept_by_reader - warm_reader) / later;
  const double heap = (static_cast<double>(heap_bytes()) - static_cast<double>(warm_heap)) / later - reader;
  const double resident = (static_cast<double>(resident_bytes()) - static_cast<double>(warm_resident)) / later;
  EXPECT_EQ(hearing->texts_of(whole), want);
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(counts.failed, 0u);
  EXPECT_GT(counts.heard, 0u);
  EXPECT_GT(counts.refused, 0u);
  std::cout << count << " recordings on " << hearing->device() << " in "
            << std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() << " s: " << counts.heard
            << " heard, " << counts.words << " of them with text, " << counts.refused << " refused, " << counts.failed
            << " failed; bytes a recording after the first 40%: heap " << heap << ", kept by the reader " << reader
            << ", resident " << resident << "\n";
  for (const auto& [reason, times] : counts.reasons) std::cout << "  " << times << " " << reason << "\n";
  if (count >= kManyRecordings) {
    EXPECT_LT(heap, 256);
    EXPECT_LT(resident, 16384);  // libvorbis keeps some KiB of many a damaged file
  }
}

}  // namespace
}  // namespace weft::test
