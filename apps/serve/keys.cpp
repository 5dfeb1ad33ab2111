#include "keys.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <weft/weft.hpp>

#include "../weft/common.h"
#include "protocol.h"

namespace weft::serve {
namespace {

void check_key(const std::string& key, const std::string& place) {
  const bool good = !key.empty() && std::ranges::all_of(key, [](char c) { return c > ' ' && c <= '~'; });
  if (!good) throw cli::UsageError(place, "a key must have printable ASCII characters only, no spaces");
}

void set_limit(ApiKey& key, const std::string& word, const std::string& place) {
  const std::size_t sign = std::min(word.find('='), word.size());
  const std::string name = word.substr(0, sign), number = word.substr(std::min(sign + 1, word.size()));
  std::uint32_t* const limit = name == "requests"     ? &key.requests
                               : name == "tokens"     ? &key.tokens
                               : name == "concurrent" ? &key.concurrent
                               : name == "priority"   ? &key.priority
                                                      : nullptr;
  const bool whole = !number.empty() && number.size() <= 9 && number.find_first_not_of("0123456789") == number.npos;
  if (!limit || !whole || std::stoul(number) == 0)
    throw cli::UsageError(place,
                          "after NAME KEY there may be requests=N, tokens=N, concurrent=N and priority=N, "
                          "with N from 1 on");
  *limit = static_cast<std::uint32_t>(std::stoul(number));
}

// Takes as long for every wrong key of any length.
bool same_key(const std::string& given, const std::string& key) {
  volatile unsigned char difference = given.size() == key.size() ? 0 : 1;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const char other = i < given.size() ? given[i] : '\0';
    difference = static_cast<unsigned char>(difference | (other ^ key[i]));
  }
  return difference == 0;
}

RequestError limited(const std::string& what, double wait) {
  const auto seconds = static_cast<std::uint32_t>(std::max(std::ceil(wait), 1.0));
  return RequestError(429, "rate_limit_error", "rate_limited", "The key's limit of " + what + " is reached.", {},
                      seconds);
}

}  // namespace

std::vector<ApiKey> read_keys(const std::string& key, const std::string& file) {
  std::vector<ApiKey> keys;
  if (!key.empty()) {
    check_key(key, "--api-key");
    keys.push_back({"api-key", key});
  }
  if (file.empty()) return keys;
  std::ifstream lines(file);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line);
    ApiKey one;
    if (!(words >> one.name) || one.name.starts_with('#')) continue;
    const std::string place = cli::format("%s, line %d", file.c_str(), number);
    if (!(words >> one.key)) throw cli::UsageError(place, "it must be NAME KEY");
    check_key(one.key, place);
    for (std::string word; words >> word;) set_limit(one, word, place);
    if (std::ranges::find(keys, one.name, &ApiKey::name) != keys.end())
      throw cli::UsageError(place, "another key has this name");
    keys.push_back(one);
  }
  if (!lines.eof()) throw api::Failure(WEFT_IO, "cannot be read", file);
  if (keys.empty()) throw cli::UsageError("--api-keys", "the file has no key");
  return keys;
}

double Allowance::wait(double most, Clock::time_point now) {
  const std::chrono::duration<double> passed = now - seen_;
  seen_ = now;
  if (most == 0) return used_ = 0;
  used_ = std::max(used_ - passed.count() * most / 60, 0.0);
  return std::max(used_ + 1 - most, 0.0) * 60 / most;
}

ApiKey KeyUse::key() const {
  const std::lock_guard lock(mutex_);
  return key_;
}

void KeyUse::set(ApiKey key) {
  const std::lock_guard lock(mutex_);
  key_ = std::move(key);
}

void KeyUse::begin() {
  const std::lock_guard lock(mutex_);
  const auto now = Allowance::Clock::now();
  if (key_.concurrent > 0 && running_ >= key_.concurrent)
    throw limited(cli::format("%u requests at the same time", key_.concurrent), 1);
  const double requests = requests_.wait(key_.requests, now), tokens = tokens_.wait(key_.tokens, now);
  if (requests > 0) throw limited(cli::format("%u requests a minute", key_.requests), std::max(requests, tokens));
  if (tokens > 0) throw limited(cli::format("%u tokens a minute", key_.tokens), tokens);
  requests_.use(1);
  ++running_;
}

void KeyUse::end(std::uint64_t tokens) {
  const std::lock_guard lock(mutex_);
  tokens_.use(static_cast<double>(tokens));
  --running_;
}

void Keys::set(std::vector<ApiKey> keys) {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<KeyUse>> uses;
  for (ApiKey& key : keys) {
    const auto before = std::ranges::find_if(keys_, [&](const auto& use) { return use->key().name == key.name; });
    if (before == keys_.end()) {
      uses.push_back(std::make_shared<KeyUse>(std::move(key)));
    } else {
      uses.push_back(*before);
      uses.back()->set(std::move(key));
    }
  }
  keys_.swap(uses);
}

bool Keys::empty() const {
  const std::lock_guard lock(mutex_);
  return keys_.empty();
}

// Compares with all, whichever is found.
std::shared_ptr<KeyUse> Keys::find(const std::string& given) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<KeyUse> found;
  for (const auto& use : keys_)
    if (same_key(given, use->key().key)) found = use;
  return found;
}

}  // namespace weft::serve
