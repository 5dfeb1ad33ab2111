// Recordings: files that libsndfile reads, as mono samples.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weft::cli {

struct Recording {
  std::uint32_t rate = 0;  // samples a second
  std::vector<float> samples;

  double seconds() const { return static_cast<double>(samples.size()) / rate; }
};

// Decodes a WAV, FLAC, Ogg, MP3 or other file of any rate and number of channels, whose mean is taken. place: its name,
// for errors; longest: seconds. Throws api::Failure for a file that is damaged or too long.
Recording decode_recording(const std::string& bytes, const std::string& place, std::uint32_t longest);

// Reads a file of at most four hours; "-": stdin. Calls begin with its rate, then feed with samples. Bytes of stdin
// that are no such file are samples themselves, which are fed as they come: 16 bits, little-endian, one channel, 16000
// a second. Throws as decode_recording, and for a file that cannot be read. Returns the duration in seconds.
double read_recording(const std::string& path, const std::function<void(std::uint32_t rate)>& begin,
                      const std::function<void(const std::vector<float>&)>& feed);

}  // namespace weft::cli
