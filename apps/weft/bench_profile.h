// weft bench --profile: where the time of a whole token and of a prompt's chunk goes; and what they cost the CPU.
#pragma once

#include "common.h"

namespace weft::cli {

// CPU time of all threads so far. On a software driver that contains the driver's, which compute everything.
double process_cpu_seconds();

// Profiles in the format of weft_session_profile.
struct Profiles {
  Json decode, prompt;
};
// Profiles the token after `decoded` and the last chunk of `prompt`: medians of `repeat` runs.
Profiles profile_passes(api::Session& session, const std::vector<std::uint32_t>& decoded,
                        const std::vector<std::uint32_t>& prompt, std::uint32_t repeat);
Json profiles_json(const Profiles& profiles);
// token_s: what a decoded token took, timed without timestamps.
void print_profiles(const Profiles& profiles, double token_s);

}  // namespace weft::cli
