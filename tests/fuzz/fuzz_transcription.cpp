// Recordings, and the forms in which `weft serve` gets them. Input: 'r' and a sound file, or 'f', a Content-Type, a
// zero byte and a body.
#include <cmath>
#include <string>

#include "../weft/recording.h"
#include "fields.h"
#include "fuzz_support.h"
#include "transcriptions.h"
#include "weft/weft.hpp"

namespace {

constexpr uint32_t kLongest = 60;  // seconds; longer ones only take longer

void read_recording(const std::string& bytes) {
  try {
    weft::cli::RecordingFile file(bytes, "fuzz.wav", kLongest);
    if (file.rate() < 1000 || file.rate() > 768000) std::abort();
    for (const auto* samples = &file.next(); !samples->empty(); samples = &file.next())
      for (const float sample : *samples)
        if (!std::isfinite(sample)) std::abort();
    if (!(file.seconds() > 0 && file.seconds() < kLongest + 1)) std::abort();
  } catch (const weft::api::Failure& failure) {
    if (failure.sentence().empty() || failure.place() != "fuzz.wav") std::abort();
  }
}

void read_form(const std::string& type, const std::string& body) {
  using namespace weft::serve;
  try {
    const std::vector<FormPart> parts = parse_form(type, body);
    for (const FormPart& part : parts)
      if (!part.content.empty() &&
          (part.content.data() < body.data() || part.content.data() + part.content.size() > body.data() + body.size()))
        std::abort();
    const TranscriptionRequest request = parse_transcription(parts, body.size() % 2 == 0);
    if (request.file.empty()) std::abort();
    read_recording(request.file);
  } catch (const RequestError& error) {
    const std::string text = bytes_of(error.json());
    if (error.status() < 400 || error.status() > 499 || !Json::accept(text)) std::abort();
  }
}

}  // namespace

void weft::fuzz_input(const uint8_t* data, size_t size) {
  if (size == 0) return;
  if (data[0] == 'r') read_recording(std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  if (data[0] != 'f') return;
  const auto [type, body] = at_zero(data + 1, size - 1);
  read_form(std::string(type), std::string(body));
}
