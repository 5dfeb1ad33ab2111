// Pictures against Pillow and Transformers, step by step: tests/tools/picture_goldens.py. Photographs too, if
// WEFT_PHOTOS names a folder that it has made.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "image/tiles.h"
#include "support/source_folder.h"

namespace weft {
namespace {

using nlohmann::json;
using Bytes = std::vector<std::byte>;

std::filesystem::path pictures() { return source_folder() / "tests/model/golden_images/pictures"; }

// zlib's CRC-32.
template <class Value>
uint32_t crc(const std::vector<Value>& values, uint32_t before = 0) {
  uint32_t sum = ~before;
  for (const std::byte byte : std::as_bytes(std::span(values))) {
    sum ^= std::to_integer<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return ~sum;
}

Picture decoded(const std::filesystem::path& path) { return decode_picture(read_file(path), path.string()); }

PictureSettings settings_of(const json& wanted, const json& figures) {
  PictureSettings settings;
  settings.longest_edge = figures["longest_edge"];
  settings.tile = figures["tile"];
  settings.split = figures["split"];
  settings.mean = wanted["mean"];
  settings.deviation = wanted["std"];
  return settings;
}

void compare_steps(const Picture& picture, const json& wanted) {
  EXPECT_EQ(crc(picture.pixels), wanted["pixels"]);
  for (const json& figures : wanted["figures"]) {
    SCOPED_TRACE(figures["longest_edge"].dump() + " by " + figures["tile"].dump());
    const PictureSettings settings = settings_of(wanted, figures);
    const Tiles tiles = split_picture(picture, settings);
    EXPECT_EQ(tiles.rows, figures["rows"]);
    EXPECT_EQ(tiles.columns, figures["columns"]);
    std::vector<uint32_t> sums;
    uint32_t patches = 0;
    for (const Picture& tile : tiles.pictures) {
      sums.push_back(crc(tile.pixels));
      patches = crc(patches_of(tile, settings, figures["patch"]), patches);
    }
    EXPECT_EQ(json(sums), figures["tiles"]);
    EXPECT_EQ(patches, figures["patches"]);
    EXPECT_EQ(picture_text(tiles, 3), figures["text"]);
  }
}

// Decoders of JPEG differ by the rounding of their transforms, and by how they enlarge colours.
void compare_decoders(const Picture& picture, const Picture& wanted, const std::string& name) {
  ASSERT_EQ(picture.width, wanted.width);
  ASSERT_EQ(picture.height, wanted.height);
  int worst = 0;
  double sum = 0;
  for (size_t i = 0; i < wanted.pixels.size(); ++i) {
    const int difference = std::abs(picture.pixels[i] - wanted.pixels[i]);
    worst = std::max(worst, difference);
    sum += difference;
  }
  const double mean = sum / static_cast<double>(wanted.pixels.size());
  std::printf("%s: %.3f on average, at most %d\n", name.c_str(), mean, worst);
  EXPECT_LT(mean, 1.5);
}

void compare_folder(const std::filesystem::path& folder) {
  std::ifstream file(folder / "reference.json");
  for (const json& wanted : json::parse(file)) {
    const std::string name = wanted["file"];
    SCOPED_TRACE(name);
    const Picture picture = decoded(folder / name);
    EXPECT_EQ(picture.width, wanted["width"]);
    EXPECT_EQ(picture.height, wanted["height"]);
    if (wanted.contains("decoded"))
      compare_decoders(picture, decoded(folder / wanted["decoded"]), name);
    else
      compare_steps(picture, wanted);
  }
}

TEST(Pictures, EveryStepGivesTransformersNumbers) { compare_folder(pictures()); }

// Transformers' smart_resize, and the bytes of Pillow 12.3's bicubic resize.
TEST(Pictures, ThatKeepTheirShape) {
  struct Wanted {
    const char* file;
    uint32_t step;
    uint64_t least, most;
    uint32_t width, height, sum;
  };
  const Wanted all[] = {{"rgb70x50.png", 32, 65536, 16777216, 320, 224, 0x1630b228u},
                        {"rgb70x50.png", 8, 256, 1600, 40, 32, 0x0356dd1fu},
                        {"rgb120x3.png", 32, 65536, 16777216, 1632, 64, 0x8ef15bbbu},
                        {"rgb120x3.png", 8, 256, 1600, 104, 8, 0xe1474d12u},
                        {"rgb30x90.png", 32, 65536, 16777216, 160, 448, 0xfddd1884u},
                        {"rgb30x90.png", 8, 256, 1600, 16, 64, 0xa1fd3e61u},
                        {"rgb1x1.png", 8, 256, 1600, 16, 32, 0x6643edd7u},
                        {"rgb64x64.png", 8, 256, 1600, 40, 40, 0xe5c0c0a1u}};
  for (const Wanted& wanted : all) {
    SCOPED_TRACE(wanted.file);
    PictureSettings settings;
    settings.step = wanted.step;
    settings.least_pixels = wanted.least;
    settings.most_pixels = wanted.most;
    const Tiles tiles = split_picture(decoded(pictures() / wanted.file), settings);
    ASSERT_EQ(tiles.pictures.size(), 1u);
    EXPECT_EQ(tiles.pictures[0].width, wanted.width);
    EXPECT_EQ(tiles.pictures[0].height, wanted.height);
    EXPECT_EQ(crc(tiles.pictures[0].pixels), wanted.sum);
  }
}

TEST(Pictures, SidesOfPicturesThatKeepTheirShape) {
  PictureSettings settings;
  settings.step = 32;
  settings.least_pixels = 65536;
  settings.most_pixels = 4194304;
  using Sides = std::pair<uint32_t, uint32_t>;
  const std::pair<Sides, Sides> all[] = {
      {{600, 3}, {3648, 32}},       {{5, 1000}, {32, 3648}}, {{1024, 768}, {1024, 768}},
      {{3000, 4000}, {1760, 2336}}, {{80, 48}, {352, 224}},  {{48, 80}, {224, 352}},  // halves go to even numbers
      {{2048, 16384}, {704, 5792}}};
  for (const auto& [from, to] : all) EXPECT_EQ(stepped_size(from.first, from.second, settings), to) << from.first;
  EXPECT_THROW(stepped_size(601, 3, settings), Error);
  EXPECT_THROW(stepped_size(3, 601, settings), Error);
}

TEST(Pictures, PhotographsToo) {
  const char* folder = std::getenv("WEFT_PHOTOS");
  if (!folder) GTEST_SKIP() << "WEFT_PHOTOS names no folder of tests/tools/picture_goldens.py";
  compare_folder(folder);
}

TEST(Pictures, FilesThatAreNoneAreRefused) {
  const auto code_of = [](const Bytes& file, const PictureLimits& limits = {}) {
    try {
      decode_picture(file, "x.png", limits);
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("x.png: ")) << error.what();
      return error.code();
    }
    return Code::internal;
  };
  EXPECT_EQ(code_of({}), Code::unsupported);
  EXPECT_EQ(code_of(Bytes(100)), Code::unsupported);
  for (const char* name : {"rgb70x50.png", "baseline.jpg", "progressive.jpg"}) {
    SCOPED_TRACE(name);
    const Bytes whole = read_file(pictures() / name);
    EXPECT_EQ(code_of(Bytes(whole.begin(), whole.begin() + 20)), Code::bad_file);
    EXPECT_EQ(code_of(Bytes(whole.begin(), whole.begin() + 150)), Code::bad_file);
    EXPECT_EQ(code_of(whole, {.bytes = 100}), Code::unsupported);
    EXPECT_EQ(code_of(whole, {.side = 60}), Code::unsupported);
    EXPECT_EQ(code_of(whole, {.pixels = 3000}), Code::unsupported);
  }
  Bytes large = read_file(pictures() / "rgb70x50.png");
  large[18] = std::byte{0x40};  // the width's bits of 16384
  EXPECT_EQ(code_of(large), Code::unsupported);
}

// stb_image 2.27 would write them beyond its table.
TEST(Pictures, HuffmanTablesOfTooManyCodes) {
  for (const char* name : {"baseline.jpg", "progressive.jpg"}) {
    Bytes file = read_file(pictures() / name);
    const Bytes marker = {std::byte{0xff}, std::byte{0xc4}};
    const auto table = std::search(file.begin(), file.end(), marker.begin(), marker.end());
    ASSERT_NE(table, file.end());
    std::fill_n(table + 5, 16, std::byte{0x20});
    try {
      decode_picture(file, name);
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.sentence(), "a Huffman table has 512 codes, it may have 256");
    }
  }
}

// Comment and application segments may contain anything: they are not decoded.
TEST(Pictures, CommentsThatLookLikeTables) {
  Bytes file = read_file(pictures() / "baseline.jpg");
  const Picture before = decode_picture(file, "x.jpg");
  Bytes comment(40, std::byte{0xff});
  comment[1] = std::byte{0xfe};
  comment[2] = std::byte{0}, comment[3] = std::byte{38};
  comment[11] = std::byte{0xc4};
  file.insert(file.begin() + 2, comment.begin(), comment.end());
  EXPECT_EQ(decode_picture(file, "x.jpg").pixels, before.pixels);
}

// Reading an EXIF segment ends and stays in its bytes, whatever it contains.
TEST(Pictures, OrientationsOfBrokenSegments) {
  const Bytes whole = read_file(pictures() / "orientation6.jpg");
  EXPECT_EQ(exif_orientation(whole), 6);
  for (size_t size = 0; size < 60; ++size) exif_orientation(std::span(whole).first(size));
  for (size_t at = 2; at < 60; ++at)
    for (const int value : {0, 1, 9, 0x7f, 0xff}) {
      Bytes broken = whole;
      broken[at] = static_cast<std::byte>(value);
      const int orientation = exif_orientation(broken);
      EXPECT_TRUE(orientation >= 1 && orientation <= 8) << at;
    }
}

}  // namespace
}  // namespace weft
