// Lets a long comparison be done in pieces: a time to stop, and a file of past comparisons.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace weft::test {

// Passes after as many seconds from its construction as an environment variable says; never, if that is not set.
class Deadline {
 public:
  explicit Deadline(const char* variable) : asked_(std::getenv(variable)) {}
  bool passed() const {
    return asked_ &&
           std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count() > std::atof(asked_);
  }

 private:
  const char* const asked_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Lines of JSON, one for each comparison, in the file that an environment variable names; without it they are only kept
// here. key: members that the lines of this comparison have, and others in the file may not.
class SoakLog {
 public:
  using Json = nlohmann::json;
  SoakLog(const char* variable, Json key) : key_(std::move(key)) {
    if (const char* path = std::getenv(variable)) path_ = path;
    std::ifstream file(path_);
    for (std::string text; std::getline(file, text);) {
      Json line = Json::parse(text);
      if (std::ranges::all_of(key_.items(), [&](const auto& item) { return line[item.key()] == item.value(); }))
        lines_.push_back(std::move(line));
    }
  }
  void add(Json line) {
    line.update(key_);
    if (!path_.empty()) std::ofstream(path_, std::ios::app) << line.dump() << '\n';
    lines_.push_back(std::move(line));
  }
  const std::vector<Json>& lines() const { return lines_; }  // those that were there, then those that were added
  const Json& key() const { return key_; }

 private:
  Json key_;
  std::filesystem::path path_;
  std::vector<Json> lines_;
};

}  // namespace weft::test
