// A picture of rectangles and texts, and its PNG file.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace weft::cli {

using Colour = std::array<unsigned char, 3>;
inline constexpr Colour kWhite = {255, 255, 255}, kBlack = {20, 20, 20};
inline constexpr int kTextScale = 2, kLineHeight = 10 * kTextScale;  // of text, pixels

struct Box {
  int left, top, width, height;
  bool touches(const Box& other) const {
    return left < other.left + other.width && other.left < left + width && top < other.top + other.height &&
           other.top < top + height;
  }
};

// Returns the text as the font can draw it: ASCII only, cut to `longest` characters.
std::string drawable(std::string text, std::size_t longest = 40);
int width_of(std::string text);  // pixels; text: drawable

class Canvas {
 public:
  Canvas(int width, int height);  // pixels, all white
  void fill(const Box& box, const Colour& colour);
  void text(int left, int top, const std::string& text, const Colour& colour);  // text: drawable
  // A reader sees the file that was there before or the whole new one. Throws api::Failure.
  void write(const std::string& path) const;

 private:
  int width_, height_;
  std::vector<unsigned char> pixels_;
};

// Throws UsageError, naming the option, where no file can be written: better before a long run than after it.
void require_writable(const std::string& option, const std::string& path);

}  // namespace weft::cli
