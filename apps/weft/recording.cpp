#include "recording.h"

#include <sndfile.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <weft/audio.hpp>

#include "common.h"

namespace weft::cli {

// The bytes of a file, with a place, for libsndfile.
struct RecordingBytes {
  const std::string& bytes;
  sf_count_t place = 0;
};

namespace {

constexpr std::uint32_t kLongest = 4 * 3600;  // seconds
constexpr std::size_t kMostRecordingBytes = std::size_t{4} << 30;
constexpr int kMostChannels = 64, kMostRate = 768000;

[[noreturn]] void fail_recording(weft_status status, const std::string& path, const std::string& sentence,
                                 const std::string& hint = {}) {
  throw api::Failure(status, sentence, path == "-" ? "stdin" : path, hint);
}

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

void add_bytes(std::string& bytes, const char* block, std::size_t count, const std::string& path) {
  bytes.append(block, count);
  if (bytes.size() > kMostRecordingBytes) fail_recording(WEFT_UNSUPPORTED, path, "it has more than 4 GiB");
}

std::string file_bytes(const std::string& path) {
  std::error_code ignored;  // what cannot be looked at cannot be opened
  if (std::filesystem::is_directory(path, ignored)) fail_recording(WEFT_IO, path, "it is a folder");
  std::ifstream in(path, std::ios::binary);
  if (!in) fail_recording(WEFT_NOT_FOUND, path, "the file cannot be opened");
  std::string bytes;
  std::vector<char> block(std::size_t{1} << 20);
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())), in.gcount() > 0)
    add_bytes(bytes, block.data(), static_cast<std::size_t>(in.gcount()), path);
  if (in.bad()) fail_recording(WEFT_IO, path, "it cannot be read");
  return bytes;
}

// Adds what stdin has by now; waits for a byte. False at its end.
bool read_stdin(std::string& bytes) {
  char block[1 << 14];
  ssize_t count;
  do count = ::read(STDIN_FILENO, block, sizeof block);
  while (count < 0 && errno == EINTR);
  if (count < 0) fail_recording(WEFT_IO, "-", "it cannot be read");
  add_bytes(bytes, block, static_cast<std::size_t>(count), "-");
  return count > 0;
}

void check_duration(std::size_t frames, int rate, std::uint32_t longest, const std::string& place) {
  if (frames / static_cast<std::size_t>(rate) > longest)
    fail_recording(WEFT_UNSUPPORTED, place, "it is longer than " + std::to_string(longest / 60) + " minutes",
                   "cut it into shorter ones");
}

std::vector<float> raw_samples(const std::string& bytes) {
  std::vector<float> samples(bytes.size() / 2);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto low = static_cast<unsigned char>(bytes[2 * i]), high = static_cast<unsigned char>(bytes[2 * i + 1]);
    samples[i] = static_cast<float>(static_cast<std::int16_t>(low | high << 8)) / 32768;
  }
  return samples;
}

using Sound = std::unique_ptr<SNDFILE, int (*)(SNDFILE*)>;

Sound open_recording(RecordingBytes& file, SF_INFO& info) {
  SF_VIRTUAL_IO io = {length_of, seek_to, read_from, refuse_to_write, place_of};
  return Sound(sf_open_virtual(&io, SFM_READ, &info, &file), sf_close);
}

// Bytes of the MPEG frame whose header is at this place; 0: there is no header, or it has a free format.
std::size_t mpeg_frame_length(std::string_view bytes, std::size_t at) {
  if (at + 4 > bytes.size()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(bytes[at + i])); };
  const unsigned version = byte(1) >> 3 & 3, layer = 4 - (byte(1) >> 1 & 3), rate = byte(2) >> 2 & 3;
  const unsigned padding = byte(2) >> 1 & 1, bitrate = byte(2) >> 4;
  if (byte(0) != 0xff || byte(1) < 0xe0 || version == 1 || layer == 4 || rate == 3 || bitrate == 0 || bitrate == 15)
    return 0;
  constexpr unsigned kBitrates[5][14] = {// kbit/s: layers 1 to 3 of MPEG 1, layer 1 and the others of MPEG 2 and 2.5
                                         {32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448},
                                         {32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384},
                                         {32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320},
                                         {32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256},
                                         {8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160}};
  constexpr unsigned kRates[3] = {44100, 48000, 32000};
  const bool first = version == 3;
  const unsigned bits = 1000 * kBitrates[first ? layer - 1 : layer == 1 ? 3 : 4][bitrate - 1];
  const unsigned samples = kRates[rate] / (first ? 1 : version == 2 ? 2 : 4);
  if (layer == 1) return (12 * bits / samples + padding) * 4;
  return (layer == 3 && !first ? 72 : 144) * bits / samples + padding;
}

// libsndfile takes everything that begins with an MPEG header's 11 bits for MPEG, also samples that begin with -1.
bool begins_as_mpeg(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\xff' && static_cast<unsigned char>(bytes[1]) >= 0xe0;
}

// A second frame of the same kind follows the first one, or nothing does.
bool is_mpeg(std::string_view bytes) {
  const std::size_t next = mpeg_frame_length(bytes, 0);
  if (next == 0 || next == bytes.size()) return next > 0;
  return mpeg_frame_length(bytes, next) > 0 && ((bytes[1] ^ bytes[next + 1]) & 0x1e) == 0 &&
         ((bytes[2] ^ bytes[next + 2]) & 0x0c) == 0;
}

// True if a file that begins with these bytes is none that libsndfile reads. Tags may hide an MP3 file's beginning.
bool is_raw(const std::string& bytes) {
  if (begins_as_mpeg(bytes)) return !is_mpeg(bytes);
  RecordingBytes file = {bytes};
  SF_INFO info = {};
  return !bytes.starts_with("ID3") && !open_recording(file, info) && sf_error(nullptr) == SF_ERR_UNRECOGNISED_FORMAT;
}

// Samples have bytes that no text has, but for the first few.
bool is_text(const std::string& bytes) {
  constexpr std::size_t kKnown = 16;
  return bytes.size() >= kKnown && std::ranges::all_of(bytes, [](char c) {
           return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t';
         });
}

// The reason of the last sf_open_virtual that failed.
std::string reason() {
  const std::string text = sf_strerror(nullptr);
  // libsndfile's words for an MP3 file without a whole frame.
  return text.starts_with("File does not exist") ? "it is damaged or cut" : text;
}

}  // namespace

struct RecordingFile::Impl {
  RecordingBytes bytes;
  std::string place;
  std::uint32_t longest;
  SF_INFO info = {};
  Sound sound{nullptr, sf_close};
  std::vector<float> block, samples;
  std::size_t count = 0;  // samples so far
};

RecordingFile::RecordingFile(const std::string& bytes, std::string place, std::uint32_t longest)
    : impl_(new Impl{{bytes}, std::move(place), longest}) {
  Impl& f = *impl_;
  f.sound = open_recording(f.bytes, f.info);
  if (!f.sound)
    fail_recording(WEFT_BAD_FILE, f.place, "it is not a recording: " + reason(),
                   "WAV, FLAC, Ogg and MP3 files are read");
  if (f.info.channels < 1 || f.info.channels > kMostChannels || f.info.samplerate < 1000 ||
      f.info.samplerate > kMostRate)
    fail_recording(WEFT_UNSUPPORTED, f.place,
                   "it has " + std::to_string(f.info.channels) + " channels and " + std::to_string(f.info.samplerate) +
                       " samples a second",
                   "1 to 64 channels and 1000 to 768000 samples a second are read");
}

RecordingFile::~RecordingFile() = default;

std::uint32_t RecordingFile::rate() const { return static_cast<std::uint32_t>(impl_->info.samplerate); }
double RecordingFile::seconds() const { return static_cast<double>(impl_->count) / rate(); }

const std::vector<float>& RecordingFile::next() {
  constexpr std::size_t kBlock = 1 << 14;
  Impl& f = *impl_;
  const auto channels = static_cast<std::size_t>(f.info.channels);
  f.block.resize(kBlock * channels);
  f.samples.clear();
  const sf_count_t count = sf_readf_float(f.sound.get(), f.block.data(), kBlock);
  for (std::size_t frame = 0; frame < static_cast<std::size_t>(std::max<sf_count_t>(count, 0)); ++frame) {
    float sum = 0;
    for (std::size_t channel = 0; channel < channels; ++channel) sum += f.block[frame * channels + channel];
    f.samples.push_back(sum / static_cast<float>(channels));
    if (!std::isfinite(f.samples.back()))
      fail_recording(WEFT_BAD_FILE, f.place, "sample " + std::to_string(f.count + frame) + " is not finite");
  }
  f.count += f.samples.size();
  check_duration(f.count, f.info.samplerate, f.longest, f.place);
  if (!f.samples.empty()) return f.samples;
  if (sf_error(f.sound.get()) != SF_ERR_NO_ERROR)
    fail_recording(WEFT_BAD_FILE, f.place, std::string("it is damaged: ") + sf_strerror(f.sound.get()));
  if (f.count == 0) fail_recording(WEFT_BAD_FILE, f.place, "it has no samples");
  return f.samples;
}

RecordingInfo check_recording(const std::string& bytes, const std::string& place, std::uint32_t longest) {
  RecordingFile file(bytes, place, longest);
  while (!file.next().empty()) {
  }
  return {file.rate(), file.seconds()};
}

double read_recording(const std::string& path, const std::function<void(const RecordingInfo&)>& begin,
                      const std::function<void(const std::vector<float>&)>& feed) {
  constexpr std::size_t kKnown = 1 << 14;  // bytes that tell whether stdin is a file
  std::string bytes;
  bool more = path == "-";
  if (!more) bytes = file_bytes(path);
  while (more && bytes.size() < kKnown) more = read_stdin(bytes);
  if (bytes.empty()) fail_recording(WEFT_BAD_FILE, path, "it is empty");
  if (path != "-" || !is_raw(bytes)) {
    while (more) more = read_stdin(bytes);
    begin(check_recording(bytes, path, kLongest));  // all of it, before a word of it is told
    RecordingFile file(bytes, path, kLongest);
    for (const std::vector<float>* samples = &file.next(); !samples->empty(); samples = &file.next()) feed(*samples);
    return file.seconds();
  }
  if (is_text(bytes))
    fail_recording(WEFT_BAD_FILE, path, "it is text, not sound",
                   "give a recording, or samples of 16 bits, 16000 a second");
  begin({WEFT_SAMPLES_PER_SECOND});
  std::size_t count = 0;
  do {
    const std::vector<float> samples = raw_samples(bytes);
    bytes.erase(0, 2 * samples.size());  // a half sample waits for its other half
    count += samples.size();
    check_duration(count, WEFT_SAMPLES_PER_SECOND, kLongest, path);
    feed(samples);
    more = more && read_stdin(bytes);
  } while (more);
  return static_cast<double>(count) / WEFT_SAMPLES_PER_SECOND;
}

}  // namespace weft::cli
