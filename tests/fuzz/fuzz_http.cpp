// The HTTP of `weft serve`, without a model. Input: '0' (a plain server) or '1' (one with a key, for other sites'
// pages), then the bytes of a connection; a line of "----" cuts them into separate writes.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "door.h"
#include "fuzz_support.h"
#include "http_server.h"
#include "service.h"

namespace {

using namespace weft::serve;

// Calls something that libFuzzer's timer must not interrupt.
void without_signals(const auto& call) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  call();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

class Target {
 public:
  Target(std::vector<ApiKey> keys, Access access)
      : keys_(std::move(keys)), service_(metrics_, log_, keys_, std::move(access)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address_.sin_port = htons(static_cast<uint16_t>(server_.bind("127.0.0.1", 0)));
    without_signals([this] { server_.start(); });
  }

  // All that comes back for these bytes.
  std::string answer(std::string_view bytes) const {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    // Ports stay taken for a minute: each address of the loopback network has its own.
    static uint32_t connections = 0;
    sockaddr_in from = {};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + connections++ % 1000);
    const int yes = 1;
    ::setsockopt(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
    if (::bind(socket, reinterpret_cast<const sockaddr*>(&from), sizeof from) != 0) std::abort();
    int connected = -1;
    without_signals(
        [&] { connected = ::connect(socket, reinterpret_cast<const sockaddr*>(&address_), sizeof address_); });
    if (connected != 0) {
      std::fprintf(stderr, "fuzz_http: cannot connect: %s\n", std::strerror(errno));
      std::abort();
    }
    constexpr std::string_view kCut = "----\n";
    for (bool more = true; more;) {
      const size_t cut = bytes.find(kCut);
      more = cut != std::string_view::npos;
      const std::string_view part = bytes.substr(0, cut);
      if (::send(socket, part.data(), part.size(), MSG_NOSIGNAL) < 0) break;  // it has had enough
      if (more) bytes.remove_prefix(cut + kCut.size());
    }
    ::shutdown(socket, SHUT_WR);
    std::string text;
    char buffer[4096];
    for (ssize_t count; (count = ::recv(socket, buffer, sizeof buffer, 0)) > 0 || (count < 0 && errno == EINTR);)
      if (count > 0) text.append(buffer, static_cast<size_t>(count));
    ::close(socket);
    return text;
  }

 private:
  Metrics metrics_;
  RequestLog log_{""};
  Keys keys_;
  Service service_;
  Door door_{service_, Door::Kind::everything};
  HttpServer server_{door_, 1, 64 << 20};
  sockaddr_in address_ = {};
};

// The requests of a connection whose bytes come in pieces of this size, as one text; at last the status that ends it.
std::string requests_of(std::string_view bytes, size_t piece) {
  std::string input, text;
  RequestReader reader;
  bool in_body = false;
  reader.reset("");
  try {
    for (size_t at = 0; at < bytes.size(); at += piece) {
      input += bytes.substr(at, piece);
      for (;;) {
        if (!in_body && !reader.read_head(input)) break;
        in_body = true;
        if (!reader.read_body(input)) break;
        in_body = false;
        const HttpRequest request = reader.take();
        text += request.method + " " + request.path + "?" + request.query + "\n" + request.body + "\n";
        for (const auto& [name, value] : request.headers) text += name + ":" + value + "\n";
        reader.reset("");
        if (input.empty()) break;
      }
    }
  } catch (const HttpFault& fault) {
    if (fault.status() < 400) std::abort();
    text += std::to_string(fault.status());
  }
  return text;
}

}  // namespace

void weft::fuzz_input(const uint8_t* data, size_t size) {
  if (size == 0) return;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  // Where a request ends does not depend on how its bytes are cut.
  const std::string whole = requests_of(bytes, bytes.size() + 1);
  if (bytes.size() < 4096 && (whole != requests_of(bytes, 1) || whole != requests_of(bytes, 7))) std::abort();
  // Never freed: their threads use them up to the end.
  static const Target& plain = *new Target({}, {"", {"example.org"}, std::chrono::seconds(5)});
  static const Target& keyed = *new Target({{"name", "key"}}, {"https://example.org", {}, std::chrono::seconds(5)});
  const std::string text = (data[0] == '1' ? keyed : plain).answer(bytes);
  if (text.empty()) return;
  if (!text.starts_with("HTTP/1.1 ")) std::abort();
  // Without the key only the page is served.
  const bool let_in = text.starts_with("HTTP/1.1 200") && text.find("text/html") == text.npos;
  if (data[0] == '1' && let_in && bytes.find("key") == bytes.npos) std::abort();
}
