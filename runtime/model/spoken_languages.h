// Names of the languages that Whisper knows.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weft {

// The code ("de") of a language that is named by its code, its token ("<|de|>") or its English name ("German"), in
// letters of either case. Nothing for another name.
std::optional<std::string> language_code(std::string_view name);

}  // namespace weft
