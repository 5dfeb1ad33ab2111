#include "recording.h"

#include <samplerate.h>
#include <sndfile.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <weft/audio.hpp>

#include "common.h"

namespace weft::cli {
namespace {

constexpr std::uint32_t kLongest = 4 * 3600;  // seconds
constexpr std::size_t kMostRecordingBytes = std::size_t{4} << 30;
constexpr int kMostChannels = 64, kMostRate = 768000;

[[noreturn]] void fail_recording(weft_status status, const std::string& path, const std::string& sentence,
                                 const std::string& hint = {}) {
  throw api::Failure(status, sentence, path == "-" ? "stdin" : path, hint);
}

// The bytes of a file, with a place, for libsndfile.
struct RecordingBytes {
  const std::string& bytes;
  sf_count_t place = 0;
};

sf_count_t length_of(void* user) { return static_cast<sf_count_t>(static_cast<RecordingBytes*>(user)->bytes.size()); }
sf_count_t place_of(void* user) { return static_cast<RecordingBytes*>(user)->place; }
sf_count_t seek_to(sf_count_t offset, int whence, void* user) {
  RecordingBytes& file = *static_cast<RecordingBytes*>(user);
  const sf_count_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? file.place : length_of(user);
  if (offset < -from || offset > length_of(user) - from) return -1;
  return file.place = from + offset;
}
sf_count_t read_from(void* to, sf_count_t count, void* user) {
  RecordingBytes& file = *static_cast<RecordingBytes*>(user);
  count = std::max<sf_count_t>(0, std::min(count, length_of(user) - file.place));
  std::memcpy(to, file.bytes.data() + file.place, static_cast<std::size_t>(count));
  file.place += count;
  return count;
}
sf_count_t refuse_to_write(const void*, sf_count_t, void*) { return 0; }

std::string recording_bytes(const std::string& path) {
  std::ifstream opened;
  if (path != "-") {
    opened.open(path, std::ios::binary);
    if (!opened) fail_recording(WEFT_NOT_FOUND, path, "the file cannot be opened");
  }
  std::istream& in = path == "-" ? std::cin : opened;
  std::string bytes;
  std::vector<char> block(std::size_t{1} << 20);
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())), in.gcount() > 0) {
    bytes.append(block.data(), static_cast<std::size_t>(in.gcount()));
    if (bytes.size() > kMostRecordingBytes) fail_recording(WEFT_UNSUPPORTED, path, "it has more than 4 GiB");
  }
  if (in.bad()) fail_recording(WEFT_IO, path, "it cannot be read");
  if (bytes.empty()) fail_recording(WEFT_BAD_FILE, path, "it is empty");
  return bytes;
}

void check_duration(std::size_t frames, int rate, std::uint32_t longest, const std::string& place) {
  if (frames / static_cast<std::size_t>(rate) > longest)
    fail_recording(WEFT_UNSUPPORTED, place, "it is longer than " + std::to_string(longest / 60) + " minutes",
                   "cut it into shorter ones");
}

// Interpolates with a band limit (Smith 2002), by libsamplerate.
std::vector<float> at_our_rate(const std::vector<float>& samples, int rate, const std::string& path) {
  if (rate == WEFT_SAMPLES_PER_SECOND || samples.empty()) return samples;
  const double ratio = static_cast<double>(WEFT_SAMPLES_PER_SECOND) / rate;
  if (!src_is_valid_ratio(ratio))
    fail_recording(WEFT_UNSUPPORTED, path, "it has " + std::to_string(rate) + " samples a second");
  std::vector<float> result(static_cast<std::size_t>(std::ceil(static_cast<double>(samples.size()) * ratio)) + 1);
  SRC_DATA data = {};
  data.data_in = samples.data();
  data.data_out = result.data();
  data.input_frames = static_cast<long>(samples.size());
  data.output_frames = static_cast<long>(result.size());
  data.src_ratio = ratio;
  if (const int error = src_simple(&data, SRC_SINC_MEDIUM_QUALITY, 1))
    fail_recording(WEFT_INTERNAL, path, src_strerror(error));
  result.resize(static_cast<std::size_t>(data.output_frames_gen));
  return result;
}

std::vector<float> raw_samples(const std::string& bytes) {
  std::vector<float> samples(bytes.size() / 2);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto low = static_cast<unsigned char>(bytes[2 * i]), high = static_cast<unsigned char>(bytes[2 * i + 1]);
    samples[i] = static_cast<float>(static_cast<std::int16_t>(low | high << 8)) / 32768;
  }
  return samples;
}

}  // namespace

std::vector<float> decode_recording(const std::string& bytes, const std::string& path, std::uint32_t longest) {
  RecordingBytes file = {bytes};
  SF_VIRTUAL_IO io = {length_of, seek_to, read_from, refuse_to_write, place_of};
  SF_INFO info = {};
  const std::unique_ptr<SNDFILE, int (*)(SNDFILE*)> sound(sf_open_virtual(&io, SFM_READ, &info, &file), sf_close);
  if (!sound && path == "-" && sf_error(nullptr) == SF_ERR_UNRECOGNISED_FORMAT) {
    check_duration(bytes.size() / 2, WEFT_SAMPLES_PER_SECOND, longest, path);
    return raw_samples(bytes);
  }
  if (!sound)
    fail_recording(WEFT_BAD_FILE, path, std::string("it is no recording: ") + sf_strerror(nullptr),
                   "WAV, FLAC, Ogg and MP3 files are read");
  if (info.channels < 1 || info.channels > kMostChannels || info.samplerate < 1000 || info.samplerate > kMostRate)
    fail_recording(WEFT_UNSUPPORTED, path,
                   "it has " + std::to_string(info.channels) + " channels and " + std::to_string(info.samplerate) +
                       " samples a second",
                   "1 to 64 channels and 1000 to 768000 samples a second are read");
  const auto channels = static_cast<std::size_t>(info.channels);
  constexpr std::size_t kBlock = 1 << 14;
  std::vector<float> samples, block(kBlock * channels);
  for (sf_count_t count; (count = sf_readf_float(sound.get(), block.data(), kBlock)) > 0;) {
    for (std::size_t frame = 0; frame < static_cast<std::size_t>(count); ++frame) {
      float sum = 0;
      for (std::size_t channel = 0; channel < channels; ++channel) sum += block[frame * channels + channel];
      samples.push_back(sum / static_cast<float>(channels));
      if (!std::isfinite(samples.back()))
        fail_recording(WEFT_BAD_FILE, path, "sample " + std::to_string(samples.size() - 1) + " is not finite");
    }
    check_duration(samples.size(), info.samplerate, longest, path);
  }
  if (sf_error(sound.get()) != SF_ERR_NO_ERROR)
    fail_recording(WEFT_BAD_FILE, path, std::string("it is damaged: ") + sf_strerror(sound.get()));
  if (samples.empty()) fail_recording(WEFT_BAD_FILE, path, "it has no samples");
  return at_our_rate(samples, info.samplerate, path);
}

std::vector<float> read_recording(const std::string& path) {
  return decode_recording(recording_bytes(path), path, kLongest);
}

}  // namespace weft::cli
