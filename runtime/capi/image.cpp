// The C API: pictures.
#include "weft/image.h"

#include <algorithm>

#include "capi/pictures.h"
#include "capi/soft.h"
#include "run/image_encoder.h"

using namespace weft;
using namespace weft::capi;

namespace {

constexpr const char *kImage = "<image>", *kGemmaBegin = "<start_of_image>", *kGemmaEnd = "<end_of_image>";
constexpr const char *kQwenBegin = "<|vision_start|>", *kQwenRow = "<|image_pad|>";
constexpr uint32_t kRow = SOFT_ID;  // stands for a row among a picture's ids

// The id of a text that is one control token.
uint32_t image_token(const Tokenizer& tokenizer, const char* text) {
  const std::vector<uint32_t> ids = tokenizer.encode(text, Special::parse);
  if (ids.size() != 1 || !tokenizer.is_control(ids[0]))
    throw Error(Code::invalid_argument, "the vocabulary has no token '" + std::string(text) + "'", "model",
                "load the text model that belongs to the encoder");
  return ids[0];
}

// Not more of a large file than its size is read; and one that is cut meanwhile ends no program.
std::vector<std::byte> read_picture(const char* path) {
  const MappedFile file(path);
  std::vector<std::byte> bytes(std::min<uint64_t>(file.bytes().size(), PictureLimits().bytes + 1));
  file.read(file.bytes().first(bytes.size()), bytes);
  return bytes;
}

}  // namespace

struct weft_image_encoder : DeviceUser {
  weft_image_encoder(const weft_model* of, std::filesystem::path from) : DeviceUser(of), path(std::move(from)) {
    enter_device();
  }
  void leave_device() override {
    encoder.reset();
    images.reset();
  }
  void enter_device() override {
    const Model& text = model->model;
    const ModelFile file = open_image_model(path);
    const ImageConfig config = read_image_config(file);
    const bool pooled = config.kind == ImageKind::pooled, merged = config.kind == ImageKind::merged;
    token = image_token(model->tokenizer, merged ? kQwenRow : pooled ? kGemmaBegin : kImage);
    if (pooled) image_token(model->tokenizer, kGemmaEnd);
    if (merged && (text.config.grid_token != image_token(model->tokenizer, kQwenBegin) ||
                   text.config.deepstack != config.deepstack.size()))
      throw Error(Code::invalid_argument, "the model's pictures are not this encoder's", path.string(),
                  "give the encoder that belongs to the model");
    if (config.text_width != text.config.width)
      throw Error(Code::invalid_argument,
                  "the encoder's rows have " + std::to_string(config.text_width) + " numbers, the model's " +
                      std::to_string(text.config.width),
                  path.string(), "give the encoder that belongs to the model");
    images = load_image_model(text.device, file, model->loaded_from.formats);
    encoder.emplace(*images, duty.get());
  }
  ImageEncoder& on_device() {
    need_weights(*model);
    if (!encoder)
      throw Error(Code::device_lost, "the device was lost", "image encoder", "weft_model_recover opens it again");
    return *encoder;
  }

  std::filesystem::path path;
  uint32_t token = 0;  // that a chat template writes
  std::unique_ptr<const ImageModel> images;
  UncancelledDuty duty;
  std::optional<ImageEncoder> encoder;
};

// The ids of a picture in a prompt. Gemma 3's were trained with tokens of their own before and after the rows, whatever
// text is beside them.
static std::vector<uint32_t> picture_ids(const weft_image_encoder& encoder, const Tiles& tiles) {
  const Tokenizer& tokenizer = encoder.model->tokenizer;
  const ImageConfig& config = encoder.images->config;
  if (config.kind == ImageKind::joined) {
    std::vector<uint32_t> ids = tokenizer.encode(picture_text(tiles, config.rows_per_tile()), Special::parse);
    std::ranges::replace(ids, encoder.token, kRow);
    return ids;
  }
  std::vector<uint32_t> ids = tokenizer.encode(std::string("\n\n") + kGemmaBegin, Special::parse);
  ids.insert(ids.end(), config.rows_per_tile(), kRow);
  const std::vector<uint32_t> end = tokenizer.encode(kGemmaEnd + std::string("\n\n"), Special::parse);
  ids.insert(ids.end(), end.begin(), end.end());
  return ids;
}

// The text around the tiles, and the rows.
static void make_parts(EncodedPicture& image, uint32_t width) {
  size_t row = 0;
  for (size_t begin = 0, end = 0; begin < image.ids.size(); begin = end) {
    const bool soft = image.ids[begin] == kRow;
    while (end < image.ids.size() && (image.ids[end] == kRow) == soft) ++end;
    if (soft)
      image.parts.push_back({nullptr, image.rows.data() + row * width, end - begin});
    else
      image.parts.push_back({image.ids.data() + begin, nullptr, end - begin});
    if (soft) row += end - begin;
  }
}

static std::unique_ptr<weft_image> encode(weft_image_encoder& encoder, std::span<const std::byte> file,
                                          const std::string& place) {
  ImageEncoder& on_device = encoder.on_device();
  const ImageConfig& config = encoder.images->config;
  const Tiles tiles = split_picture(decode_picture(file, place), config.pictures);
  auto image = std::make_shared<EncodedPicture>();
  image->width = config.text_width;
  image->merged = config.kind == ImageKind::merged;
  image->token = encoder.token;
  if (config.kind != ImageKind::merged) image->ids = picture_ids(encoder, tiles);
  for (const Picture& picture : tiles.pictures) {
    EncodedTile tile = on_device.encode(picture);
    image->rows.insert(image->rows.end(), tile.rows.begin(), tile.rows.end());
    if (config.kind != ImageKind::merged) continue;
    image->grid = {tile.height, tile.width};
    image->deepstack = std::move(tile.deepstack);
    image->ids.assign(size_t{tile.height} * tile.width, kRow);  // the template writes what is around them
  }
  make_parts(*image, config.text_width);
  return std::make_unique<weft_image>(weft_image{std::move(image)});
}

weft_status weft_image_encoder_create(const weft_model* model, const char* path, weft_image_encoder** encoder,
                                      weft_error* error) {
  return guard(error, [&] {
    require(model && path && encoder, "model, path or encoder", "it is NULL");
    const auto lock = lock_users(*model);
    need_weights(*model);
    *encoder = new weft_image_encoder(model, std::filesystem::absolute(path));
  });
}

void weft_image_encoder_free(weft_image_encoder* encoder) { destroy(encoder); }

weft_status weft_image_encoder_use_duty(weft_image_encoder* encoder, weft_duty* duty, weft_error* error) {
  return guard(error, [&] {
    require(encoder, "encoder", "it is NULL");
    const InUse use(encoder, "image encoder");
    encoder->duty.use(duty);
  });
}

uint32_t weft_image_encoder_token(const weft_image_encoder* encoder) { return encoder->token; }

weft_status weft_image_encode_file(weft_image_encoder* encoder, const char* path, weft_image** image,
                                   weft_error* error) {
  return guard(error, [&] {
    require(encoder && path && image, "encoder, path or image", "it is NULL");
    const InUse use(encoder, "image encoder");
    *image = encode(*encoder, read_picture(path), path).release();
  });
}

weft_status weft_image_encode_memory(weft_image_encoder* encoder, const void* bytes, size_t length, weft_image** image,
                                     weft_error* error) {
  return guard(error, [&] {
    require(encoder && (bytes || length == 0) && image, "encoder, bytes or image", "it is NULL");
    const InUse use(encoder, "image encoder");
    const std::span file(static_cast<const std::byte*>(bytes), length);
    *image = encode(*encoder, file, std::to_string(length) + " bytes of memory").release();
  });
}

void weft_image_free(weft_image* image) { delete image; }

weft_status weft_image_parts(const weft_image* image, weft_prompt_part* parts, size_t capacity, size_t* count,
                             size_t* tokens, weft_error* error) {
  return guard(error, [&] {
    require(image && (parts || capacity == 0) && count, "image, parts or count", "it is NULL");
    const EncodedPicture& picture = *image->picture;
    std::copy_n(picture.parts.begin(), std::min(capacity, picture.parts.size()), parts);
    *count = picture.parts.size();
    if (tokens) *tokens = picture.ids.size();
  });
}

Pictures capi::pictures_of(const weft_image* const* images, size_t count) {
  Pictures pictures;
  for (const weft_image* image : std::span(images, count)) {
    require(image, "images", "one is NULL");
    pictures.push_back(image->picture);
  }
  return pictures;
}

void capi::prompt_pictures(weft_session& session, std::span<const weft_prompt_part> parts, const Pictures& pictures) {
  const Config& config = session.session.model().config;
  for (const auto& picture : pictures)
    if (picture->width != config.width || picture->merged != config.grid_token.has_value())
      throw Error(Code::unsupported, "one was encoded for another model", "images",
                  "use the encoder of the session's model");
  std::vector<PromptPart> list = prompt_parts_of(session, parts);
  for (const auto& picture : pictures) {
    if (!picture->merged) continue;
    for (PromptPart& part : list) {
      if (part.rows.data() != picture->rows.data()) continue;
      require(part.rows.size() == picture->rows.size(), "parts", "one has some of an image's rows");
      part.grid = picture->grid;
      part.deepstack = picture->deepstack;
    }
  }
  with_recovery(session, [&] { session.session.prompt_parts(list); });
  session.begin_answer();
}

void capi::prompt_pictures(weft_session& session, std::span<const uint32_t> ids, const Pictures& pictures) {
  std::vector<weft_prompt_part> parts;
  size_t begin = 0, used = 0;
  const auto add_ids = [&](size_t end) {
    if (end > begin) parts.push_back({ids.data() + begin, nullptr, end - begin});
    begin = end + 1;
  };
  const uint32_t token = pictures.empty() ? kRow : pictures[0]->token;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != token) continue;
    add_ids(i);
    if (used < pictures.size()) parts.insert(parts.end(), pictures[used]->parts.begin(), pictures[used]->parts.end());
    ++used;
  }
  add_ids(ids.size());
  if (used != pictures.size())
    throw Error(Code::invalid_argument,
                "the prompt has " + std::to_string(used) + " places for pictures, there are " +
                    std::to_string(pictures.size()) + " pictures",
                "images");
  prompt_pictures(session, parts, pictures);
}

weft_status weft_session_prompt_images(weft_session* session, const weft_prompt_part* parts, size_t count,
                                       const weft_image* const* images, size_t image_count, weft_error* error) {
  return guard(error, [&] {
    require(session && (parts || count == 0) && (images || image_count == 0), "session, parts or images", "it is NULL");
    const InUse use(session);
    prompt_pictures(*session, std::span(parts, count), pictures_of(images, image_count));
  });
}
