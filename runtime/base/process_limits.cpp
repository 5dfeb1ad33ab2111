#include "base/process_limits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <vector>

namespace weft {
namespace {

// Loaders and drivers open a few files at once.
constexpr size_t kFewDescriptors = 12;

bool has_few_descriptors() {
  std::vector<int> free;
  free.reserve(kFewDescriptors);
  while (free.size() < kFewDescriptors) {
    const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0) break;
    free.push_back(fd);
  }
  const bool few = free.size() < kFewDescriptors;
  for (const int fd : free) ::close(fd);
  return few;
}

}  // namespace

std::string limits_hint() {
  std::string hint;
  rlimit limit = {};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    hint = "the process's address space is limited to " + std::to_string(limit.rlim_cur) + " bytes (ulimit -v)";
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && has_few_descriptors())
    hint += (hint.empty() ? "" : "; ") + ("nearly all of the process's " + std::to_string(limit.rlim_cur)) +
            " file descriptors are open (ulimit -n)";
  return hint;
}

}  // namespace weft
