#include "base/private_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"

namespace weft {

bool is_private_folder(const std::filesystem::path& folder) {
  struct stat info = {};
  if (::stat(folder.c_str(), &info) != 0) return errno == ENOENT || errno == ENOTDIR;
  if (!S_ISDIR(info.st_mode)) return true;  // its use gives the error
  if (info.st_uid != ::geteuid() && info.st_uid != 0) return false;
  // Many systems give each user a group of their own, and let it write.
  return (info.st_mode & S_IWOTH) == 0 && ((info.st_mode & S_IWGRP) == 0 || info.st_gid == ::getegid());
}

std::optional<MappedFile> open_private(const std::filesystem::path& path) {
  try {
    MappedFile file(path);
    if (file.is_private() && is_private_folder(path.has_parent_path() ? path.parent_path() : ".")) return file;
  } catch (const Error&) {  // it is not there, or cannot be read
  }
  return std::nullopt;
}

}  // namespace weft
