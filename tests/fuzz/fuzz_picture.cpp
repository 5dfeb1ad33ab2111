// PNG and JPEG files, decoded and cut into tiles.
#include "fuzz_support.h"
#include "image/tiles.h"

void weft::fuzz_input(const uint8_t* data, size_t size) {
  weft::expect_answer_or_error([&] {
    // Larger pictures only take longer.
    const weft::PictureLimits limits = {.bytes = 1 << 20, .side = 2048, .pixels = 1 << 18};
    const weft::Picture picture = weft::decode_picture(std::as_bytes(std::span(data, size)), "fuzz.png", limits);
    const weft::PictureSettings settings = {.longest_edge = 48, .tile = 24};
    const weft::Tiles tiles = weft::split_picture(picture, settings);
    for (const weft::Picture& tile : tiles.pictures) static_cast<void>(weft::patches_of(tile, settings, 8));
    const weft::PictureSettings stepped = {.step = 8, .least_pixels = 256, .most_pixels = 4096};
    for (const weft::Picture& tile : weft::split_picture(picture, stepped).pictures)
      static_cast<void>(weft::patches_of(tile, stepped, 4));
  });
}
