// Recordings: files that libsndfile reads, as mono samples of the rate that models hear.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::cli {

// Reads a WAV, FLAC, Ogg, MP3 or other file of any rate and number of channels, whose mean is taken. path "-": stdin;
// bytes that are no such file are samples themselves: 16 bits, little-endian, one channel, 16000 a second. Throws
// api::Failure for a file that cannot be read or is damaged, and for more than four hours.
std::vector<float> read_recording(const std::string& path);
// The same for the bytes of a file. place: its name, for errors; longest: seconds.
std::vector<float> decode_recording(const std::string& bytes, const std::string& place, std::uint32_t longest);

}  // namespace weft::cli
