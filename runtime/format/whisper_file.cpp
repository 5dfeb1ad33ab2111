#include "format/whisper_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/quote.h"
#include "format/byte_reader.h"
#include "format/gguf.h"
#include "format/layout.h"
#include "format/limits.h"
#include "format/whisper_vocabulary.h"

namespace weft {
namespace {

constexpr uint32_t kMagic = 0x67676d6c;
constexpr uint32_t kMostSize = 1u << 20;   // of a number of the header; real ones are at most 51,866
constexpr uint32_t kMostTokenBytes = 256;  // 128 in real files
constexpr uint32_t kMostNameBytes = 256;   // of a tensor
constexpr uint32_t kMostDimensions = 4;
constexpr uint32_t kEnglishTokens = 50256;  // of text; multilingual models have another vocabulary
constexpr uint32_t kControlTokens = 2 + 6;  // before and after the languages
constexpr std::string_view kEndOfText = "<|endoftext|>";

// Parts of a tensor's name in OpenAI's program, and in Transformers'.
constexpr std::pair<std::string_view, std::string_view> kNames[] = {
    {".positional_embedding", ".embed_positions.weight"},
    {".token_embedding.", ".embed_tokens."},
    {".ln_post.", ".layer_norm."},
    {"decoder.ln.", "decoder.layer_norm."},
    {".blocks.", ".layers."},
    {".cross_attn_ln.", ".encoder_attn_layer_norm."},
    {".attn_ln.", ".self_attn_layer_norm."},
    {".mlp_ln.", ".final_layer_norm."},
    {".cross_attn.", ".encoder_attn."},
    {".attn.", ".self_attn."},
    {".query.", ".q_proj."},
    {".key.", ".k_proj."},
    {".value.", ".v_proj."},
    {".out.", ".out_proj."},
    {".mlp.0.", ".fc1."},
    {".mlp.2.", ".fc2."},
};

std::string usual_name(std::string name) {
  for (const auto& [own, usual] : kNames)
    if (const size_t at = name.find(own); at != std::string::npos) name.replace(at, own.size(), usual);
  return "model." + name;
}

// The state of reading one file, top to bottom.
class WhisperParser {
 public:
  WhisperParser(std::span<const std::byte> file, const std::string& place)
      : file_(file), place_(place), reader_(file, place) {}

  WhisperContents parse() {
    reader_.take(sizeof kMagic, "the magic number");
    read_sizes();
    read_filters();
    read_vocabulary();
    while (reader_.remaining() > 0) read_tensor();
    describe();
    return std::move(contents_);
  }

 private:
  struct Sizes {
    uint32_t rows, encoder_context, width, encoder_heads, encoder_layers, context, decoder_width, heads, layers, bands;
  };

  [[noreturn]] void fail(std::string sentence, Code code = Code::bad_file) const {
    throw Error(code, std::move(sentence), place_);
  }

  uint32_t read_size(const std::string& what) {
    const auto size = reader_.number<uint32_t>(what);
    if (size == 0 || size > kMostSize)
      fail(what + " is " + std::to_string(size) + ", expected 1 to " + std::to_string(kMostSize));
    return size;
  }

  void read_sizes() {
    size_.rows = read_size("the number of the vocabulary's rows");
    size_.encoder_context = read_size("the encoder's number of positions");
    size_.width = read_size("the encoder's width");
    size_.encoder_heads = read_size("the encoder's number of heads");
    size_.encoder_layers = read_size("the encoder's number of layers");
    size_.context = read_size("the decoder's number of positions");
    size_.decoder_width = read_size("the decoder's width");
    size_.heads = read_size("the decoder's number of heads");
    size_.layers = read_size("the decoder's number of layers");
    size_.bands = read_size("the number of bands");
    reader_.number<uint32_t>("the type of the file");  // each tensor has its own
    if (size_.width != size_.decoder_width)
      fail("the encoder's width is " + std::to_string(size_.width) + ", the decoder's " +
           std::to_string(size_.decoder_width));
  }

  // Every model has the same filters, which log_mel.cpp computes.
  void read_filters() {
    const uint64_t bands = read_size("the number of filters"), powers = read_size("the length of a filter");
    if (bands != size_.bands)
      fail("there are " + std::to_string(bands) + " filters for " + std::to_string(size_.bands) + " bands");
    reader_.take(bands * powers * sizeof(float), "the filters");
  }

  std::vector<std::string> read_tokens() {
    const uint32_t count = read_size("the number of tokens");
    std::vector<std::string> tokens;
    std::unordered_set<std::string_view> known;
    for (uint32_t id = 0; id < count; ++id) {
      const std::string what = "token " + std::to_string(id);
      const auto length = reader_.number<uint32_t>(what);
      if (length > kMostTokenBytes)
        fail(what + " has " + std::to_string(length) + " bytes, expected at most " + std::to_string(kMostTokenBytes));
      const auto bytes = reader_.take(length, what);
      const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (!known.insert(text).second) fail(what + " is the same as one before: " + printable(text));
      tokens.emplace_back(text);
    }
    // Early versions of whisper.cpp's convert-h5-to-ggml.py write the first control token, too.
    if (tokens.back() == kEndOfText) tokens.pop_back();
    return tokens;
  }

  void read_vocabulary() {
    std::vector<std::string> tokens = read_tokens();
    const auto count = static_cast<uint32_t>(tokens.size());
    const uint32_t times = size_.encoder_context + 1;
    const uint64_t others = uint64_t{count} + kControlTokens + times;
    if (others >= size_.rows || size_.rows - others > WhisperVocabulary::kLanguages)
      fail("the vocabulary has " + std::to_string(size_.rows) + " rows for " + std::to_string(count) +
           " tokens of text and " + std::to_string(times) + " times: there should be " +
           std::to_string(kControlTokens + 1) + " to " +
           std::to_string(kControlTokens + WhisperVocabulary::kLanguages) + " other ones");
    const WhisperVocabulary vocabulary(std::move(tokens), static_cast<uint32_t>(size_.rows - others));
    contents_.tokenizer = vocabulary.tokenizer();
    contents_.generation_config = {{"suppress_tokens", vocabulary.suppressed()},
                                   {"is_multilingual", count != kEnglishTokens}};
    start_ = count + 1;
  }

  void read_tensor() {
    const std::string what = "tensor " + std::to_string(contents_.tensors.size());
    if (contents_.tensors.size() == kMaxTensors)
      fail("there are more than " + std::to_string(kMaxTensors) + " tensors");
    const auto dimensions = reader_.number<uint32_t>(what), length = reader_.number<uint32_t>(what),
               type = reader_.number<uint32_t>(what);
    if (dimensions < 1 || dimensions > kMostDimensions)
      fail(what + " has " + std::to_string(dimensions) + " dimensions, expected 1 to " +
           std::to_string(kMostDimensions));
    if (length < 1 || length > kMostNameBytes)
      fail("the name of " + what + " has " + std::to_string(length) + " bytes, expected 1 to " +
           std::to_string(kMostNameBytes));
    TensorView tensor;
    for (uint32_t i = 0; i < dimensions; ++i) tensor.shape.insert(tensor.shape.begin(), reader_.number<uint32_t>(what));
    const auto name = reader_.take(length, what);
    tensor.name = usual_name({reinterpret_cast<const char*>(name.data()), name.size()});
    const auto dtype = dtype_of_ggml(type);
    if (!dtype) fail("not supported: " + ggml_type_name(type) + " in " + printable(tensor.name), Code::unsupported);
    tensor.dtype = *dtype;
    place_tensor(tensor, reader_.position(), file_, place_);
    reader_.take(tensor.bytes.size(), printable(tensor.name));
    // The convolutions' biases are written as (width, 1).
    if (tensor.shape.size() == 2 && tensor.shape[1] == 1 && tensor.name.ends_with(".bias")) tensor.shape.pop_back();
    contents_.tensors.push_back(std::move(tensor));
  }

  uint64_t ffn_of(const char* half) const {
    const std::string name = std::string("model.") + half + ".layers.0.fc1.weight";
    const auto found = std::ranges::find(contents_.tensors, name, &TensorView::name);
    return found == contents_.tensors.end() ? uint64_t{4} * size_.width : found->shape.front();
  }

  void describe() {
    contents_.config = {{"model_type", "whisper"},
                        {"vocab_size", size_.rows},
                        {"d_model", size_.width},
                        {"num_mel_bins", size_.bands},
                        {"max_source_positions", size_.encoder_context},
                        {"max_target_positions", size_.context},
                        {"encoder_layers", size_.encoder_layers},
                        {"decoder_layers", size_.layers},
                        {"encoder_attention_heads", size_.encoder_heads},
                        {"decoder_attention_heads", size_.heads},
                        {"encoder_ffn_dim", ffn_of("encoder")},
                        {"decoder_ffn_dim", ffn_of("decoder")},
                        {"activation_function", "gelu"},
                        {"tie_word_embeddings", true},
                        {"decoder_start_token_id", start_}};
  }

  std::span<const std::byte> file_;
  const std::string& place_;
  ByteReader reader_;
  Sizes size_ = {};
  uint32_t start_ = 0;  // the token that a text begins with
  WhisperContents contents_;
};

}  // namespace

bool is_whisper_file(std::span<const std::byte> file) {
  uint32_t magic = 0;
  if (file.size() < sizeof magic) return false;
  std::memcpy(&magic, file.data(), sizeof magic);
  return magic == kMagic;
}

WhisperContents parse_whisper_file(std::span<const std::byte> file, const std::string& place) {
  return WhisperParser(file, place).parse();
}

}  // namespace weft
