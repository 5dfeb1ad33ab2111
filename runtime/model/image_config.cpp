#include "model/image_config.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json_object.h"
#include "format/huggingface.h"

namespace weft {
namespace {

constexpr uint32_t kMostWidth = 1u << 16, kMostPixels = 1u << 13, kMostPatches = 1u << 14;

[[noreturn]] void unsupported(const std::string& what, const JsonObject& values, const char* hint = "") {
  throw Error(Code::unsupported, what, values.place(), hint);
}

// A number for each of the three colours; those given if the file has none.
std::array<float, 3> read_colours(std::array<float, 3> colours, const JsonObject& values, const std::string& key,
                                  double least) {
  if (!values.has(key)) return colours;
  const JsonValue::Array& array = values.array(key);
  if (array.size() != 3) values.refuse(key, "3 numbers");
  for (size_t i = 0; i < 3; ++i) {
    if (!array[i].is_number() || array[i].get<double>() < least || array[i].get<double>() > 1e6)
      values.refuse(key, "3 numbers of at least " + std::to_string(least), array[i]);
    colours[i] = array[i].get<float>();
  }
  return colours;
}

void read_colours(PictureSettings& pictures, const JsonObject& values, const std::string& prefix) {
  pictures.mean = read_colours(pictures.mean, values, prefix + "image_mean", -1e6);
  pictures.deviation = read_colours(pictures.deviation, values, prefix + "image_std", 1e-6);
}

// Larger pictures than the network's most patches, or than a file may have, become smaller ones.
void set_pixels(ImageConfig& c, const JsonObject& values, uint64_t least, uint64_t most) {
  const uint64_t limit = PictureLimits().pixels, step = uint64_t{c.patch} * c.shuffle;
  if (step * step > limit)
    unsupported("not supported: pictures whose sides are multiples of " + std::to_string(step) + " pixels", values);
  c.pictures.step = static_cast<uint32_t>(step);
  c.pictures.most_pixels = std::min({most, limit, uint64_t{kMostPatches} * c.patch * c.patch});
  c.pictures.least_pixels = std::min(least, c.pictures.most_pixels);
}

// Pixels of a picture where a file does not say it: as Qwen3-VL's preprocessor_config.json.
constexpr uint32_t kLeastPixels = 65536, kMostAll = 16777216;

// ---- GGUF ----

void read_gguf_merged(ImageConfig& c, const JsonObject& values, const std::string& v) {
  c.position_side = c.pictures.tile / c.patch;
  c.shuffle = values.integer(v + "spatial_merge_size", 1, 64, 2);
  set_pixels(c, values, values.integer(v + "image_min_pixels", 1, UINT32_MAX, kLeastPixels),
             values.integer(v + "image_max_pixels", 1, UINT32_MAX, kMostAll));
  const std::string key = v + "is_deepstack_layers";
  if (!values.has(key)) return;
  const JsonValue& layers = values.at(key);
  if (!layers.is_array() || layers.size() != c.network.layers)
    values.refuse(key, std::to_string(c.network.layers) + " flags");
  for (uint32_t layer = 0; layer < c.network.layers; ++layer) {
    if (!layers[layer].is_boolean()) values.refuse(key, std::to_string(c.network.layers) + " flags");
    if (layers[layer].get<bool>()) c.deepstack.push_back(layer);
  }
}

void read_gguf(ImageConfig& c, const JsonObject& values) {
  const std::string architecture = values.text("general.architecture", "");
  if (architecture != "clip")
    unsupported("the file's architecture is '" + architecture + "', an encoder of pictures has 'clip'", values,
                "pass the file that llama.cpp calls mmproj");
  const std::string type = values.text(values.either({"clip.vision.projector_type", "clip.projector_type"}), "unknown");
  if (type != "idefics3" && type != "gemma3" && type != "qwen3vl_merger")
    unsupported("not supported: projector '" + type + "'", values,
                "Weft runs 'idefics3', which SmolVLM has, 'gemma3' and 'qwen3vl_merger'");
  c.pictures.square = type == "gemma3";
  if (type == "gemma3") c.kind = ImageKind::pooled;
  if (type == "qwen3vl_merger") c.kind = ImageKind::merged;
  if (!values.flag("clip.use_gelu", false)) unsupported("not supported: an activation other than GELU", values);
  const std::string v = "clip.vision.";
  Config& network = c.network;
  network.width = values.integer(v + "embedding_length", 1, kMostWidth);
  network.ffn = values.integer(v + "feed_forward_length", 1, kMostWidth);
  network.layers = values.integer(v + "block_count", 1, 1024);
  network.heads.heads = values.integer(v + "attention.head_count", 1, 1024);
  network.epsilon = values.real(v + "attention.layer_norm_epsilon", 0, 1, 1e-6);
  c.pictures.tile = values.integer(v + "image_size", 1, kMostPixels);
  c.patch = values.integer(v + "patch_size", 1, kMostPixels);
  read_colours(c.pictures, values, v);
  if (c.kind == ImageKind::merged) return read_gguf_merged(c, values, v);
  const std::string joined = v + "projector.scale_factor";
  const bool pooled = c.kind == ImageKind::pooled;
  c.shuffle = pooled ? values.integer(joined, 1, 64, 4) : values.integer(joined, 1, 64);
  // Files before that key are of models that have four tiles in a row.
  if (!pooled)
    c.pictures.longest_edge = values.integer(v + "preproc_image_size", 1, 4 * kMostPixels, 4 * c.pictures.tile);
}

// ---- Hugging Face ----

uint32_t longest_edge(const JsonObject& values, const std::string& key, uint32_t fallback) {
  if (!values.has(key)) return fallback;
  return values.object(key).integer("longest_edge", 1, 4 * kMostPixels);
}

// Newer files have the pixels as "size", older ones by names of their own, which come before it as in Transformers.
void read_merged_pixels(ImageConfig& c, const JsonObject& values) {
  for (const auto& [key, expected] :
       {std::pair{"patch_size", c.patch}, {"merge_size", c.shuffle}, {"temporal_patch_size", 2}})
    if (values.integer(key, 1, kMostPixels, expected) != expected) values.refuse(key, std::to_string(expected));
  uint32_t least = kLeastPixels, most = kMostAll;
  if (values.has("size")) {
    const JsonObject size = values.object("size");
    least = size.integer("shortest_edge", 1, UINT32_MAX, least);
    most = size.integer("longest_edge", 1, UINT32_MAX, most);
  }
  set_pixels(c, values, values.integer("min_pixels", 1, UINT32_MAX, least),
             values.integer("max_pixels", 1, UINT32_MAX, most));
}

void read_preprocessor(ImageConfig& c, const ModelFile& file) {
  PictureSettings& pictures = c.pictures;
  const std::string place = (file.path / "preprocessor_config.json").string();
  if (file.preprocessor.is_null())
    throw Error(Code::not_found, "the file that says how pictures are prepared is missing", place);
  const JsonObject values(file.preprocessor, place);
  constexpr uint32_t kLanczos = 1, kBilinear = 2, kBicubic = 3;
  const bool merged = c.kind == ImageKind::merged;
  const uint32_t filter = merged ? kBicubic : pictures.square ? kBilinear : kLanczos;
  if (values.integer("resample", 0, 100, filter) != filter)
    unsupported("not supported: another 'resample' than " + std::to_string(filter), values);
  for (const char* step : {"do_resize", "do_rescale", "do_normalize", "do_convert_rgb"})
    if (!values.flag(step, true)) unsupported("not supported: '" + std::string(step) + "' false", values);
  if (merged) {
    read_merged_pixels(c, values);
    // As Qwen2VLImageProcessor has it.
    pictures.mean = {0.48145466f, 0.4578275f, 0.40821073f};
    pictures.deviation = {0.26862954f, 0.26130258f, 0.27577711f};
  } else if (pictures.square) {
    if (values.flag("do_pan_and_scan", false)) unsupported("not supported: 'do_pan_and_scan'", values);
    const JsonObject size = values.object("size");
    pictures.tile = size.integer("height", 1, kMostPixels);
    if (size.integer("width", 1, kMostPixels) != pictures.tile) size.refuse("width", "the height");
  } else {
    pictures.split = values.flag("do_image_splitting", true);
    pictures.tile = longest_edge(values, "max_image_size", 364);
    pictures.longest_edge = longest_edge(values, "size", 4 * 364);
  }
  pictures.scale = values.number("rescale_factor", 1e-12, 1e6, 1.0 / 255);
  read_colours(pictures, values, "");
}

// Rows of a picture, which are a square, in patches.
uint32_t pooled_patches(const JsonObject& values, uint32_t side) {
  const char* const key = "mm_tokens_per_image";
  const uint32_t rows = values.integer(key, 1, kMostPatches, 256);
  const auto row = static_cast<uint32_t>(std::lround(std::sqrt(rows)));
  if (row * row != rows || row > side || side % row != 0)
    values.refuse(key, "a square of a divisor of " + std::to_string(side));
  return side / row;
}

// Qwen3-VL's keys. Defaults are those of Transformers' Qwen3VLVisionConfig.
void read_merged(ImageConfig& c, const JsonObject& vision) {
  Config& network = c.network;
  network.width = vision.integer("hidden_size", 1, kMostWidth, 1152);
  network.ffn = vision.integer("intermediate_size", 1, kMostWidth, 4304);
  network.layers = vision.integer("depth", 1, 1024, 27);
  network.heads.heads = vision.integer("num_heads", 1, 1024, 16);
  network.epsilon = 1e-6f;
  if (vision.integer("in_channels", 1, 1024, 3) != 3) unsupported("not supported: other channels than 3", vision);
  if (vision.integer("temporal_patch_size", 1, 64, 2) != 2)
    unsupported("not supported: patches of other than 2 frames", vision);
  c.patch = vision.integer("patch_size", 1, kMostPixels, 16);
  c.shuffle = vision.integer("spatial_merge_size", 1, 64, 2);
  const uint32_t positions = vision.integer("num_position_embeddings", 1, kMostPatches, 2304);
  c.position_side = static_cast<uint32_t>(std::lround(std::sqrt(positions)));
  if (c.position_side * c.position_side != positions) vision.refuse("num_position_embeddings", "a square");
  const char* const key = "deepstack_visual_indexes";
  c.deepstack = {8, 16, 24};
  if (!vision.has(key)) return;
  c.deepstack.clear();
  const std::string expected = "ascending numbers of layers";
  if (!vision.at(key).is_array()) vision.refuse(key, expected);
  for (const JsonValue& layer : vision.at(key).items()) {
    const uint64_t least = c.deepstack.empty() ? 0 : c.deepstack.back() + 1;
    if (!layer.is_number_unsigned() || layer.get<uint64_t>() < least || layer.get<uint64_t>() >= network.layers)
      vision.refuse(key, expected);
    c.deepstack.push_back(layer.get<uint32_t>());
  }
}

// Defaults for keys missing in config.json are those of Transformers' Idefics3VisionConfig and Idefics3Config, or of
// SiglipVisionConfig and Gemma3Config.
void read_huggingface(ImageConfig& c, const ModelFile& file, const JsonObject& values) {
  const JsonObject vision = values.object("vision_config");
  Config& network = c.network;
  const std::string type = values.text("model_type", ""), activation = vision.text("hidden_act", "gelu_pytorch_tanh");
  const bool gemma3 = c.pictures.square = type == "gemma3";
  if (activation != "gelu_pytorch_tanh") unsupported("not supported: activation '" + activation + "'", vision);
  if (type == "qwen3_vl") {
    c.kind = ImageKind::merged;
    read_merged(c, vision);
    return read_preprocessor(c, file);
  }
  if (gemma3) c.kind = ImageKind::pooled;
  network.width = vision.integer("hidden_size", 1, kMostWidth, gemma3 ? 768 : 1152);
  network.ffn = vision.integer("intermediate_size", 1, kMostWidth, 3072);
  network.layers = vision.integer("num_hidden_layers", 1, 1024, 12);
  network.heads.heads = vision.integer("num_attention_heads", 1, 1024, gemma3 ? 12 : 16);
  network.epsilon = vision.real("layer_norm_eps", 0, 1, 1e-6);
  if (vision.integer("num_channels", 1, 1024, 3) != 3) unsupported("not supported: other channels than 3", vision);
  const uint32_t size = vision.integer("image_size", 1, kMostPixels, 224);
  c.patch = vision.integer("patch_size", 1, kMostPixels, gemma3 ? 16 : 32);
  c.shuffle = gemma3 ? pooled_patches(values, size / c.patch) : values.integer("scale_factor", 1, 64, 2);
  read_preprocessor(c, file);
  if (c.pictures.tile / c.patch != size / c.patch)
    unsupported("tiles of " + std::to_string(c.pictures.tile) + " pixels, the network has positions for " +
                    std::to_string(size),
                vision);
}

void check_shape(const ImageConfig& c, const JsonObject& values) {
  const ops::HeadShape& heads = c.network.heads;
  const auto contradict = [&](const std::string& what) { throw Error(Code::bad_file, what, values.place()); };
  if (c.network.width % heads.heads != 0)
    contradict("a width of " + std::to_string(c.network.width) + " and " + std::to_string(heads.heads) + " heads");
  if (heads.head_dim % 2 != 0 || heads.head_dim > 256)
    unsupported("the head dimension is " + std::to_string(heads.head_dim) + ", supported are even ones up to 256",
                values);
  if (c.kind == ImageKind::merged) {
    if (heads.head_dim % 4 != 0)
      unsupported("the head dimension is " + std::to_string(heads.head_dim) + ", not a multiple of 4", values);
    if (c.position_side == 0 || c.position_side * c.position_side > kMostPatches)
      unsupported(std::to_string(c.position_side) + " positions in a row", values);
    return;
  }
  if (c.side == 0 || c.side * c.side > kMostPatches)
    unsupported(std::to_string(c.side) + " patches in a row of a tile, at most " + std::to_string(kMostPatches) +
                    " in all are supported",
                values);
  if (c.side % c.shuffle != 0)
    contradict(std::to_string(c.side) + " patches in a row cannot be joined " + std::to_string(c.shuffle) + " by " +
               std::to_string(c.shuffle));
  if (c.pictures.longest_edge > 64 * c.pictures.tile) unsupported("more than 64 tiles in a row", values);
}

// The first half of the pairs is rotated by the row, the other one by the column, both with the same frequencies.
Rope square_rope(uint32_t head_dim) {
  constexpr double kBase = 10000;
  Rope rope = plain_rope(kBase, head_dim / 2);
  const size_t half = rope.frequencies.size();
  rope.axes.assign(half, 1);
  rope.axes.resize(2 * half, 2);
  const std::vector<double> again = rope.frequencies;
  rope.frequencies.insert(rope.frequencies.end(), again.begin(), again.end());
  return rope;
}

}  // namespace

ImageConfig read_image_config(const ModelFile& file) {
  const bool gguf = file.kind == ModelFile::Kind::gguf;
  const JsonObject values(file.metadata, place_of(file, "config.json"));
  ImageConfig c;
  Config& network = c.network;
  if (gguf)
    read_gguf(c, values);
  else
    read_huggingface(c, file, values);
  const bool merged = c.kind == ImageKind::merged;
  if (!merged) c.side = c.pictures.tile / c.patch;
  network.traits = &image_family(c.kind);
  network.family = network.traits->model_type;
  network.layer_kind = network.traits->layer_kind;
  network.heads.kv_heads = network.heads.heads;
  network.heads.head_dim = network.width / network.heads.heads;
  check_shape(c, values);
  network.attention_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(network.heads.head_dim)));
  network.context = merged ? kMostPatches : c.side * c.side;
  network.vocab = 1;  // it has none, and no buffer is empty
  network.ropes.push_back(merged ? square_rope(network.heads.head_dim) : plain_rope(1, 0));
  network.layer_configs.assign(network.layers, {AttentionConfig{0, 0, merged ? network.heads.head_dim : 0}});
  const std::string output = tensor_name(file.kind, *network.traits, merged ? "merger_down" : "output");
  const TensorView* projection = file.find(output);
  const size_t row = c.kind == ImageKind::pooled ? 1 : 0;  // of the shape: Gemma 3's matrix is transposed
  if (projection && projection->shape.size() > row && projection->shape[row] <= kMostWidth)
    c.text_width = static_cast<uint32_t>(projection->shape[row]);
  if (c.text_width == 0) throw Error(Code::bad_file, "the tensor '" + output + "' is missing", file.path.string());
  return c;
}

}  // namespace weft
