#include "base/wanted.h"

#include "base/error.h"

namespace weft {
namespace {

struct Asked {
  int (*wanted)(void* user) = nullptr;
  void* user = nullptr;
};
thread_local Asked asked;

}  // namespace

void set_wanted(int (*wanted)(void* user), void* user) { asked = {wanted, user}; }

void check_wanted() {
  if (asked.wanted && asked.wanted(asked.user) == 0)
    throw Error(Code::cancelled, "the result is not wanted any more", "weft_set_wanted");
}

}  // namespace weft
