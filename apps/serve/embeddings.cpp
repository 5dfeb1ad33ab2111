#include "embeddings.h"

#include <bit>

#include "../weft/common.h"
#include "fields.h"

namespace weft::serve {
namespace {

std::string base64_of(const std::string& bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto byte = [&](std::size_t at) {
    return at < bytes.size() ? static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at])) : 0;
  };
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::uint32_t word = byte(at) << 16 | byte(at + 1) << 8 | byte(at + 2);
    for (std::size_t digit = 0; digit < 4; ++digit)
      text += at + digit <= bytes.size() ? kDigits[word >> (18 - 6 * digit) & 63] : '=';
  }
  return text;
}

// Little-endian.
std::string bytes_of_floats(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values)
    for (int shift = 0; shift < 32; shift += 8)
      bytes += static_cast<char>(std::bit_cast<std::uint32_t>(value) >> shift & 255);
  return bytes;
}

// prompt_name empty: the model's default prompt.
std::string prompt_of(const std::string& prompt_name, const api::Model& model) {
  try {
    return model.prompt(prompt_name);
  } catch (const api::Failure& failure) {
    if (failure.status() != WEFT_NOT_FOUND) throw;
    throw bad_field("prompt_name", failure.sentence() + ": " + failure.hint() + ".");
  }
}

// prompt: before a text; ids have theirs.
std::vector<std::uint32_t> ids_of_input(const Json& input, const std::string& field, const ModelFacts& facts,
                                        const std::string& prompt, const api::Model& model) {
  std::vector<std::uint32_t> ids;
  if (input.is_string()) {
    ids = model.tokenize(prompt + text_of(input, field), true);
  } else if (input.is_array() && !input.empty() && input.front().is_number()) {
    ids = ids_of(input, field, facts.vocab_size);
  } else {
    throw bad_field(field, field + " must be a string or an array of token ids.", "invalid_type");
  }
  if (ids.empty()) throw bad_field(field, "The input has no token.");
  return ids;
}

}  // namespace

std::vector<float> Embedder::Place::embed(const std::vector<std::uint32_t>& ids, std::uint32_t dimensions) {
  return place_.run(embedder_.model_, [&] {
    embedder_.encoder_.run(ids);
    return embedder_.encoder_.embedding(WEFT_POOL_MODEL, dimensions);
  });
}

EmbeddingRequest parse_embeddings(const std::string& body, const ModelFacts& facts, const api::Model& model) {
  const Json json = parse_body(body);
  Fields fields(json, "");
  fields.text("model");  // as in chats
  EmbeddingRequest request;
  const std::string prompt = prompt_of(fields.text("prompt_name").value_or(""), model);
  const Json& input = fields.need("input");
  const bool several = input.is_array() && !input.empty() && !input.front().is_number();
  if (several && input.size() > kMostInputs)
    throw bad_field("input", cli::format("input has %zu inputs, at most %zu are allowed.", input.size(), kMostInputs));
  for (std::size_t i = 0; i < (several ? input.size() : 1); ++i) {
    request.fields.push_back(several ? cli::format("input[%zu]", i) : "input");
    request.inputs.push_back(ids_of_input(several ? input[i] : input, request.fields.back(), facts, prompt, model));
  }
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64")
    throw bad_field("encoding_format", "encoding_format must be float or base64.");
  request.base64 = format == "base64";
  request.dimensions = static_cast<std::uint32_t>(fields.whole("dimensions", 1, facts.width).value_or(0));
  fields.text("user");
  fields.refuse_rest();
  return request;
}

Json embedding_json(std::size_t index, const std::vector<float>& embedding, bool base64) {
  Json item = {{"object", "embedding"}, {"index", index}, {"embedding", embedding}};
  if (base64) item["embedding"] = base64_of(bytes_of_floats(embedding));
  return item;
}

}  // namespace weft::serve
