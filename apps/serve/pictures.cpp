#include "pictures.h"

#include <algorithm>
#include <array>

#include "../weft/common.h"

namespace weft::serve {
namespace {

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Nothing if the text is no base64.
std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  std::array<int8_t, 256> values;
  values.fill(-1);
  for (std::size_t i = 0; i < kLetters.size(); ++i)
    values[static_cast<unsigned char>(kLetters[i])] = static_cast<int8_t>(i);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0, count = 0;
  for (const char letter : text) {
    const int value = values[static_cast<unsigned char>(letter)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

}  // namespace

std::string read_data_url(const std::string& url, const std::string& field) {
  constexpr std::string_view kBegin = "data:image/", kCode = ";base64,";
  const std::size_t code = url.substr(0, 64).find(kCode);
  if (!url.starts_with(kBegin) || code == url.npos)
    throw bad_field(field,
                    "A picture must be a URL that holds it: data:image/png;base64,... or data:image/jpeg;base64,...",
                    "unsupported_parameter");
  std::optional<std::string> bytes = decode_base64(std::string_view(url).substr(code + kCode.size()));
  if (!bytes) throw bad_field(field, "The picture's URL is no base64.");
  return std::move(*bytes);
}

void set_prompt(api::Session& session, const std::vector<std::uint32_t>& ids, const std::vector<api::Image>& images) {
  if (images.empty()) return session.prompt(ids);
  std::vector<weft_prompt_part> rows, parts;
  for (const api::Image& image : images)
    for (const weft_prompt_part& part : image.parts())
      if (part.rows) rows.push_back(part);
  std::size_t next = 0;
  for (std::size_t i = 0; i < ids.size();) {
    if (ids[i] >= WEFT_SOFT_TOKEN) {
      parts.push_back(rows.at(next++));
      i += parts.back().count;
      continue;
    }
    const std::size_t begin = i;
    while (i < ids.size() && ids[i] < WEFT_SOFT_TOKEN) ++i;
    parts.push_back({&ids[begin], nullptr, i - begin});
  }
  api::prompt_images(session, parts, images);
}

void Pictures::place(CompletionRequest& request, std::size_t context, const std::function<void()>& check_wanted) {
  const std::lock_guard lock(mutex_);
  try {
    if (!encoder_) {
      encoder_.emplace(model_, path_);
      if (duty_) encoder_->use_duty(*duty_);
    }
  } catch (const api::Failure& error) {
    if (error.status() != WEFT_UNSUPPORTED && error.status() != WEFT_INVALID_ARGUMENT &&
        error.status() != WEFT_NOT_FOUND)
      throw;
    throw bad_field("messages", "The model sees no pictures: " + error.sentence(), "unsupported");
  }
  std::vector<std::uint32_t>& ids = request.task.prompt;
  const auto places = static_cast<std::size_t>(std::ranges::count(ids, encoder_->token()));
  if (places != request.pictures.size())
    throw bad_field(
        "messages",
        cli::format("The prompt has %zu places for pictures, there are %zu pictures.", places, request.pictures.size()),
        "unsupported");
  std::vector<std::uint32_t> all;
  std::uint32_t soft = WEFT_SOFT_TOKEN;
  for (const std::uint32_t id : ids) {
    if (id != encoder_->token()) {
      all.push_back(id);
      continue;
    }
    check_wanted();
    // Before the next picture is encoded: the rows of all that a request can hold would fill the memory.
    if (all.size() + 1 >= context)
      throw bad_field("messages",
                      cli::format("At most %zu tokens fit, and the prompt's pictures have more.", context - 1),
                      "context_length_exceeded");
    const std::string& file = request.pictures[request.task.images.size()];
    try {
      request.task.images.push_back(encoder_->encode(file.data(), file.size()));
    } catch (const api::Failure& error) {
      if (error.status() != WEFT_BAD_FILE && error.status() != WEFT_UNSUPPORTED) throw;
      throw bad_field("messages", "A picture cannot be read: " + error.sentence(), "unsupported");
    }
    for (const weft_prompt_part& part : request.task.images.back().parts())
      for (std::size_t i = 0; i < part.count; ++i) all.push_back(part.ids ? part.ids[i] : soft++);
  }
  ids = std::move(all);
}

}  // namespace weft::serve
