// The machine that runs the programs of fuzz_capi.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/batch.h"
#include "weft/estimates.h"
#include "weft/geometry.h"
#include "weft/lens.h"
#include "weft/probe.h"
#include "weft/profile.h"
#include "weft/recover.h"
#include "weft/soft.h"
#include "weft/speculate.h"
#include "weft/text.h"
#include "weft/weft.h"

namespace weft::test {

// The arguments of calls; zeros after the last byte.
class Program {
 public:
  explicit Program(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  bool ended() const { return bytes_.empty(); }
  uint8_t byte();
  bool rarely() { return byte() >= 240; }  // one time in sixteen
  uint32_t number();                       // small ones, and some of all sizes
  float real();                            // small ones, and all bits
  uint32_t id();                           // mostly of the vocabulary
  std::vector<uint32_t> ids();             // few
  std::string text();                      // up to a byte zero
  // One of several texts, or one of the program's own.
  std::string text(std::initializer_list<const char*> known);
  // An enumeration's value, or one that it does not have, as a C caller passes it.
  template <class Enum>
  Enum choice(uint8_t count) {
    const uint8_t value = byte();
    const int chosen = value >= 240 ? value : value % count;
    Enum result;
    static_assert(sizeof result == sizeof chosen);
    __builtin_memcpy(&result, &chosen, sizeof result);
    return result;
  }

 private:
  std::span<const uint8_t> bytes_;
};

class Machine {
 public:
  explicit Machine(std::span<const uint8_t> program) : program_(program) {}
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  void run();

 private:
  struct Slot {
    weft_session* session = nullptr;
    bool in_batch = false;
  };

  void step();
  // Groups of calls; each makes one call of its group.
  void call_model();
  void call_text();
  void call_lists();
  void call_session();
  void call_settings();
  void call_generate();
  void call_batch();
  void call_results();
  void call_files();
  void call_insights();
  void call_tables();
  // Calls that must be refused while a session generates, and calm ones.
  int within_callback(weft_session* session);

  void create(Slot& slot);
  void free(Slot& slot);
  void leave_batch();
  weft_generate_options options(weft_session* session);
  const weft_request* request();  // a new one each time; some are wrong
  static int on_token(void* user, uint32_t id, const char* text, size_t length);
  static int on_prompt(void* user, uint32_t done, uint32_t all);
  static int on_reasoning(void* user, const char* text, size_t length);
  static int on_row(void* user, const weft_lens_row* row);

  // Ends the process unless it is a documented status with an error to it.
  weft_status check(weft_status status);
  weft_error* error();  // NULL sometimes
  Slot& slot() { return slots_[program_.byte() % slots_.size()]; }
  weft_session* session() { return program_.rarely() ? nullptr : slot().session; }
  weft_model* model() { return program_.rarely() ? nullptr : model_; }
  float* room(size_t floats);

  Program program_;
  weft_model* model_ = nullptr;  // all programs have it
  weft_model* own_ = nullptr;    // which this program has loaded
  std::array<Slot, 3> slots_;
  weft_batch* batch_ = nullptr;
  weft_session* generating_ = nullptr;
  // Storage of request(), until the next one.
  struct {
    weft_request request;
    weft_sampling sampling;
    std::string head, grammar, stop;
    const char* stops[2];
    std::vector<uint32_t> ids;
    std::vector<float> biases;
  } wanted_ = {};
  weft_error error_ = {};
  bool has_error_ = false;
  std::vector<float> floats_;
  std::vector<uint32_t> ids_ = std::vector<uint32_t>(512);
};

}  // namespace weft::test
