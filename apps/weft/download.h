// Files from the web, by libcurl: whole or not at all, and what a broken download has left is used again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace weft::cli {

struct RemoteFile {
  std::string url;          // http or https
  std::string name;         // relative path that it gets
  std::uint64_t bytes = 0;  // 0: unknown
  std::string sha256;       // of the content, in small hexadecimal digits; "": unknown
  std::string git_sha1;     // of the content as a blob of git; "": unknown
};

// Sent as `Authorization: Bearer` to the host that is asked first, never to one that it redirects to. "": none.
struct Credentials {
  std::string token;
};

// A small document. Throws api::Failure: WEFT_NOT_FOUND for 404, WEFT_INVALID_ARGUMENT for 401 and 403, WEFT_IO else.
std::string fetch_text(const std::string& url, const Credentials& credentials);

// Downloads to `path`, of which path + ".part" holds the beginning until all is there and its sums were checked: an
// earlier one's bytes are not asked for again, unless nothing tells whether they are of the same file: a sum, or the
// ETag in path + ".etag". Goes on after broken connections as long as bytes arrive. Throws api::Failure as fetch_text
// does, and if a sum is wrong (then nothing is left). received: called with the number of bytes that are there and of
// all, 0 if unknown.
void fetch_file(const RemoteFile& file, const Credentials& credentials, const std::filesystem::path& path,
                const std::function<void(std::uint64_t, std::uint64_t)>& received);

}  // namespace weft::cli
