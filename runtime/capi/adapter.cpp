// The C API: LoRA adapters.
#include "weft/adapter.h"

#include "capi/handles.h"

using namespace weft;
using namespace weft::capi;

struct weft_adapter {
  std::shared_ptr<AdapterUser> user;
};

weft_status weft_adapter_load(const weft_model* model, const char* path, float scale, weft_adapter** adapter,
                              weft_error* error) {
  return guard(error, [&] {
    require(model && path && adapter, "model, path or adapter", "it is NULL");
    with_weights(*model, [&] {
      auto loaded = std::make_unique<Adapter>(model->model, model->loaded_from.file(), open_adapter(path), scale);
      const std::shared_ptr<AdapterUser> user(new AdapterUser(model, std::move(loaded)), destroy);
      *adapter = new weft_adapter{user};
    });
  });
}

void weft_adapter_free(weft_adapter* adapter) { delete adapter; }

uint64_t weft_adapter_bytes(const weft_adapter* adapter) {
  if (!adapter || is_inherited(*adapter->user->model)) return 0;
  const auto lock = lock_to_read(*adapter->user);
  return adapter->user->adapter->bytes();
}

weft_status weft_session_set_adapter(weft_session* session, const weft_adapter* adapter, weft_error* error) {
  return guard(error, [&] {
    require(session, "session", "it is NULL");
    const InUse use(session);
    with_recovery(*session, [&] { session->session.set_adapter(adapter ? adapter->user->adapter.get() : nullptr); });
    session->adapter = adapter ? adapter->user : nullptr;
  });
}
