// What was made to fail when the program crashes: a test that lets things fail one after another says it on stderr.
#pragma once

#include <unistd.h>

#include <csignal>
#include <cstring>

namespace weft::test {

inline char g_point[256] = "nothing";  // written by the test

// From now on, in a crash.
inline void say_point_in_a_crash() {
  const auto say = [](int signal) {
    [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, g_point, std::strlen(g_point));
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  };
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE}) std::signal(signal, say);
}

}  // namespace weft::test
