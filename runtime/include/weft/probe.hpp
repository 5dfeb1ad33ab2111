// Asking what would run, in C++: a thin, header-only face over probe.h, as weft.hpp is over weft.h.
#ifndef WEFT_PROBE_HPP
#define WEFT_PROBE_HPP

#include <weft/probe.h>

#include <optional>
#include <weft/weft.hpp>

namespace weft::api {

struct Probe {
  weft_probe_report report{};
  std::string json;
};

// Which device would be used, and whether a model fits there; loads nothing. Something missing is an answer, not a
// failure; see weft_probe. path: "": the installed model; nullopt: none. bytes: device memory that is needed besides.
inline Probe probe(const std::optional<std::string>& path = {}, std::uint64_t bytes = 0,
                   const ModelOptions& options = {},
                   const weft_session_options& session = weft_session_options_default()) {
  detail::Progress unused{&options.progress, nullptr};
  const weft_model_options c = detail::c_options(options, unused);
  Probe result;
  char* json = nullptr;
  detail::check([&](weft_error* error) {
    return weft_probe(path ? path->c_str() : nullptr, bytes, &c, &session, &result.report, sizeof result.report, &json,
                      error);
  });
  result.json = detail::take(json);
  return result;
}

}  // namespace weft::api
#endif
