#include "support/failing_new.h"

#include <execinfo.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace weft::test {
namespace {

// n: the allocations to go until the one that fails; 0: none fails.
thread_local size_t t_left = 0;
thread_local bool t_failed = false;

struct Range {
  uintptr_t begin = UINTPTR_MAX, end = 0;
  bool holds(const void* address) const {
    return reinterpret_cast<uintptr_t>(address) >= begin && reinterpret_cast<uintptr_t>(address) < end;
  }
};

struct Ranges {
  Range program, library;  // the program itself, and the C++ standard library
};

int add_object(dl_phdr_info* info, size_t, void* data) {
  Ranges& ranges = *static_cast<Ranges*>(data);
  const bool library = std::strstr(info->dlpi_name, "libstdc++.so") || std::strstr(info->dlpi_name, "libc++.so");
  if (*info->dlpi_name && !library) return 0;
  Range& range = library ? ranges.library : ranges.program;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (begin < range.begin) range.begin = begin;
    if (begin + info->dlpi_phdr[i].p_memsz > range.end) range.end = begin + info->dlpi_phdr[i].p_memsz;
  }
  return 0;
}

const Ranges& ranges() {
  static const Ranges made = [] {
    Ranges found;
    dl_iterate_phdr(add_object, &found);
    return found;
  }();
  return made;
}

bool is_ours(const void* caller) {
  if (ranges().program.holds(caller)) return true;
  if (!ranges().library.holds(caller)) return false;
  void* frames[24];
  const int count = backtrace(frames, 24);
  for (int i = 0, inside = 0; i < count; ++i) {
    if (ranges().library.holds(frames[i])) {
      inside = 1;
    } else if (inside) {  // who called the library
      return ranges().program.holds(frames[i]);
    }
  }
  return false;
}

}  // namespace

FailAllocation::FailAllocation(size_t n) {
  ranges();
  t_failed = false;
  t_left = n;
}

FailAllocation::~FailAllocation() { t_left = 0; }

bool FailAllocation::failed() const { return t_failed; }

static bool may_allocate(const void* caller) {
  if (t_left == 0) return true;
  const size_t left = t_left;
  t_left = 0;  // what is_ours() allocates does not count
  const bool ours = is_ours(caller);
  t_left = left - ours;
  if (t_left > 0) return true;
  t_failed = true;
  return false;
}

static void* allocate(size_t bytes, size_t alignment, const void* caller) {
  if (!may_allocate(caller)) return nullptr;
  bytes = (bytes + alignment - 1) / alignment * alignment;
  return alignment <= alignof(std::max_align_t) ? std::malloc(bytes ? bytes : 1) : std::aligned_alloc(alignment, bytes);
}

static void* allocate_or_throw(size_t bytes, size_t alignment, const void* caller) {
  void* const memory = allocate(bytes, alignment, caller);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace weft::test

// NOLINTBEGIN
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
