#include "support/failing_new.h"

#include <execinfo.h>
#include <link.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEFT_OWN_MALLOC 0
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define WEFT_OWN_MALLOC 0
#endif
#ifndef WEFT_OWN_MALLOC
#define WEFT_OWN_MALLOC 1
extern "C" void* __libc_malloc(size_t bytes);
extern "C" void* __libc_calloc(size_t count, size_t bytes);
extern "C" void* __libc_realloc(void* memory, size_t bytes);
#else
#define __libc_malloc std::malloc
#endif

namespace weft::test {
namespace {

std::atomic<bool> g_armed = false, g_failed = false;
std::atomic<size_t> g_count = 0;
size_t g_first = 0;
bool g_all_later = false;
thread_local bool t_asks = false;  // within is_ours(), which allocates

struct Range {
  uintptr_t begin = UINTPTR_MAX, end = 0;
  bool holds(const void* address) const {
    return reinterpret_cast<uintptr_t>(address) >= begin && reinterpret_cast<uintptr_t>(address) < end;
  }
};

struct Ranges {
  std::vector<Range> ours;  // Weft's libraries or, without them, the program; and libraries of C that only Weft uses
  Range program, library;   // library: the C++ standard library
  bool linked = false;      // Weft is in libraries
  bool are_ours(const void* address) const {
    for (const Range& range : ours)
      if (range.holds(address)) return true;
    return false;
  }
};

int add_object(dl_phdr_info* info, size_t, void* data) {
  Ranges& ranges = *static_cast<Ranges*>(data);
  const auto named = [&](const char* name) { return std::strstr(info->dlpi_name, name) != nullptr; };
  const bool library = named("libstdc++.so") || named("libc++.so");
  const bool program = !*info->dlpi_name, ours = named("libweft") || named("libpcre2") || named("libutf8proc");
  if (!library && !program && !ours) return 0;
  ranges.linked |= named("libweft");
  Range range;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (begin < range.begin) range.begin = begin;
    if (begin + info->dlpi_phdr[i].p_memsz > range.end) range.end = begin + info->dlpi_phdr[i].p_memsz;
  }
  if (ours)
    ranges.ours.push_back(range);
  else
    (library ? ranges.library : ranges.program) = range;
  return 0;
}

const Ranges& ranges() {
  static const Ranges made = [] {
    Ranges found;
    dl_iterate_phdr(add_object, &found);
    if (!found.linked) found.ours.push_back(found.program);
    return found;
  }();
  return made;
}

bool is_ours(const void* caller) {
  if (ranges().are_ours(caller)) return true;
  if (!ranges().library.holds(caller)) return false;
  void* frames[24];
  const int count = backtrace(frames, 24);
  for (int i = 0, inside = 0; i < count; ++i) {
    if (ranges().library.holds(frames[i])) {
      inside = 1;
    } else if (inside) {  // who called the library
      return ranges().are_ours(frames[i]);
    }
  }
  return false;
}

bool may_allocate(const void* caller) {
  if (!g_armed.load(std::memory_order_relaxed) || t_asks) return true;
  t_asks = true;
  const bool ours = is_ours(caller);
  t_asks = false;
  if (!ours) return true;
  const size_t number = ++g_count;
  if (number < g_first || (number > g_first && !g_all_later)) return true;
  g_failed = true;
  return false;
}

}  // namespace

FailAllocation::FailAllocation(size_t n, Later later) {
  ranges();
  void* frame;
  backtrace(&frame, 1);  // the first call loads a library
  g_failed = false;
  g_count = 0;
  g_first = n;
  g_all_later = later == Later::fail;
  g_armed = true;
}

FailAllocation::~FailAllocation() { g_armed = false; }

bool FailAllocation::failed() const { return g_failed; }

size_t FailAllocation::count() const { return g_count; }

static void* allocate(size_t bytes, size_t alignment, const void* caller) {
  if (!may_allocate(caller)) return nullptr;
  bytes = (bytes + alignment - 1) / alignment * alignment;
  return alignment <= alignof(std::max_align_t) ? __libc_malloc(bytes ? bytes : 1)
                                                : std::aligned_alloc(alignment, bytes);
}

static void* allocate_or_throw(size_t bytes, size_t alignment, const void* caller) {
  void* const memory = allocate(bytes, alignment, caller);
  if (!memory) throw std::bad_alloc();
  return memory;
}

#if WEFT_OWN_MALLOC
static bool may_malloc(const void* caller) {
  if (may_allocate(caller)) return true;
  errno = ENOMEM;
  return false;
}
#endif

}  // namespace weft::test

// NOLINTBEGIN
#if WEFT_OWN_MALLOC
extern "C" [[gnu::visibility("default")]] void* malloc(size_t bytes) {
  return weft::test::may_malloc(__builtin_return_address(0)) ? __libc_malloc(bytes) : nullptr;
}
extern "C" [[gnu::visibility("default")]] void* calloc(size_t count, size_t bytes) {
  return weft::test::may_malloc(__builtin_return_address(0)) ? __libc_calloc(count, bytes) : nullptr;
}
extern "C" [[gnu::visibility("default")]] void* realloc(void* memory, size_t bytes) {
  return weft::test::may_malloc(__builtin_return_address(0)) ? __libc_realloc(memory, bytes) : nullptr;
}
#endif
void* operator new(size_t bytes) { return weft::test::allocate_or_throw(bytes, 1, __builtin_return_address(0)); }
void* operator new[](size_t bytes) { return weft::test::allocate_or_throw(bytes, 1, __builtin_return_address(0)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return weft::test::allocate_or_throw(bytes, static_cast<size_t>(alignment), __builtin_return_address(0));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return weft::test::allocate_or_throw(bytes, static_cast<size_t>(alignment), __builtin_return_address(0));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return weft::test::allocate(bytes, 1, __builtin_return_address(0));
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return weft::test::allocate(bytes, 1, __builtin_return_address(0));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
// NOLINTEND
