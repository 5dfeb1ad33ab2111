#include "ops/proof.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/json_value.h"
#include "base/private_file.h"
#include "gpu/pipeline_cache.h"
#include "gpu/plan_fields.h"
#include "ops/known_answers.h"

namespace weft {
namespace {

using Replacements = std::vector<Replacement>;

// Plainer values, tried in this order.
constexpr const char* kPlainer[] = {"int8_inputs=0",  "matrix_side=0",    "half_tiles=0", "uniform_parts=0",
                                    "staged_cols=0",  "texel_products=0", "subgroup=0",   "tile_tokens=0",
                                    "block_tokens=1", "split=1",          "row_tiles=1"};
constexpr size_t kMostPlans = 16;  // in a file
constexpr JsonLimits kLimits = {256 << 10, 4096, 8};

std::mutex g_mutex;                           // guards g_known
std::map<std::string, Replacements> g_known;  // that no file keeps

bool is_needed(const Caps& caps) {
  const char* const wanted = std::getenv("WEFT_PROOF");
  return caps.kind != DeviceKind::cpu && !(wanted && std::string_view(wanted) == "0");
}

// Fields that select no kernel are left out.
std::string key_of(const Plan& plan) {
  static const std::set<std::string_view> other = {"memory_budget", "run_ahead",      "profile_every", "chunk_tokens",
                                                   "slice_bytes",   "product_groups", "submission_ms"};
  std::string key;
  for (const PlanField& field : plan_fields())
    if (!other.contains(field.name))
      key += (key.empty() ? "" : ",") + std::string(field.name) + "=" + std::to_string(value_of(plan, field));
  return key;
}

// The device, driver and kernels that results are of.
std::string subject_of(const Caps& caps) {
  char text[120];
  std::snprintf(text, sizeof text, "%04x-%04x-%08x-%u-%016llx-", caps.vendor_id, caps.device_id, caps.driver_version,
                caps.driver_id, static_cast<unsigned long long>(known_answers_id()));
  std::string subject = text;
  for (const uint8_t byte : caps.cache_uuid) {
    std::snprintf(text, sizeof text, "%02x", byte);
    subject += text;
  }
  return subject;
}

std::optional<std::filesystem::path> path_of(const Caps& caps) {
  auto path = pipeline_cache_path(caps);
  if (!path) return path;
  std::string name = path->filename().string();
  name.replace(0, std::string_view("pipelines").size(), "proof");
  return path->replace_filename(name).replace_extension(".json");
}

// Key in g_known. An application that names another folder has results of its own there.
std::string place_of(const Caps& caps, const std::string& key) {
  return path_of(caps).value_or("").string() + " " + subject_of(caps) + " " + key;
}

// The file's results by plan; nothing if there is no file, or it is of something else.
JsonValue read_plans(const Caps& caps) {
  const auto path = path_of(caps);
  const auto file = path ? open_private(*path) : std::nullopt;
  if (!file) return nullptr;
  try {
    const JsonValue all = parse_json(file->text(), kLimits, Code::bad_file, path->string());
    const JsonValue *const subject = all.find("subject"), *const plans = all.find("plans");
    if (!subject || !plans || !plans->is_object() || *subject != JsonValue(subject_of(caps))) return nullptr;
    return *plans;
  } catch (const Error&) {  // torn
    return nullptr;
  }
}

std::optional<Replacements> read_file(const Caps& caps, const std::string& key) {
  const JsonValue plans = read_plans(caps);
  const JsonValue* const list = plans.find(key);
  if (!list || !list->is_array()) return std::nullopt;
  Replacements replaced;
  for (const JsonValue& entry : list->items()) {
    const JsonValue *const settings = entry.find("set"), *const reason = entry.find("because");
    if (!settings || !reason || !settings->is_string() || !reason->is_string()) return std::nullopt;
    replaced.push_back({settings->text(), reason->text()});
  }
  return replaced;
}

// False if there is no place for it.
bool write_file(const Caps& caps, const std::string& key, const Replacements& replaced) {
  const auto path = path_of(caps);
  if (!path) return false;
  JsonValue plans = read_plans(caps), list = JsonValue::array();
  if (plans.size() >= kMostPlans) plans = nullptr;
  for (const Replacement& one : replaced) list.push_back({{"set", one.settings}, {"because", one.reason}});
  plans[key] = list;
  const std::string text = JsonValue({{"subject", subject_of(caps)}, {"plans", plans}}).dump() + "\n";
  try {
    write_file_atomically(*path, std::as_bytes(std::span<const char>(text)), Rights::owner);
    return true;
  } catch (const Error&) {  // a full disk or a read-only home
    return false;
  }
}

void keep(const Caps& caps, const std::string& key, const Replacements& replaced) {
  if (write_file(caps, key, replaced)) return;
  const std::lock_guard lock(g_mutex);
  g_known[place_of(caps, key)] = replaced;
}

std::optional<Replacements> known(const Caps& caps, const std::string& key) {
  if (auto replaced = read_file(caps, key)) return replaced;
  const std::lock_guard lock(g_mutex);
  const auto found = g_known.find(place_of(caps, key));
  return found == g_known.end() ? std::nullopt : std::optional(found->second);
}

// Changes the plan; false if the device cannot run it so, or it was so.
bool change(Plan& plan, const Caps& caps, const std::string& settings) {
  const std::string before = key_of(plan);
  try {
    set_fields(plan, caps, settings, "proof");
  } catch (const Error&) {
    return false;
  }
  return key_of(plan) != before;
}

// Settings that may mend a plan: one after the other, and then all of them.
std::vector<std::string> remedies(const Caps& caps, const Plan& plan) {
  std::vector<std::string> list;
  std::string all;
  for (const char* const settings : kPlainer)
    if (Plan plainer = plan; change(plainer, caps, settings)) {
      list.push_back(settings);
      all += (all.empty() ? "" : ",") + list.back();
    }
  if (list.size() > 1) list.push_back(all);
  return list;
}

// Replaces fields of a plan until all checks are right.
Replacements mend(std::string_view selector, const Caps& caps, Plan& plan, std::optional<Fault> fault) {
  Replacements replaced;
  while (fault) {
    bool better = false;
    for (const std::string& settings : remedies(caps, plan)) {
      Plan plainer = plan;
      change(plainer, caps, settings);
      const auto now = find_fault(Device::open(selector, [&](const Caps&) { return plainer; }), fault->check);
      better = !now || now->check > fault->check;
      if (!better) continue;
      replaced.push_back({settings, fault->reason});
      plan = plainer;
      fault = now;
      break;
    }
    if (!better)
      throw Error(Code::unsupported, "its driver fails, and no other kernels help: " + fault->reason, caps.name,
                  "update the driver; weft devices --report has what to report; WEFT_PROOF=0 uses it as it is");
  }
  return replaced;
}

}  // namespace

Proof proof_of(const Caps& caps, const Plan& plan) {
  Proof proof = {Proof::State::not_needed, {}, plan};
  if (!is_needed(caps)) return proof;
  proof.state = Proof::State::not_yet;
  const auto replaced = known(caps, key_of(plan));
  if (!replaced) return proof;
  for (const Replacement& one : *replaced)
    if (!change(proof.plan, caps, one.settings)) return {Proof::State::not_yet, {}, plan};  // of a damaged file
  proof.state = Proof::State::passed;
  proof.replaced = *replaced;
  return proof;
}

std::shared_ptr<Device> open_proven(std::string_view selector, const std::function<Plan(const Caps&)>& planner) {
  Plan wanted;
  std::shared_ptr<Device> device = Device::open(selector, [&](const Caps& caps) {
    wanted = planner(caps);
    return proof_of(caps, wanted).plan;
  });
  const Caps caps = device->caps();
  if (proof_of(caps, wanted).state != Proof::State::not_yet) return device;
  Plan plan = wanted;
  try {
    const auto fault = find_fault(device);
    if (fault) device.reset();
    const Replacements replaced = mend(selector, caps, plan, fault);
    keep(caps, key_of(wanted), replaced);
  } catch (const Error& error) {
    if (error.code() != Code::out_of_memory) throw;
  }
  return device ? device : Device::open(selector, [&](const Caps&) { return plan; });
}

}  // namespace weft
