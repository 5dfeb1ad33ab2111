// Subtitles: one-line texts, and the cues of SRT and WebVTT.
#pragma once

#include <cstddef>
#include <string>

namespace weft::cli {

// A text without line breaks, and without spaces around it.
std::string one_line(std::string text);
// Seconds as "00:01:02.345".
std::string clock_text(double seconds);
// A cue of SubRip's or WebVTT's format, with the empty line after it. begin, end: seconds.
std::string srt_cue(std::size_t number, double begin, double end, const std::string& text);
std::string vtt_cue(double begin, double end, const std::string& text);

}  // namespace weft::cli
