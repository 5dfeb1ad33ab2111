// Files that appear whole or not at all.
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "format_support.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
std::string text_of(const fs::path& path) { return std::string(MappedFile(path).text()); }
size_t files_in(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(AtomicFile, AppearsWhenItIsCommitted) {
  const TestFolder folder;
  const std::string long_text(3 << 20, 'x');
  AtomicFile file(folder / "a");
  file.write(bytes_of("one "));
  file.write({});
  file.write(bytes_of(long_text));
  EXPECT_FALSE(fs::exists(folder / "a"));
  file.commit();
  EXPECT_EQ(text_of(folder / "a"), "one " + long_text);
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(AtomicFile, HasTheRightsOfAnyNewFile) {
  const TestFolder folder;
  folder.write("plain", "");
  write_file_atomically(folder / "a", bytes_of("x"));
  EXPECT_EQ(fs::status(folder / "a").permissions(), fs::status(folder / "plain").permissions());
}

TEST(AtomicFile, LeavesNothingAndTheOldFileWhenItIsGivenUp) {
  const TestFolder folder;
  folder.write("a", "old");
  {
    AtomicFile file(folder / "a"), other(folder / "a");
    file.write(bytes_of("new"));
    EXPECT_EQ(files_in(folder.path()), 3u);
  }
  EXPECT_EQ(text_of(folder / "a"), "old");
  EXPECT_EQ(files_in(folder.path()), 1u);
  {
    AtomicFile file(folder / "a");
    file.write(bytes_of("new"));
    file.commit();
  }
  EXPECT_EQ(text_of(folder / "a"), "new");
}

TEST(AtomicFile, NamesTheFileItCannotWrite) {
  const TestFolder folder;
  expect_error(Code::not_found, {(folder / "absent/a").string() + ": cannot create a file beside it"},
               [&] { AtomicFile file(folder / "absent/a"); });
  fs::create_directory(folder / "taken");
  expect_error(Code::io, {(folder / "taken").string() + ": this is not a regular file"},
               [&] { AtomicFile file(folder / "taken"); });
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(AtomicFile, OfItsOwnerAlone) {
  const TestFolder folder;
  folder.write("a", "old");
  for (const char* name : {"a", "b"}) {
    write_file_atomically(folder / name, bytes_of("x"), Rights::owner);
    EXPECT_EQ(fs::status(folder / name).permissions(), fs::perms::owner_read | fs::perms::owner_write) << name;
  }
}

// The file that a link leads to is replaced, and the link stays; also where there is no such file yet.
TEST(AtomicFile, FollowsLinks) {
  const TestFolder folder;
  fs::create_directory(folder / "far");
  folder.write("far/there", "old");
  fs::create_symlink("far/there", folder / "link");
  fs::create_symlink(folder / "link", folder / "twice");
  fs::create_symlink("far/new", folder / "dangling");
  fs::create_symlink("circle", folder / "circle");
  write_file_atomically(folder / "twice", bytes_of("new"));
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_TRUE(fs::is_symlink(folder / "twice"));
  EXPECT_EQ(text_of(folder / "far/there"), "new");
  write_file_atomically(folder / "dangling", bytes_of("first"));
  EXPECT_TRUE(fs::is_symlink(folder / "dangling"));
  EXPECT_EQ(text_of(folder / "far/new"), "first");
  expect_error(Code::io, {(folder / "circle").string()}, [&] { AtomicFile file(folder / "circle"); });
  EXPECT_EQ(files_in(folder.path()), 5u);
  EXPECT_EQ(files_in(folder / "far"), 2u);
}

// A character device is written to; whatever else is no regular file stays as it is.
TEST(AtomicFile, ReplacesOnlyRegularFiles) {
  const TestFolder folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  fs::create_directory(folder / "folder");
  for (const char* name : {"fifo", "folder"}) {
    const fs::file_type before = fs::status(folder / name).type();
    expect_error(Code::io, {(folder / name).string() + ": this is not a regular file"},
                 [&] { write_file_atomically(folder / name, bytes_of("x")); });
    EXPECT_EQ(fs::status(folder / name).type(), before);
  }
  fs::create_symlink("/dev/null", folder / "null");
  write_file_atomically(folder / "null", bytes_of("x"));
  EXPECT_TRUE(fs::is_character_file(folder / "null"));
  if (::mknod((folder / "device").c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0) {  // as root: another /dev/null
    write_file_atomically(folder / "device", bytes_of("x"));
    EXPECT_TRUE(fs::is_character_file(folder / "device"));
    EXPECT_EQ(files_in(folder.path()), 4u);
  }
  const int full = ::open("/dev/full", O_WRONLY);
  if (full >= 0) {
    ::close(full);
    expect_error(Code::io, {"/dev/full: cannot write the file"},
                 [&] { write_file_atomically("/dev/full", bytes_of("x")); });
  }
}

// Kilobytes of mapped files in the process's memory.
long mapped_kilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssFile:")) return std::stol(line.substr(8));
  return -1;
}

TEST(MappedFile, ReleasesPagesAndReadsThemAgain) {
  const TestFolder folder;
  folder.write("a", std::string(8 << 20, 'x'));
  const MappedFile file(folder / "a");
  const auto count = [&] { return std::count(file.text().begin(), file.text().end(), 'x'); };
  EXPECT_EQ(count(), 8 << 20);
  const long before = mapped_kilobytes();
  if (before < 0) GTEST_SKIP() << "the system does not tell how much of files is in memory";
  file.release(file.bytes().subspan(1, 6 << 20));
  EXPECT_LT(mapped_kilobytes(), before - 5 * 1024);
  EXPECT_EQ(count(), 8 << 20);
  std::string own(1 << 20, 'y');  // not the file's: stays as it is
  file.release(bytes_of(own));
  file.release({});
  EXPECT_EQ(own, std::string(1 << 20, 'y'));
}

// A part that begins and ends within pages: reading, releasing and checking know where it is.
TEST(MappedFile, APartOfAnOpenFile) {
  const TestFolder folder;
  constexpr size_t kOffset = 5001, kLength = 30011;
  std::string text(40000, ' ');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('!' + i * i % 89);
  folder.write("a", text);
  const std::string want = text.substr(kOffset, kLength);
  const int fd = ::open((folder / "a").c_str(), O_RDONLY | O_CLOEXEC);
  MappedFile mapped(fd, kOffset, kLength);
  ::close(fd);
  const MappedFile file = std::move(mapped);
  EXPECT_TRUE(mapped.bytes().empty());
  EXPECT_EQ(file.text(), want);
  EXPECT_EQ(file.path(), "descriptor " + std::to_string(fd) + ", byte 5001 to byte 35012");
  std::string copy(1000, ' ');
  file.read(file.bytes().subspan(77, 1000), std::as_writable_bytes(std::span(copy)));
  EXPECT_EQ(copy, want.substr(77, 1000));
  EXPECT_TRUE(file.holds(file.bytes()));
  file.release(file.bytes());
  EXPECT_EQ(file.text(), want);
  fs::resize_file(folder / "a", kOffset + kLength);  // what is after the part may go
  file.check_length();
  fs::resize_file(folder / "a", kOffset + kLength - 1);
  expect_error(Code::io, {"it has 35011 bytes, it had 35012"}, [&] { file.check_length(); });
  expect_error(Code::io, {"cut while it was in use"},
               [&] { file.read(file.bytes().last(10), std::as_writable_bytes(std::span(copy))); });
}

}  // namespace
}  // namespace weft
