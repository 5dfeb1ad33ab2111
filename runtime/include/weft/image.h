/* Weft: pictures in prompts, for models of the families Idefics3, SmolVLM, Gemma 3 and Qwen3-VL. Errors, ownership,
 * threads and units are as weft.h documents them.
 * This header may still change. */
#ifndef WEFT_IMAGE_H
#define WEFT_IMAGE_H

#include <weft/duty.h>
#include <weft/soft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An encoder of pictures on a model's device, one thread at a time. It takes memory there beside the model; free it
 * when the pictures are encoded. */
typedef struct weft_image_encoder weft_image_encoder;

/* An encoded picture, in the host's memory. Any number of threads may read it. It stays valid without its encoder. */
typedef struct weft_image weft_image;

/* Loads the encoder of a model's pictures, with the model's type of numbers. path: a Hugging Face folder, which may be
 * the model's own, or a GGUF file of llama.cpp's with the encoder alone ("mmproj"), UTF-8. It returns when all is on
 * the device.
 *
 * WEFT_NOT_FOUND, WEFT_IO, WEFT_BAD_FILE and WEFT_UNSUPPORTED for the files, as weft_model_load;
 * WEFT_INVALID_ARGUMENT if the encoder is another model's: the widths differ, or the vocabulary lacks its token. */
WEFT_API weft_status weft_image_encoder_create(const weft_model* model, const char* path, weft_image_encoder** encoder,
                                               weft_error* error);
WEFT_API void weft_image_encoder_free(weft_image_encoder* encoder); /* NULL: nothing */

/* As weft_encoder_use_duty. */
WEFT_API weft_status weft_image_encoder_use_duty(weft_image_encoder* encoder, weft_duty* duty, weft_error* error);

/* Returns the id of the token that a chat template writes where a picture belongs: "<image>", Gemma 3's
 * "<start_of_image>", or Qwen3-VL's "<|image_pad|>". Replace it by the picture's parts. encoder is not NULL. */
WEFT_API uint32_t weft_image_encoder_token(const weft_image_encoder* encoder);

/* Encodes a PNG or JPEG file, or its bytes in memory: it is resized and cut into tiles as the model's settings demand,
 * and each is encoded on the device. A picture of Qwen3-VL keeps its shape; one side has at most 200 times the other's
 * pixels. Transparent parts are drawn on white; a JPEG is turned as its EXIF orientation
 * says. A file has at most 64 MiB, and a picture at most 16384 pixels a side and 2^25 in all.
 *
 * WEFT_NOT_FOUND and WEFT_IO for a file; WEFT_BAD_FILE if it is damaged; WEFT_UNSUPPORTED for another format and above
 * the limits; WEFT_DEVICE_LOST as weft_encoder_run. */
WEFT_API weft_status weft_image_encode_file(weft_image_encoder* encoder, const char* path, weft_image** image,
                                            weft_error* error);
WEFT_API weft_status weft_image_encode_memory(weft_image_encoder* encoder, const void* bytes, size_t length,
                                              weft_image** image, weft_error* error);
WEFT_API void weft_image_free(weft_image* image); /* NULL: nothing */

/* Returns what stands in a prompt for the picture: ids of the text around its tiles and soft tokens, for
 * weft_session_prompt_images of the encoder's model. Writes at most capacity parts and sets *count to the number there
 * are; parts may be NULL if capacity is 0. The pointers in them belong to the image. tokens: how many tokens they are
 * together; may be NULL. */
WEFT_API weft_status weft_image_parts(const weft_image* image, weft_prompt_part* parts, size_t capacity, size_t* count,
                                      size_t* tokens, weft_error* error);

/* Makes the session's context exactly these parts, as weft_session_prompt_parts, and adds the height, the width and the
 * rows of layers of Qwen3-VL's pictures, which a part cannot hold. images
 * (image_count): the images that parts are of, in any order; such a part has the image's own pointer, and all its rows.
 * For the other families both functions do the same.
 *
 * Errors are those of weft_session_prompt_parts; also WEFT_INVALID_ARGUMENT for a part of an image's rows, and
 * WEFT_UNSUPPORTED for an image of another family or width. */
WEFT_API weft_status weft_session_prompt_images(weft_session* session, const weft_prompt_part* parts, size_t count,
                                                const weft_image* const* images, size_t image_count, weft_error* error);

#ifdef __cplusplus
}
#endif
#endif
