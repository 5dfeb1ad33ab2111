#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
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

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) fail(path, "cannot open the file");
  struct stat info = {};
  if (::fstat(file.fd, &info) != 0) fail(path, "cannot read the file's size");
  if (!S_ISREG(info.st_mode)) throw Error(Code::io, "this is not a regular file", path.string());
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;  // mmap refuses empty ranges
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) fail(path, "cannot map the file");
  data_ = data;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(data_, size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::error_code ignored;  // a folder that cannot be made shows itself in mkstemp
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
  std::string temporary = path.string() + ".XXXXXX";
  const Descriptor file(::mkstemp(temporary.data()));
  if (file.fd < 0) fail(path, "cannot create a file beside it");
  const auto give_up = [&](const char* doing) {
    const int reason = errno;
    ::unlink(temporary.c_str());
    errno = reason;
    fail(path, doing);
  };
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::write(file.fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) give_up("cannot write the file");
    done += static_cast<size_t>(n);
  }
  if (::fsync(file.fd) != 0) give_up("cannot sync the file");
  if (::rename(temporary.c_str(), path.c_str()) != 0) give_up("cannot rename the finished file into place");
}

}  // namespace weft
