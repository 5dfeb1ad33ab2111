// Makes a test program's process the way a host program may have made it before it loads Weft, if WEFT_TEST_LOCALE
// names a locale: C and C++ locale, working folder, umask, and SIGTERM blocked in the main thread. Exits with 77, for
// CTest's SKIP_RETURN_CODE, if the machine lacks the locale.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <locale>

namespace {

[[gnu::constructor]] void become_a_guest() {
  const char* name = std::getenv("WEFT_TEST_LOCALE");
  if (name == nullptr) return;
  setenv("LC_ALL", name, 1);
  if (std::setlocale(LC_ALL, "") == nullptr) {
    std::printf("skipped: there is no locale %s\n", name);
    std::exit(77);
  }
  std::locale::global(std::locale(""));
  if (chdir("/") != 0) std::abort();
  umask(0);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
}

}  // namespace
