// Recordings: files that libsndfile reads, as mono samples.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace weft::cli {

// A WAV, FLAC, Ogg, MP3 or other file of any rate and number of channels, whose mean is taken. It is decoded block by
// block: a small file may hold hours of silence.
class RecordingFile {
 public:
  // bytes outlive it. place: its name, for errors; longest: seconds. Throws api::Failure for bytes that are no such
  // file.
  RecordingFile(const std::string& bytes, std::string place, std::uint32_t longest);
  ~RecordingFile();

  std::uint32_t rate() const;  // samples a second
  // The next samples; empty at the end. Throws api::Failure for a file that is damaged, too long or without samples.
  const std::vector<float>& next();
  double seconds() const;  // of the samples so far

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct RecordingInfo {
  std::uint32_t rate;  // samples a second
  double seconds = 0;  // 0: not known
};

// Reads to the end, and throws as RecordingFile.
RecordingInfo check_recording(const std::string& bytes, const std::string& place, std::uint32_t longest);

// Reads a file of at most four hours; "-": stdin. Calls begin, then feed with samples. Bytes of stdin
// that are no such file are samples themselves, which are fed as they come: 16 bits, little-endian, one channel, 16000
// a second. Throws as RecordingFile, and for a file that cannot be read. Returns the duration in seconds.
double read_recording(const std::string& path, const std::function<void(const RecordingInfo&)>& begin,
                      const std::function<void(const std::vector<float>&)>& feed);

}  // namespace weft::cli
