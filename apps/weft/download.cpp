#include "download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <curl/curl.h>
#include <openssl/evp.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>

#include "common.h"

namespace weft::cli {
namespace {

constexpr std::size_t kMostText = 16 << 20;  // of a small document
constexpr int kTries = 5;                    // that bring nothing

class Digest {
 public:
  explicit Digest(const EVP_MD* kind) : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    if (!context_ || EVP_DigestInit_ex(context_.get(), kind, nullptr) != 1) throw std::bad_alloc();
  }
  void add(const void* data, std::size_t size) { EVP_DigestUpdate(context_.get(), data, size); }
  std::string hex() {
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    EVP_DigestFinal_ex(context_.get(), bytes, &size);
    std::string text;
    for (unsigned i = 0; i < size; ++i) text += format("%02x", bytes[i]);
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

// The file that a download has brought so far.
class Part {
 public:
  explicit Part(const std::filesystem::path& path) : path_(path), file_(open(path.c_str(), O_RDWR | O_CREAT, 0644)) {
    if (file_ < 0) fail();
  }
  ~Part() { close(file_); }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  std::uint64_t bytes() const {
    struct stat status = {};
    if (fstat(file_, &status) != 0) fail();
    return static_cast<std::uint64_t>(status.st_size);
  }
  void cut(std::uint64_t bytes) {
    if (ftruncate(file_, static_cast<off_t>(bytes)) != 0 || lseek(file_, 0, SEEK_END) < 0) fail();
  }
  void append(const char* data, std::size_t size) {
    while (size > 0) {
      const ssize_t written = write(file_, data, size);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail();
      data += written, size -= static_cast<std::size_t>(written);
    }
  }
  void become(const std::filesystem::path& path) {
    if (fsync(file_) != 0 || std::rename(path_.c_str(), path.c_str()) != 0) fail();
  }
  void add_to(Digest& digest) const {
    std::string block(1 << 20, '\0');
    for (off_t at = 0;;) {
      const ssize_t got = pread(file_, block.data(), block.size(), at);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail();
      if (got == 0) return;
      digest.add(block.data(), static_cast<std::size_t>(got));
      at += got;
    }
  }
  [[noreturn]] void fail() const { throw api::Failure(WEFT_IO, std::strerror(errno), path_.string()); }

 private:
  std::filesystem::path path_;
  int file_;
};

// One exchange. The sink gets the body's bytes of an answer of 200 or 206, after its head; it may throw.
struct Head {
  long status = 0;
  std::uint64_t bytes = 0;  // of the body; 0: unknown
  std::string etag;         // "": none, or one that does not stand for the very same bytes
};
struct Answer {
  CURLcode result = CURLE_OK;
  long status = 0;
  std::string problem;  // libcurl's, if result is an error
};
using Sink = std::function<void(const Head& head, const char* data, std::size_t size)>;

struct Transfer {
  CURL* curl;
  const Sink& sink;
  std::exception_ptr thrown;
};

Head head_of(CURL* curl) {
  Head head;
  curl_off_t bytes = 0;
  curl_header* etag = nullptr;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &head.status);
  curl_easy_getinfo(curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &bytes);
  head.bytes = static_cast<std::uint64_t>(std::max<curl_off_t>(bytes, 0));
  if (curl_easy_header(curl, "ETag", 0, CURLH_HEADER, -1, &etag) == CURLHE_OK && *etag->value == '"')
    head.etag = etag->value;
  return head;
}

std::size_t on_data(char* data, std::size_t, std::size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const Head head = head_of(transfer.curl);
  try {
    if (head.status == 200 || head.status == 206) transfer.sink(head, data, size);
    return size;
  } catch (...) {  // not through libcurl
    transfer.thrown = std::current_exception();
    return size + 1;
  }
}

// etag: of the file that the bytes before `from` are of; another one is sent whole. "": unknown.
Answer exchange(const std::string& url, const Credentials& credentials, std::uint64_t from, const std::string& etag,
                const Sink& sink) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(), &curl_easy_cleanup);
  if (ready != CURLE_OK || !curl) throw api::Failure(WEFT_IO, "libcurl cannot start", url);
  char problem[CURL_ERROR_SIZE] = {};
  Transfer transfer = {curl.get(), sink, nullptr};
  const auto set = [&](CURLoption option, auto value) { curl_easy_setopt(curl.get(), option, value); };
  const std::string agent = "weft/" + std::string(api::version()), range = std::to_string(from) + "-";
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_ERRORBUFFER, problem);
  set(CURLOPT_USERAGENT, agent.c_str());
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 8L);
  const bool plain = url.starts_with("http://");
  set(CURLOPT_PROTOCOLS_STR, plain ? "http,https" : "https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, plain ? "http,https" : "https");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT, 30L);
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, 60L);
  set(CURLOPT_WRITEFUNCTION, &on_data);
  set(CURLOPT_WRITEDATA, &transfer);
  if (from > 0) set(CURLOPT_RANGE, range.c_str());
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(
      from > 0 && !etag.empty() ? curl_slist_append(nullptr, ("If-Range: " + etag).c_str()) : nullptr,
      &curl_slist_free_all);
  if (headers) set(CURLOPT_HTTPHEADER, headers.get());
  if (!credentials.token.empty()) {
    set(CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
    set(CURLOPT_XOAUTH2_BEARER, credentials.token.c_str());
  }
  Answer answer;
  answer.result = curl_easy_perform(curl.get());
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &answer.status);
  if (answer.result != CURLE_OK) answer.problem = *problem ? problem : curl_easy_strerror(answer.result);
  return answer;
}

// Throws if the answer is none that waiting helps.
void require_found(const Answer& answer, const std::string& url, const Credentials& credentials) {
  if (answer.status == 404) throw api::Failure(WEFT_NOT_FOUND, "the server has no such file (404)", url);
  if (answer.status == 401 || answer.status == 403)
    throw api::Failure(WEFT_INVALID_ARGUMENT,
                       format("the server refuses it (%ld): it is not there, or not for everybody", answer.status), url,
                       credentials.token.empty()
                           ? "HF_TOKEN, a token of your account, opens models whose terms you accepted there"
                           : "the account of your token must have accepted the model's terms");
  if (answer.result == CURLE_PEER_FAILED_VERIFICATION || answer.result == CURLE_SSL_CACERT_BADFILE)
    throw api::Failure(WEFT_IO, answer.problem, url,
                       "the package ca-certificates has what certificates are checked by");
  if (answer.result == CURLE_UNSUPPORTED_PROTOCOL || answer.result == CURLE_URL_MALFORMAT ||
      answer.result == CURLE_TOO_MANY_REDIRECTS)
    throw api::Failure(WEFT_IO, answer.problem, url);
}

bool worth_another_try(const Answer& answer) {
  return answer.result != CURLE_OK || answer.status == 408 || answer.status == 429 || answer.status >= 500;
}

[[noreturn]] void give_up(const Answer& answer, const std::string& url) {
  throw api::Failure(WEFT_IO,
                     answer.result != CURLE_OK ? "the download broke off: " + answer.problem
                                               : format("the server answers %ld", answer.status),
                     url, "the same command goes on where it ended");
}

// Throws unless the sums that are known are right.
void check_sums(const RemoteFile& file, const Part& part) {
  const auto check = [&](const char* kind, const std::string& expected, Digest digest) {
    part.add_to(digest);
    const std::string found = digest.hex();
    if (found != expected)
      throw api::Failure(WEFT_BAD_FILE, std::string("its ") + kind + " is " + found + ", expected " + expected,
                         file.url, "nothing of it was kept");
  };
  if (!file.sha256.empty()) return check("SHA-256", file.sha256, Digest(EVP_sha256()));
  if (file.git_sha1.empty()) return;
  Digest blob(EVP_sha1());
  const std::string head = "blob " + std::to_string(part.bytes());
  blob.add(head.c_str(), head.size() + 1);
  check("SHA-1 as git's blob", file.git_sha1, std::move(blob));
}

bool has_sum(const RemoteFile& file) { return !file.sha256.empty() || !file.git_sha1.empty(); }

// The ETag of the file that a part is of, beside it.
std::string kept_etag(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string etag;
  std::getline(file, etag);
  return etag;
}

// Brings the part's missing bytes.
void complete(const RemoteFile& file, const Credentials& credentials, Part& part,
              const std::filesystem::path& etag_path,
              const std::function<void(std::uint64_t, std::uint64_t)>& received) {
  std::string etag = has_sum(file) ? "" : kept_etag(etag_path);
  if (!has_sum(file) && etag.empty()) part.cut(0);
  for (int tries = 0;;) {
    const std::uint64_t before = part.bytes();
    if (file.bytes > 0 && before == file.bytes) return;
    if (file.bytes > 0 && before > file.bytes) part.cut(0);
    const std::uint64_t from = part.bytes();
    std::uint64_t bytes = from, all = file.bytes;
    bool first = true;
    const Answer answer =
        exchange(file.url, credentials, from, etag, [&](const Head& head, const char* data, std::size_t size) {
          if (std::exchange(first, false)) {
            if (head.status == 200) bytes = 0;  // all of it, whatever was asked for
            part.cut(bytes);
            if (all == 0 && head.bytes > 0) all = bytes + head.bytes;
            if (!has_sum(file)) std::ofstream(etag_path) << (etag = head.etag) << '\n';
          }
          bytes += size;
          if (file.bytes > 0 && bytes > file.bytes)
            throw api::Failure(WEFT_BAD_FILE,
                               format("the server sends more than the %llu bytes that it has announced",
                                      static_cast<unsigned long long>(file.bytes)),
                               file.url);
          part.append(data, size);
          received(bytes, all);
        });
    require_found(answer, file.url, credentials);
    if (answer.status == 416) {  // of a file of unknown size: all was there, or it has changed
      part.cut(0);
      if (++tries == kTries) give_up(answer, file.url);
      continue;
    }
    if (answer.result == CURLE_OK && (answer.status == 200 || answer.status == 206) &&
        (file.bytes == 0 || bytes == file.bytes))
      return;
    if (answer.result == CURLE_OK && answer.status < 400 && answer.status != 200 && answer.status != 206)
      give_up(answer, file.url);
    if (answer.result == CURLE_OK && answer.status >= 400 && !worth_another_try(answer)) give_up(answer, file.url);
    tries = bytes > before ? 1 : tries + 1;
    const bool nobody = answer.result == CURLE_COULDNT_RESOLVE_HOST || answer.result == CURLE_COULDNT_CONNECT;
    if (tries == kTries || (nobody && bytes == 0)) give_up(answer, file.url);
    std::this_thread::sleep_for(std::chrono::seconds(1 << (tries - 1)));
  }
}

}  // namespace

std::string fetch_text(const std::string& url, const Credentials& credentials) {
  for (int tries = 1;; ++tries) {
    std::string text;
    const Answer answer = exchange(url, credentials, 0, "", [&](const Head&, const char* data, std::size_t size) {
      if (text.size() + size > kMostText) throw api::Failure(WEFT_IO, "the server's answer does not end", url);
      text.append(data, size);
    });
    require_found(answer, url, credentials);
    if (answer.result == CURLE_OK && answer.status == 200) return text;
    if (!worth_another_try(answer) || tries == 2) give_up(answer, url);
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

void fetch_file(const RemoteFile& file, const Credentials& credentials, const std::filesystem::path& path,
                const std::function<void(std::uint64_t, std::uint64_t)>& received) {
  const std::filesystem::path part_path = path.string() + ".part", etag_path = path.string() + ".etag";
  for (bool again = false;; again = true) {
    Part part(part_path);
    const bool kept = part.bytes() > 0;
    complete(file, credentials, part, etag_path, received);
    try {
      check_sums(file, part);
      part.become(path);
      std::error_code ignored;
      std::filesystem::remove(etag_path, ignored);
      return;
    } catch (const api::Failure& failure) {
      if (failure.status() != WEFT_BAD_FILE) throw;
      std::error_code ignored;
      std::filesystem::remove(part_path, ignored);
      if (!kept || again) throw;  // else an earlier download's bytes were of another file
    }
  }
}

}  // namespace weft::cli
