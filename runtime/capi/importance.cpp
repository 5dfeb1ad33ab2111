// The C API's importance matrices.
#include "weft/importance.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "base/file.h"
#include "capi/handles.h"
#include "format/importance.h"
#include "run/squared_inputs.h"

using namespace weft;
using namespace weft::capi;

WEFT_STRUCT(weft_importance_options, user);

static constexpr uint32_t kPartTokens = 512;

// Tokens of a part, at most: a context has room for one more.
static uint32_t most_tokens(const weft_model& model, uint32_t part_tokens) {
  const uint32_t context = model.model.config.context;
  if (context < 3)
    throw Error(Code::unsupported, "its context has " + std::to_string(context) + " tokens, measuring needs 3 or more",
                "model");
  return std::min(part_tokens, context - 1);
}

// Parts of a text, each of `most` tokens (2 or more) with the first token that texts have.
static std::vector<std::vector<uint32_t>> parts_of(const weft_model& model, const char* text, uint32_t most) {
  const Tokenizer& tokenizer = model.tokenizer;
  const std::vector<uint32_t> ids = tokenizer.encode(text, Tokenizer::Special::plain);
  if (ids.empty()) throw Error(Code::invalid_argument, "it has no tokens", "text");
  const bool begins = tokenizer.add_bos() && tokenizer.bos();
  const size_t own = most - (begins ? 1 : 0);
  std::vector<std::vector<uint32_t>> parts;
  for (size_t first = 0; first < ids.size(); first += own) {
    std::vector<uint32_t>& part = parts.emplace_back();
    if (begins) part.push_back(*tokenizer.bos());
    const size_t end = std::min(first + own, ids.size());
    part.insert(part.end(), ids.begin() + static_cast<ptrdiff_t>(first), ids.begin() + static_cast<ptrdiff_t>(end));
  }
  return parts;
}

weft_status weft_measure_importance(const weft_model* model, const char* text, const weft_importance_options* options,
                                    const char* out, uint64_t* tokens, weft_error* error) {
  return guard(error, [&] {
    require(model && text && out, "model, text or out", "it is NULL");
    const weft_importance_options chosen = read_struct(options);
    const uint32_t part_tokens = chosen.part_tokens == 0 ? kPartTokens : chosen.part_tokens;
    require(part_tokens >= 2, "part_tokens", "it is 1, a part has 2 tokens or more");
    std::error_code ignored;
    if (!chosen.replace && std::filesystem::exists(std::filesystem::symlink_status(out, ignored)))
      throw Error(Code::invalid_argument, "the file is there already", out,
                  "choose another name, or ask for it to be replaced");
    AtomicFile file(out);  // before measuring, which takes long
    const uint32_t most = most_tokens(*model, part_tokens);
    const std::vector<std::vector<uint32_t>> parts = parts_of(*model, text, most);
    const std::vector<std::span<const uint32_t>> spans(parts.begin(), parts.end());
    const auto progress = [&](float done) {
      if (chosen.progress && chosen.progress(chosen.user, std::clamp(done, 0.0f, 1.0f)) != 0)
        throw Error(Code::cancelled, "measuring was given up", out);
    };
    const std::vector<SquaredInputs> inputs =
        with_weights(*model, [&] { return squared_inputs(model->model, model->loaded_from.file(), spans, progress); });
    if (inputs.empty()) throw Error(Code::unsupported, "it has no products that are measured", "model");
    const std::string bytes =
        importance_file(inputs, chosen.name ? chosen.name : "text", static_cast<uint32_t>(parts.size()), most);
    file.write(std::as_bytes(std::span(bytes)));
    file.commit();
    if (tokens) *tokens = inputs.front().tokens;
  });
}
