// Pictures in prompts in C++: a thin, header-only face over image.h, as weft.hpp is over weft.h.
#ifndef WEFT_IMAGE_HPP
#define WEFT_IMAGE_HPP

#include <weft/image.h>

#include <memory>
#include <string>
#include <vector>
#include <weft/weft.hpp>

namespace weft::api {

// An encoded picture; see weft_image.
class Image {
 public:
  explicit Image(weft_image* image) : handle_(image, weft_image_free) {}  // takes it

  // The parts of a prompt that stand for it; see weft_image_parts. The pointers belong to the image.
  std::vector<weft_prompt_part> parts() const {
    std::vector<weft_prompt_part> result;
    std::size_t count = 0;
    const auto read = [&](weft_error* error) {
      return weft_image_parts(get(), result.data(), result.size(), &count, nullptr, error);
    };
    detail::check(read);  // how many there are
    result.resize(count);
    detail::check(read);
    return result;
  }

  // Tokens of a prompt that it takes.
  std::size_t tokens() const {
    std::size_t count = 0, all = 0;
    detail::check([&](weft_error* error) { return weft_image_parts(get(), nullptr, 0, &count, &all, error); });
    return all;
  }

  // The C handle, which this object and its copies own.
  const weft_image* get() const noexcept { return handle_.get(); }

 private:
  std::shared_ptr<weft_image> handle_;
};

// See weft_image_encoder. May be used by one thread at a time.
class ImageEncoder {
 public:
  ImageEncoder(const Model& model, const std::string& path) {
    weft_image_encoder* encoder = nullptr;
    detail::check(
        [&](weft_error* error) { return weft_image_encoder_create(model.get(), path.c_str(), &encoder, error); });
    handle_.reset(encoder);
  }

  // See weft_image_encoder_use_duty.
  void use_duty(const Duty& duty) {
    detail::check([&](weft_error* error) { return weft_image_encoder_use_duty(get(), duty.get(), error); });
  }
  void use_duty(std::nullptr_t) {  // no longer
    detail::check([&](weft_error* error) { return weft_image_encoder_use_duty(get(), nullptr, error); });
  }

  // The id of the token where a picture belongs; see weft_image_encoder_token.
  std::uint32_t token() const noexcept { return weft_image_encoder_token(get()); }

  // Encodes a file; see weft_image_encode_file.
  Image encode(const std::string& path) {
    weft_image* image = nullptr;
    detail::check([&](weft_error* error) { return weft_image_encode_file(get(), path.c_str(), &image, error); });
    return Image(image);
  }

  // Encodes the bytes of a file; see weft_image_encode_memory.
  Image encode(const void* bytes, std::size_t length) {
    weft_image* image = nullptr;
    detail::check([&](weft_error* error) { return weft_image_encode_memory(get(), bytes, length, &image, error); });
    return Image(image);
  }

  // The C handle, which this object owns.
  weft_image_encoder* get() const noexcept { return handle_.get(); }

 private:
  struct Free {
    void operator()(weft_image_encoder* encoder) const noexcept { weft_image_encoder_free(encoder); }
  };
  std::unique_ptr<weft_image_encoder, Free> handle_;
};

// Makes the session's context exactly these parts, of which some are the images'; see weft_session_prompt_images.
inline void prompt_images(Session& session, const std::vector<weft_prompt_part>& parts,
                          const std::vector<Image>& images) {
  std::vector<const weft_image*> handles;
  for (const Image& image : images) handles.push_back(image.get());
  detail::check([&](weft_error* error) {
    return weft_session_prompt_images(session.get(), parts.data(), parts.size(), handles.data(), handles.size(), error);
  });
}

// Makes the session's context exactly these ids, with a picture in place of each `token`, in order; see
// weft_session_prompt_images. Throws Failure(WEFT_INVALID_ARGUMENT) if there are not as many pictures as such ids.
inline void prompt(Session& session, const std::vector<std::uint32_t>& ids, std::uint32_t token,
                   const std::vector<Image>& images) {
  std::vector<weft_prompt_part> parts;
  std::size_t begin = 0, used = 0;
  for (std::size_t i = 0; i <= ids.size(); ++i) {
    if (i < ids.size() && ids[i] != token) continue;
    if (i > begin) parts.push_back({ids.data() + begin, nullptr, i - begin});
    begin = i + 1;
    if (i == ids.size() || used++ >= images.size()) continue;
    const std::vector<weft_prompt_part> own = images[used - 1].parts();
    parts.insert(parts.end(), own.begin(), own.end());
  }
  if (used != images.size())
    throw Failure(WEFT_INVALID_ARGUMENT, "the prompt has " + std::to_string(used) + " places for pictures, there are " +
                                             std::to_string(images.size()) + " pictures");
  prompt_images(session, parts, images);
}

}  // namespace weft::api

#endif
