#include "subtitles.h"

#include <cmath>

#include "common.h"

namespace weft::cli {
namespace {

// "01:02:03.456", with the mark that the format has before the milliseconds.
std::string time_text(double seconds, char mark) {
  const long long all = std::llround(seconds * 1000);
  return format("%02lld:%02lld:%02lld%c%03lld", all / 3600000, all / 60000 % 60, all / 1000 % 60, mark, all % 1000);
}

// In a cue of WebVTT these begin and end marks.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return result;
}

}  // namespace

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  const std::size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

std::string clock_text(double seconds) { return time_text(seconds, '.'); }

std::string srt_cue(std::size_t number, double begin, double end, const std::string& text) {
  return std::to_string(number) + '\n' + time_text(begin, ',') + " --> " + time_text(end, ',') + '\n' + one_line(text) +
         "\n\n";
}

std::string vtt_cue(double begin, double end, const std::string& text) {
  return time_text(begin, '.') + " --> " + time_text(end, '.') + '\n' + escaped(one_line(text)) + "\n\n";
}

}  // namespace weft::cli
