// The one way things fail inside Weft: an exception with a code, a sentence, a place and a hint.
// It never leaves the library: the C API (runtime/capi) turns it into a weft_error.
#pragma once

#include <exception>
#include <string>

namespace weft {

enum class Code {
  invalid_argument,  // the caller passed something outside the documented range
  not_found,         // a file, device, tensor or model is not there
  io,                // the operating system refused a read or a write
  bad_file,          // a file's bytes contradict themselves or its format
  unsupported,       // well-formed, but nothing Weft can run (yet)
  no_device,         // no Vulkan, or no usable device
  out_of_memory,     // host or device memory
  device_lost,       // the driver gave up; sessions and models on the device are gone
  context_full,      // the session's context holds no further token
  cancelled,         // a callback gave up
  internal,          // a bug in Weft or in the driver
};

class Error : public std::exception {
 public:
  // sentence: what is wrong, with the two values that disagree. place: file, tensor, option or function it is about.
  // hint: what the reader can do about it; may be empty.
  Error(Code code, std::string sentence, std::string place = {}, std::string hint = {});

  Code code() const { return code_; }
  const std::string& sentence() const { return sentence_; }
  const std::string& place() const { return place_; }
  const std::string& hint() const { return hint_; }
  // "place: sentence (hint)"
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  Code code_;
  std::string sentence_, place_, hint_, what_;
};

}  // namespace weft
