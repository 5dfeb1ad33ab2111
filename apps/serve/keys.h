// The keys that requests may have, and the limits of each.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace weft::serve {

struct ApiKey {
  std::string name, key;
  // 0: no limit.
  std::uint32_t requests = 0;    // a minute
  std::uint32_t tokens = 0;      // a minute, of prompts and answers
  std::uint32_t concurrent = 0;  // requests at the same time
  std::uint32_t priority = 0;    // requests of a higher one get a session first
};

// The key of --api-key, if it is not empty, and those of the file, if there is one: lines NAME KEY [requests=N]
// [tokens=N] [concurrent=N] [priority=N]. Throws cli::UsageError and api::Failure.
std::vector<ApiKey> read_keys(const std::string& key, const std::string& file);

// So much a minute, which is given back evenly. A minute's amount may be used at once.
class Allowance {
 public:
  using Clock = std::chrono::steady_clock;
  // Seconds until one more may be used; 0: now. most: a minute; 0: any amount.
  double wait(double most, Clock::time_point now);
  void use(double amount) { used_ += amount; }

 private:
  double used_ = 0;
  Clock::time_point seen_ = {};
};

// A key in use. May be used by any thread.
class KeyUse {
 public:
  explicit KeyUse(ApiKey key) : key_(std::move(key)) {}
  ApiKey key() const;
  void set(ApiKey key);  // of the same name
  // A request begins, and ends with so many tokens. Throws RequestError(429) at a limit.
  void begin();
  void end(std::uint64_t tokens);

 private:
  mutable std::mutex mutex_;
  ApiKey key_;
  Allowance requests_, tokens_;
  std::uint32_t running_ = 0;
};

// May be used by any thread.
class Keys {
 public:
  explicit Keys(std::vector<ApiKey> keys) { set(std::move(keys)); }
  // Replaces all keys. The use so far of a name that stays counts on.
  void set(std::vector<ApiKey> keys);
  bool empty() const;
  // The one that a request gave; nullptr: it is none of ours.
  std::shared_ptr<KeyUse> find(const std::string& given) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<KeyUse>> keys_;
};

}  // namespace weft::serve
