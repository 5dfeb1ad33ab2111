// The arguments of calls, from the bytes of a program.
#include <cstring>
#include <iterator>

#include "capi_machine.h"

namespace weft::test {

uint8_t Program::byte() {
  if (bytes_.empty()) return 0;
  const uint8_t value = bytes_.front();
  bytes_ = bytes_.subspan(1);
  return value;
}

uint32_t Program::number() {
  const uint8_t first = byte();
  if (first < 224) return first % 32;
  if (first < 240) return first;
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | byte();
  return value;
}

float Program::real() {
  const uint8_t first = byte();
  if (first < 200) return static_cast<float>(first) / 50;
  if (first < 224) return -static_cast<float>(first - 200);
  const uint32_t bits = number();
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

uint32_t Program::id() {
  const uint8_t first = byte();
  return first < 250 ? first + 3u : number();
}

std::vector<uint32_t> Program::ids() {
  const uint8_t first = byte();
  std::vector<uint32_t> list(first < 248 ? first % 12 : first - 200);
  for (uint32_t& one : list) one = id();
  return list;
}

std::string Program::text() {
  std::string out;
  while (!ended() && out.size() < 200) {
    const uint8_t c = byte();
    if (c == 0) break;
    out += static_cast<char>(c);
  }
  return out;
}

std::string Program::text(std::initializer_list<const char*> known) {
  const uint8_t which = byte();
  return which < 224 ? std::data(known)[which % known.size()] : text();
}

}  // namespace weft::test
