#include "model/image_config.h"

#include <cmath>

#include "base/json_object.h"
#include "format/huggingface.h"

namespace weft {
namespace {

constexpr uint32_t kMostWidth = 1u << 16, kMostPixels = 1u << 13, kMostPatches = 1u << 14;

[[noreturn]] void unsupported(const std::string& what, const JsonObject& values, const char* hint = "") {
  throw Error(Code::unsupported, what, values.place(), hint);
}

// A number for each of the three colours.
std::array<float, 3> read_colours(const JsonObject& values, const std::string& key, double least) {
  std::array<float, 3> colours = {0.5f, 0.5f, 0.5f};
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
  pictures.mean = read_colours(values, prefix + "image_mean", -1e6);
  pictures.deviation = read_colours(values, prefix + "image_std", 1e-6);
}

// ---- GGUF ----

void read_gguf(ImageConfig& c, const JsonObject& values) {
  const std::string architecture = values.text("general.architecture", "");
  if (architecture != "clip")
    unsupported("the file's architecture is '" + architecture + "', an encoder of pictures has 'clip'", values,
                "pass the file that llama.cpp calls mmproj");
  const std::string type = values.text(values.either({"clip.vision.projector_type", "clip.projector_type"}), "unknown");
  if (type != "idefics3" && type != "gemma3")
    unsupported("not supported: projector '" + type + "'", values,
                "Weft runs 'idefics3', which SmolVLM has, and 'gemma3'");
  c.pooled = c.pictures.square = type == "gemma3";
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
  const std::string joined = v + "projector.scale_factor";
  c.shuffle = c.pooled ? values.integer(joined, 1, 64, 4) : values.integer(joined, 1, 64);
  // Files before that key are of models that have four tiles in a row.
  if (!c.pooled)
    c.pictures.longest_edge = values.integer(v + "preproc_image_size", 1, 4 * kMostPixels, 4 * c.pictures.tile);
  read_colours(c.pictures, values, v);
}

// ---- Hugging Face ----

uint32_t longest_edge(const JsonObject& values, const std::string& key, uint32_t fallback) {
  if (!values.has(key)) return fallback;
  return values.object(key).integer("longest_edge", 1, 4 * kMostPixels);
}

void read_preprocessor(PictureSettings& pictures, const ModelFile& file) {
  const std::string place = (file.path / "preprocessor_config.json").string();
  if (file.preprocessor.is_null())
    throw Error(Code::not_found, "the file that says how pictures are prepared is missing", place);
  const JsonObject values(file.preprocessor, place);
  constexpr uint32_t kLanczos = 1, kBilinear = 2;
  const uint32_t filter = pictures.square ? kBilinear : kLanczos;
  if (values.integer("resample", 0, 100, filter) != filter)
    unsupported("not supported: another 'resample' than " + std::to_string(filter), values);
  for (const char* step : {"do_resize", "do_rescale", "do_normalize", "do_convert_rgb"})
    if (!values.flag(step, true)) unsupported("not supported: '" + std::string(step) + "' false", values);
  if (pictures.square) {
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

// Defaults for keys missing in config.json are those of Transformers' Idefics3VisionConfig and Idefics3Config, or of
// SiglipVisionConfig and Gemma3Config.
void read_huggingface(ImageConfig& c, const ModelFile& file, const JsonObject& values) {
  const JsonObject vision = values.object("vision_config");
  Config& network = c.network;
  const bool gemma3 = c.pooled = c.pictures.square = values.text("model_type", "") == "gemma3";
  network.width = vision.integer("hidden_size", 1, kMostWidth, gemma3 ? 768 : 1152);
  network.ffn = vision.integer("intermediate_size", 1, kMostWidth, 3072);
  network.layers = vision.integer("num_hidden_layers", 1, 1024, 12);
  network.heads.heads = vision.integer("num_attention_heads", 1, 1024, gemma3 ? 12 : 16);
  network.epsilon = vision.real("layer_norm_eps", 0, 1, 1e-6);
  const std::string activation = vision.text("hidden_act", "gelu_pytorch_tanh");
  if (activation != "gelu_pytorch_tanh") unsupported("not supported: activation '" + activation + "'", vision);
  if (vision.integer("num_channels", 1, 1024, 3) != 3) unsupported("not supported: other channels than 3", vision);
  const uint32_t size = vision.integer("image_size", 1, kMostPixels, 224);
  c.patch = vision.integer("patch_size", 1, kMostPixels, gemma3 ? 16 : 32);
  c.shuffle = gemma3 ? pooled_patches(values, size / c.patch) : values.integer("scale_factor", 1, 64, 2);
  read_preprocessor(c.pictures, file);
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
  if (c.side == 0 || c.side * c.side > kMostPatches)
    unsupported(std::to_string(c.side) + " patches in a row of a tile, at most " + std::to_string(kMostPatches) +
                    " in all are supported",
                values);
  if (c.side % c.shuffle != 0)
    contradict(std::to_string(c.side) + " patches in a row cannot be joined " + std::to_string(c.shuffle) + " by " +
               std::to_string(c.shuffle));
  if (c.pictures.longest_edge > 64 * c.pictures.tile) unsupported("more than 64 tiles in a row", values);
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
  c.side = c.pictures.tile / c.patch;
  network.traits = &image_family(c.pooled);
  network.family = network.traits->model_type;
  network.layer_kind = network.traits->layer_kind;
  network.heads.kv_heads = network.heads.heads;
  network.heads.head_dim = network.width / network.heads.heads;
  check_shape(c, values);
  network.attention_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(network.heads.head_dim)));
  network.context = c.side * c.side;
  network.vocab = 1;  // it has none, and no buffer is empty
  network.ropes.push_back(plain_rope(1, 0));
  network.layer_configs.assign(network.layers, LayerConfig());
  const TensorView* projection = file.find(tensor_name(file.kind, *network.traits, "output"));
  const size_t row = c.pooled ? 1 : 0;  // of the shape: Gemma 3's matrix is transposed
  if (projection && projection->shape.size() > row && projection->shape[row] <= kMostWidth)
    c.text_width = static_cast<uint32_t>(projection->shape[row]);
  if (c.text_width == 0)
    throw Error(Code::bad_file, "the tensor '" + tensor_name(file.kind, *network.traits, "output") + "' is missing",
                file.path.string());
  return c;
}

}  // namespace weft
