#include "bench_profile.h"

#include <time.h>

#include <algorithm>
#include <iostream>

namespace weft::cli {
namespace {

// Billions a second, right-aligned in 9 characters; blank without a count or a time.
std::string rate(double count, double seconds) {
  return count > 0 && seconds > 0 ? format("%9.2f", count / seconds * 1e-9) : std::string(9, ' ');
}

void print_profile(const char* title, const Json& profile) {
  const double total = profile["device_seconds"];
  const std::uint32_t dispatches = profile["dispatches"], tokens = profile["tokens"];
  std::cout << format("%-9s %s from position %u on: %.3f ms in %u dispatches, %.1f us each\n", title,
                      (tokens == 1 ? "1 token" : std::to_string(tokens) + " tokens").c_str(),
                      profile["position"].get<std::uint32_t>(), total * 1e3, dispatches,
                      total / std::max(dispatches, 1u) * 1e6)
            << "          stage                ms   share  dispatches  us each     GB/s   GMAC/s\n";
  Json stages = profile["stages"];
  std::stable_sort(stages.begin(), stages.end(), [](const Json& a, const Json& b) {
    return a["seconds"].get<double>() > b["seconds"].get<double>();
  });
  for (const Json& stage : stages) {
    const double seconds = stage["seconds"];
    const std::uint32_t count = stage["dispatches"];
    std::cout << format("          %-14s %8.3f  %5.1f%%  %10u %8.1f%s%s\n", stage["name"].get<std::string>().c_str(),
                        seconds * 1e3, total > 0 ? seconds / total * 100 : 0.0, count, seconds / count * 1e6,
                        rate(stage["bytes"], seconds).c_str(), rate(stage["multiplies"], seconds).c_str());
  }
  const double between = profile["between_seconds"], submitted = profile["submitted_seconds"];
  std::cout << format(
      "          between command buffers %.3f ms; from the CPU's side %.3f ms, of which %.3f ms in no stage\n",
      between * 1e3, submitted * 1e3, (submitted - total) * 1e3);
}

}  // namespace

double process_cpu_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

Profiles profile_passes(api::Session& session, const std::vector<std::uint32_t>& decoded,
                        const std::vector<std::uint32_t>& prompt, std::uint32_t repeat) {
  Profiles profiles;
  session.prompt(decoded);
  profiles.decode = Json::parse(session.profile(1, repeat));
  session.prompt(prompt);
  profiles.prompt = Json::parse(session.profile(std::numeric_limits<std::uint32_t>::max(), repeat));
  return profiles;
}

Json profiles_json(const Profiles& profiles) { return {{"decode", profiles.decode}, {"prompt", profiles.prompt}}; }

void print_profiles(const Profiles& profiles, double token_s) {
  print_profile("profile", profiles.decode);
  const double total = profiles.decode["device_seconds"];
  std::cout << format("          a token of the timed runs took %.3f ms, %+.3f ms against the stages' sum\n",
                      token_s * 1e3, (token_s - total) * 1e3);
  print_profile("prompt", profiles.prompt);
}

}  // namespace weft::cli
