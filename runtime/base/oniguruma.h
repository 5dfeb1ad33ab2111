// Tokenizers state regular expressions in Oniguruma's dialect; PCRE2 matches them here.
#pragma once

#include <string>
#include <string_view>

namespace weft {

// The pattern in PCRE2's dialect (with PCRE2_UTF, PCRE2_UCP and PCRE2_MULTILINE), where the two differ in what
// tokenizers use: classes within classes, and what \s and \w mean (Oniguruma's doc/RE; PCRE2's \s has U+180E, its \w no
// combining marks). Throws Error(unsupported) for an intersection of classes or a negated class within one.
std::string pcre2_pattern(std::string_view oniguruma, const std::string& place);

}  // namespace weft
