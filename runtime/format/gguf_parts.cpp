#include "format/gguf_parts.h"

#include <charconv>

#include "base/error.h"
#include "base/quote.h"

namespace weft {
namespace {

// "-00001-of-00003.gguf"
std::string name_end(uint64_t number, uint64_t count) {
  const auto digits = [](uint64_t value) {
    const std::string text = std::to_string(value);
    return std::string(text.size() < 5 ? 5 - text.size() : 0, '0') + text;
  };
  return "-" + digits(number + 1) + "-of-" + digits(count) + ".gguf";
}

std::optional<uint64_t> find_number(const GgufContents& contents, const char* key, const std::string& place) {
  const JsonValue* const value = contents.metadata.find(key);
  if (value == nullptr) return {};
  if (!value->is_number_unsigned())
    throw Error(Code::bad_file,
                std::string("key ") + key + " must be a whole number, but it is " + printable(value->dump()), place);
  return value->get<uint64_t>();
}

}  // namespace

GgufPart gguf_part(const GgufContents& contents, const std::string& place) {
  const GgufPart part{find_number(contents, "split.no", place).value_or(0),
                      find_number(contents, "split.count", place).value_or(1),
                      find_number(contents, "split.tensors.count", place)};
  if (part.count > kMaxGgufParts)
    throw Error(
        Code::bad_file,
        "the model has " + std::to_string(part.count) + " parts; Weft reads at most " + std::to_string(kMaxGgufParts),
        place);
  if (part.count <= 1) return {};
  if (part.number >= part.count)
    throw Error(
        Code::bad_file,
        "this is part " + std::to_string(part.number) + ", counted from 0, of only " + std::to_string(part.count),
        place);
  return part;
}

std::filesystem::path gguf_part_path(const std::filesystem::path& path, const GgufPart& part, uint64_t number) {
  const std::string name = path.filename().string(), end = name_end(part.number, part.count);
  if (!name.ends_with(end))
    throw Error(Code::bad_file,
                "this is part " + std::to_string(part.number + 1) + " of a model in " + std::to_string(part.count) +
                    " files, but its name does not end with " + end,
                path.string(),
                "keep all parts in one folder under the names that they were made with, and pass the path of one");
  return path.parent_path() / (name.substr(0, name.size() - end.size()) + name_end(number, part.count));
}

std::optional<std::string> gguf_part_stem(const std::string& name, uint64_t& count) {
  const size_t of = name.rfind("-of-");
  if (of == std::string::npos || of < 6) return {};
  uint64_t number = 0;
  const char* const text = name.data();
  const auto first = std::from_chars(text + of - 5, text + of, number),
             second = std::from_chars(text + of + 4, text + name.size(), count);
  if (first.ec != std::errc() || second.ec != std::errc() || number == 0) return {};
  const std::string end = name_end(number - 1, count);
  if (!name.ends_with(end)) return {};
  return name.substr(0, name.size() - end.size());
}

}  // namespace weft
