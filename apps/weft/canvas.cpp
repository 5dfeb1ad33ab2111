#include "canvas.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "common.h"

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#include <stb/stb_easy_font.h>
#include <stb/stb_image_write.h>

namespace weft::cli {

std::string drawable(std::string text, std::size_t longest) {
  if (text.size() > longest) text = text.substr(0, longest - 3) + "...";
  for (char& c : text) {
    if (c < 32 || c > 126) c = '?';  // the font would read outside its tables
  }
  return text;
}

int width_of(std::string text) { return stb_easy_font_width(text.data()) * kTextScale; }

Canvas::Canvas(int width, int height)
    : width_(width),
      height_(height),
      pixels_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3, 255) {}

void Canvas::fill(const Box& box, const Colour& colour) {
  for (int y = std::max(box.top, 0); y < std::min(box.top + box.height, height_); ++y) {
    for (int x = std::max(box.left, 0); x < std::min(box.left + box.width, width_); ++x) {
      std::copy(colour.begin(), colour.end(), pixels_.begin() + (std::ptrdiff_t{y} * width_ + x) * 3);
    }
  }
}

// The font gives each stroke as a rectangle of four corners, 16 bytes each, the first two floats x and y.
void Canvas::text(int left, int top, const std::string& text, const Colour& colour) {
  std::string copy = text;
  std::vector<float> corners(copy.size() * 512 + 16);
  const int strokes =
      stb_easy_font_print(0, 0, copy.data(), nullptr, corners.data(), static_cast<int>(corners.size() * sizeof(float)));
  for (int i = 0; i < strokes; ++i) {
    const float* first = &corners[static_cast<std::size_t>(i) * 16];
    const float* third = first + 8;  // the corner across
    const auto pixel = [](float at) { return static_cast<int>(at * kTextScale); };
    fill({left + pixel(first[0]), top + pixel(first[1]), pixel(third[0]) - pixel(first[0]),
          pixel(third[1]) - pixel(first[1])},
         colour);
  }
}

void Canvas::write(const std::string& path) const {
  const std::string beside = path + format(".%ld.tmp", static_cast<long>(getpid()));
  const auto fail = [&](int number) {
    std::remove(beside.c_str());
    throw api::Failure(WEFT_IO, std::string("the plot could not be written: ") + std::strerror(number), path);
  };
  errno = 0;
  std::FILE* file = std::fopen(beside.c_str(), "wb");
  if (!file) fail(errno);
  const auto append = [](void* to, void* data, int size) {
    std::fwrite(data, 1, static_cast<std::size_t>(size), static_cast<std::FILE*>(to));  // errors: ferror below
  };
  const bool made = stbi_write_png_to_func(append, file, width_, height_, 3, pixels_.data(), 0) != 0;
  const bool whole = made && std::fflush(file) == 0 && std::ferror(file) == 0 && fsync(fileno(file)) == 0;
  const int number = errno != 0 ? errno : EIO;
  if (std::fclose(file) != 0 || !whole) fail(number);
  if (std::rename(beside.c_str(), path.c_str()) != 0) fail(errno);
}

void require_writable(const std::string& option, const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) {
    throw UsageError(option, "\"" + path + "\" is there and is no file");
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) {
    throw UsageError(option, "\"" + path + "\" cannot be written: " + std::strerror(errno));
  }
}

}  // namespace weft::cli
