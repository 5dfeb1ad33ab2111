// The C API: what happens when the device is lost.
#include "weft/recover.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "capi/handles.h"
#include "format/model_file.h"

using namespace weft;
using namespace weft::capi;

namespace weft::capi {
namespace {

// How long a call that is under way may take to notice that the device is lost.
constexpr std::chrono::seconds kPatience{10};

// Takes all users but `own`. False if one is in use; then none is taken.
bool take_all(const std::vector<DeviceUser*>& users, const DeviceUser* own) {
  const auto counts = [&](const DeviceUser* user) { return user != own && !user->recovering; };
  const auto busy =
      std::ranges::find_if(users, [&](DeviceUser* user) { return counts(user) && user->in_use.exchange(true); });
  if (busy == users.end()) return true;
  for (auto user = users.begin(); user != busy; ++user)
    if (counts(*user)) (*user)->in_use = false;
  return false;
}

void load_again(const weft_model& model) {
  LoadedFrom& from = model.loaded_from;
  const ModelFile file = from.file();
  Config config = read_config(file);
  if (config.fingerprint != model.model.config.fingerprint)
    throw Error(Code::bad_file, "it is not the model that was loaded", file.path.string(), "load it as a new model");
  std::shared_ptr<Device> device = from.open();  // what cannot be opened leaves everything as it is
  DeviceFormats formats = from.formats;
  formats.split = from.split(device);
  for (DeviceUser* user : model.users) user->leave_device();
  model.model.weights.layer_loader.reset();  // its thread still fills what the assignment frees first
  model.model.weights = {};                  // before the new ones take memory
  model.model.device = std::move(device);
  model.model.weights = load_weights(model.model.device, file, config, formats, {});
  ++model.recoveries;
  for (const bool first : {true, false})
    for (DeviceUser* user : model.users)
      if (user->enters_first() == first) user->enter_device();
}

}  // namespace

DeviceUser::DeviceUser(const weft_model* of) : model(of) { of->users.push_back(this); }

DeviceUser::~DeviceUser() { std::erase(model->users, this); }

void destroy(DeviceUser* user) noexcept {
  const NoCancel whole;
  if (!user || is_inherited(*user->model)) return;
  const ModelUse model(&*user->model);             // outlives the lock
  const std::lock_guard lock(model->users_mutex);  // a recovery holds it while it has taken all users
  if (user->in_use.exchange(true)) return;
  delete user;
}

void recover(const weft_model& model, uint64_t recoveries, const DeviceUser* own) {
  auto lock = lock_users(model);
  const auto refuse = [] {
    throw Error(Code::invalid_argument, "another call with the model is under way", "model",
                "call this when no other call is under way, and step a batch until it fails");
  };
  // A call whose callback called this cannot end meanwhile.
  if (model.uses_of_weights > 0) refuse();
  for (const DeviceUser* user : model.users)
    if (user != own && user->in_use && user->thread == std::this_thread::get_id()) refuse();
  if (own) own->recovering = true;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  bool done = model.recoveries != recoveries, taken = false;
  while (!done && !(taken = take_all(model.users, own)) && std::chrono::steady_clock::now() < end) {
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lock.lock();
    done = model.recoveries != recoveries;
  }
  if (own) own->recovering = false;
  if (done) return;
  if (!taken) refuse();
  const auto give_back = [&] {
    for (DeviceUser* user : model.users)
      if (user != own && !user->recovering) user->in_use = false;
  };
  try {
    load_again(model);
  } catch (...) {
    give_back();
    throw;
  }
  give_back();
}

void need_weights(const weft_model& model) {
  if (!model.model.weights.embedding)
    throw Error(Code::device_lost, "the device was lost, and the model could not be loaded again", "model",
                "weft_model_recover tries it once more");
}

}  // namespace weft::capi

weft_status weft_model_recover(weft_model* model, weft_error* error) {
  return guard(error, [&] {
    require(model, "model", "it is NULL");
    recover(*model, model->recoveries, nullptr);
  });
}

weft_status weft_model_set_recovery(weft_model* model, int automatic, weft_error* error) {
  return guard(error, [&] {
    require(model, "model", "it is NULL");
    model->recovers = automatic != 0;
  });
}
