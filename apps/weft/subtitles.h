// Subtitles: one-line texts, and the cues of SRT and WebVTT.
#pragma once

#include <cstddef>
#include <string>

namespace weft::cli {

// A text without line breaks, and without spaces around it.
std::string one_line(std::string text);
// A cue of SubRip's or WebVTT's format, with the empty line after it. begin, end: seconds.
std::string srt_cue(std::size_t number, double begin, double end, const std::string& text);
std::string vtt_cue(double begin, double end, const std::string& text);

}  // namespace weft::cli
