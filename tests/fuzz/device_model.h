// A tiny model on the device that VK_DRIVER_FILES names, for targets that need one.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "memory_file.h"
#include "support/model_maker.h"
#include "weft/weft.h"

namespace weft::test {

constexpr uint32_t kFuzzContext = 24;  // tokens

// hybrid: a layer with a Gated DeltaNet's state, then one that attends.
inline std::filesystem::path make_device_model(bool hybrid = false) {
  const std::filesystem::path path = scratch_folder() / (hybrid ? "hybrid.gguf" : "device.gguf");
  LlamaShape shape;
  shape.width = 32;
  shape.layers = 1;
  shape.heads = shape.kv_heads = 1;
  shape.ffn = 32;
  shape.vocab = 300;
  shape.context = 64;
  if (hybrid) {
    shape.layers = 2;
    shape.linear = {.architecture = "qwen35",
                    .key_heads = 1,
                    .heads = 1,
                    .key_dim = 16,
                    .value_dim = 16,
                    .attend_every = 2,
                    .first_attends = 1};
  }
  make_gguf(path, shape,
            {.type = DType::q8_0, .chat_template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"});
  return path;
}

// Ends the program if there is no device.
inline weft_model* load_device_model(const std::filesystem::path& path) {
  setenv("WEFT_CACHE_DIR", scratch_folder().c_str(), 1);
  weft_model* model = nullptr;
  weft_error error = {};
  if (weft_model_load(path.c_str(), nullptr, &model, &error) != WEFT_OK) {
    std::fprintf(stderr, "no model: %s\n", error.sentence);
    std::exit(1);
  }
  return model;
}

}  // namespace weft::test
