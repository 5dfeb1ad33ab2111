// Random texts by a schema: each has to parse and to be valid.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "grammar/matcher.h"

namespace weft::test {

// A schema with nested objects and arrays, ranges, patterns and a format.
extern const char* const kNestedSchema;

// Generates `count` texts of random tokens that the schema allows. stops: the tokens that end a text.
void expect_valid_generations(const char* schema_text, const std::shared_ptr<const TokenTrie>& trie,
                              const std::vector<uint32_t>& stops, int count);

}  // namespace weft::test
