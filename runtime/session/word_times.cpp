#include "session/word_times.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/utf8.h"

namespace weft {
namespace {

constexpr size_t kSmoothed = 7;        // positions of the median filter
constexpr double kLongestUsual = 0.7;  // seconds
constexpr double kFarFromSegment = 0.5;
constexpr std::string_view kPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
constexpr std::string_view kSentenceEnds = ".。!！?？", kOpening = "\"'“¿([{-", kClosing = "\"'.。,，!！?？:：”)]}、";

std::string_view stripped(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first);
}

// Also true for an empty text.
bool is_of(std::string_view marks, std::string_view text) { return marks.find(text) != marks.npos; }

bool ends_inside_character(std::string_view text) {
  while (!text.empty()) {
    const Utf8Char next = first_utf8(text);
    if (next.incomplete) return true;
    text.remove_prefix(next.size);
  }
  return false;
}

// Median of each value and its neighbours, which are mirrored at both ends.
void smooth(std::span<float> row) {
  constexpr size_t kReach = kSmoothed / 2;
  if (row.size() <= kReach) return;
  std::vector<float> padded(row.size() + 2 * kReach);
  for (size_t i = 0; i < padded.size(); ++i) {
    const size_t from = i < kReach ? kReach - i : i - kReach;
    padded[i] = row[from < row.size() ? from : 2 * (row.size() - 1) - from];
  }
  for (size_t i = 0; i < row.size(); ++i) {
    float some[kSmoothed];
    std::copy_n(&padded[i], kSmoothed, some);
    std::nth_element(some, some + kReach, some + kSmoothed);
    row[i] = some[kReach];
  }
}

double rounded(double seconds) { return std::round(seconds * 100) / 100; }

}  // namespace

bool writes_without_spaces(const std::string& language) {
  static constexpr std::string_view kLanguages[] = {"zh", "ja", "th", "lo", "my", "yue"};
  return std::ranges::find(kLanguages, language) != std::end(kLanguages);
}

std::vector<WordTokens> split_words(const Tokenizer& tokenizer, std::span<const uint32_t> ids, bool by_characters) {
  std::vector<WordTokens> words;
  std::string text;
  size_t count = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    text += tokenizer.bytes(ids[i]);
    ++count;
    if (i + 1 < ids.size() && ends_inside_character(text)) continue;
    text = replace_invalid_utf8(text);
    const bool begins = words.empty() || by_characters || text.starts_with(' ') || is_of(kPunctuation, stripped(text));
    if (begins) words.push_back({"", 0});
    words.back().text += text;
    words.back().count += count;
    text.clear();
    count = 0;
  }
  return words;
}

void WordAlignment::add(std::span<float> weights) {
  for (size_t p = 0; p < positions_; ++p) {
    double mean = 0, variance = 0;
    for (size_t t = 0; t < tokens_; ++t) mean += weights[t * positions_ + p];
    mean /= static_cast<double>(tokens_);
    for (size_t t = 0; t < tokens_; ++t) variance += std::pow(weights[t * positions_ + p] - mean, 2);
    const double deviation = std::sqrt(variance / static_cast<double>(tokens_));
    for (size_t t = 0; t < tokens_; ++t) {
      float& weight = weights[t * positions_ + p];
      weight = deviation > 0 ? static_cast<float>((weight - mean) / deviation) : 0;
    }
  }
  for (size_t t = 0; t < tokens_; ++t) {
    const std::span<float> row = weights.subspan(t * positions_, positions_);
    smooth(row);
    for (size_t p = 0; p < positions_; ++p) sum_[t * positions_ + p] += row[p];
  }
}

// The monotonic path with the largest sum, from the first token and position to the last ones (Sakoe and Chiba 1978).
std::vector<size_t> WordAlignment::path(size_t first, size_t end) const {
  enum Step : uint8_t { both, token, position };
  const size_t rows = end - first, stride = positions_ + 1;
  std::vector<float> costs(stride, std::numeric_limits<float>::infinity()), before;
  std::vector<Step> steps((rows + 1) * stride, token);
  costs[0] = 0;
  for (size_t i = 1; i <= rows; ++i) {
    before = costs;
    costs[0] = std::numeric_limits<float>::infinity();
    for (size_t j = 1; j <= positions_; ++j) {
      const float c0 = before[j - 1], c1 = before[j], c2 = costs[j - 1];
      const Step step = c0 < c1 && c0 < c2 ? both : c1 < c0 && c1 < c2 ? token : position;
      const float least = step == both ? c0 : step == token ? c1 : c2;
      costs[j] = least - sum_[(first + i - 1) * positions_ + j - 1];
      steps[i * stride + j] = step;
    }
  }
  std::vector<size_t> reached(rows, 0);
  for (size_t i = rows, j = positions_; i > 0 && j > 0;) {
    reached[i - 1] = j - 1;
    const Step step = steps[i * stride + j];
    if (step != position) --i;
    if (step != token) --j;
  }
  return reached;
}

WindowWords::WindowWords(const std::vector<WordTokens>& words, std::span<const double> times) {
  std::vector<double> lengths;
  size_t token = 0;
  for (const WordTokens& word : words) {
    const double begin = times[token], end = times[token += word.count];
    words_.push_back({{begin, end, word.text}, word.count});
    if (end > begin) lengths.push_back(end - begin);
  }
  std::ranges::sort(lengths);
  if (const size_t n = lengths.size(); n > 0)
    usual_ = std::min(kLongestUsual, (lengths[(n - 1) / 2] + lengths[n / 2]) / 2);
  if (!lengths.empty()) cut_long_words();
  join_punctuation();
}

// The end of a sentence, and the word after it, may have the pause between two.
void WindowWords::cut_long_words() {
  const double longest = 2 * usual_;
  for (size_t i = 1; i < words_.size(); ++i) {
    Word& word = words_[i];
    if (word.end - word.begin <= longest) continue;
    if (is_of(kSentenceEnds, word.text))
      word.end = word.begin + longest;
    else if (is_of(kSentenceEnds, words_[i - 1].text))
      word.begin = word.end - longest;
  }
}

// The words that punctuation belongs to get its text and its tokens, and keep their times.
void WindowWords::join_punctuation() {
  for (size_t next = words_.size(), i = next; i-- > 0;) {
    Word& word = words_[i];
    if (next < words_.size() && word.text.starts_with(' ') && is_of(kOpening, stripped(word.text))) {
      words_[next].text = word.text + words_[next].text;
      words_[next].tokens += std::exchange(word.tokens, 0);
      word.text.clear();
    } else {
      next = i;
    }
  }
  for (size_t i = 1, last = 0; i < words_.size(); ++i) {
    Word &before = words_[last], &word = words_[i];
    if (!before.text.ends_with(' ') && is_of(kClosing, word.text)) {
      before.text += word.text;
      before.tokens += std::exchange(word.tokens, 0);
      word.text.clear();
    } else {
      last = i;
    }
  }
}

std::vector<SpeechWord> WindowWords::take(size_t tokens, double begin, double end, double& last_end) {
  std::vector<SpeechWord> words;
  for (size_t taken = 0; next_ < words_.size() && taken < tokens; ++next_) {
    taken += words_[next_].tokens;
    if (!words_[next_].text.empty()) words.push_back(words_[next_]);
  }
  if (words.empty()) return words;
  SpeechWord &first = words.front(), &last = words.back();
  const double longest = 2 * usual_;
  // After a pause, the first two words may have it.
  const bool two_long = words.size() > 1 && words[1].end - first.begin > 2 * longest;
  if (first.end - last_end > 4 * usual_ && (first.end - first.begin > longest || two_long)) {
    if (words.size() > 1 && words[1].end - words[1].begin > longest)
      first.end = words[1].begin = std::max(words[1].end / 2, words[1].end - longest);
    first.begin = std::max(0.0, first.end - longest);
  }
  double spoken_until = last.end;
  if (begin < first.end && begin - kFarFromSegment > first.begin)
    first.begin = std::max(0.0, std::min(first.end - usual_, begin));
  if (end > last.begin && end + kFarFromSegment < last.end) {
    last.end = std::max(last.begin + usual_, end);
    spoken_until = end;
  }
  last_end = spoken_until;
  for (SpeechWord& word : words) word = {rounded(word.begin), rounded(word.end), std::move(word.text)};
  return words;
}

}  // namespace weft
