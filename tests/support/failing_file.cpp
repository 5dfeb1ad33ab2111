#include "support/failing_file.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace weft::test {
namespace {

std::atomic<size_t> g_left = 0, g_count = 0;
std::atomic<FileFault> g_fault = FileFault::io;
std::atomic<const char*> g_function = nullptr;
std::atomic<bool> g_on = false;

constexpr unsigned bit(FileFault fault) { return 1u << static_cast<unsigned>(fault); }
constexpr unsigned kIo = bit(FileFault::io), kSpace = bit(FileFault::no_space), kNoMap = bit(FileFault::no_map),
                   kTransfer = bit(FileFault::interrupted) | bit(FileFault::part);

// True if an address is in the code of libweft.so or libweft_convert.so.
bool is_code_of_weft(const void* address) {
  Dl_info info = {};
  return dladdr(address, &info) && info.dli_fname && std::strstr(info.dli_fname, "libweft");
}

// Counts the call; true if it is the one that fails.
bool fails_now(const void* caller, const char* function, unsigned possible) {
  if (!g_on || !(possible & bit(g_fault)) || !is_code_of_weft(caller)) return false;
  ++g_count;
  size_t left = g_left;
  while (left > 0 && !g_left.compare_exchange_weak(left, left - 1)) {
  }
  if (left != 1) return false;
  g_function = function;
  errno = g_fault == FileFault::no_space ? ENOSPC : g_fault == FileFault::interrupted ? EINTR : EIO;
  return true;
}

template <class Function>
Function real(const char* name, Function) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}
#define WEFT_REAL(NAME) static const auto next = real(#NAME, static_cast<decltype(&::NAME)>(nullptr))
#define WEFT_FAILS(NAME, POSSIBLE) fails_now(__builtin_return_address(0), #NAME, POSSIBLE)

}  // namespace

FailFile::FailFile(FileFault fault, size_t n) {
  g_fault = fault;
  g_left = n;
  g_count = 0;
  g_function = nullptr;
  g_on = true;
}
FailFile::~FailFile() { g_on = false; }
bool FailFile::failed() const { return g_function != nullptr; }
size_t FailFile::count() const { return g_count; }
const char* FailFile::function() const { return g_function; }

}  // namespace weft::test

// NOLINTBEGIN
#pragma GCC visibility push(default)
extern "C" {
using namespace weft::test;

int open(const char* path, int flags, ...) {
  WEFT_REAL(open);
  va_list arguments;
  va_start(arguments, flags);
  const bool creates = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
  const mode_t mode = creates ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if (WEFT_FAILS(open, kIo | (creates ? kSpace : 0))) return -1;
  return next(path, flags, mode);
}
ssize_t pread(int fd, void* to, size_t bytes, off_t offset) {
  WEFT_REAL(pread);
  if (!WEFT_FAILS(pread, kIo | kTransfer)) return next(fd, to, bytes, offset);
  return g_fault == FileFault::part ? next(fd, to, (bytes + 1) / 2, offset) : -1;
}
ssize_t write(int fd, const void* from, size_t bytes) {
  WEFT_REAL(write);
  if (!WEFT_FAILS(write, kIo | kSpace | kTransfer)) return next(fd, from, bytes);
  return g_fault == FileFault::part ? next(fd, from, (bytes + 1) / 2) : -1;
}
int fsync(int fd) {
  WEFT_REAL(fsync);
  return WEFT_FAILS(fsync, kIo | kSpace) ? -1 : next(fd);
}
int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  WEFT_REAL(linkat);
  return WEFT_FAILS(linkat, kIo | kSpace) ? -1 : next(from_folder, from, to_folder, to, flags);
}
int rename(const char* from, const char* to) noexcept {
  WEFT_REAL(rename);
  return WEFT_FAILS(rename, kIo | kSpace) ? -1 : next(from, to);
}
int fstat(int fd, struct stat* info) noexcept {
  WEFT_REAL(fstat);
  return WEFT_FAILS(fstat, kIo) ? -1 : next(fd, info);
}
int stat(const char* path, struct stat* info) noexcept {
  WEFT_REAL(stat);
  return WEFT_FAILS(stat, kIo) ? -1 : next(path, info);
}
void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  WEFT_REAL(mmap);
  if (!WEFT_FAILS(mmap, kIo | (fd >= 0 ? kNoMap : 0))) return next(address, bytes, protection, flags, fd, offset);
  errno = g_fault == FileFault::no_map ? ENODEV : ENOMEM;
  return MAP_FAILED;
}
}
#pragma GCC visibility pop
// NOLINTEND
