// Saved sessions, for a model that attends and for one whose first layer has a state. Input: the parts from which
// session_seal.h makes a file, or a whole file.
#include "device_model.h"
#include "fuzz_support.h"
#include "session_seal.h"
#include "support/capi_options.h"
#include "weft/descriptor.h"

namespace {

using Ids = std::vector<uint32_t>;

Ids ids_of(const weft_session* session) {
  Ids ids(weft::test::kFuzzContext);
  size_t count = 0;
  if (weft_session_get_ids(session, ids.data(), ids.size(), &count, nullptr) != WEFT_OK) std::abort();
  if (count > ids.size()) std::abort();
  ids.resize(count);
  return ids;
}

std::string saved(const weft_session* session) {
  const weft::test::MemoryFile file;
  if (weft_session_save_fd(session, file.descriptor(), "a note", nullptr) != WEFT_OK) std::abort();
  return file.content();
}

weft_status restore(weft_session* session, const std::string& bytes) {
  const weft::test::MemoryFile file(bytes);
  char* note = nullptr;
  weft_error error = {};
  const weft_status status = weft_session_restore_fd(session, file.descriptor(), &note, &error);
  if ((status == WEFT_OK) != (note != nullptr)) std::abort();
  weft_string_free(note);
  if (status != WEFT_OK && (error.code != status || !error.sentence[0])) std::abort();
  return status;
}

struct Target {
  explicit Target(bool hybrid) : model(weft::test::load_device_model(weft::test::make_device_model(hybrid))) {
    const weft_session_options options = weft::test::session_options(weft::test::kFuzzContext);
    if (weft_session_create(model, &options, &session, nullptr) != WEFT_OK) std::abort();
    start();
    initial = saved(session);
    rest = weft::test::unseal_session(initial).second.size();
  }
  // A known context.
  void start() {
    const Ids prompt = {5, 9, 2, 7};
    weft_session_reset(session);
    if (weft_session_prompt(session, prompt.data(), prompt.size(), nullptr) != WEFT_OK) std::abort();
    if (weft_session_logits(session, logits, std::size(logits), nullptr) != WEFT_OK) std::abort();
  }
  weft_model* model;
  weft_session* session = nullptr;
  std::string initial;
  size_t rest = 0;
  float logits[300];
};

void run(Target& target, std::string_view header, std::string_view rest, std::string_view whole) {
  const std::string file = whole.starts_with(weft::test::kSessionMagic)
                               ? std::string(whole)
                               : weft::test::seal_session(header, rest, target.rest);
  if (restore(target.session, file) == WEFT_OK) {
    const std::string first = saved(target.session);
    if (restore(target.session, first) != WEFT_OK || saved(target.session) != first) std::abort();
    weft_generate_options options = weft::test::generate_options(2);
    weft_error error = {};
    const weft_status status = weft_session_generate(target.session, &options, nullptr, &error);
    // A cache may hold anything that is no number.
    const bool no_number =
        status == WEFT_INTERNAL && std::string_view(error.sentence).find("finite") != std::string_view::npos;
    if (status != WEFT_OK && !no_number) std::abort();
    if (restore(target.session, target.initial) != WEFT_OK) std::abort();
  } else if (ids_of(target.session) != Ids{5, 9, 2, 7}) {
    std::abort();  // what could not be restored changed the session
  }
}

}  // namespace

void weft::fuzz_input(const uint8_t* data, size_t size) {
  static Target attends(false), hybrid(true);
  const auto [header, rest] = at_zero(data, size);
  for (Target* const target : {&attends, &hybrid})
    run(*target, header, rest, {reinterpret_cast<const char*>(data), size});
}
