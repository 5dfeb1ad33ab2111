// Encoded pictures in prompts of the C API.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "capi/handles.h"
#include "session/soft.h"
#include "weft/image.h"

namespace weft::capi {

// A picture as a prompt has it.
struct EncodedPicture {
  uint32_t width;             // of a row
  bool merged;                // of Qwen3-VL
  uint32_t token;             // that a chat template writes in its place
  std::vector<uint32_t> ids;  // of its text, and one that stands for each row
  std::vector<float> rows;
  std::vector<weft_prompt_part> parts;
  PictureGrid grid;              // of the one part of Qwen3-VL; else without tokens
  std::vector<float> deepstack;  // as PromptPart has it
};
using Pictures = std::vector<std::shared_ptr<const EncodedPicture>>;

// The pictures of handles. Throws Error(invalid_argument) if one is NULL.
Pictures pictures_of(const weft_image* const* images, size_t count);

// Makes the session's context these parts, of which some are the pictures'. Throws as weft_session_prompt_images.
void prompt_pictures(weft_session& session, std::span<const weft_prompt_part> parts, const Pictures& pictures);
// The same with a picture in place of each of its tokens among the ids, in order. Throws Error(invalid_argument) if
// there are not as many pictures as such ids.
void prompt_pictures(weft_session& session, std::span<const uint32_t> ids, const Pictures& pictures);

}  // namespace weft::capi

struct weft_image {
  std::shared_ptr<const weft::capi::EncodedPicture> picture;
};
