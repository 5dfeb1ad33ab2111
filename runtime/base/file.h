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

 private:
  std::filesystem::path path_;
  void* data_ = nullptr;
  size_t size_ = 0;
};

// Writes bytes to a neighbour of path, syncs it and renames it over path, so that a reader sees the old file or the
// whole new one. Creates missing parent folders. Throws Error(io).
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);

}  // namespace weft
