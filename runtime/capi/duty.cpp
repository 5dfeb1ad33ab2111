// The C API: how much of the time the device may be busy with a session.
#include "weft/duty.h"

#include <chrono>

#include "base/number.h"
#include "capi/handles.h"

using namespace weft;
using namespace weft::capi;

namespace {

void check_share(float share) {
  if (!(share >= 0 && share <= 1))
    throw Error(Code::invalid_argument, "it is " + number_text(share) + ", expected 0 to 1", "share");
}

}  // namespace

weft_status weft_session_set_duty(weft_session* session, float share, weft_error* error) {
  return guard(error, [&] {
    require(session, "session", "it is NULL");
    check_share(share);
    if (session->session.policy() != Policy::polite)
      throw Error(Code::invalid_argument, "the session has WEFT_POLICY_THROUGHPUT", "duty",
                  "create it with WEFT_POLICY_POLITE");
    session->session.duty().set_share(share);
  });
}

weft_status weft_duty_create(weft_duty** duty, weft_error* error) {
  return guard(error, [&] {
    require(duty, "duty", "it is NULL");
    *duty = new weft_duty;
  });
}

void weft_duty_free(weft_duty* duty) { delete duty; }

weft_status weft_duty_set_share(weft_duty* duty, float share, weft_error* error) {
  return guard(error, [&] {
    require(duty, "duty", "it is NULL");
    check_share(share);
    duty->limit->set_share(share);
  });
}

double weft_duty_busy_seconds(const weft_duty* duty) {
  return duty ? std::chrono::duration<double>(duty->limit->busy()).count() : 0;
}

weft_status weft_session_use_duty(weft_session* session, weft_duty* duty, weft_error* error) {
  return guard(error, [&] {
    require(session, "session", "it is NULL");
    const InUse use(session);
    session->session.duty().keep_to(duty ? duty->limit : nullptr);
  });
}

weft_status weft_session_set_pause_callback(weft_session* session, weft_pause_callback callback, void* user,
                                            weft_error* error) {
  return guard(error, [&] {
    require(session, "session", "it is NULL");
    const InUse use(session);
    Duty::OnPause on_pause;
    if (callback)
      on_pause = [=](double seconds) {
        if (callback(user, seconds) != 0) session->session.cancel();
      };
    session->session.duty().set_on_pause(std::move(on_pause));
  });
}
