// Sequences of calls of the C API. Input: a program, whose bytes are calls and their arguments, wrong ones included.
// Calls that the headers leave undefined are not made: freed handles, lengths that are not those of the memory, a
// second thread.
#include "capi_machine.h"
#include "fuzz_support.h"

void weft::fuzz_input(const uint8_t* data, size_t size) {
  test::Machine machine(std::span(data, size));
  machine.run();
}
