// libFuzzer's entry: every input runs on a stack as small as those of some programs' threads.
#include <pthread.h>
#include <sanitizer/common_interface_defs.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdlib>

#include "fuzz_support.h"

namespace {

// The same as in tests/support/small_stack.h: sanitizers make stack frames several times as large, so 256 KiB are not
// enough.
constexpr size_t kStack = 2048 * 1024;

// A context of its own rather than a thread, which costs more than many inputs take.
class SmallStack {
 public:
  SmallStack() {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    void* const all = ::mmap(nullptr, page + kStack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) std::abort();
    base_ = static_cast<char*>(all) + page;  // the first page stays closed
    if (::mprotect(base_, kStack, PROT_READ | PROT_WRITE) != 0) std::abort();
  }

  void run(const uint8_t* data, size_t size) {
    data_ = data;
    size_ = size;
    if (::getcontext(&inside_) != 0) std::abort();
    inside_.uc_stack.ss_sp = base_;
    inside_.uc_stack.ss_size = kStack;
    inside_.uc_link = nullptr;
    ::makecontext(&inside_, &SmallStack::enter, 0);
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, base_, kStack);
    ::swapcontext(&outside_, &inside_);
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
  }

  static SmallStack& the() {
    static SmallStack stack;
    return stack;
  }

 private:
  static void enter() {
    SmallStack& self = the();
    const void* bottom = nullptr;
    size_t bytes = 0;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
    weft::fuzz_input(self.data_, self.size_);
    __sanitizer_start_switch_fiber(nullptr, bottom, bytes);  // NULL: this stack is done with
    ::setcontext(&self.outside_);
  }

  char* base_;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  ucontext_t outside_ = {}, inside_ = {};
};

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  pthread_attr_t small;  // of threads that a target starts
  if (pthread_attr_init(&small) != 0 || pthread_attr_setstacksize(&small, kStack) != 0) std::abort();
  if (pthread_setattr_default_np(&small) != 0) std::abort();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  SmallStack::the().run(data, size);
  return 0;
}
