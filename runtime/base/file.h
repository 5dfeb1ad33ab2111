// Read-only mapping of a file or a part of it, and an atomic way to replace one.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// Maps a file for reading, or copies one that cannot be mapped; the bytes stay valid as long as the object lives.
// Movable. Throws Error(not_found) or Error(io), naming the path. An empty file gives an empty span.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  // Maps `length` bytes from `offset` on of an open descriptor, which is duplicated; length 0: up to the file's end.
  // path() is "descriptor N, bytes A to B". Throws Error(invalid_argument) for what is no open descriptor and for bytes
  // beyond the file's end.
  MappedFile(int descriptor, uint64_t offset, uint64_t length);
  // Stands for bytes in the memory of the caller, which must outlive it and all that is moved to. path() is "N bytes of
  // memory".
  explicit MappedFile(std::span<const std::byte> bytes);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::filesystem::path& path() const { return path_; }
  // Releases the process's memory for the whole pages in a part of the mapping; the next read of them loads them from
  // the file again. Does nothing for bytes that are not this file's.
  void release(std::span<const std::byte> part) const noexcept;
  // True if the part lies in this mapping.
  bool holds(std::span<const std::byte> part) const noexcept;
  // Copies a part of the mapping from the file itself. Throws Error(io) if the file was cut or its disk fails; reading
  // the mapping in these cases ends the process (SIGBUS).
  void read(std::span<const std::byte> part, std::span<std::byte> to) const;
  // True if only this process's user and the administrator could have written the file. False for a copied one.
  bool is_private() const noexcept;
  // Throws Error(io) if the file has become shorter since it was mapped: reading the missing part would end the process
  // (SIGBUS). Call this before a read that comes much later.
  void check_length() const;

 private:
  void map(int fd, uint64_t offset, uint64_t length);
  void close() noexcept;
  std::filesystem::path path_;
  int fd_ = -1;               // -1: of an empty object, of memory, and of a file that was copied
  void* mapping_ = nullptr;   // whole pages: begins up to a page before the bytes
  size_t mapping_bytes_ = 0;  //
  uint64_t offset_ = 0;       // of the bytes, in the file
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// The whole of a file, copied. Throws as MappedFile does.
std::vector<std::byte> read_file(const std::filesystem::path& path);

// How errors name a descriptor.
std::string descriptor_name(int descriptor);
// Everything from a descriptor's position to its end, of a pipe or a socket too. Throws Error(invalid_argument) for
// what is no open descriptor, and Error(io).
std::vector<std::byte> read_to_end(int descriptor);
// Writes parts from a descriptor's position on, of a pipe or a socket too. Its functions throw as read_to_end. SIGPIPE
// is not raised.
class DescriptorWriter {
 public:
  explicit DescriptorWriter(int descriptor);
  void write(std::span<const std::byte> bytes);
  // Goes back to where it began. False: it cannot, for a reader may have taken a part, or the file is only appended to.
  bool restart();
  // Cuts off what a regular file has after the parts.
  void end();

 private:
  int descriptor_;
  std::optional<off_t> begin_;  // of a regular file that can be written over
  bool begun_ = false;
};

// Access rights of a new file: those that the process's umask allows, or read and write for its owner only (0600).
enum class Rights { usual, owner };

// A file that replaces the old one as a whole, in commit(), or leaves it as it was. Nothing remains of a file that was
// not committed, even if the process was killed; on systems without unnamed files, the next writer of the path removes
// "NAME.partial-XXXXXX". Follows a symbolic link. Writes directly to a character device; refuses everything else that
// is not a regular file. All functions throw Error(io) or Error(not_found), naming the path.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path, Rights rights = Rights::usual);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  // Syncs, names and renames; nothing may follow.
  void commit();

 private:
  [[noreturn]] void fail(const char* doing) const;
  void sync();
  std::filesystem::path path_, target_;  // as given, and where links lead; no target_: a device, which is written to
  std::string temporary_;                // the name beside target_; empty: it has none yet
  int fd_ = -1;                          // -1 too when committed
};

// Creates a folder and its missing parents; with Rights::owner new ones are their owner's alone (0700), whatever the
// umask. Does nothing where that fails: it shows itself when a file is created there.
void make_folder(const std::filesystem::path& folder, Rights rights) noexcept;

// Writes a whole AtomicFile. Creates missing parent folders, with rights as the file's. Throws Error(io).
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes,
                           Rights rights = Rights::usual);

}  // namespace weft
