#include "gpu/pipeline_cache.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/file.h"
#include "ops/ops.h"
#include "support/gpu_test.h"

namespace weft::test {
namespace {

Caps some_caps() {
  Caps caps;
  caps.vendor_id = 0x10005;
  caps.device_id = 0xc0de;
  caps.driver_version = 22;
  for (uint8_t i = 0; i < 16; ++i) caps.cache_uuid[i] = static_cast<uint8_t>(i * 17);
  return caps;
}

// A cache as a driver of that device returns it: the header of the Vulkan specification, then any bytes.
std::vector<std::byte> cache_of(const Caps& caps, size_t more) {
  const uint32_t words[] = {32, 1, caps.vendor_id, caps.device_id};
  std::vector<std::byte> data(32 + more, std::byte{0xa5});
  std::memcpy(data.data(), words, sizeof words);
  std::memcpy(data.data() + sizeof words, caps.cache_uuid, sizeof caps.cache_uuid);
  return data;
}

TEST(PipelineCache, RoundTrip) {
  for (const size_t more : {0u, 1u, 1000u}) {
    const std::vector<std::byte> data = cache_of(some_caps(), more);
    const auto opened = open_pipeline_cache(seal_pipeline_cache(data), some_caps());
    ASSERT_TRUE(opened);
    EXPECT_EQ(*opened, data);
  }
}

TEST(PipelineCache, TornAtAnyLength) {
  std::vector<std::byte> file = seal_pipeline_cache(cache_of(some_caps(), 100));
  for (size_t length = 0; length < file.size(); ++length)
    EXPECT_FALSE(open_pipeline_cache(std::span(file).first(length), some_caps())) << length;
  file.push_back(std::byte{0});
  EXPECT_FALSE(open_pipeline_cache(file, some_caps())) << "longer than written";
}

TEST(PipelineCache, AnyFlippedBit) {
  std::vector<std::byte> file = seal_pipeline_cache(cache_of(some_caps(), 20));
  for (size_t bit = 0; bit < file.size() * 8; ++bit) {
    const std::byte mask = std::byte{1} << (bit % 8);
    file[bit / 8] ^= mask;
    EXPECT_FALSE(open_pipeline_cache(file, some_caps())) << "bit " << bit;
    file[bit / 8] ^= mask;
  }
  EXPECT_TRUE(open_pipeline_cache(file, some_caps()));
}

TEST(PipelineCache, OfAnotherDevice) {
  const std::vector<std::byte> file = seal_pipeline_cache(cache_of(some_caps(), 20));
  Caps caps = some_caps();
  caps.vendor_id ^= 1;
  EXPECT_FALSE(open_pipeline_cache(file, caps));
  caps = some_caps();
  caps.device_id ^= 1;
  EXPECT_FALSE(open_pipeline_cache(file, caps));
  for (int i = 0; i < 16; ++i) {
    caps = some_caps();
    caps.cache_uuid[i] ^= 0x80;
    EXPECT_FALSE(open_pipeline_cache(file, caps)) << "uuid byte " << i;
  }
}

// Sets a variable for the time of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(PipelineCache, Path) {
  const Caps caps = some_caps();
  {
    const Variable chosen("WEFT_CACHE_DIR", "/somewhere");
    const auto path = pipeline_cache_path(caps);
    ASSERT_TRUE(path);
    EXPECT_EQ(path->parent_path(), "/somewhere");
    Caps other = caps;
    other.driver_version++;
    EXPECT_NE(pipeline_cache_path(other), path);  // a driver's update starts a new cache
    other = caps;
    other.device_id++;
    EXPECT_NE(pipeline_cache_path(other), path);
  }
  const Variable off("WEFT_CACHE_DIR", "");
  EXPECT_FALSE(pipeline_cache_path(caps));
  const Variable unset("WEFT_CACHE_DIR", nullptr);
  const Variable xdg("XDG_CACHE_HOME", "/x"), home("HOME", "/h");
  EXPECT_EQ(pipeline_cache_path(caps)->parent_path(), "/x/weft");
  const Variable no_xdg("XDG_CACHE_HOME", nullptr);
  EXPECT_EQ(pipeline_cache_path(caps)->parent_path(), "/h/.cache/weft");
  const Variable no_home("HOME", nullptr);
  EXPECT_FALSE(pipeline_cache_path(caps));
}

TEST(PipelineCache, TheApplicationsFolder) {
  const Variable chosen("WEFT_CACHE_DIR", "/somewhere");
  set_user_cache_folder("/application");
  EXPECT_EQ(user_cache_folder(), "/application");
  set_user_cache_folder("");
  EXPECT_FALSE(user_cache_folder());
  set_user_cache_folder(std::nullopt);
  EXPECT_EQ(user_cache_folder(), "/somewhere");
}

class PipelineCacheOnDisk : public GpuTest {
 protected:
  // Opens the device, runs one kernel, closes it; the cache's path.
  static std::filesystem::path use_device() {
    const auto device = Device::open();
    const Buffer words(device, "words", READ_BYTES, Memory::device), sums(device, "sums", 4, Memory::device);
    run_once(device, "read_bandwidth", [&](Recorder& recorder) { ops::read_bandwidth(recorder, words, sums); });
    return *pipeline_cache_path(device->caps());
  }
};

TEST_F(PipelineCacheOnDisk, IsWrittenAndReadAgain) {
  const Variable folder("WEFT_CACHE_DIR", (cache_folder() / "fresh" / "deeper").c_str());
  const std::filesystem::path path = use_device();
  ASSERT_TRUE(std::filesystem::exists(path)) << path;
  const auto caps = open_device()->caps();
  const MappedFile file(path);
  EXPECT_TRUE(open_pipeline_cache(file.bytes(), caps));
  use_device();  // with the file
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path.parent_path()), {}), 1) << "a leftover file";
}

// A process that is killed closes no device.
TEST_F(PipelineCacheOnDisk, IsWrittenAfterThePassThatCompiled) {
  namespace fs = std::filesystem;
  const Variable folder("WEFT_CACHE_DIR", (cache_folder() / "killed").c_str());
  const auto device = Device::open();
  const fs::path path = *pipeline_cache_path(device->caps());
  const Buffer words(device, "words", READ_BYTES, Memory::device), sums(device, "sums", 4, Memory::device);
  const auto pass = [&] {
    run_once(device, "read_bandwidth", [&](Recorder& recorder) { ops::read_bandwidth(recorder, words, sums); });
  };
  pass();
  ASSERT_TRUE(fs::exists(path)) << path;
  EXPECT_TRUE(open_pipeline_cache(MappedFile(path).bytes(), device->caps()));
  fs::remove(path);
  pass();
  EXPECT_FALSE(fs::exists(path)) << "nothing new was compiled";
}

TEST_F(PipelineCacheOnDisk, RubbishIsReplaced) {
  const Variable folder("WEFT_CACHE_DIR", (cache_folder() / "rubbish").c_str());
  const std::filesystem::path path = use_device();
  const auto caps = open_device()->caps();
  for (const std::string& rubbish : {std::string(), std::string("WEFTPC01"), std::string(100000, 'x')}) {
    std::ofstream(path, std::ios::trunc | std::ios::binary) << rubbish;
    use_device();
    const MappedFile file(path);
    EXPECT_TRUE(open_pipeline_cache(file.bytes(), caps)) << rubbish.size() << " bytes of rubbish";
  }
}

TEST_F(PipelineCacheOnDisk, IsItsUsersAlone) {
  namespace fs = std::filesystem;
  constexpr fs::perms kOwner = fs::perms::owner_read | fs::perms::owner_write;
  const Variable folder("WEFT_CACHE_DIR", (cache_folder() / "own").c_str());
  const fs::path path = use_device();
  EXPECT_EQ(fs::status(path).permissions(), kOwner);
  EXPECT_EQ(fs::status(path.parent_path()).permissions(), fs::perms::owner_all);
  // A file that others may have written is not read, but written again.
  fs::permissions(path, kOwner | fs::perms::group_write);
  use_device();
  EXPECT_EQ(fs::status(path).permissions(), kOwner);
  const auto caps = open_device()->caps();
  fs::permissions(path.parent_path(), fs::perms::all);
  EXPECT_FALSE(pipeline_cache_path(caps));
  fs::permissions(path.parent_path(), fs::perms::owner_all);
  EXPECT_TRUE(pipeline_cache_path(caps));
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown(path.parent_path().c_str(), 12345, 12345), 0);
  EXPECT_FALSE(pipeline_cache_path(caps));
}

TEST_F(PipelineCacheOnDisk, AFolderThatCannotBeMadeIsNoFailure) {
  const Variable folder("WEFT_CACHE_DIR", "/proc/none/weft");
  EXPECT_NO_THROW(use_device());
}

}  // namespace
}  // namespace weft::test
