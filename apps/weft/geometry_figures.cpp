// The figures of a vocabulary table.
#include <weft/geometry.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "geometry.h"
#include "progress_bar.h"
#include "spectrum.h"

namespace weft::cli {
namespace {

constexpr std::size_t kPiece = 4096;         // rows read at once
constexpr std::size_t kSpectrumRows = 8192;  // of the covariance
constexpr std::size_t kSelfRows = 128;
constexpr std::size_t kFirstStates = 8;  // whose states are like no others
constexpr double kFarBelow = 6;          // deviations
constexpr double kMostShort = 0.75;      // of the median: norms may be almost the same

std::vector<float> rows_of(const api::Model& model, const std::vector<std::uint32_t>& ids) {
  std::vector<float> rows(ids.size() * model.info().width);
  api::detail::check(
      [&](weft_error* error) { return weft_table_rows(model.get(), ids.data(), ids.size(), rows.data(), error); });
  return rows;
}

// Calls `tell` with the products of all rows with each vector.
void each_dots(const api::Model& model, const std::vector<float>& vectors,
               const std::function<void(std::size_t, const float*)>& tell) {
  constexpr std::size_t kAtOnce = 16;
  const std::size_t width = model.info().width, vocab = model.info().vocab_size, count = vectors.size() / width;
  std::vector<float> dots(std::min(count, kAtOnce) * vocab);
  for (std::size_t first = 0; first < count; first += kAtOnce) {
    const std::size_t some = std::min(kAtOnce, count - first);
    api::detail::check([&](weft_error* error) {
      return weft_table_dots(model.get(), &vectors[first * width], some, dots.data(), error);
    });
    for (std::size_t i = 0; i < some; ++i) tell(first + i, &dots[i * vocab]);
  }
}

struct RowMoments {
  std::vector<double> covariance, second;  // (width, width) with the means subtracted, and without
};

// The mean products of the columns of values (rows, width).
RowMoments moments_of(const std::vector<float>& values, std::size_t width) {
  const std::size_t rows = values.size() / width;
  std::vector<double> mean(width), result(width * width), row(width);
  for (std::size_t i = 0; i < values.size(); ++i) mean[i % width] += values[i] / static_cast<double>(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t i = 0; i < width; ++i) row[i] = values[r * width + i] - mean[i];
    for (std::size_t i = 0; i < width; ++i)
      for (std::size_t j = 0; j <= i; ++j) result[i * width + j] += row[i] * row[j];
  }
  for (std::size_t i = 0; i < width; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      result[i * width + j] /= static_cast<double>(rows);
      result[j * width + i] = result[i * width + j];
    }
  std::vector<double> second = result;
  for (std::size_t i = 0; i < second.size(); ++i) second[i] += mean[i / width] * mean[i % width];
  return {std::move(result), std::move(second)};
}

// Ranks from 0; equal values share the mean of theirs.
std::vector<double> ranks_of(const std::vector<float>& values, const std::vector<std::uint32_t>& order) {
  std::vector<double> ranks(values.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (std::size_t j = i; j < end; ++j) ranks[order[j]] = static_cast<double>(i + end - 1) / 2;
    i = end;
  }
  return ranks;
}

double correlation_with_index(const std::vector<double>& values) {
  const double n = static_cast<double>(values.size()), middle = (n - 1) / 2;
  double mean = std::accumulate(values.begin(), values.end(), 0.0) / n, both = 0, own = 0, index = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(i) - middle, y = values[i] - mean;
    both += x * y, own += y * y, index += x * x;
  }
  return own > 0 && index > 0 ? both / std::sqrt(own * index) : 0;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Below it a norm is far from the others: so many deviations under the median, in logarithms. The deviation is that of
// a normal distribution with this median of absolute differences.
double bound_of_short(const std::vector<float>& norms) {
  std::vector<double> logs;
  for (const float norm : norms)
    if (norm > 0) logs.push_back(std::log(norm));
  if (logs.empty()) return 0;
  const double middle = median(logs);
  std::vector<double> away;
  for (const double value : logs) away.push_back(std::fabs(value - middle));
  return std::min(std::exp(middle - kFarBelow * 1.4826 * median(away)), kMostShort * std::exp(middle));
}

// Isotropy as Mu and Viswanath define it (2018, "All-but-the-Top", section 2.2): the least Z(c) by the greatest one,
// with Z(c) = sum over the rows v of exp(c.v), over the eigenvectors c of V^T V. Both c and -c, because an eigenvector
// has no sign. second_moments: V^T V of the sampled rows.
double isotropy(const api::Model& model, std::vector<double> second_moments) {
  const std::size_t width = model.info().width, vocab = model.info().vocab_size;
  const std::vector<double> vectors = eigenvectors(std::move(second_moments), width);
  double least = std::numeric_limits<double>::infinity(), most = 0;
  each_dots(model, std::vector<float>(vectors.begin(), vectors.end()), [&](std::size_t, const float* dots) {
    double plus = 0, minus = 0;
    for (std::size_t i = 0; i < vocab; ++i) plus += std::exp(double{dots[i]}), minus += std::exp(-double{dots[i]});
    least = std::min({least, plus, minus});
    most = std::max({most, plus, minus});
  });
  return least / most;
}

std::uint64_t hash_of(const float* row, std::size_t width) {
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(row), width * sizeof(float)});
}

// At most `most` ids, evenly spaced.
std::vector<std::uint32_t> spaced(std::size_t vocab, std::size_t most) {
  std::vector<std::uint32_t> ids(std::min(vocab, most));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::uint32_t>(i * vocab / ids.size());
  return ids;
}

}  // namespace

TableFigures read_table(const api::Model& model) {
  const std::size_t width = model.info().width, vocab = model.info().vocab_size;
  TableFigures figures;
  std::vector<double> units(width);  // the sum of all rows of length 1
  std::vector<std::uint64_t> hashes;
  std::unordered_map<std::uint64_t, std::size_t> counts;
  std::size_t directions = 0;
  ProgressBar bar("reading the table", {static_cast<double>(vocab), "rows"});
  for (std::size_t first = 0; first < vocab; first += kPiece) {
    bar.update(static_cast<double>(first) / static_cast<double>(vocab));
    std::vector<std::uint32_t> ids(std::min(kPiece, vocab - first));
    std::iota(ids.begin(), ids.end(), static_cast<std::uint32_t>(first));
    const std::vector<float> rows = rows_of(model, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const float* row = &rows[i * width];
      const double norm = std::sqrt(std::inner_product(row, row + width, row, 0.0));
      figures.norms.push_back(static_cast<float>(norm));
      hashes.push_back(hash_of(row, width));
      ++counts[hashes.back()];
      if (norm == 0) continue;
      ++directions;
      for (std::size_t j = 0; j < width; ++j) units[j] += row[j] / norm;
    }
  }
  // The cosines of all ordered pairs sum up to |sum of units|^2, with those of each row and itself.
  const double n = static_cast<double>(directions);
  if (directions > 1)
    figures.mean_cosine = (std::inner_product(units.begin(), units.end(), units.begin(), 0.0) - n) / (n * (n - 1));
  for (std::uint32_t id = 0; id < vocab; ++id)
    if (counts[hashes[id]] > 1) figures.equal_rows.push_back(id);

  const std::vector<std::uint32_t> some = spaced(vocab, kSpectrumRows);
  const RowMoments moments = moments_of(rows_of(model, some), width);
  const std::vector<double>& matrix = moments.covariance;
  figures.sampled = some.size();
  figures.spectrum = eigenvalues(matrix, width);
  double trace = 0, squares = 0;
  for (std::size_t i = 0; i < width; ++i) trace += matrix[i * width + i];
  for (const double value : matrix) squares += value * value;
  if (trace > 0) {
    figures.participation = trace * trace / squares;
    for (double& value : figures.spectrum) value /= trace;
  }
  figures.isotropy = isotropy(model, moments.second);

  figures.by_norm.resize(vocab);
  std::iota(figures.by_norm.begin(), figures.by_norm.end(), 0u);
  std::stable_sort(figures.by_norm.begin(), figures.by_norm.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return figures.norms[a] < figures.norms[b]; });
  figures.rank_correlation = correlation_with_index(ranks_of(figures.norms, figures.by_norm));
  figures.short_bound = bound_of_short(figures.norms);
  for (const float norm : figures.norms) figures.short_rows += norm < figures.short_bound ? 1 : 0;
  return figures;
}

SelfFigures read_self(const api::Model& model) {
  const std::vector<std::uint32_t> ids = spaced(model.info().vocab_size, kSelfRows);
  const std::size_t vocab = model.info().vocab_size;
  SelfFigures figures;
  figures.rows = ids.size();
  std::vector<double> ranks;
  each_dots(model, rows_of(model, ids), [&](std::size_t i, const float* dots) {
    const float own = dots[ids[i]];
    const auto better = std::count_if(dots, dots + vocab, [own](float dot) { return dot > own; });
    ranks.push_back(static_cast<double>(better + 1));
    figures.best += better == 0 ? 1 : 0;
  });
  figures.median_rank = median(ranks);
  return figures;
}

StateFigures read_states(const api::Model& model, const std::vector<std::uint32_t>& ids,
                         const std::vector<float>& norms) {
  const std::size_t width = model.info().width, vocab = model.info().vocab_size;
  std::vector<float> states(ids.size() * width);
  api::detail::check(
      [&](weft_error* error) { return weft_table_states(model.get(), ids.data(), ids.size(), states.data(), error); });
  const std::size_t left_out = ids.size() > 2 * kFirstStates ? kFirstStates : 0;
  states.erase(states.begin(), states.begin() + static_cast<std::ptrdiff_t>(left_out * width));
  StateFigures figures;
  figures.tokens = ids.size() - left_out;
  std::vector<double> squares(width);
  for (std::size_t i = 0; i < states.size(); ++i) squares[i % width] += double{states[i]} * states[i];
  const double all = std::accumulate(squares.begin(), squares.end(), 0.0);
  figures.coordinates.resize(width);
  std::iota(figures.coordinates.begin(), figures.coordinates.end(), 0u);
  std::stable_sort(figures.coordinates.begin(), figures.coordinates.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return squares[a] > squares[b]; });
  for (const std::uint32_t at : figures.coordinates) figures.energy.push_back(all > 0 ? squares[at] / all : 0);
  figures.least_cosine = 1, figures.most_cosine = -1;
  each_dots(model, states, [&](std::size_t i, const float* dots) {
    const float* state = &states[i * width];
    const auto best = static_cast<std::size_t>(std::max_element(dots, dots + vocab) - dots);
    const double length = std::sqrt(std::inner_product(state, state + width, state, 0.0));
    const double cosine = length > 0 && norms[best] > 0 ? dots[best] / (length * norms[best]) : 0;
    figures.mean_cosine += cosine / static_cast<double>(figures.tokens);
    figures.least_cosine = std::min(figures.least_cosine, cosine);
    figures.most_cosine = std::max(figures.most_cosine, cosine);
  });
  return figures;
}

Neighbours read_neighbours(const api::Model& model, std::uint32_t id, std::size_t count,
                           const std::vector<float>& norms) {
  Neighbours result = {id, 1, {}, {}, {}};
  each_dots(model, rows_of(model, {id}), [&](std::size_t, const float* dots) {
    std::vector<Neighbours::One> dot, cosine, distance;
    for (std::uint32_t other = 0; other < norms.size(); ++other) {
      if (other == id) continue;
      if (dots[other] > dots[id]) ++result.own_rank;
      dot.push_back({other, dots[other]});
      const double lengths = double{norms[id]} * norms[other];
      cosine.push_back({other, lengths > 0 ? dots[other] / lengths : 0});
      const double squares = double{norms[id]} * norms[id] + double{norms[other]} * norms[other];
      distance.push_back({other, -std::sqrt(std::max(0.0, squares - 2 * double{dots[other]}))});
    }
    for (auto [from, to] :
         {std::pair(&dot, &result.dot), std::pair(&cosine, &result.cosine), std::pair(&distance, &result.distance)}) {
      const std::size_t kept = std::min(count, from->size());
      std::partial_sort(from->begin(), from->begin() + static_cast<std::ptrdiff_t>(kept), from->end(),
                        [](const Neighbours::One& a, const Neighbours::One& b) { return a.value > b.value; });
      to->assign(from->begin(), from->begin() + static_cast<std::ptrdiff_t>(kept));
    }
    for (Neighbours::One& one : result.distance) one.value = -one.value;
  });
  return result;
}

std::size_t count_for(const std::vector<double>& shares, double share) {
  double sum = 0;
  for (std::size_t i = 0; i < shares.size(); ++i)
    if ((sum += shares[i]) >= share) return i + 1;
  return shares.size();
}

std::vector<double> bars_of(const std::vector<float>& values, std::size_t bars) {
  const std::size_t each = (values.size() + bars - 1) / bars;
  std::vector<double> means;
  for (std::size_t first = 0; first < values.size(); first += each) {
    const std::size_t end = std::min(first + each, values.size());
    double sum = 0;
    for (std::size_t i = first; i < end; ++i) sum += values[i];
    means.push_back(sum / static_cast<double>(end - first));
  }
  return means;
}

}  // namespace weft::cli
