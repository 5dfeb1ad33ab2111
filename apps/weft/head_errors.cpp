#include "head_errors.h"

#include <weft/estimates.h>

#include <algorithm>
#include <cmath>

namespace weft::cli {

bool HeadErrors::add(api::Session& session, std::uint32_t rows) {
  std::vector<weft_head_estimate> known(rows);
  float allowed = 0;
  weft_error error = {};
  const weft_status status = weft_session_head_estimates(session.get(), known.data(), rows, &allowed, &error);
  if (status == WEFT_UNSUPPORTED) return false;
  if (status != WEFT_OK) throw api::Failure(error);
  allowed_ = allowed;
  for (const weft_head_estimate& row : known) {
    if (std::isinf(row.bound)) continue;
    const double deviations = (row.logit - row.estimate) / (row.bound - row.estimate) * allowed_;
    ++count_;
    squares_ += deviations * deviations;
    largest_ = std::max(largest_, deviations);
    const int last = static_cast<int>(std::min(deviations, kMost) / kStep);
    for (int i = 0; i <= last && deviations >= 0; ++i) ++above_[i];
  }
  return true;
}

double HeadErrors::rms() const { return std::sqrt(squares_ / static_cast<double>(count_)); }

double HeadErrors::beyond(double deviations) const {
  return static_cast<double>(above_[static_cast<int>(deviations / kStep)]) / static_cast<double>(count_);
}

Json HeadErrors::json() const {
  if (empty()) return nullptr;
  Json shares = Json::object();
  for (const int deviations : {3, 4, 5}) shares[std::to_string(deviations)] = beyond(deviations);
  return {{"estimates", count_}, {"allowed", allowed_}, {"rms", rms()}, {"largest", largest_}, {"beyond", shares}};
}

double normal_beyond(double deviations) { return std::erfc(deviations / std::sqrt(2.0)) / 2; }

Plot plot_of(const std::vector<NamedErrors>& heads, const std::string& title) {
  constexpr double kLeast = -8;
  Plot plot;
  plot.title = title;
  plot.x = {"standard deviations above the estimate", 0, HeadErrors::kMost, 1, ""};
  plot.y = {"share of rows beyond, log10", kLeast, 0, 1, ""};
  const auto curve = [&](const std::string& label, std::size_t series, const auto& share) {
    for (double x = 0; x < HeadErrors::kMost && share(x) > std::pow(10, kLeast); x += HeadErrors::kStep)
      plot.points.push_back({"", x, std::log10(share(x)), series});
    plot.points.back().label = label;
  };
  for (std::size_t i = 0; i < heads.size(); ++i)
    curve(heads[i].head, i, [&](double x) { return heads[i].errors->beyond(x); });
  curve("normal", heads.size(), normal_beyond);
  return plot;
}

}  // namespace weft::cli
