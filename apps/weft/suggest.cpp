#include "suggest.h"

#include <algorithm>
#include <tuple>

namespace weft::cli {
namespace {

// Optimal string alignment distance: Damerau's, in which no part is changed twice.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::vector<std::string> nearest(const std::string& wrong, const std::vector<std::string>& names, std::size_t most) {
  constexpr std::size_t kLongest = 64;  // of what is compared: longer words are no mistyped names
  if (wrong.size() > kLongest) return {};
  std::vector<std::tuple<bool, std::size_t, std::string>> found;  // not a beginning, letters apart, name
  for (const std::string& name : names) {
    const bool begins = wrong.find_first_not_of('-') != std::string::npos && name.starts_with(wrong);
    const std::size_t letters = wrong.size() - std::min(wrong.find_first_not_of('-'), wrong.size());
    const std::size_t apart = distance(wrong, name);
    if (begins || apart <= std::max<std::size_t>(1, letters / 3)) found.emplace_back(!begins, apart, name);
  }
  std::ranges::sort(found);
  std::vector<std::string> result;
  for (const auto& [far, apart, name] : found)
    if (result.size() < most) result.push_back(name);
  return result;
}

std::string did_you_mean(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 < names.size() ? ", " : " or ") + names[i];
  return text.empty() ? text : "did you mean " + text + "?";
}

}  // namespace weft::cli
