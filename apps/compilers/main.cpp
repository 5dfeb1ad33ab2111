// weft-compilers: compiles every pipeline that Weft's plan for a device selects, and prints the driver's statistics.
// Nothing is run, so the device may be a pretended one (drivers.py).
//
//   weft-compilers [--set CHOICE=VALUE]... [--list] [--skip LABEL]... [--only LABEL]... [--known FILE] FOLDER...
//   weft-compilers [--set CHOICE=VALUE]... --dispatches CONTEXT --caps JSON --format FORMAT FOLDER
//
// Each folder is a model (models.py), loaded with matrices of every format; where the device can round inputs to 8
// bits, with that too. Prints JSON, an object a line: the device with its plan; the dispatches and barriers of each
// model; the fingerprint of each pipeline's code; then for each pipeline its label before it is compiled, and the
// result. FILE has fingerprints, one a line, of pipelines that are not compiled. With --dispatches: the device with the
// plan of the described one, and the dispatches of a token (dispatches.h).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <sstream>

#include "base/error.h"
#include "dispatches.h"
#include "gpu/device.h"
#include "gpu/plan_fields.h"
#include "gpu/specialise.h"
#include "model/fingerprint.h"
#include "survey.h"

namespace {

using weft::compilers::Survey;
using Json = nlohmann::ordered_json;

void print(const Json& line) { std::cout << line.dump() << std::endl; }

Json describe(const weft::Device& device) {
  const weft::Caps& caps = device.caps();
  Json plan;
  for (const weft::PlanField& field : weft::plan_fields()) plan[field.name] = value_of(device.plan(), field);
  return {{"name", caps.name},
          {"driver", caps.driver_name},
          {"driver_info", caps.driver_info},
          {"kind", name(caps.kind)},
          {"device_id", caps.device_id},
          {"caps",
           {{"fp16", caps.fp16},
            {"int8_dot", caps.int8_dot},
            {"int8_dot_fast", caps.int8_dot_fast},
            {"subgroup_size", caps.subgroup ? caps.subgroup_size : 0},
            {"max_shared", caps.max_shared},
            {"max_threads", caps.max_threads},
            {"max_range", caps.max_range}}},
          {"plan", plan}};
}

// Fingerprint of all that a driver's compiler is given of a pipeline.
std::string fingerprint_of(const weft::KernelSpec& spec) {
  const std::vector<uint32_t> code = weft::specialise(weft::unpack_spirv(spec.shader.code), spec.constants);
  const uint32_t more[] = {spec.shader.bindings, spec.shader.push_bytes, spec.shader.texel, spec.shader.full_subgroups};
  weft::Fingerprint sum;
  sum.add(std::as_bytes(std::span(code)));
  sum.add(std::as_bytes(std::span(spec.constants)));
  sum.add(std::as_bytes(std::span(more)));
  std::ostringstream text;
  text << std::hex << sum.value();
  return text.str();
}

// Compiles one pipeline after the other, so that the processor's time of each is known.
void compile_all(weft::Device& device, const Survey& survey, const std::set<std::string>& skipped,
                 const std::set<std::string>& only) {
  for (const auto& [label, spec] : survey.pipelines()) {
    if (skipped.contains(label) || (!only.empty() && !only.contains(label))) continue;
    print({{"compiling", label}});
    const std::clock_t start = std::clock();
    Json line = {{"compiled", label}};
    try {
      const weft::Kernel& kernel = device.kernel(spec);
      kernel.wait();
      line["statistics"] = kernel.statistics();
    } catch (const weft::Error& error) {
      line["refused"] = error.what();
    }
    line["cpu_seconds"] = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    print(line);
  }
}

// described: changes of the device's caps, for the plan.
std::shared_ptr<weft::Device> open(const std::vector<std::string>& settings, bool int8_inputs, bool statistics,
                                   const nlohmann::json& described = nlohmann::json::object()) {
  return weft::Device::open({}, [&](const weft::Caps& own) {
    weft::Caps caps = own;
    weft::compilers::describe_as(caps, described);
    weft::Plan plan = make_plan(caps);
    if (int8_inputs) round_inputs(plan, caps);
    for (const std::string& setting : settings) set_fields(plan, caps, setting, "--set");
    plan.statistics = statistics;
    return plan;
  });
}

void print_dispatches(const std::vector<std::string>& settings, const std::string& caps, const std::string& format,
                      const std::filesystem::path& folder, uint32_t context) {
  const auto wanted =
      std::ranges::find(weft::kAllFormats, format, [](weft::Format one) { return std::string(name(one)); });
  if (wanted == std::end(weft::kAllFormats))
    throw weft::Error(weft::Code::invalid_argument, "there is no format '" + format + "'", "--format");
  const auto device = open(settings, false, false, nlohmann::json::parse(caps));
  print({{"device", describe(*device)}});
  print({{"model", folder.filename().string()},
         {"format", format},
         {"dispatches", weft::compilers::list_dispatches(device, folder, *wanted, context)}});
}

Json json_of(const Survey::PassCommands& pass) {
  Json counts;
  for (const auto& [name, of] :
       {std::pair{"first_layer", pass.first_layer}, {"layer", pass.layer}, {"rest", pass.rest}})
    counts[name] = {{"dispatches", of.dispatches}, {"barriers", of.barriers}};
  return counts;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Compiles every pipeline that the device's plan selects, and prints what the driver says of it");
  std::vector<std::filesystem::path> folders;
  std::vector<std::string> skip, only, settings;
  std::string caps = "{}", format_name = "q8";
  std::filesystem::path known_file;
  uint32_t context = 0;
  bool list = false;
  app.add_option("folders", folders, "Models")->required();
  app.add_option("--skip", skip, "A pipeline that is not compiled")->allow_extra_args(false);
  app.add_option("--only", only, "The pipelines that are compiled, rather than all")->allow_extra_args(false);
  app.add_option("--known", known_file, "Fingerprints of pipelines that are not compiled, one a line");
  app.add_option("--set", settings, "Another value than the plan's: tile_tokens=16")->allow_extra_args(false);
  app.add_flag("--list", list, "Compile nothing");
  app.add_option("--dispatches", context, "Print the dispatches of a token in a session of so many tokens");
  app.add_option("--caps", caps, "For --dispatches: JSON of the device that the plan is made for");
  app.add_option("--format", format_name,
                 "For --dispatches: the number format of the model's matrices: f16, q8, q4k, ...");
  CLI11_PARSE(app, argc, argv);
  try {
    if (context > 0) return print_dispatches(settings, caps, format_name, folders.front(), context), 0;
    // Never destroyed: without hardware, a driver may not come to an end.
    weft::Device& device = **new std::shared_ptr<weft::Device>(open(settings, false, !list));
    print({{"device", describe(device)}});
    Survey survey;
    const auto add = [&](weft::Device& with, bool print_counts) {
      for (const std::filesystem::path& folder : folders)
        for (const weft::Format format : weft::kFormats) {
          const auto counts = survey.add(with.shared_from_this(), folder, format);
          if (!print_counts) continue;
          print({{"model", folder.filename().string()},
                 {"format", name(format)},
                 {"layers", counts.layers},
                 {"token", json_of(counts.token)},
                 {"prompt", json_of(counts.prompt)}});
        }
    };
    add(device, true);
    if (rounding_pays(device.caps())) add(**new std::shared_ptr<weft::Device>(open(settings, true, false)), false);
    std::ifstream file(known_file);
    const std::set<std::string> known{std::istream_iterator<std::string>(file), {}};
    Json fingerprints = Json::object();
    for (const auto& [label, spec] : survey.pipelines()) {
      const std::string fingerprint = fingerprint_of(spec);
      fingerprints[label] = fingerprint;
      if (known.contains(fingerprint)) skip.push_back(label);
    }
    print({{"pipelines", fingerprints}});
    if (!list) compile_all(device, survey, {skip.begin(), skip.end()}, {only.begin(), only.end()});
    std::_Exit(0);  // what is left of the driver is not asked to end
  } catch (const std::exception& error) {
    std::cerr << "weft-compilers: " << error.what() << '\n';
    std::_Exit(1);
  }
}
