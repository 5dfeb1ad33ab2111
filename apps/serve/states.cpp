#include "states.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "../weft/common.h"
#include "answers.h"

namespace weft::serve {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostKept = 256;  // each has a file open
constexpr std::size_t kLongestName = 64;
constexpr const char* kSuffix = ".session";

std::uint64_t bytes_in(const std::string& folder, const std::string& without) {
  std::uint64_t bytes = 0;
  std::error_code ignored;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, ignored))
    if (file.path() != without && file.is_regular_file(ignored)) bytes += file.file_size(ignored);
  return bytes;
}

}  // namespace

States::Kept::Kept(const std::string& folder) {
  std::string name = folder + "/kept-XXXXXX";
  descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) throw api::Failure(WEFT_IO, std::string("no file can be made: ") + std::strerror(errno), folder);
  ::unlink(name.c_str());
}

States::Kept::~Kept() { ::close(descriptor); }

States::States(std::string folder, std::uint64_t limit) : folder_(std::move(folder)), limit_(limit) {
  const Kept trial(folder_);
}

States::~States() = default;

// A name is a word, so it cannot lead out of the folder.
std::string States::path(const std::string& name) const {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  if (name.empty() || name.size() > kLongestName || !std::ranges::all_of(name, good))
    throw bad_field("filename", R"(A filename has 1 to 64 letters, digits, "_" and "-".)");
  return folder_ + "/" + name + kSuffix;
}

// True if so many more bytes fit, without the file that they replace. Kept conversations make room first.
bool States::make_place(std::uint64_t bytes, const std::string& replaced) {
  std::uint64_t all = bytes_in(folder_, replaced) + bytes;
  for (const Kept& kept : kept_) all += kept.bytes;
  for (; all > limit_ && !kept_.empty(); kept_.pop_front()) all -= kept_.front().bytes;
  return all <= limit_;
}

std::uint64_t States::save(const api::Session& session, const std::string& name) {
  const std::string file = path(name), fresh = folder_ + "/new-" + random_name();
  session.save(fresh);
  const std::lock_guard lock(mutex_);
  std::error_code error;
  const std::uint64_t bytes = fs::file_size(fresh, error);
  const bool fits = !error && make_place(0, file);  // the new one is in the folder already
  if (fits) fs::rename(fresh, file, error);
  if (!fits || error) {
    std::error_code ignored;
    fs::remove(fresh, ignored);
  }
  if (!fits)
    throw RequestError(503, "unavailable_error", "storage_full",
                       "The saved states would take more than the server's --states-limit.");
  if (error) throw api::Failure(WEFT_IO, error.message(), file);
  return bytes;
}

std::uint64_t States::restore(api::Session& session, const std::string& name) {
  const std::string file = path(name);
  std::error_code error;
  const std::uint64_t bytes = fs::file_size(file, error);
  if (error)
    throw RequestError(404, "invalid_request_error", "state_not_found", "There is no saved state \"" + name + "\".",
                       "filename");
  try {
    session.restore(file);
  } catch (const api::Failure& failure) {
    if (failure.status() != WEFT_BAD_FILE && failure.status() != WEFT_UNSUPPORTED) throw;
    throw bad_field("filename", failure.sentence() + ".", "unsupported");  // without the folder's name
  }
  return bytes;
}

void States::keep(const api::Session& session) {
  try {
    std::list<Kept> fresh;
    Kept& kept = fresh.emplace_back(folder_);
    kept.ids = session.ids();
    session.save(kept.descriptor);
    kept.bytes = static_cast<std::uint64_t>(::lseek(kept.descriptor, 0, SEEK_END));
    const std::lock_guard lock(mutex_);
    if (!make_place(kept.bytes, {})) return;
    kept_.splice(kept_.end(), fresh);
    if (kept_.size() > kMostKept) kept_.pop_front();
  } catch (const api::Failure&) {
  }
}

void States::recall(api::Session& session, const std::vector<std::uint32_t>& prompt, std::size_t least) {
  std::list<Kept> found;
  {
    const std::lock_guard lock(mutex_);
    auto best = kept_.end();
    for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
      const auto common = static_cast<std::size_t>(std::ranges::mismatch(kept->ids, prompt).in1 - kept->ids.begin());
      if (common < least) continue;
      least = common;
      best = kept;
    }
    if (best == kept_.end()) return;
    found.splice(found.begin(), kept_, best);
  }
  try {
    ::lseek(found.front().descriptor, 0, SEEK_SET);
    session.restore(found.front().descriptor);
  } catch (const api::Failure&) {  // the session is as it was
  }
}

}  // namespace weft::serve
