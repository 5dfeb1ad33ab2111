// Prints the injected fault on stderr when the program crashes: for tests that let things fail one after another.
#pragma once

#include <unistd.h>

#include <csignal>
#include <cstring>

namespace weft::test {

inline char g_point[256] = "nothing";  // written by the test

// Prints g_point in crashes from now on.
inline void say_point_in_a_crash() {
  const auto say = [](int signal) {
    [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, g_point, std::strlen(g_point));
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  };
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE}) std::signal(signal, say);
}

}  // namespace weft::test
