#include "base/file.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <utility>

#include "base/error.h"

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
  throw Error(reason == ENOENT ? Code::not_found : Code::io, std::string(doing) + ": " + std::strerror(reason),
              path.string());
}

// Where symbolic links lead, which need not be there.
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
  fd_ = std::exchange(file.fd, -1);
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
  fd_ = std::exchange(file.fd, -1);
}

MappedFile::MappedFile(std::span<const std::byte> bytes)
    : path_(std::to_string(bytes.size()) + " bytes of memory"), data_(bytes.data()), size_(bytes.size()) {}

// mmap wants an offset of whole pages, and refuses empty ranges.
void MappedFile::map(int fd, uint64_t offset, uint64_t length) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t before = offset % page;
  void* const mapping =
      ::mmap(nullptr, length + before, PROT_READ, MAP_PRIVATE, fd, static_cast<off_t>(offset - before));
  if (mapping == MAP_FAILED) fail(path_, "cannot map the file");
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
  auto offset = static_cast<off_t>(offset_) + (part.data() - bytes().data());
  for (to = to.first(part.size()); !to.empty();) {
    const ssize_t n = ::pread(fd_, to.data(), to.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path_, "cannot read the file");
    if (n == 0) {
      check_length();
      throw Error(Code::io, "the file was cut while it was in use", path_.string());
    }
    to = to.subspan(static_cast<size_t>(n));
    offset += n;
  }
}

void MappedFile::release(std::span<const std::byte> part) const noexcept {
  if (!mapping_ || !holds(part)) return;  // memory that is the caller's keeps what it has
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

// Whether a read or write that failed is to be tried again; waits first if the descriptor does not block.
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

void write_as_end(int descriptor, std::span<const std::byte> bytes) {
  const NoSigpipe guard;
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor, bytes.data(), bytes.size());
    if (n < 0 && try_again(descriptor, POLLOUT)) continue;
    if (n < 0) fail_at(descriptor, "cannot write");
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  struct stat info = {};
  if (::fstat(descriptor, &info) != 0) fail_at(descriptor, "cannot read the file's size");
  if (!S_ISREG(info.st_mode)) return;
  const off_t end = ::lseek(descriptor, 0, SEEK_CUR);
  if (end < 0 || ::ftruncate(descriptor, end) != 0) fail_at(descriptor, "cannot cut off what the file has after it");
}

bool MappedFile::is_private() const noexcept {
  struct stat info = {};
  return fd_ >= 0 && ::fstat(fd_, &info) == 0 && (info.st_uid == ::geteuid() || info.st_uid == 0) &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

AtomicFile::AtomicFile(const std::filesystem::path& path, Rights rights) : path_(path), target_(follow_links(path)) {
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
  // mkstemp would keep every file to its owner.
  const mode_t mode = rights == Rights::owner ? 0600 : 0666;
  std::random_device random;
  for (int tries = 0; fd_ < 0 && tries < 100; ++tries) {
    char name[16];
    std::snprintf(name, sizeof name, ".partial-%06x", random() & 0xffffffu);
    temporary_ = target_.string() + name;
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd_ < 0 && errno != EEXIST) break;
  }
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

void AtomicFile::commit() {
  if (!temporary_.empty()) {
    if (::fsync(fd_) != 0) fail("cannot sync the file");
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot rename the finished file into place");
  }
  ::close(std::exchange(fd_, -1));
}

void make_folder(const std::filesystem::path& folder, Rights rights) noexcept {
  try {
    std::error_code ignored;
    if (std::filesystem::create_directories(folder, ignored) && rights == Rights::owner)
      std::filesystem::permissions(folder, std::filesystem::perms::owner_all, ignored);
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
