// Shared by the C++ headers of the C API: the exception, and how calls become C++.
#ifndef WEFT_FAILURE_HPP
#define WEFT_FAILURE_HPP

#include <weft/weft.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#if __has_include(<bits/cxxabi_forced.h>)
#include <cxxabi.h>
#endif

namespace weft::api {

// A weft_error as an exception. what() is "place: sentence", or only the sentence if there is no place.
class Failure : public std::runtime_error {
 public:
  explicit Failure(const weft_error& error) : Failure(error.code, error.sentence, error.place, error.hint) {}
  Failure(weft_status status, std::string sentence, std::string place = {}, std::string hint = {})
      : std::runtime_error(place.empty() ? sentence : place + ": " + sentence),
        status_(status),
        sentence_(std::move(sentence)),
        place_(std::move(place)),
        hint_(std::move(hint)) {}

  weft_status status() const noexcept { return status_; }
  const std::string& sentence() const noexcept { return sentence_; }
  const std::string& place() const noexcept { return place_; }
  const std::string& hint() const noexcept { return hint_; }

 private:
  weft_status status_;
  std::string sentence_, place_, hint_;
};

namespace detail {

// Runs call(weft_error *) and throws its error as Failure.
template <typename Call>
void check(Call&& call) {
  weft_error error{};
  if (call(&error) != WEFT_OK) throw Failure(error);
}

// Like check, for functions with callbacks: an exception that the callback stored in `thrown` takes precedence over the
// call's own error.
template <typename Call>
void check(Call&& call, const std::exception_ptr& thrown) {
  weft_error error{};
  const weft_status status = call(&error);
  if (thrown) std::rethrow_exception(thrown);
  if (status != WEFT_OK) throw Failure(error);
}

// Copies a text of the library and frees it with weft_string_free. The second for one that may have NUL characters.
inline std::string take(char* text) {
  const std::unique_ptr<char, void (*)(char*)> owner(text, weft_string_free);
  return text ? std::string(text) : std::string();
}

inline std::string take(char* text, std::size_t length) {
  const std::unique_ptr<char, void (*)(char*)> owner(text, weft_string_free);
  return std::string(text, length);
}

// Returns the text of call(&text, &error), and frees it.
template <typename Call>
std::string text(Call&& call) {
  char* result = nullptr;
  check([&](weft_error* error) { return call(&result, error); });
  return take(result);
}

// Returns the ids of call(ids, capacity, count, error). Calls it once if there are at most `guess` ids, else twice.
template <typename Call>
std::vector<std::uint32_t> ids(std::size_t guess, Call&& call) {
  std::vector<std::uint32_t> result(guess);
  std::size_t count = 0;
  check([&](weft_error* error) { return call(result.data(), result.size(), &count, error); });
  const bool fitted = count <= result.size();
  result.resize(count);
  if (!fitted) check([&](weft_error* error) { return call(result.data(), result.size(), &count, error); });
  return result;
}

// The body of a callback that C calls: 0 if `go_on` returns true. Stores the exception that it throws, and returns 1. A
// thread that ends in it (pthread_exit) does so.
template <class GoOn>
int callback(std::exception_ptr& thrown, const GoOn& go_on) {
  try {
    return go_on() ? 0 : 1;
  }
#if __has_include(<bits/cxxabi_forced.h>)
  catch (const ::abi::__forced_unwind&) {
    throw;
  }
#endif
  catch (...) {
    thrown = std::current_exception();
    return 1;
  }
}

// Passes a C progress callback on to a std::function and stores the exception that it throws.
struct Progress {
  const std::function<bool(float)>* tell;
  std::exception_ptr thrown;
  static int call(void* user, float done) {
    auto* progress = static_cast<Progress*>(user);
    return callback(progress->thrown, [&] { return (*progress->tell)(done); });
  }
};

}  // namespace detail

}  // namespace weft::api
#endif
