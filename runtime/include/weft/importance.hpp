// Importance matrices in C++: a thin, header-only face over importance.h, as weft.hpp is over weft.h.
#ifndef WEFT_IMPORTANCE_HPP
#define WEFT_IMPORTANCE_HPP

#include <weft/importance.h>

#include <weft/weft.hpp>

namespace weft::api {

struct ImportanceOptions {
  std::string name;
  std::uint32_t part_tokens = 0;
  bool replace = false;
  std::function<bool(float done)> progress;  // as ModelOptions'
};

// Writes an importance matrix; returns the number of tokens that were read. See weft_measure_importance.
inline std::uint64_t measure_importance(const Model& model, const std::string& text, const std::string& out,
                                        const ImportanceOptions& options = {}) {
  detail::Progress state{&options.progress, nullptr};
  weft_importance_options c = weft_importance_options_default();
  if (!options.name.empty()) c.name = options.name.c_str();
  c.part_tokens = options.part_tokens;
  c.replace = options.replace;
  c.user = &state;
  if (options.progress) c.progress = detail::Progress::call;
  std::uint64_t tokens = 0;
  detail::check(
      [&](weft_error* error) {
        return weft_measure_importance(model.get(), text.c_str(), &c, out.c_str(), &tokens, error);
      },
      state.thrown);
  return tokens;
}

}  // namespace weft::api
#endif
