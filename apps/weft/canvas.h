// A picture of lines, rectangles and texts, and its file: PNG, SVG or PDF.
#pragma once

#include <array>
#include <memory>
#include <string>

struct _cairo;

namespace weft::cli {

using Colour = std::array<unsigned char, 3>;
inline constexpr Colour kWhite = {255, 255, 255}, kBlack = {20, 20, 20};
inline constexpr int kLineHeight = 20;  // of text, pixels

struct Box {
  int left, top, width, height;
  bool touches(const Box& other) const {
    return left < other.left + other.width && other.left < left + width && top < other.top + other.height &&
           other.top < top + height;
  }
};

// Returns the text with its control characters replaced, cut to `longest` characters.
std::string drawable(const std::string& text, std::size_t longest = 40);
int width_of(const std::string& text);  // pixels; text: drawable

class Canvas {
 public:
  Canvas(int width, int height);  // pixels, all white
  void fill(const Box& box, const Colour& colour);
  void dot(double x, double y, double radius, const Colour& colour);
  void line(double from_x, double from_y, double to_x, double to_y, const Colour& colour);
  void text(int left, int top, const std::string& text, const Colour& colour);  // text: drawable
  // The kind is the name's ending. A reader sees the file that was there before or the whole new one. Throws
  // api::Failure.
  void write(const std::string& path) const;

 private:
  int width_, height_;
  std::shared_ptr<_cairo> context_;  // records what is drawn
};

// Throws UsageError, naming the option, where no file can be written, or its name ends with none of .png, .svg and
// .pdf: better before a long run than after it.
void require_writable(const std::string& option, const std::string& path);

}  // namespace weft::cli
