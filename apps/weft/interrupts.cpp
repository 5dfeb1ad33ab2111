#include "interrupts.h"

#include <atomic>
#include <csignal>

namespace weft::cli {
namespace {

std::atomic<bool> noted_interrupt = false;
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void on_noted_interrupt(int) { noted_interrupt = true; }

}  // namespace

void note_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_noted_interrupt;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

bool was_interrupted() { return noted_interrupt; }

}  // namespace weft::cli
