// The JSON reader, and the index of shards on what it reads.
#include "format/json.h"

#include "format/model_file.h"
#include "fuzz_support.h"
#include "support/json_value.h"

void weft::fuzz_input(const uint8_t* data, size_t size) {
  weft::expect_answer_or_error([&] {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto document = weft::parse_json(text, "fuzz.json");
    const nlohmann::json strict = nlohmann::json::parse(text, nullptr, false);
    const bool python = text.find("NaN") != text.npos || text.find("Infinity") != text.npos;
    if (strict.is_discarded() ? !python : strict != nlohmann::json(document))
      std::abort();  // the limits change nothing in what is read
    static_cast<void>(document.dump());
    weft::parse_shard_index(document, "fuzz.json");
  });
}
