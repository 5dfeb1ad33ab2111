// Files that a target needs: in memory, or in a folder that is removed at the end.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace weft::test {

// A file without a folder, at its beginning.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view content = {}) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    if (descriptor_ < 0) std::abort();
    if (::write(descriptor_, content.data(), content.size()) != static_cast<ssize_t>(content.size())) std::abort();
    rewind();
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int descriptor() const { return descriptor_; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
  void rewind() const {
    if (::lseek(descriptor_, 0, SEEK_SET) != 0) std::abort();
  }
  std::string content() const {
    std::string text(static_cast<size_t>(::lseek(descriptor_, 0, SEEK_END)), 0);
    if (::pread(descriptor_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) std::abort();
    rewind();
    return text;
  }

 private:
  int descriptor_;
};

// A folder of this process, in memory if there is one: targets write thousands of files a second.
inline const std::filesystem::path& scratch_folder() {
  struct Folder {
    Folder() {
      const std::filesystem::path memory = "/dev/shm";
      std::error_code ignored;
      const bool there = std::filesystem::is_directory(memory, ignored);
      std::string name = ((there ? memory : std::filesystem::temp_directory_path()) / "weft-fuzz-XXXXXX").string();
      if (!::mkdtemp(name.data())) std::abort();
      path = name;
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    std::filesystem::path path;
  };
  static const Folder folder;
  return folder.path;
}

}  // namespace weft::test
