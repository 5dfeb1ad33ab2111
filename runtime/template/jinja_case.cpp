// Upper, lower and title case as Python's str has them: the Unicode Character Database with SpecialCasing.txt.
#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"
#include "template/jinja_text.h"

namespace weft::jinja {

namespace {

struct SpecialCase {
  char32_t code;
  std::string_view upper, title;
};

// Characters whose upper or title case is several characters, by code.
constexpr SpecialCase kSpecialCases[] = {
    {0xDF, "SS", "Ss"},
    {0x149, "\u02bcN", "\u02bcN"},
    {0x1F0, "J\u030c", "J\u030c"},
    {0x390, "\u0399\u0308\u0301", "\u0399\u0308\u0301"},
    {0x3B0, "\u03a5\u0308\u0301", "\u03a5\u0308\u0301"},
    {0x587, "\u0535\u0552", "\u0535\u0582"},
    {0x1E96, "H\u0331", "H\u0331"},
    {0x1E97, "T\u0308", "T\u0308"},
    {0x1E98, "W\u030a", "W\u030a"},
    {0x1E99, "Y\u030a", "Y\u030a"},
    {0x1E9A, "A\u02be", "A\u02be"},
    {0x1F50, "\u03a5\u0313", "\u03a5\u0313"},
    {0x1F52, "\u03a5\u0313\u0300", "\u03a5\u0313\u0300"},
    {0x1F54, "\u03a5\u0313\u0301", "\u03a5\u0313\u0301"},
    {0x1F56, "\u03a5\u0313\u0342", "\u03a5\u0313\u0342"},
    {0x1F80, "\u1f08\u0399", "\u1f88"},
    {0x1F81, "\u1f09\u0399", "\u1f89"},
    {0x1F82, "\u1f0a\u0399", "\u1f8a"},
    {0x1F83, "\u1f0b\u0399", "\u1f8b"},
    {0x1F84, "\u1f0c\u0399", "\u1f8c"},
    {0x1F85, "\u1f0d\u0399", "\u1f8d"},
    {0x1F86, "\u1f0e\u0399", "\u1f8e"},
    {0x1F87, "\u1f0f\u0399", "\u1f8f"},
    {0x1F88, "\u1f08\u0399", "\u1f88"},
    {0x1F89, "\u1f09\u0399", "\u1f89"},
    {0x1F8A, "\u1f0a\u0399", "\u1f8a"},
    {0x1F8B, "\u1f0b\u0399", "\u1f8b"},
    {0x1F8C, "\u1f0c\u0399", "\u1f8c"},
    {0x1F8D, "\u1f0d\u0399", "\u1f8d"},
    {0x1F8E, "\u1f0e\u0399", "\u1f8e"},
    {0x1F8F, "\u1f0f\u0399", "\u1f8f"},
    {0x1F90, "\u1f28\u0399", "\u1f98"},
    {0x1F91, "\u1f29\u0399", "\u1f99"},
    {0x1F92, "\u1f2a\u0399", "\u1f9a"},
    {0x1F93, "\u1f2b\u0399", "\u1f9b"},
    {0x1F94, "\u1f2c\u0399", "\u1f9c"},
    {0x1F95, "\u1f2d\u0399", "\u1f9d"},
    {0x1F96, "\u1f2e\u0399", "\u1f9e"},
    {0x1F97, "\u1f2f\u0399", "\u1f9f"},
    {0x1F98, "\u1f28\u0399", "\u1f98"},
    {0x1F99, "\u1f29\u0399", "\u1f99"},
    {0x1F9A, "\u1f2a\u0399", "\u1f9a"},
    {0x1F9B, "\u1f2b\u0399", "\u1f9b"},
    {0x1F9C, "\u1f2c\u0399", "\u1f9c"},
    {0x1F9D, "\u1f2d\u0399", "\u1f9d"},
    {0x1F9E, "\u1f2e\u0399", "\u1f9e"},
    {0x1F9F, "\u1f2f\u0399", "\u1f9f"},
    {0x1FA0, "\u1f68\u0399", "\u1fa8"},
    {0x1FA1, "\u1f69\u0399", "\u1fa9"},
    {0x1FA2, "\u1f6a\u0399", "\u1faa"},
    {0x1FA3, "\u1f6b\u0399", "\u1fab"},
    {0x1FA4, "\u1f6c\u0399", "\u1fac"},
    {0x1FA5, "\u1f6d\u0399", "\u1fad"},
    {0x1FA6, "\u1f6e\u0399", "\u1fae"},
    {0x1FA7, "\u1f6f\u0399", "\u1faf"},
    {0x1FA8, "\u1f68\u0399", "\u1fa8"},
    {0x1FA9, "\u1f69\u0399", "\u1fa9"},
    {0x1FAA, "\u1f6a\u0399", "\u1faa"},
    {0x1FAB, "\u1f6b\u0399", "\u1fab"},
    {0x1FAC, "\u1f6c\u0399", "\u1fac"},
    {0x1FAD, "\u1f6d\u0399", "\u1fad"},
    {0x1FAE, "\u1f6e\u0399", "\u1fae"},
    {0x1FAF, "\u1f6f\u0399", "\u1faf"},
    {0x1FB2, "\u1fba\u0399", "\u1fba\u0345"},
    {0x1FB3, "\u0391\u0399", "\u1fbc"},
    {0x1FB4, "\u0386\u0399", "\u0386\u0345"},
    {0x1FB6, "\u0391\u0342", "\u0391\u0342"},
    {0x1FB7, "\u0391\u0342\u0399", "\u0391\u0342\u0345"},
    {0x1FBC, "\u0391\u0399", "\u1fbc"},
    {0x1FC2, "\u1fca\u0399", "\u1fca\u0345"},
    {0x1FC3, "\u0397\u0399", "\u1fcc"},
    {0x1FC4, "\u0389\u0399", "\u0389\u0345"},
    {0x1FC6, "\u0397\u0342", "\u0397\u0342"},
    {0x1FC7, "\u0397\u0342\u0399", "\u0397\u0342\u0345"},
    {0x1FCC, "\u0397\u0399", "\u1fcc"},
    {0x1FD2, "\u0399\u0308\u0300", "\u0399\u0308\u0300"},
    {0x1FD3, "\u0399\u0308\u0301", "\u0399\u0308\u0301"},
    {0x1FD6, "\u0399\u0342", "\u0399\u0342"},
    {0x1FD7, "\u0399\u0308\u0342", "\u0399\u0308\u0342"},
    {0x1FE2, "\u03a5\u0308\u0300", "\u03a5\u0308\u0300"},
    {0x1FE3, "\u03a5\u0308\u0301", "\u03a5\u0308\u0301"},
    {0x1FE4, "\u03a1\u0313", "\u03a1\u0313"},
    {0x1FE6, "\u03a5\u0342", "\u03a5\u0342"},
    {0x1FE7, "\u03a5\u0308\u0342", "\u03a5\u0308\u0342"},
    {0x1FF2, "\u1ffa\u0399", "\u1ffa\u0345"},
    {0x1FF3, "\u03a9\u0399", "\u1ffc"},
    {0x1FF4, "\u038f\u0399", "\u038f\u0345"},
    {0x1FF6, "\u03a9\u0342", "\u03a9\u0342"},
    {0x1FF7, "\u03a9\u0342\u0399", "\u03a9\u0342\u0345"},
    {0x1FFC, "\u03a9\u0399", "\u1ffc"},
    {0xFB00, "FF", "Ff"},
    {0xFB01, "FI", "Fi"},
    {0xFB02, "FL", "Fl"},
    {0xFB03, "FFI", "Ffi"},
    {0xFB04, "FFL", "Ffl"},
    {0xFB05, "ST", "St"},
    {0xFB06, "ST", "St"},
    {0xFB13, "\u0544\u0546", "\u0544\u0576"},
    {0xFB14, "\u0544\u0535", "\u0544\u0565"},
    {0xFB15, "\u0544\u053b", "\u0544\u056b"},
    {0xFB16, "\u054e\u0546", "\u054e\u0576"},
    {0xFB17, "\u0544\u053d", "\u0544\u056d"},
};

constexpr char32_t kSigma = 0x3A3, kFinalSigma = 0x3C2, kDottedI = 0x130;

utf8proc_category_t category_of(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

// Characters that do not end a word: marks, modifiers, and some punctuation.
bool is_case_ignorable(char32_t code) {
  constexpr std::u32string_view kWithin =
      U"'.:\u00B7\u0387\u055F\u05F4\u2018\u2019\u2024\u2027\uFE13\uFE52\uFE55\uFF07\uFF0E\uFF1A";
  const auto category = category_of(code);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_LM || category == UTF8PROC_CATEGORY_SK || kWithin.find(code) != kWithin.npos;
}

bool has_case(char32_t code) {
  const auto signed_code = static_cast<utf8proc_int32_t>(code);
  return utf8proc_isupper(signed_code) != 0 || utf8proc_islower(signed_code) != 0 ||
         category_of(code) == UTF8PROC_CATEGORY_LT;
}

// True for a capital sigma at the end of a word: a letter stands before it and none after.
bool ends_word(std::string_view text, size_t at) {
  const auto decides = [](const Utf8Char& c) { return !c.valid || !is_case_ignorable(c.code); };
  for (size_t after = at + 2; after < text.size();) {
    const Utf8Char c = first_utf8(text.substr(after));
    if (decides(c)) {
      if (c.valid && has_case(c.code)) return false;
      break;
    }
    after += c.size;
  }
  for (size_t end = at; end > 0;) {
    size_t begin = end - 1;
    while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    const Utf8Char c = first_utf8(text.substr(begin, end - begin));
    if (decides(c)) return c.valid && has_case(c.code);
    end = begin;
  }
  return false;
}

}  // namespace

std::string in_case(std::string_view text, size_t at, char32_t code, Case wanted) {
  std::string out;
  const auto signed_code = static_cast<utf8proc_int32_t>(code);
  if (wanted == Case::lower) {
    const bool final_sigma = code == kSigma && ends_word(text, at);
    append_utf8(out, final_sigma ? kFinalSigma : static_cast<char32_t>(utf8proc_tolower(signed_code)));
    if (code == kDottedI) append_utf8(out, 0x307);  // a dot of its own
    return out;
  }
  const auto special = std::lower_bound(std::begin(kSpecialCases), std::end(kSpecialCases), code,
                                        [](const SpecialCase& own, char32_t other) { return own.code < other; });
  if (special != std::end(kSpecialCases) && special->code == code)
    return std::string(wanted == Case::upper ? special->upper : special->title);
  append_utf8(out, static_cast<char32_t>(wanted == Case::upper ? utf8proc_toupper(signed_code)
                                                               : utf8proc_totitle(signed_code)));
  return out;
}

}  // namespace weft::jinja
