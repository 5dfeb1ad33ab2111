#include "image/picture.h"

#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "image/jpeg.h"

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STBI_MAX_DIMENSIONS (1 << 16)
// A file may use tables that it does not have, and leave out parts of the picture: they are zeros.
#define STBI_MALLOC(size) std::calloc(1, size)
#define STBI_REALLOC(bytes, size) std::realloc(bytes, size)
#define STBI_FREE(bytes) std::free(bytes)
#define STBI_ASSERT(condition) static_cast<void>(0)
#include <stb/stb_image.h>

namespace weft {
namespace {

bool begins_with(std::span<const std::byte> file, std::initializer_list<int> bytes) {
  size_t i = 0;
  for (const int byte : bytes)
    if (i >= file.size() || file[i++] != static_cast<std::byte>(byte)) return false;
  return true;
}

bool is_jpeg(std::span<const std::byte> file) { return begins_with(file, {0xff, 0xd8, 0xff}); }
bool is_png(std::span<const std::byte> file) {
  return begins_with(file, {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'});
}

// A channel on white, with Pillow's integers (alpha_composite).
uint8_t on_white(uint32_t value, uint32_t alpha) {
  const uint32_t own = alpha * 128, white = 255 * 128 - own;
  const uint32_t sum = value * own + 255 * white + (128 << 7);
  return static_cast<uint8_t>(((sum >> 8) + sum) >> 8 >> 7);
}

[[noreturn]] void bad_picture(const std::string& place) {
  const char* reason = stbi_failure_reason();
  throw Error(Code::bad_file, std::string("the picture cannot be decoded: ") + (reason ? reason : "unknown reason"),
              place);
}

void check_limits(uint64_t width, uint64_t height, const PictureLimits& limits, const std::string& place) {
  const std::string size = "the picture has " + std::to_string(width) + " x " + std::to_string(height) + " pixels, ";
  if (width > limits.side || height > limits.side)
    throw Error(Code::unsupported, size + "a side may have " + std::to_string(limits.side), place, "make it smaller");
  if (width * height > limits.pixels)
    throw Error(Code::unsupported, size + "all in all there may be " + std::to_string(limits.pixels), place,
                "make it smaller");
}

}  // namespace

Picture decode_picture(std::span<const std::byte> file, const std::string& place, const PictureLimits& limits) {
  if (!is_jpeg(file) && !is_png(file))
    throw Error(Code::unsupported, "it is neither a PNG nor a JPEG file", place, "convert the picture to one of them");
  if (file.size() > limits.bytes)
    throw Error(
        Code::unsupported,
        "the file has " + std::to_string(file.size()) + " bytes, a picture may have " + std::to_string(limits.bytes),
        place, "make the picture smaller");
  const bool jpeg = is_jpeg(file);
  const std::vector<std::byte> checked = jpeg ? checked_jpeg(file, place) : std::vector<std::byte>();
  const std::span<const std::byte> input = jpeg ? std::span(checked) : file;
  const auto* bytes = reinterpret_cast<const stbi_uc*>(input.data());
  const int size = static_cast<int>(input.size());
  int width = 0, height = 0, channels = 0;
  if (!stbi_info_from_memory(bytes, size, &width, &height, &channels)) bad_picture(place);
  check_limits(static_cast<uint64_t>(width), static_cast<uint64_t>(height), limits, place);
  const std::unique_ptr<stbi_uc, decltype(&std::free)> rgba(
      stbi_load_from_memory(bytes, size, &width, &height, &channels, 4), &std::free);
  if (!rgba) bad_picture(place);
  Picture picture = {static_cast<uint32_t>(width), static_cast<uint32_t>(height), {}};
  // The header that was read before may not be the one that was decoded.
  check_limits(picture.width, picture.height, limits, place);
  const size_t count = size_t{picture.width} * picture.height;
  picture.pixels.resize(count * 3);
  for (size_t i = 0; i < count; ++i)
    for (size_t c = 0; c < 3; ++c) picture.pixels[i * 3 + c] = on_white(rgba.get()[i * 4 + c], rgba.get()[i * 4 + 3]);
  return jpeg ? upright(std::move(picture), exif_orientation(file)) : picture;
}

}  // namespace weft
