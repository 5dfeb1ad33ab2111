// Reads HTTP/1 requests strictly: bytes that RFC 9112 does not allow are refused, never repaired.
#pragma once

#include <memory>

#include "http.h"

namespace weft::serve {

class RequestReader {
 public:
  RequestReader();
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // Begins another request, of a client at this address.
  void reset(const std::string& client);
  // Takes the head from the beginning of `input`. False: more bytes are needed. Throws HttpFault.
  bool read_head(std::string& input);
  // After the head: takes the body. False: more bytes are needed. Throws HttpFault.
  bool read_body(std::string& input);
  // The size of the body, as far as it was read.
  std::size_t body_bytes() const;

  // After read_head().
  bool has_body() const;
  bool expects_continue() const { return expects_continue_; }
  bool is_http10() const { return http10_; }
  bool keep_alive() const;
  // The most bytes that a body of this request may have.
  std::size_t most_body() const { return most_body_; }
  const HttpRequest& request() const { return request_; }
  // The request with its body, after read_body().
  HttpRequest take();

 private:
  struct Parser;
  void fill_request();

  std::unique_ptr<Parser> parser_;
  HttpRequest request_;
  std::size_t seen_ = 0;                    // bytes of the input that end no head
  std::size_t line_ = 0;                    // where the line begins that they end in
  std::size_t raw_bytes_ = 0;               // of the body, with its framing
  std::size_t most_body_ = kMostBodyBytes;  // of this request
  std::size_t fields_ = 0;                  // headers of the head
  bool http10_ = false, expects_continue_ = false;
  bool skipped_line_ = false;  // an empty line before the request
};

}  // namespace weft::serve
