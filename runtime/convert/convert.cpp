#include "convert/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/quote.h"
#include "convert/huggingface.h"
#include "convert/medusa.h"
#include "format/byte_reader.h"
#include "format/gguf.h"
#include "model/tensors.h"
#include "model/tied_tables.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = size_t{1} << 20;
// llama.cpp's llama_ftype and ggml's GGML_QNT_VERSION: what the file mostly is, and of which time its blocks are.
constexpr uint32_t kMostlyF16 = 1, kMostlyQ4 = 3, kMostlyQ8 = 7, kQuantizationVersion = 2;

uint32_t mostly(Format format) {
  return format == Format::q8 ? kMostlyQ8 : format == Format::q4 ? kMostlyQ4 : kMostlyF16;
}

DType type_of(const ConvertTensor& tensor, const ConvertOptions& options) {
  // llama.cpp wants these as floats, whatever the file is.
  const bool floats =
      tensor.name.find("ffn_gate_inp") != std::string::npos || tensor.name.find("attn_rel_b.") != std::string::npos ||
      tensor.name.find("shortconv.conv.") != std::string::npos ||
      tensor.name.find("ssm_conv1d.") != std::string::npos || tensor.name.find("ssm_norm.") != std::string::npos ||
      tensor.name.starts_with("position_embd.") || tensor.name.starts_with("token_types.");
  const std::vector<uint64_t>& shape = tensor.shape;
  if (shape.size() < 2 || floats || !tensor.name.ends_with(".weight")) return DType::f32;
  const bool table = tensor.name == "token_embd.weight" || tensor.name == "output.weight" ||
                     tensor.name == "per_layer_token_embd.weight";
  const DType type = file_type(table ? options.vocab_type : options.type);
  return shape.back() % block_elements(type) == 0 ? type : DType::f16;
}

// A value of version 1, with its 32-bit lengths, as version 3 has it. The parser has vouched for the bytes.
std::string widened(uint32_t type, ByteReader& reader) {
  const auto raw = [&](uint64_t bytes) {
    const auto taken = reader.take(bytes, "a value");
    return std::string(reinterpret_cast<const char*>(taken.data()), taken.size());
  };
  if (type == kGgufString) {
    const uint64_t length = reader.number<uint32_t>("a value");
    return le(length) + raw(length);
  }
  if (type == kGgufArray) {
    const auto element = reader.number<uint32_t>("a value");
    const uint64_t count = reader.number<uint32_t>("a value");
    std::string value = le(element) + le(count);
    for (uint64_t i = 0; i < count; ++i) value += widened(element, reader);
    return value;
  }
  static constexpr uint64_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};  // by GgufValueType
  return raw(bytes[type]);
}

// A GGUF file's keys as they are, but those that say what its tensors' types are.
void copy_keys(GgufWriter& writer, const ModelFile& model) {
  const std::string place = model.path.string();
  const GgufContents contents = parse_gguf(model.files.at(0).bytes(), place);
  for (const GgufKey& key : contents.keys) {
    if (key.name == "general.file_type" || key.name == "general.quantization_version" ||
        key.name == "general.alignment" || key.name.starts_with("split."))
      continue;
    ByteReader reader(key.value, place);
    if (contents.version == 1)
      writer.key(key.name, key.type, widened(key.type, reader));
    else
      writer.key(key.name, key.type, {reinterpret_cast<const char*>(key.value.data()), key.value.size()});
  }
}

// A GGUF file's tensors as they are. If its two vocabulary tables are one (model/tied_tables.h), that one, under the
// name that a shared table has: two that were rounded to one type would no longer be recognised.
std::vector<ConvertTensor> tensors_of(const ModelFile& model) {
  const TensorView *const embedding = model.find("token_embd.weight"), *const output = model.find("output.weight");
  const bool two = embedding && output && embedding->shape.size() == 2 && embedding->shape == output->shape;
  const VocabularyTables tables = two ? choose_tables({embedding, output}, true, [](uint64_t) {}) : VocabularyTables();
  std::vector<ConvertTensor> tensors;
  for (const TensorView& tensor : model.tensors) {
    if (tables.left_out && &tensor == output) continue;
    const bool shared = tables.left_out && &tensor == embedding;
    tensors.push_back({{shared ? tables.embedding : &tensor}, tensor.name});
  }
  return tensors;
}

// A folder's numbers have no blocks: an element is a whole number of bytes.
std::vector<std::byte> with_tiled_columns(const ConvertTensor& tensor, const TensorView& source) {
  const uint64_t columns = tensor.columns(), count = element_count(tensor.shape), size = source.bytes.size() / count;
  std::vector<std::byte> bytes(source.bytes.size());
  for (uint64_t i = 0; i < count; ++i)
    std::memcpy(&bytes[i * size], &source.bytes[(i - i % columns + tensor.tiling.source(i % columns)) * size], size);
  return bytes;
}

// A tensor whose numbers are bytes: those of a quantised one are computed.
TensorView as_bytes(const TensorView& tensor, std::vector<float>& computed) {
  if (!tensor.rows) return tensor;
  computed.resize(element_count(tensor.shape));
  to_float(tensor, 0, computed);
  return {tensor.name, DType::f32, tensor.shape, std::as_bytes(std::span(computed))};
}

// Writes tensors row by row, and tells how far it is.
class TensorWriter {
 public:
  TensorWriter(AtomicFile& file, uint64_t total, const std::function<void(float)>& progress)
      : file_(file), total_(total), progress_(progress) {}

  Rounding write(const ConvertTensor& tensor, DType type, uint64_t padding) {
    Rounding rounding;
    const uint64_t columns = tensor.columns();
    const uint64_t rows = columns == 0 ? 0 : element_count(tensor.shape) / columns;
    const uint64_t own = rows / tensor.sources.size();  // of each source
    const bool made = tensor.transposed || tensor.tiling.columns;
    std::vector<float> computed;
    const TensorView first = made ? as_bytes(*tensor.sources[0], computed) : *tensor.sources[0];
    const std::vector<std::byte> turned = tensor.transposed       ? transposed(first)
                                          : tensor.tiling.columns ? with_tiled_columns(tensor, first)
                                                                  : std::vector<std::byte>();
    const TensorView whole = {first.name, first.dtype, tensor.shape, turned};
    RowPacker packer(type, type == DType::f32 ? 0 : columns);
    std::vector<float> floats(type == DType::f32 ? columns : 0);
    for (uint64_t row = 0; row < rows; ++row) {
      const TensorView& source = made ? whole : *tensor.sources[row / own];
      const uint64_t from = tensor.source_row(row) % own;
      if (type == DType::f32) {
        to_float(source, from * columns, floats);
        for (float& value : floats) value = tensor.minus_exp ? -std::exp(value) : value + tensor.offset;
        append(floats.data(), columns * sizeof(float));
      } else {
        append(packer.pack(source, from, rounding), type, columns);
      }
      if (piece_.size() >= kPieceBytes) flush();
    }
    piece_.resize(piece_.size() + padding);
    flush();
    return rounding;
  }

 private:
  void append(const void* from, size_t bytes) {
    const size_t at = piece_.size();
    piece_.resize(at + bytes);
    std::memcpy(&piece_[at], from, bytes);
  }
  void append(const PackedRow& row, DType type, uint64_t columns) {
    if (type == DType::f16) return append(row.halves.data(), columns * sizeof(uint16_t));
    for (size_t block = 0; block < row.halves.size(); ++block) {
      const int8_t* const values = &row.bytes[block * kQ8BlockElements];
      append(&row.halves[block], sizeof(uint16_t));
      if (type == DType::q8_0) {
        append(values, kQ8BlockElements);
        continue;
      }
      append(&row.minima[block], sizeof(uint16_t));
      uint8_t nibbles[kQ8BlockElements / 2];  // the low halves hold the first 16, the high halves the others
      for (size_t e = 0; e < std::size(nibbles); ++e)
        nibbles[e] = static_cast<uint8_t>(values[e] | values[e + std::size(nibbles)] << 4);
      append(nibbles, sizeof nibbles);
    }
  }
  void flush() {
    file_.write(piece_);
    done_ += piece_.size();
    progress_(std::min(1.0f, static_cast<float>(done_) / static_cast<float>(std::max<uint64_t>(total_, 1))));
    piece_.clear();
  }

  AtomicFile& file_;
  uint64_t total_, done_ = 0;
  const std::function<void(float)>& progress_;
  std::vector<std::byte> piece_;
};

void check_out(const fs::path& out, bool replace) {
  std::error_code ignored;
  if (fs::is_directory(out, ignored)) throw Error(Code::invalid_argument, "this is a folder", out.string());
  if (fs::exists(out, ignored) && !fs::is_regular_file(out, ignored))
    throw Error(Code::invalid_argument, "this is no regular file", out.string());
  if (!replace && fs::exists(fs::symlink_status(out, ignored)))
    throw Error(Code::invalid_argument, "the file is there already", out.string(),
                "choose another name, or ask for it to be replaced");
}

}  // namespace

std::vector<ConvertedTensor> convert(const fs::path& in, const fs::path& out, const ConvertOptions& options,
                                     const std::function<void(float)>& progress) {
  check_out(out, options.replace);
  const bool heads = is_safetensors(in);
  const ModelFile model = heads ? open_medusa(in) : open_model(in);
  const bool gguf = model.kind == ModelFile::Kind::gguf;
  std::vector<ConvertTensor> tensors;
  ConvertSource folder;
  GgufWriter writer;
  if (gguf) {
    tensors = tensors_of(model);
    copy_keys(writer, model);
  } else {
    folder = heads ? gguf_of_medusa(model) : gguf_of_folder(model);
    tensors = folder.tensors;
    add_keys(writer, folder.keys);
  }
  writer.key("general.file_type", mostly(options.type));
  if (options.type != Format::f16 || options.vocab_type != Format::f16)
    writer.key("general.quantization_version", kQuantizationVersion);
  std::vector<ConvertedTensor> result;
  uint64_t total = 0;
  for (const ConvertTensor& tensor : tensors) {
    const DType type = type_of(tensor, options);
    const uint64_t bytes = bytes_for(type, tensor.shape);
    result.push_back({tensor.name, tensor.shape, type_name(*tensor.sources[0]), type, bytes, {}});
    writer.tensor(tensor.name, tensor.shape, ggml_type(type), bytes);
    total += bytes + writer.padding(bytes);
  }
  AtomicFile file(out);
  const std::string header = writer.header();
  file.write(std::as_bytes(std::span(header)));
  TensorWriter data(file, total, progress);
  for (size_t i = 0; i < tensors.size(); ++i) {
    try {
      result[i].rounding = data.write(tensors[i], result[i].to, writer.padding(result[i].bytes));
    } catch (const Error& error) {
      if (error.code() != Code::unsupported) throw;
      throw Error(error.code(), error.sentence(),
                  in.string() + ", " + error.place());  // so far only the tensor is named
    }
  }
  file.commit();
  return result;
}

}  // namespace weft
