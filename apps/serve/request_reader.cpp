#include "request_reader.h"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>

#include "../weft/common.h"

namespace weft::serve {
namespace {

namespace beast = boost::beast;

constexpr std::string_view kForm = "multipart/form-data";

[[noreturn]] void refuse_body(std::size_t most) {
  throw HttpFault(413, cli::format("The body is larger than %zu bytes.", most));
}

bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos);
  });
}

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::string_view trim(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  const std::size_t end = text.find_last_not_of(" \t");
  return begin == text.size() ? std::string_view() : text.substr(begin, end + 1 - begin);
}

// Cuts a line, without its CRLF, from the beginning of the head.
std::string_view cut_line(std::string_view& head) {
  const std::size_t end = head.find("\r\n");
  const std::string_view line = head.substr(0, end);
  head.remove_prefix(end + 2);
  return line;
}

// The request line: METHOD SP TARGET SP VERSION. Targets are paths, "*", or http://HOST and a path.
void check_request_line(std::string_view line) {
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == line.npos || first == last || !is_token(line.substr(0, first)))
    throw HttpFault(400, "The request line must be METHOD TARGET HTTP/1.1.");
  const std::string_view target = line.substr(first + 1, last - first - 1), version = line.substr(last + 1);
  if (target.size() > kMostTargetBytes) throw HttpFault(414, "The path is too long.");
  const auto allowed = [](char c) { return c > ' ' && c <= '~' && c != '#'; };
  const bool form = target == "*" || target.starts_with('/') || target.starts_with("http://");
  if (!form || !std::ranges::all_of(target, allowed))
    throw HttpFault(400, "The request's target must be a path of printable ASCII characters.");
  if (version == "HTTP/1.1" || version == "HTTP/1.0") return;
  const bool other = version.size() == 8 && version.starts_with("HTTP/") && version[6] == '.' &&
                     is_digits(version.substr(5, 1)) && is_digits(version.substr(7));
  throw HttpFault(other ? 505 : 400, "The version must be HTTP/1.1 or HTTP/1.0.");
}

struct Framing {
  std::size_t hosts = 0, lengths = 0, codings = 0, types = 0, keys = 0;
};

// A header line. Lenient readings of these bytes are what lets two programs disagree about where a request ends.
void check_header(std::string_view line, Framing& framing) {
  if (line.starts_with(' ') || line.starts_with('\t')) throw HttpFault(400, "A header must not go on in another line.");
  const std::size_t colon = line.find(':');
  if (colon == line.npos || !is_token(line.substr(0, colon)))
    throw HttpFault(400, "A header line must be NAME: VALUE, without a space before the colon.");
  const std::string_view name = line.substr(0, colon), value = trim(line.substr(colon + 1));
  const auto allowed = [](char c) { return c == '\t' || (static_cast<unsigned char>(c) >= ' ' && c != '\x7f'); };
  if (!std::ranges::all_of(value, allowed)) throw HttpFault(400, "A header has a control character.");
  if (same_word(name, "Host")) {
    ++framing.hosts;
    const auto good = [](char c) {
      return is_token({&c, 1}) || std::string_view("()[]:;,=").find(c) != std::string_view::npos;
    };
    if (!std::ranges::all_of(value, good)) throw HttpFault(400, "The Host is not a name with a port.");
  } else if (same_word(name, "Content-Length")) {
    ++framing.lengths;
    if (!is_digits(value)) throw HttpFault(400, "The Content-Length must be a number.");
    if (value.size() > 18) throw HttpFault(413, "The body is too large.");
  } else if (same_word(name, "Transfer-Encoding")) {
    ++framing.codings;
    if (!same_word(value, "chunked")) throw HttpFault(400, "The Transfer-Encoding must be chunked.");
  } else if (same_word(name, "Content-Type")) {
    ++framing.types;
  } else if (same_word(name, "Authorization")) {
    ++framing.keys;
  }
}

// Refuses what Beast accepts and RFC 9112 does not, before Beast parses it. head: up to and with the empty line.
void check_head(std::string_view head) {
  const std::string_view request_line = cut_line(head);
  check_request_line(request_line);
  Framing framing;
  for (std::string_view line = cut_line(head); !line.empty(); line = cut_line(head)) check_header(line, framing);
  const bool http10 = request_line.ends_with("HTTP/1.0");
  if (framing.hosts > 1 || (framing.hosts == 0 && !http10)) throw HttpFault(400, "Exactly one Host is required.");
  if (framing.lengths + framing.codings > 1)
    throw HttpFault(400, "Only one Content-Length or one Transfer-Encoding is allowed.");
  if (framing.codings && http10) throw HttpFault(400, "HTTP/1.0 has no Transfer-Encoding.");
  if (framing.types > 1 || framing.keys > 1)
    throw HttpFault(400, "Only one Content-Type and one Authorization are allowed.");
}

}  // namespace

bool same_word(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

const std::string* HttpRequest::header(std::string_view name) const {
  const auto found = std::ranges::find_if(headers, [&](const auto& header) { return same_word(header.first, name); });
  return found == headers.end() ? nullptr : &found->second;
}

struct RequestReader::Parser {
  beast::http::request_parser<beast::http::string_body> parser;
};

RequestReader::RequestReader() = default;
RequestReader::~RequestReader() = default;

void RequestReader::reset(const std::string& client) {
  parser_.reset();
  request_ = {};
  request_.client = client;
  request_.arrived = std::chrono::steady_clock::now();
  seen_ = line_ = raw_bytes_ = fields_ = 0;
  most_body_ = kMostBodyBytes;
  http10_ = expects_continue_ = skipped_line_ = false;
}

bool RequestReader::read_head(std::string& input) {
  // RFC 9112, 2.2: an empty line before the request is ignored. One of them, however its bytes are cut.
  if (seen_ == 0 && !skipped_line_) {
    if (input == "\r") return false;
    skipped_line_ = input.starts_with("\r\n");
    if (skipped_line_) input.erase(0, 2);
  }
  if (!input.empty() && input[0] != '\r' && !is_token(std::string_view(input).substr(0, 1)))
    throw HttpFault(400, "This is not HTTP. TLS needs a proxy before the server.");
  std::size_t end = 0;
  for (; !end && seen_ < input.size(); ++seen_) {
    if (input[seen_] != '\n') continue;
    if (seen_ == 0 || input[seen_ - 1] != '\r') throw HttpFault(400, "Lines must end with CR LF.");
    if (seen_ == line_ + 1) end = seen_ + 1;
    line_ = seen_ + 1;
  }
  if (!end && line_ == 0 && input.size() > kMostTargetBytes + 64) throw HttpFault(414, "The path is too long.");
  if (std::max(end, input.size() * !end) > kMostHeadBytes) throw HttpFault(431, "The headers are too large.");
  if (!end) return false;
  check_head(std::string_view(input).substr(0, end));
  parser_ = std::make_unique<Parser>();
  auto& parser = parser_->parser;
  parser.eager(false);
  parser.header_limit(kMostHeadBytes);
  parser.body_limit(UINT64_MAX);  // the type of the body decides, below
  boost::system::error_code error;
  const std::size_t taken = parser.put(boost::asio::buffer(input.data(), end), error);
  if (error || taken != end || !parser.is_header_done()) throw HttpFault(400, "The request is not well-formed HTTP.");
  input.erase(0, end);
  fill_request();
  if (const std::string* type = request_.header("Content-Type"))
    if (same_word(std::string_view(*type).substr(0, kForm.size()), kForm)) most_body_ = kMostFormBytes;
  parser.body_limit(most_body_);  // of a body in chunks
  if (const auto length = parser.content_length(); length && *length > most_body_) refuse_body(most_body_);
  return true;
}

void RequestReader::fill_request() {
  const auto& message = parser_->parser.get();
  const auto text = [](const auto& view) { return std::string(view.data(), view.size()); };
  http10_ = message.version() == 10;
  request_.method = text(message.method_string());
  std::string target = text(message.target());
  for (const auto& field : message) request_.headers.emplace_back(text(field.name_string()), text(field.value()));
  fields_ = request_.headers.size();
  constexpr std::string_view kScheme = "http://";
  if (target.starts_with(kScheme)) {
    const std::size_t path = std::min(target.find_first_of("/?", kScheme.size()), target.size());
    const std::string* host = request_.header("Host");
    if (!host || !same_word(*host, std::string_view(target).substr(kScheme.size(), path - kScheme.size())))
      throw HttpFault(400, "The target has another host than the Host.");
    target.erase(0, path);
    if (!target.starts_with('/')) target.insert(0, "/");
  }
  const std::size_t query = target.find('?');
  request_.path = target.substr(0, query);
  request_.query = query == target.npos ? "" : target.substr(query + 1);
  if (const std::string* expect = request_.header("Expect"); expect && !http10_) {
    if (!same_word(*expect, "100-continue")) throw HttpFault(417, "Only 100-continue can be expected.");
    expects_continue_ = true;
  }
}

bool RequestReader::read_body(std::string& input) {
  auto& parser = parser_->parser;
  // Beast 1.74 asserts that it sees a last chunk that comes first together with its empty trailer.
  if (parser.chunked() && raw_bytes_ == 0 && std::string_view("0\r\n\r").starts_with(input)) return false;
  parser.eager(true);
  boost::system::error_code error;
  std::size_t taken = 0;
  while (!parser.is_done() && !error && taken < input.size())
    taken += parser.put(boost::asio::buffer(input.data() + taken, input.size() - taken), error);
  input.erase(0, taken);
  raw_bytes_ += taken;
  // A chunked body has a few bytes more than its content.
  if (error == beast::http::error::body_limit || raw_bytes_ > most_body_ + most_body_ / 64) refuse_body(most_body_);
  if (error && error != beast::http::error::need_more) throw HttpFault(400, "The body's chunks are not well-formed.");
  if (!parser.is_done()) {
    if (input.size() > kMostHeadBytes) throw HttpFault(400, "The body's chunks are not well-formed.");
    return false;
  }
  const auto& message = parser.get();
  if (static_cast<std::size_t>(std::distance(message.begin(), message.end())) != fields_)
    throw HttpFault(400, "Headers after the body are not allowed.");
  return true;
}

std::size_t RequestReader::body_bytes() const { return parser_ ? parser_->parser.get().body().size() : 0; }

bool RequestReader::has_body() const {
  const auto& parser = parser_->parser;
  const auto length = parser.content_length();
  return parser.chunked() || (length && *length > 0);
}

bool RequestReader::keep_alive() const { return !http10_ && parser_->parser.keep_alive(); }

HttpRequest RequestReader::take() {
  request_.body = std::move(parser_->parser.get().body());
  return std::move(request_);
}

}  // namespace weft::serve
