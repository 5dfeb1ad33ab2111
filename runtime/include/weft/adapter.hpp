// LoRA adapters in C++: a thin, header-only face over adapter.h, as weft.hpp is over weft.h.
#ifndef WEFT_ADAPTER_HPP
#define WEFT_ADAPTER_HPP

#include <weft/adapter.h>

#include <memory>
#include <string>

#include <weft/weft.hpp>

namespace weft::api {

// An adapter of a model; see weft_adapter_load. It frees itself, and can be moved, not copied.
class Adapter {
 public:
  Adapter(const Model& model, const std::string& path, float scale = 1) {
    weft_adapter* adapter = nullptr;
    detail::check(
        [&](weft_error* error) { return weft_adapter_load(model.get(), path.c_str(), scale, &adapter, error); });
    handle_.reset(adapter);
  }
  std::uint64_t bytes() const { return weft_adapter_bytes(get()); }
  const weft_adapter* get() const { return handle_.get(); }

 private:
  struct Free {
    void operator()(weft_adapter* adapter) const { weft_adapter_free(adapter); }
  };
  std::unique_ptr<weft_adapter, Free> handle_;
};

// Has the session use an adapter; nullptr: none. See weft_session_set_adapter.
inline void set_adapter(Session& session, const Adapter* adapter) {
  detail::check([&](weft_error* error) {
    return weft_session_set_adapter(session.get(), adapter ? adapter->get() : nullptr, error);
  });
}

}  // namespace weft::api

#endif
