// A thread with a small stack, as some programs have.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>
#include <functional>

namespace weft::test {

// Sanitizers make frames several times as large.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr size_t kSmallStack = 2048 * 1024;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
inline constexpr size_t kSmallStack = 2048 * 1024;
#else
inline constexpr size_t kSmallStack = 256 * 1024;
#endif
#else
inline constexpr size_t kSmallStack = 256 * 1024;
#endif

// Runs work, which must not throw, on a thread of its own. Work that needs more stack ends the process.
inline void on_small_stack(const std::function<void()>& work, size_t stack = kSmallStack) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, stack), 0);
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  const int made = pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&work));
  pthread_attr_destroy(&attributes);
  ASSERT_EQ(made, 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
}

}  // namespace weft::test
