// Distances of a head's estimates from the logits, in standard deviations of a random error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>
#include <weft/weft.hpp>

#include "common.h"
#include "plot.h"

namespace weft::cli {

class HeadErrors {
 public:
  // Adds every token's error at the end of the session's context. False if its head estimates nothing.
  bool add(api::Session& session, std::uint32_t rows);

  bool empty() const { return count_ == 0; }
  double allowed() const { return allowed_; }  // between an estimate and its bound
  double rms() const;
  double largest() const { return largest_; }  // above the estimate; the others do no harm
  double beyond(double deviations) const;      // share of the errors; a multiple of kStep, at most kMost
  Json json() const;                           // null if empty

  static constexpr double kStep = 0.25, kMost = 10;

 private:
  std::uint64_t count_ = 0, above_[static_cast<int>(kMost / kStep) + 1] = {};  // errors of at least so many steps
  double squares_ = 0, largest_ = 0, allowed_ = 0;
};

// The share of a normal distribution above so many deviations.
double normal_beyond(double deviations);

struct NamedErrors {
  std::string head;
  const HeadErrors* errors;
};
Plot plot_of(const std::vector<NamedErrors>& heads, const std::string& title);

}  // namespace weft::cli
