// Files that appear only when they are complete.
#include "base/private_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <thread>

#include "format_support.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
std::string text_of(const fs::path& path) { return std::string(MappedFile(path).text()); }
size_t files_in(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

bool has_nameless_files(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
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
    EXPECT_EQ(files_in(folder.path()), has_nameless_files(folder.path()) ? 1u : 3u);
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

// Runs a process that ends itself by SIGKILL.
void expect_killed(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

TEST(AtomicFile, LeavesNothingOfAWriterThatIsKilled) {
  const TestFolder folder;
  if (!has_nameless_files(folder.path())) GTEST_SKIP() << "the file system has no files without names";
  folder.write("a", "old");
  fs::create_symlink("far", folder / "link");
  const std::string much(5 << 20, 'x');
  for (const char* name : {"a", "new", "link"})
    for (const size_t size : {size_t{0}, size_t{1}, much.size()})
      expect_killed([&] {
        AtomicFile file(folder / name, Rights::owner);
        file.write(bytes_of(much).first(size));
        ::raise(SIGKILL);
      });
  EXPECT_EQ(files_in(folder.path()), 2u);
  EXPECT_EQ(text_of(folder / "a"), "old");
}

// Where files have names from the start, or between the two steps of a commit.
TEST(AtomicFile, RemovesWhatKilledWritersLeft) {
  const TestFolder folder;
  for (const char* name : {"a", "a.partial-0123ab", "a.partial-ffffff", "a.partial-00000g", "a.partial-0123abc",
                           "a.partial-", "b.partial-0123ab", "a.partial-0000aa"})
    folder.write(name, "x");
  fs::create_directory(folder / "a.partial-000000");
  fs::create_symlink("b.partial-0123ab", folder / "a.partial-000001");
  ASSERT_EQ(::mkfifo((folder / "a.partial-000002").c_str(), 0600), 0);
  const int writer = ::open((folder / "a.partial-0000aa").c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(writer, LOCK_EX), 0);
  write_file_atomically(folder / "a", bytes_of("new"));
  EXPECT_EQ(text_of(folder / "a"), "new");
  for (const char* name : {"a.partial-0123ab", "a.partial-ffffff"}) EXPECT_FALSE(fs::exists(folder / name)) << name;
  for (const char* name : {"a.partial-00000g", "a.partial-0123abc", "a.partial-", "b.partial-0123ab",
                           "a.partial-0000aa", "a.partial-000000", "a.partial-000001", "a.partial-000002"})
    EXPECT_TRUE(fs::exists(fs::symlink_status(folder / name))) << name;
  ::close(writer);
  write_file_atomically(folder / "a", bytes_of("newer"));
  EXPECT_FALSE(fs::exists(folder / "a.partial-0000aa"));
  EXPECT_EQ(files_in(folder.path()), 8u);
}

TEST(AtomicFile, WritersAtOnce) {
  const TestFolder folder;
  std::vector<std::thread> threads;
  for (char who = 'a'; who < 'e'; ++who)
    threads.emplace_back([&, text = std::string(20000, who)] {
      for (int i = 0; i < 50; ++i) write_file_atomically(folder / "f", bytes_of(text));
    });
  for (std::thread& thread : threads) thread.join();
  const std::string text = text_of(folder / "f");
  EXPECT_EQ(text, std::string(20000, text[0]));
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(MakeFolder, IsItsOwnersWhateverTheUmask) {
  const TestFolder folder;
  const mode_t before = ::umask(0);
  for (const mode_t mask : {0, 022, 077, 0277, 0777}) {
    ::umask(mask);
    const fs::path made = folder / std::to_string(mask) / "deep" / "er";
    make_folder(made, Rights::owner);
    ::umask(before);
    for (fs::path each = made; each != folder.path(); each = each.parent_path())
      EXPECT_EQ(fs::status(each).permissions(), fs::perms::owner_all) << each << " umask " << mask;
  }
  fs::create_directory(folder / "shared");
  fs::permissions(folder / "shared", fs::perms::all);
  make_folder(folder / "shared", Rights::owner);  // it is there: stays as it is
  EXPECT_EQ(fs::status(folder / "shared").permissions(), fs::perms::all);
}

// Only files that this user or the administrator has written are trusted.
TEST(OpenPrivate, OfThisUserOnly) {
  using fs::perms;
  const TestFolder folder;
  make_folder(folder / "own", Rights::owner);
  const fs::path path = folder / "own/f", of = path.parent_path();
  const auto is_read = [&](perms file_mode, perms folder_mode) {
    fs::permissions(path, file_mode);
    fs::permissions(of, folder_mode);
    return open_private(path).has_value();
  };
  EXPECT_FALSE(open_private(path));
  write_file_atomically(path, bytes_of("x"), Rights::owner);
  constexpr perms kFile = perms::owner_read | perms::owner_write, kFolder = perms::owner_all;
  EXPECT_TRUE(is_read(kFile, kFolder));
  EXPECT_TRUE(is_read(kFile | perms::others_read, kFolder | perms::others_exec));
  EXPECT_FALSE(is_read(kFile | perms::others_write, kFolder));
  EXPECT_FALSE(is_read(kFile | perms::group_write, kFolder));
  EXPECT_FALSE(is_read(kFile, perms::all));
  EXPECT_FALSE(is_read(kFile, perms::all | perms::sticky_bit));
  EXPECT_TRUE(is_read(kFile, kFolder));
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  EXPECT_FALSE(open_private(path));
  fs::create_symlink(path, folder / "link");
  EXPECT_FALSE(open_private(folder / "link"));
  ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
  EXPECT_TRUE(open_private(path));
  ASSERT_EQ(::chown(of.c_str(), 12345, 12345), 0);
  EXPECT_FALSE(open_private(path));
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

// A character device is written to; any other file that is not regular stays as it is.
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

// The file systems of the kernel's own files map none of them.
TEST(MappedFile, WhereNothingCanBeMapped) {
  const char* const path = "/sys/kernel/notes";
  std::ifstream in(path, std::ios::binary);
  const std::string want(std::istreambuf_iterator<char>(in), {});
  if (want.empty()) GTEST_SKIP() << "there is no " << path;
  MappedFile opened(path);
  EXPECT_EQ(opened.text(), want);
  const MappedFile file = std::move(opened);
  file.release(file.bytes());
  file.check_length();
  EXPECT_EQ(file.text(), want);
  std::string copy(want.size() - 1, ' ');
  file.read(file.bytes().subspan(1), std::as_writable_bytes(std::span(copy)));
  EXPECT_EQ(copy, want.substr(1));
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(MappedFile(fd, 3, want.size() - 5).text(), want.substr(3, want.size() - 5));
  ::close(fd);
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
