// Read-only mapping of a whole file, and an atomic way to replace one.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace weft {

// Maps a file for reading; the bytes stay valid as long as the object lives. Movable, not copyable.
// Throws Error(not_found) or Error(io), naming the path. An empty file gives an empty span.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  std::string_view text() const { return {static_cast<const char*>(data_), size_}; }
  const std::filesystem::path& path() const { return path_; }
  // Lets whole pages of a part of the mapping leave the process's memory; who reads them again gets them from the file
  // again. Of bytes that are not this file's it does nothing.
  void release(std::span<const std::byte> part) const noexcept;
  // Throws Error(io) where the file has become shorter since it was mapped: who then reads what is gone is ended by the
  // system (SIGBUS). For those who read much later.
  void check_length() const;

 private:
  void close() noexcept;
  std::filesystem::path path_;
  int fd_ = -1;  // -1: of an empty object
  void* data_ = nullptr;
  size_t size_ = 0;
};

// A file that is there as a whole or not at all: written under another name beside path, "NAME.partial-XXXXXX", and
// renamed over path by commit(). A reader sees the old file or the whole new one; nothing is left of one that was given
// up. All throw Error(io) or Error(not_found), naming path.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  // Syncs and renames; nothing may follow.
  void commit();

 private:
  [[noreturn]] void fail(const char* doing) const;
  std::filesystem::path path_;
  std::string temporary_;
  int fd_ = -1;  // -1 too when committed
};

// Writes a whole AtomicFile. Creates missing parent folders. Throws Error(io).
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);

}  // namespace weft
