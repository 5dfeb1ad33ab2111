// Pictures of a request: files in data URLs, and what stands for them in a prompt.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include <weft/image.hpp>

#include "protocol.h"

namespace weft::serve {

// The bytes of a PNG or JPEG file in a URL such as "data:image/png;base64,...". field: the request's name of it. Throws
// RequestError for every other URL: the server fetches nothing.
std::string read_data_url(const std::string& url, const std::string& field);

// Makes the context these ids; those of soft tokens, in order, are the images' rows.
void set_prompt(api::Session& session, const std::vector<std::uint32_t>& ids, const std::vector<api::Image>& images);

// The encoder of a model's pictures, which is loaded for the first one.
class Pictures {
 public:
  // path: the encoder's file or folder. duty: nullptr: none. The model and the duty outlive it.
  Pictures(const api::Model& model, std::string path, const api::Duty* duty)
      : model_(model), path_(std::move(path)), duty_(duty) {}

  // Encodes the request's pictures and puts them in their places of its prompt, of which fewer than `context` tokens
  // may come. check_wanted: called before each picture; throws if nobody waits for it. Throws RequestError.
  void place(CompletionRequest& request, std::size_t context, const std::function<void()>& check_wanted);

 private:
  const api::Model& model_;
  const std::string path_;
  const api::Duty* const duty_;
  std::mutex mutex_;  // of the encoder
  std::optional<api::ImageEncoder> encoder_;
};

}  // namespace weft::serve
