#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/process_limits.h"

namespace weft {
namespace {

// A file descriptor that closes itself.
struct Descriptor {
  int fd = -1;
  explicit Descriptor(int opened) : fd(opened) {}
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

[[noreturn]] void fail(const std::filesystem::path& path, const char* doing) {
  const int reason = errno;
  const Code code = reason == ENOENT ? Code::not_found : reason == ENOMEM ? Code::out_of_memory : Code::io;
  throw Error(code, std::string(doing) + ": " + std::strerror(reason), path.string(),
              reason == ENOMEM || reason == EMFILE ? limits_hint() : "");
}

void read_at(int fd, uint64_t offset, std::span<std::byte> to, const std::filesystem::path& path) {
  while (!to.empty()) {
    const ssize_t n = ::pread(fd, to.data(), to.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "cannot read the file");
    if (n == 0) throw Error(Code::io, "the file was cut while it was in use", path.string());
    to = to.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

// Anonymous memory with a part of a file.
void* copy_of(int fd, uint64_t offset, uint64_t length, const std::filesystem::path& path) {
  void* const memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail(path, "the file cannot be mapped, and there is no memory to copy it to");
  try {
    read_at(fd, offset, {static_cast<std::byte*>(memory), length}, path);
  } catch (...) {
    ::munmap(memory, length);
    throw;
  }
  return memory;
}

// Target of symbolic links; it need not exist.
std::filesystem::path follow_links(std::filesystem::path path) {
  constexpr int kMostLinks = 40;  // as Linux has it
  std::error_code error;
  for (int i = 0; i < kMostLinks; ++i) {
    const std::filesystem::path link = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = link.is_absolute() ? link : path.parent_path() / link;
  }
  return path;
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) fail(path, "cannot open the file");
  struct stat info = {};
  if (::fstat(file.fd, &info) != 0) fail(path, "cannot read the file's size");
  if (!S_ISREG(info.st_mode)) throw Error(Code::io, "this is not a regular file", path.string());
  if (info.st_size == 0) return;
  map(file.fd, 0, static_cast<uint64_t>(info.st_size));
  if (fd_ >= 0) file.fd = -1;
}

MappedFile::MappedFile(int descriptor, uint64_t offset, uint64_t length) {
  const std::string end = length ? "byte " + std::to_string(offset + length) : "the end";
  path_ = "descriptor " + std::to_string(descriptor) + ", byte " + std::to_string(offset) + " to " + end;
  Descriptor file(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (file.fd < 0 && errno == EBADF)
    throw Error(Code::invalid_argument, "this is not an open descriptor", path_.string());
  if (file.fd < 0) fail(path_, "cannot duplicate the descriptor");
  struct stat info = {};
  if (::fstat(file.fd, &info) != 0) fail(path_, "cannot read the file's size");
  if (!S_ISREG(info.st_mode))
    throw Error(Code::io, "this is not a regular file", path_.string(),
                "what a pipe or a socket sends is to be stored");
  const auto size = static_cast<uint64_t>(info.st_size);
  if (offset > size || length > size - offset)
    throw Error(Code::invalid_argument, "the file has " + std::to_string(size) + " bytes", path_.string());
  if (length == 0) length = size - offset;
  if (length == 0) return;
  map(file.fd, offset, length);
  if (fd_ >= 0) file.fd = -1;
}

MappedFile::MappedFile(std::span<const std::byte> bytes)
    : path_(std::to_string(bytes.size()) + " bytes of memory"), data_(bytes.data()), size_(bytes.size()) {}

// mmap wants an offset of whole pages, and refuses empty ranges. Some file systems refuse it for all files.
void MappedFile::map(int fd, uint64_t offset, uint64_t length) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t before = offset % page;
  void* const mapping =
      ::mmap(nullptr, length + before, PROT_READ, MAP_PRIVATE, fd, static_cast<off_t>(offset - before));
  if (mapping == MAP_FAILED && errno == ENOMEM) fail(path_, "cannot map the file");
  if (mapping == MAP_FAILED) {
    mapping_ = copy_of(fd, offset, length, path_);
    mapping_bytes_ = size_ = length;
    data_ = static_cast<const std::byte*>(mapping_);
    return;
  }
  fd_ = fd;
  mapping_ = mapping;
  mapping_bytes_ = length + before;
  offset_ = offset;
  data_ = static_cast<const std::byte*>(mapping) + before;
  size_ = length;
}

MappedFile::~MappedFile() { close(); }

void MappedFile::close() noexcept {
  if (mapping_) ::munmap(mapping_, mapping_bytes_);
  if (fd_ >= 0) ::close(fd_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(std::exchange(other.mapping_bytes_, 0)),
      offset_(std::exchange(other.offset_, 0)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  std::swap(offset_, other.offset_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

bool MappedFile::holds(std::span<const std::byte> part) const noexcept {
  const std::span<const std::byte> all = bytes();
  const std::less_equal<const std::byte*> before;
  return !part.empty() && before(all.data(), part.data()) && before(part.data() + part.size(), all.data() + all.size());
}

void MappedFile::read(std::span<const std::byte> part, std::span<std::byte> to) const {
  if (part.empty()) return;
  if (fd_ < 0) {
    std::memcpy(to.data(), part.data(), part.size());
    return;
  }
  read_at(fd_, offset_ + static_cast<uint64_t>(part.data() - bytes().data()), to.first(part.size()), path_);
}

void MappedFile::release(std::span<const std::byte> part) const noexcept {
  if (!mapping_ || fd_ < 0 || !holds(part)) return;  // memory that is the caller's keeps what it has
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<size_t>(part.data() - static_cast<const std::byte*>(mapping_));
  const size_t begin = (offset + page - 1) / page * page, end = (offset + part.size()) / page * page;
  if (begin < end) ::madvise(static_cast<std::byte*>(mapping_) + begin, end - begin, MADV_DONTNEED);
}

void MappedFile::check_length() const {
  if (fd_ < 0) return;
  struct stat info = {};
  if (::fstat(fd_, &info) != 0) fail(path_, "cannot read the file's size");
  if (static_cast<uint64_t>(info.st_size) < offset_ + size_)
    throw Error(Code::io,
                "the file was cut while it was in use: it has " + std::to_string(info.st_size) + " bytes, it had " +
                    std::to_string(offset_ + size_),
                path_.string(), "load the model anew once the file is whole");
}

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  std::vector<std::byte> bytes(file.bytes().size());
  file.read(file.bytes(), bytes);
  return bytes;
}

std::string descriptor_name(int descriptor) { return "descriptor " + std::to_string(descriptor); }

namespace {

[[noreturn]] void fail_at(int descriptor, const char* doing) {
  if (errno == EBADF)
    throw Error(Code::invalid_argument, std::string(doing) + ": it is not open for that", descriptor_name(descriptor));
  fail(descriptor_name(descriptor), doing);
}

// Keeps SIGPIPE, which ends a program, from the calling thread while it lives; writing then fails with EPIPE.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigset_t pending;
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    const timespec at_once = {};
    if (!was_pending_) ::sigtimedwait(&pipe_, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_, before_;
  bool was_pending_;
};

}  // namespace

// True if a read or write that failed should be tried again. If the descriptor does not block, waits for it first.
static bool try_again(int descriptor, short event) {
  if (errno == EINTR) return true;
  if (errno != EAGAIN) return false;
  pollfd waits = {descriptor, event, 0};
  return ::poll(&waits, 1, -1) > 0 || errno == EINTR;
}

std::vector<std::byte> read_to_end(int descriptor) {
  constexpr size_t kMost = 1 << 20;
  std::vector<std::byte> bytes, part(kMost);
  for (;;) {
    const ssize_t n = ::read(descriptor, part.data(), part.size());
    if (n < 0 && try_again(descriptor, POLLIN)) continue;
    if (n < 0) fail_at(descriptor, "cannot read");
    if (n == 0) return bytes;
    bytes.insert(bytes.end(), part.begin(), part.begin() + n);
  }
}

DescriptorWriter::DescriptorWriter(int descriptor) : descriptor_(descriptor) {
  struct stat info = {};
  if (::fstat(descriptor, &info) != 0) fail_at(descriptor, "cannot be looked at");
  const bool appends = (::fcntl(descriptor, F_GETFL) & O_APPEND) != 0;  // whatever the position is
  if (!S_ISREG(info.st_mode) || appends) return;
  begin_ = ::lseek(descriptor, 0, SEEK_CUR);
  if (*begin_ < 0) fail_at(descriptor, "cannot read the position");
}

void DescriptorWriter::write(std::span<const std::byte> bytes) {
  const NoSigpipe guard;
  begun_ = begun_ || !bytes.empty();
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
    if (n < 0 && try_again(descriptor_, POLLOUT)) continue;
    if (n < 0) fail_at(descriptor_, "cannot write");
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

bool DescriptorWriter::restart() {
  if (!begun_) return true;
  if (!begin_) return false;
  if (::lseek(descriptor_, *begin_, SEEK_SET) < 0) fail_at(descriptor_, "cannot go back");
  return true;
}

void DescriptorWriter::end() {
  if (!begin_) return;
  const off_t end = ::lseek(descriptor_, 0, SEEK_CUR);
  int result = end < 0 ? -1 : 0;
  while (end >= 0 && (result = ::ftruncate(descriptor_, end)) != 0 && errno == EINTR) {
  }
  if (result != 0) fail_at(descriptor_, "cannot cut off what the file has after it");
}

bool MappedFile::is_private() const noexcept {
  struct stat info = {};
  return fd_ >= 0 && ::fstat(fd_, &info) == 0 && (info.st_uid == ::geteuid() || info.st_uid == 0) &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

namespace {

// A file without a name, which the system removes with the process, however that ends. -1: the system has none.
int open_nameless([[maybe_unused]] const std::filesystem::path& folder, [[maybe_unused]] mode_t mode) {
#if defined(O_TMPFILE) && !defined(__ANDROID__)  // where applications may not give it a name
  return ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
#else
  return -1;
#endif
}

// "NAME.partial-" of a file; its writers add six digits.
std::string prefix_beside(const std::filesystem::path& target) { return target.filename().string() + ".partial-"; }

std::string name_beside(const std::filesystem::path& target) {
  char digits[8];
  std::snprintf(digits, sizeof digits, "%06x", std::random_device()() & 0xffffffu);
  return (folder_of(target) / prefix_beside(target)).string() + digits;
}

// A writer holds the lock of its file, so that no other takes it for a leftover. False: one was quicker, and has
// removed it. Some file systems have no locks: there nothing is removed either.
bool lock(int fd) {
  struct stat info = {};
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  return ::fstat(fd, &info) != 0 || info.st_nlink > 0;
}

// Removes what writers of the file left that were killed, as far as the folder can be read. libstdc++'s iterators of
// folders end the process where memory runs out.
void remove_leftovers(const std::filesystem::path& target) {
  const std::string prefix = prefix_beside(target);
  const auto close = [](DIR* open) { ::closedir(open); };
  const std::unique_ptr<DIR, decltype(close)> folder(::opendir(folder_of(target).c_str()), close);
  while (const dirent* const entry = folder ? ::readdir(folder.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(prefix) || name.size() != prefix.size() + 6 ||
        name.find_first_not_of("0123456789abcdef", prefix.size()) != std::string_view::npos)
      continue;
    const int at = ::dirfd(folder.get());
    const Descriptor file(::openat(at, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat info = {};
    if (file.fd >= 0 && ::fstat(file.fd, &info) == 0 && S_ISREG(info.st_mode) &&
        ::flock(file.fd, LOCK_EX | LOCK_NB) == 0)
      ::unlinkat(at, entry->d_name, 0);
  }
}

constexpr int kMostTries = 100;  // of names

// A new file beside the target, locked, and its name. -1: see errno.
int create_beside(const std::filesystem::path& target, mode_t mode, std::string& name) {
  for (int tries = 0; tries < kMostTries; ++tries) {
    name = name_beside(target);
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd >= 0 && lock(fd)) return fd;
    if (fd >= 0) ::close(fd);
    if (fd < 0 && errno != EEXIST) break;
  }
  return -1;
}

// Gives a file that has no name the target's, if no file has that: a kill leaves the whole file or nothing.
bool link_new(const std::filesystem::path& target, int fd) {
  const std::string own = "/proc/self/fd/" + std::to_string(fd);
  return ::linkat(AT_FDCWD, own.c_str(), AT_FDCWD, target.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

// Gives a file that has no name one beside the target: a link cannot replace a file, a rename can. "": it cannot be.
std::string link_beside(const std::filesystem::path& target, int fd) {
  lock(fd);
  const std::string own = "/proc/self/fd/" + std::to_string(fd);
  for (int tries = 0; tries < kMostTries; ++tries) {
    std::string name = name_beside(target);
    if (::linkat(AT_FDCWD, own.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) return name;
    if (errno != EEXIST) break;
  }
  return "";
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& path, Rights rights) : path_(path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISCHR(info.st_mode)) {
      fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
      if (fd_ < 0) fail("cannot open the device");
      return;
    }
    if (!S_ISREG(info.st_mode)) throw Error(Code::io, "this is not a regular file", path.string());
  } else if (errno != ENOENT && errno != ENOTDIR) {
    fail("cannot look at the file");
  }
  target_ = follow_links(path);
  remove_leftovers(target_);
  const mode_t mode = rights == Rights::owner ? 0600 : 0666;  // mkstemp would keep every file to its owner
  fd_ = open_nameless(folder_of(target_), mode);
  if (fd_ < 0) fd_ = create_beside(target_, mode, temporary_);
  if (fd_ < 0) fail("cannot create a file beside it");
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* doing) const { weft::fail(path_, doing); }

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot write the file");
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

// Once only: Linux tells of a failed write to the disk once, and a second fsync of the file would succeed.
void AtomicFile::sync() {
  int result = 0;
  while ((result = ::fsync(fd_)) != 0 && errno == EINTR) {
  }
  if (result != 0) fail("cannot sync the file");
}

void AtomicFile::commit() {
  if (!target_.empty()) sync();
  if (!target_.empty() && temporary_.empty() && link_new(target_, fd_)) {
    ::close(std::exchange(fd_, -1));
    return;
  }
  if (!target_.empty() && temporary_.empty()) temporary_ = link_beside(target_, fd_);
  if (!target_.empty() && temporary_.empty()) {  // links are not allowed everywhere: copies it
    const Descriptor nameless(std::exchange(fd_, -1));
    struct stat info = {};
    if (::fstat(nameless.fd, &info) != 0) fail("cannot read the file's size");
    fd_ = create_beside(target_, info.st_mode & 0777, temporary_);
    if (fd_ < 0) fail("cannot create a file beside it");
    std::vector<std::byte> part(1 << 20);
    for (uint64_t done = 0, all = static_cast<uint64_t>(info.st_size); done < all; done += part.size()) {
      part.resize(std::min<uint64_t>(part.size(), all - done));
      read_at(nameless.fd, done, part, path_);
      write(part);
    }
    sync();
  }
  if (!target_.empty() && ::rename(temporary_.c_str(), target_.c_str()) != 0)
    fail("cannot rename the finished file into place");
  ::close(std::exchange(fd_, -1));
}

void make_folder(const std::filesystem::path& folder, Rights rights) noexcept {
  try {
    std::filesystem::path made;
    for (const std::filesystem::path& part : folder) {
      made /= part;
      if (::mkdir(made.c_str(), rights == Rights::owner ? 0700 : 0777) == 0 && rights == Rights::owner)
        ::chmod(made.c_str(), 0700);  // the umask may have taken some of it
    }
  } catch (const std::exception&) {  // no memory
  }
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes, Rights rights) {
  if (path.has_parent_path()) make_folder(path.parent_path(), rights);
  AtomicFile file(path, rights);
  file.write(bytes);
  file.commit();
}

}  // namespace weft
