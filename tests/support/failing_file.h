// Calls of the operating system that fail. A program that links failing_file.cpp gets its open, pread, write and so on.
#pragma once

#include <cstddef>

namespace weft::test {

enum class FileFault {
  io,           // EIO; ENOMEM of mmap
  no_space,     // ENOSPC of what writes
  interrupted,  // EINTR of reads and writes
  no_map,       // ENODEV of mmap of a file, as some file systems have it
  part          // half of what a read or write was asked for
};

// While it lives, the n-th call (from 1) of Weft that can have this fault fails. Calls are counted on all threads.
class FailFile {
 public:
  FailFile(FileFault fault, size_t n);
  ~FailFile();
  FailFile(const FailFile&) = delete;
  FailFile& operator=(const FailFile&) = delete;

  bool failed() const;
  // Number of calls that could have had the fault.
  size_t count() const;
  // The function that failed; NULL: none yet.
  const char* function() const;
};

}  // namespace weft::test
