// Converting models in C++: a thin, header-only face over convert.h, as weft.hpp is over weft.h. Errors are thrown as
// Failure.
#ifndef WEFT_CONVERT_HPP
#define WEFT_CONVERT_HPP

#include <weft/convert.h>

#include <weft/weft.hpp>

namespace weft::api {

struct ConvertOptions {
  weft_file_type type = WEFT_FILE_TYPE_Q8_0, vocab_type = WEFT_FILE_TYPE_DEFAULT;
  std::string importance;  // file of an importance matrix; empty: none
  bool replace = false;
  std::function<bool(float done)> progress;  // as ModelOptions'
};

// Writes a GGUF file; returns the report, as JSON; see weft_convert.
inline std::string convert(const std::string& in, const std::string& out, const ConvertOptions& options = {}) {
  detail::Progress state{&options.progress, nullptr};
  weft_convert_options c = weft_convert_options_default();
  c.type = options.type;
  c.vocab_type = options.vocab_type;
  c.replace = options.replace;
  c.importance = options.importance.empty() ? nullptr : options.importance.c_str();
  c.user = &state;
  if (options.progress) c.progress = detail::Progress::call;
  char* report = nullptr;
  detail::check([&](weft_error* error) { return weft_convert(in.c_str(), out.c_str(), &c, &report, error); },
                state.thrown);
  return detail::take(report);
}

}  // namespace weft::api
#endif
