// The C API: how much of the time the device may be busy with a session.
#include "weft/duty.h"

#include "base/number.h"
#include "capi/handles.h"

using namespace weft;
using namespace weft::capi;

weft_status weft_session_set_duty(weft_session* session, float share, weft_error* error) {
  return guard(error, [&] {
    require(session, "session", "it is NULL");
    if (!(share >= 0 && share <= 1))
      throw Error(Code::invalid_argument, "it is " + number_text(share) + ", expected 0 to 1", "share");
    if (session->session.policy() != Policy::polite)
      throw Error(Code::invalid_argument, "the session has WEFT_POLICY_THROUGHPUT", "duty",
                  "create it with WEFT_POLICY_POLITE");
    session->session.duty().set_share(share);
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
