#include "base/all_cores.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

#include "base/signals.h"

namespace weft {

void on_all_cores(uint64_t count, const std::function<void(uint64_t begin, uint64_t end)>& work) {
  if (count == 0) return;
  const auto threads = std::clamp<uint64_t>(std::thread::hardware_concurrency(), 1, count);
  std::vector<std::exception_ptr> thrown(threads);
  const auto run = [&](uint64_t thread) noexcept {
    try {
      work(count * thread / threads, count * (thread + 1) / threads);
    } catch (...) {
      thrown[thread] = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  others.reserve(threads);
  for (uint64_t thread = 1; thread < threads; ++thread) try {
      const BlockedSignals blocked;
      others.emplace_back(run, thread);
    } catch (const std::exception&) {  // the system has no more threads or memory
      run(thread);
    }
  run(0);
  for (std::thread& other : others) other.join();
  for (const std::exception_ptr& error : thrown)
    if (error) std::rethrow_exception(error);
}

}  // namespace weft
