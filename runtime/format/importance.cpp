#include "format/importance.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "base/file.h"
#include "base/number.h"
#include "base/quote.h"
#include "format/byte_reader.h"
#include "format/gguf.h"
#include "format/gguf_writer.h"

namespace weft {
namespace {

constexpr char kHint[] = "importance matrices are GGUF files of `weft imatrix` or llama-imatrix, or the latter's .dat";
constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts";

std::vector<float> numbers(const TensorView& tensor) {
  std::vector<float> values(element_count(tensor.shape));
  to_float(tensor, 0, values);
  return values;
}

[[noreturn]] void refuse(size_t element, float value, const char* kind, const std::string& place) {
  throw Error(Code::bad_file, "element " + std::to_string(element) + " is " + number_text(value) + ", no " + kind,
              place);
}

void check_sums(const std::vector<float>& values, const std::string& place) {
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]) || values[i] < 0) refuse(i, values[i], "sum of squares", place);
}

// A sum that is divided by 1 or more stays a float.
void check_counts(const std::vector<float>& values, const std::string& place) {
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]) || (values[i] != 0 && values[i] < 1)) refuse(i, values[i], "count", place);
}

Importance::Tensor means(const TensorView& sums, const TensorView& counts, const std::string& place) {
  const std::vector<float> all = numbers(sums), each = numbers(counts);
  check_sums(all, place + ", tensor " + printable(sums.name));
  check_counts(each, place + ", tensor " + printable(counts.name));
  if (each.empty() || all.empty() || all.size() % each.size() != 0)
    throw Error(Code::bad_file,
                "its shape " + text_of(sums.shape) + " does not fit that of the counts, " + text_of(counts.shape),
                place + ", tensor " + printable(sums.name));
  Importance::Tensor tensor = {each.size(), all};
  for (size_t i = 0; i < all.size(); ++i) {
    const float count = each[i / (all.size() / each.size())];
    tensor.factors[i] = count > 0 ? all[i] / count : 0;
  }
  return tensor;
}

Importance parse_gguf_importance(std::span<const std::byte> file, const std::string& place) {
  const GgufContents contents = parse_gguf(file, place);
  const JsonValue* const type = contents.metadata.find("general.type");
  if (!type || *type != "imatrix") throw Error(Code::bad_file, "general.type is not 'imatrix'", place, kHint);
  std::unordered_map<std::string_view, const TensorView*> by_name;
  for (const TensorView& tensor : contents.tensors) by_name.emplace(tensor.name, &tensor);
  Importance result;
  for (const TensorView& sums : contents.tensors) {
    if (!sums.name.ends_with(kSums)) continue;
    const std::string name = sums.name.substr(0, sums.name.size() - kSums.size());
    const std::string wanted = name + std::string(kCounts);
    const auto counts = by_name.find(wanted);
    if (counts == by_name.end())
      throw Error(Code::bad_file, "the tensor '" + printable(wanted) + "' is missing", place);
    result.tensors[name] = means(sums, *counts->second, place);
  }
  return result;
}

// The older format, of which the first bytes do not say that it is one.
//
// A count of tensors; of each the length of its name, the name, how many passes were measured, how many numbers, and
// these: means of squares times the passes. All counts have 32 bits. More follows, which is not needed.
Importance parse_old_importance(std::span<const std::byte> file, const std::string& place) {
  ByteReader reader(file, place);
  const auto count = [&](std::string_view what, const std::string& where) {
    const auto value = reader.number<int32_t>(what);
    if (value < 1) throw Error(Code::bad_file, std::string(what) + " is " + std::to_string(value), where);
    return static_cast<uint64_t>(value);
  };
  Importance result;
  const uint64_t tensors = count("the number of tensors", place);
  for (uint64_t i = 0; i < tensors; ++i) {
    const auto text = reader.take(count("the length of a tensor's name", place), "a tensor's name");
    const std::string name(reinterpret_cast<const char*>(text.data()), text.size());
    const std::string own = place + ", tensor " + printable(name);
    const auto passes = static_cast<float>(count("the number of passes", own));
    const uint64_t columns = count("the number of columns", own);
    const auto bytes = reader.take(columns * sizeof(float), "a tensor's numbers");
    Importance::Tensor tensor = {1, std::vector<float>(columns)};
    std::memcpy(tensor.factors.data(), bytes.data(), bytes.size());
    check_sums(tensor.factors, own);
    for (float& factor : tensor.factors) factor /= passes;
    if (!result.tensors.emplace(name, std::move(tensor)).second) throw Error(Code::bad_file, "it is there twice", own);
  }
  return result;
}

}  // namespace

Importance parse_importance(std::span<const std::byte> file, const std::string& place) {
  const bool gguf = file.size() >= 4 && std::memcmp(file.data(), "GGUF", 4) == 0;
  if (gguf) {
    Importance result = parse_gguf_importance(file, place);
    if (result.tensors.empty()) throw Error(Code::bad_file, "it has no tensors", place, kHint);
    return result;
  }
  try {
    return parse_old_importance(file, place);
  } catch (const Error& error) {
    throw Error(error.code(), error.sentence(), error.place(), kHint);
  }
}

std::string importance_file(std::span<const SquaredInputs> inputs, const std::string& text, uint32_t parts,
                            uint32_t part_tokens) {
  GgufWriter writer;
  writer.key("general.type", "imatrix");
  writer.key("imatrix.datasets", std::vector<std::string>{text});
  writer.key("imatrix.chunk_count", parts);
  writer.key("imatrix.chunk_size", part_tokens);
  std::string data;
  const auto add = [&](const std::string& name, std::span<const double> values) {
    const uint64_t bytes = values.size() * sizeof(float);
    writer.tensor(name, {1, values.size()}, ggml_type(DType::f32), bytes);
    for (const double value : values) {
      if (!(value <= std::numeric_limits<float>::max()))
        throw Error(Code::unsupported, "a sum of squared inputs is above the largest float", "tensor " + name);
      data += le(static_cast<float>(value));
    }
    data.resize(data.size() + writer.padding(bytes));
  };
  for (const SquaredInputs& product : inputs) {
    const double tokens = static_cast<double>(product.tokens);
    add(product.tensor + std::string(kSums), product.sums);
    add(product.tensor + std::string(kCounts), {&tokens, 1});
  }
  return writer.header() + data;
}

Importance read_importance(const std::filesystem::path& path) {
  const MappedFile file(path);
  return parse_importance(file.bytes(), path.string());
}

}  // namespace weft
