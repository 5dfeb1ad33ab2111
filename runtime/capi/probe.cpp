// The C API: the machine's devices, and what would fit there.
#include "weft/probe.h"

#include <cstdlib>
#include <map>
#include <numeric>

#include "capi/handles.h"
#include "gpu/device.h"
#include "gpu/memory_map.h"
#include "gpu/plan_fields.h"
#include "gpu/tuning.h"
#include "model/footprint.h"
#include "ops/proof.h"

using namespace weft;
using namespace weft::capi;
static JsonValue caps_json(const Caps& caps) {
  return {
      {"vulkan", std::to_string(caps.api_version >> 22 & 0x7f) + "." + std::to_string(caps.api_version >> 12 & 0x3ff)},
      {"vendor_id", caps.vendor_id},
      {"device_id", caps.device_id},
      {"max_range_bytes", caps.max_range},
      {"max_texels", caps.max_texels},
      {"max_allocation_bytes", caps.max_allocation},
      {"max_shared_bytes", caps.max_shared},
      {"max_threads", caps.max_threads},
      {"unified_memory", caps.unified_memory},
      {"subgroup", caps.subgroup},
      {"subgroup_size", caps.subgroup_size},
      {"full_subgroups", caps.full_subgroups},
      {"timestamps", caps.timestamps},
      {"memory_budget", caps.memory_budget},
      {"fp16", caps.fp16},
      {"int8_dot", caps.int8_dot},
      {"int8_dot_fast", caps.int8_dot_fast},
      {"matrix_side", caps.matrices ? caps.matrix_side : 0}};
}

static JsonValue plan_json(const Plan& plan, const std::string& tuning) {
  JsonValue object = JsonValue::object();
  for (const PlanField& field : plan_fields()) {
    const uint64_t value = value_of(plan, field);
    object[field.name] = std::holds_alternative<bool Plan::*>(field.field) ? JsonValue(value != 0) : JsonValue(value);
  }
  object.update({{"workarounds", plan.workarounds}, {"tuning", tuning}});
  return object;
}

static JsonValue proof_json(const Proof& proof) {
  const char* const state = proof.state == Proof::State::passed    ? "passed"
                            : proof.state == Proof::State::not_yet ? "not yet"
                                                                   : "not needed";
  JsonValue replaced = JsonValue::array();
  for (const Replacement& one : proof.replaced) replaced.push_back({{"set", one.settings}, {"because", one.reason}});
  return {{"state", state}, {"replaced", replaced}};
}

static JsonValue device_json(size_t index, const DeviceListing& device) {
  JsonValue entry = {{"index", index},
                     {"name", device.caps.name},
                     {"driver", device.caps.driver_name},
                     {"driver_version", device.caps.driver_info},
                     {"kind", name(device.caps.kind)},
                     {"memory_bytes", device.caps.memory},
                     {"usable", device.refusal.empty()},
                     {"caps", caps_json(device.caps)}};
  if (!device.refusal.empty()) {
    entry["why"] = device.refusal;
    return entry;
  }
  const Proof proof = proof_of(device.caps, device.plan);
  entry.update({{"plan", plan_json(proof.plan, tuned_plan(device.caps).source)}, {"proof", proof_json(proof)}});
  return entry;
}

// Names of drivers, and paths, need not be UTF-8.
static char* json_text(const JsonValue& object) { return copy_string(object.dump()); }

weft_status weft_devices(char** out, weft_error* error) {
  return guard(error, [&] {
    require(out, "json", "it is NULL");
    JsonValue list = JsonValue::array();
    for (const DeviceListing& device : list_devices()) list.push_back(device_json(list.size(), device));
    *out = json_text(list);
  });
}

// Runs a part of a probe. An exception becomes the status, and the object's `error`.
template <class Part>
static weft_status answer(JsonValue& object, const Part& part) {
  weft_error error = {};
  const weft_status status = guard(&error, part);
  if (status == WEFT_OUT_OF_MEMORY && !*error.place) throw std::bad_alloc();  // the host's: there is no answer
  if (status != WEFT_OK)
    object["error"] = {
        {"code", weft_status_name(status)}, {"sentence", error.sentence}, {"place", error.place}, {"hint", error.hint}};
  return status;
}

// Why a device is not used although it could be.
static std::string reason_against(const DeviceListing& device, const DeviceListing* used, bool fits,
                                  const weft_model_options& options) {
  if (!device.refusal.empty()) return device.refusal;
  if (!fits) return "what is asked for does not fit in its memory";
  const char* selector = options.device && *options.device ? options.device : std::getenv("WEFT_DEVICE");
  if (selector && *selector) return "'" + std::string(selector) + "' selects " + (used ? "another device" : "none");
  if (!used) return "the best device cannot be used";
  const std::string kind = name(device.caps.kind), used_kind = name(used->caps.kind);
  return kind == used_kind ? "a device of the same kind comes first"
                           : "it is of the kind '" + kind + "', '" + used_kind + "' is preferred";
}

namespace {

struct Prober {
  const weft_model_options options;
  const char* const path;
  const uint64_t bytes;  // besides the model
  const weft_session_options session;
  weft_probe_report report = {};
  std::vector<uint64_t> room = {}, pieces = {};  // of the device; of the model
  uint64_t session_bytes = 0;
  std::map<size_t, bool> fitting = {};  // by index: those that were asked
  JsonValue text = {{"others", JsonValue::array()}};
  Plan plan = {};  // if there is a device

  // True if the model fits on a device; a load chooses one of several devices by the same rule. A model that cannot be
  // read fits anywhere, because its own error is reported.
  bool fits_on(size_t index, const Caps& caps, const std::vector<uint64_t>& free) {
    bool fit = true;
    try {
      if (path) {
        const ModelFile file = open_model(model_path(*path ? path : nullptr));
        const Config config = read_config(file);
        fit = fits_model(file, config, options, settings_of(config, session), bytes)(index, caps, free);
      } else {
        fit = fits({}, bytes, free);
      }
    } catch (const Error&) {
    }
    return fitting[index] = fit;
  }

  void probe_device() {
    std::vector<DeviceListing> list;
    size_t chosen = SIZE_MAX;
    report.device = answer(text, [&] {
      list = list_devices();
      const DeviceList devices = parse_devices(options.device ? options.device : "");
      const DeviceFits fits = [&](size_t index, const Caps& caps, const std::vector<uint64_t>& free) {
        return fits_on(index, caps, free);
      };
      const std::string chosen_one = selector_for(devices.names.front(), fits);
      chosen = find_device(chosen_one);
      const auto device = open_proven(chosen_one, [&](const Caps& caps) { return plan_for(caps, options); });
      for (size_t i = 1; i < devices.names.size(); ++i)  // of a model on several
        open_proven(devices.names[i], [&](const Caps& caps) { return plan_for(caps, options); });
      plan = device->plan();
      room = room_of(*device);
      report.free_bytes = std::accumulate(room.begin(), room.end(), uint64_t{0});
      report.device_index = static_cast<uint32_t>(chosen);
    });
    const bool usable = report.device == WEFT_OK;
    for (size_t i = 0; i < list.size(); ++i) {
      JsonValue entry = device_json(i, list[i]);
      if (i == chosen && usable) {
        text["device"] = std::move(entry);
        continue;
      }
      entry["not_used"] = i == chosen ? text["error"]["sentence"].text()
                                      : reason_against(list[i], chosen == SIZE_MAX ? nullptr : &list[chosen],
                                                       !fitting.contains(i) || fitting[i], options);
      text["others"].push_back(std::move(entry));
    }
  }

  void probe_model() {
    JsonValue& object = text["model"] = {{"path", path}};
    report.model = answer(object, [&] {
      const DeviceFormats formats = formats_of(options);
      auto [file, config, tokenizer] = capi::describe(open_model(model_path(*path ? path : nullptr)));
      // The context is the model's matter; the rest of the options has been checked.
      const SessionSettings settings = settings_of(config, session);
      JsonValue about = {{"family", config.family}, {"max_context", config.context}, {"context", settings.context}};
      if (report.device == WEFT_OK) {
        const Footprint print = footprint(*file, config, formats, plan, settings.context, settings.cache);
        about.update({{"vocab_bytes", print.vocab_bytes},
                      {"layer_bytes", print.layer_bytes},
                      {"streamed_bytes", print.streamed_bytes},
                      {"session_bytes", print.session_bytes}});
        pieces = print.pieces;
        session_bytes = print.session_bytes;
        report.needed_bytes += print.vocab_bytes + print.layer_bytes + print.session_bytes;
      } else {
        check_weights(*file, config);
      }
      check_sizes(*file, tokenizer, config);
      object.update(about);
    });
  }

  void judge() {
    if (report.model == WEFT_OUT_OF_MEMORY) report.fit = WEFT_FIT_NO;  // the budget is too small
    if (report.model != WEFT_OK) report.needed_bytes = 0;
    if (report.device == WEFT_OK && report.model == WEFT_OK && (path || bytes)) {
      const bool within_budget = !options.memory_budget || report.needed_bytes <= options.memory_budget;
      report.fit = within_budget && fits(pieces, session_bytes + bytes, room) ? WEFT_FIT_YES : WEFT_FIT_NO;
    }
    text["needed_bytes"] = report.needed_bytes;
    text["free_bytes"] = report.free_bytes;
    text["fits"] = report.fit == WEFT_FIT_UNKNOWN ? JsonValue() : JsonValue(report.fit == WEFT_FIT_YES);
  }
};

}  // namespace

weft_status weft_probe(const char* path, uint64_t bytes, const weft_model_options* options,
                       const weft_session_options* session, weft_probe_report* report, size_t report_size, char** out,
                       weft_error* error) {
  return guard(error, [&] {
    require(report, "report", "it is NULL");
    Prober prober = {read_struct(options), path, bytes, read_struct(session)};
    formats_of(prober.options);
    Config largest;
    largest.context = UINT32_MAX;
    settings_of(largest, prober.session);
    prober.probe_device();
    prober.report.needed_bytes = bytes;
    if (path) prober.probe_model();
    prober.judge();
    if (out) *out = json_text(prober.text);
    write_struct(prober.report, report, report_size);
  });
}
