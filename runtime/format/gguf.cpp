#include "format/gguf.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "base/error.h"
#include "base/quote.h"
#include "format/byte_reader.h"
#include "format/layout.h"
#include "format/limits.h"

namespace weft {
namespace {

enum ValueType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
  kValueTypes
};

constexpr uint64_t kDefaultAlignment = 32;
constexpr uint32_t kMaxDimensions = 4;

// The state of reading one file's header, top to bottom.
class GgufParser {
 public:
  GgufParser(std::span<const std::byte> file, const std::string& place)
      : file_(file), place_(place), reader_(file, place) {}

  GgufContents parse() {
    read_version();
    const uint64_t tensor_count = read_length("the number of tensors");
    const uint64_t key_count = read_length("the number of keys");
    // The least a key and a tensor take: a length, a type and one byte; a length, dimensions, a type and an offset.
    check_count(key_count, length_bytes() + 5, "keys");
    check_count(tensor_count, length_bytes() + 16, "tensors");
    check_limit(tensor_count, kMaxTensors, "tensors");
    for (uint64_t i = 0; i < key_count; ++i) read_key();
    const uint64_t alignment = read_alignment();
    for (uint64_t i = 0; i < tensor_count; ++i) read_tensor(alignment);
    place_tensors(alignment);
    contents_.version = version_;
    return std::move(contents_);
  }

 private:
  [[noreturn]] void fail(std::string sentence, Code code = Code::bad_file, std::string hint = {}) const {
    throw Error(code, std::move(sentence), place_, std::move(hint));
  }

  void read_version() {
    const auto magic = reader_.take(4, "the magic number");
    if (std::memcmp(magic.data(), "GGUF", 4) != 0) {
      fail("the file begins with \"" + printable({reinterpret_cast<const char*>(magic.data()), 4}) +
           "\", not with \"GGUF\"");
    }
    version_ = reader_.number<uint32_t>("the version");
    if (version_ != 0 && (version_ & 0xffffu) == 0) {
      fail("this is a big-endian GGUF file of version " + std::to_string(__builtin_bswap32(version_)) +
               "; Weft reads little-endian ones",
           Code::unsupported, "convert it with gguf-convert-endian from the gguf Python package");
    }
    if (version_ < 1 || version_ > 3) {
      fail("this is GGUF version " + std::to_string(version_) + "; Weft reads versions 1 to 3", Code::unsupported);
    }
  }

  uint64_t length_bytes() const { return version_ == 1 ? 4 : 8; }

  uint64_t read_length(std::string_view what) {
    return version_ == 1 ? reader_.number<uint32_t>(what) : reader_.number<uint64_t>(what);
  }

  // Refuses a count of things that take at least `least` bytes each where fewer bytes are left.
  void check_count(uint64_t count, uint64_t least, const std::string& things) const {
    if (count <= reader_.remaining() / least) return;
    fail("the file says it has " + std::to_string(count) + " " + things + " of at least " + std::to_string(least) +
         " bytes each, but only " + std::to_string(reader_.remaining()) + " bytes are left");
  }

  void check_limit(uint64_t count, uint64_t limit, const std::string& things) const {
    if (count > limit) {
      fail("the file has " + std::to_string(count) + " " + things + "; Weft reads at most " + std::to_string(limit));
    }
  }

  std::string read_string(const std::string& what) {
    const uint64_t length = read_length(what);
    const auto bytes = reader_.take(length, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  void read_key() {
    std::string key = read_string("key " + std::to_string(contents_.keys.size()));
    const std::string what = "the value of key " + printable(key);
    const uint32_t type = reader_.number<uint32_t>(what);
    if (!key_names_.insert(key).second) fail("key " + printable(key) + " is there twice");
    const uint64_t start = reader_.position();
    JsonValue value = read_value(type, what, 0);
    contents_.keys.push_back({key, type, file_.subspan(start, reader_.position() - start)});
    contents_.metadata.members().push_back({std::move(key), std::move(value)});
  }

  JsonValue read_value(uint32_t type, const std::string& what, int depth) {
    check_limit(++values_, kMaxValues, "metadata values");
    switch (type) {
      case kUint8:
        return reader_.number<uint8_t>(what);
      case kInt8:
        return reader_.number<int8_t>(what);
      case kUint16:
        return reader_.number<uint16_t>(what);
      case kInt16:
        return reader_.number<int16_t>(what);
      case kUint32:
        return reader_.number<uint32_t>(what);
      case kInt32:
        return reader_.number<int32_t>(what);
      case kFloat32:
        return reader_.number<float>(what);
      case kUint64:
        return reader_.number<uint64_t>(what);
      case kInt64:
        return reader_.number<int64_t>(what);
      case kFloat64:
        return reader_.number<double>(what);
      case kString:
        return read_string(what);
      case kArray:
        return read_array(what, depth + 1);
      case kBool: {
        const uint8_t value = reader_.number<uint8_t>(what);
        if (value > 1) fail(what + " is a boolean, which is 0 or 1, but it is " + std::to_string(value));
        return value == 1;
      }
      default:
        fail(what + " has type " + std::to_string(type) + "; GGUF has types 0 to " + std::to_string(kValueTypes - 1));
    }
  }

  uint64_t least_bytes(uint32_t type) const {
    switch (type) {
      case kUint8:
      case kInt8:
      case kBool:
        return 1;
      case kUint16:
      case kInt16:
        return 2;
      case kUint64:
      case kInt64:
      case kFloat64:
        return 8;
      case kString:
        return length_bytes();
      case kArray:
        return 4 + length_bytes();
      default:
        return 4;  // an unknown type is refused at its first element
    }
  }

  JsonValue read_array(const std::string& what, int depth) {
    if (depth > kMaxGgufArrayDepth) {
      fail(what + " has arrays nested " + std::to_string(depth) + " deep; Weft reads at most " +
           std::to_string(kMaxGgufArrayDepth));
    }
    const uint32_t type = reader_.number<uint32_t>(what);
    const uint64_t count = read_length(what);
    if (count > reader_.remaining() / least_bytes(type)) {
      fail(what + " is an array of " + std::to_string(count) + " elements of at least " +
           std::to_string(least_bytes(type)) + " bytes each, but only " + std::to_string(reader_.remaining()) +
           " bytes are left");
    }
    check_limit(values_ + count, kMaxValues, "metadata values");
    JsonValue::Array elements;
    elements.reserve(count);
    for (uint64_t i = 0; i < count; ++i) elements.push_back(read_value(type, what, depth));
    return elements;
  }

  uint64_t read_alignment() const {
    const JsonValue* found = contents_.metadata.find("general.alignment");
    if (found == nullptr) return kDefaultAlignment;
    if (!found->is_number_unsigned() || !std::has_single_bit(found->get<uint64_t>())) {
      fail("key general.alignment must be a power of two, but it is " + printable(found->dump()));
    }
    return found->get<uint64_t>();
  }

  // Reads one tensor's entry; its bytes follow in place_tensors, when the end of the header is known.
  void read_tensor(uint64_t alignment) {
    TensorView tensor;
    tensor.name = read_string("the name of tensor " + std::to_string(contents_.tensors.size()));
    const std::string what = "tensor " + printable(tensor.name);
    if (!names_.insert(tensor.name).second) fail(what + " is there twice");
    const uint32_t dimensions = reader_.number<uint32_t>(what);
    if (dimensions < 1 || dimensions > kMaxDimensions) {
      fail(what + " has " + std::to_string(dimensions) + " dimensions; GGUF allows 1 to " +
           std::to_string(kMaxDimensions));
    }
    for (uint32_t i = 0; i < dimensions; ++i) {
      tensor.shape.push_back(read_length(what));
      if (tensor.shape.back() == 0) fail(what + " has 0 elements along dimension " + std::to_string(i));
    }
    std::reverse(tensor.shape.begin(), tensor.shape.end());  // the file has the fastest dimension first
    const uint32_t type = reader_.number<uint32_t>(what);
    tensor.dtype = dtype_of(type, tensor.name);
    const uint64_t offset = reader_.number<uint64_t>(what);
    if (offset % alignment != 0) {
      fail(what + " is at offset " + std::to_string(offset) + ", which is no multiple of the alignment " +
           std::to_string(alignment));
    }
    offsets_.push_back(offset);
    contents_.tensors.push_back(std::move(tensor));
  }

  DType dtype_of(uint32_t type, const std::string& tensor) const {
    if (const auto dtype = dtype_of_ggml(type)) return *dtype;
    std::string list;
    for (const DType known : kDTypes) list += (list.empty() ? "Weft reads " : ", ") + std::string(name(known));
    fail("not supported yet: " + ggml_type_name(type) + " in tensor " + printable(tensor), Code::unsupported, list);
  }

  void place_tensors(uint64_t alignment) {
    // The position is at most the file's size and the alignment at most 2^63: the sum cannot wrap.
    const uint64_t start = (reader_.position() + alignment - 1) / alignment * alignment;
    if (contents_.tensors.empty()) return;
    if (start > file_.size()) {
      fail("the tensors' data begin at byte " + std::to_string(start) + ", but the file ends at byte " +
           std::to_string(file_.size()));
    }
    const auto data = file_.subspan(start);
    for (size_t i = 0; i < offsets_.size(); ++i) {
      place_tensor(contents_.tensors[i], offsets_[i], data, place_);
    }
    const uint64_t end = check_disjoint(contents_.tensors, file_, place_);
    // Writers pad the last tensor to the alignment. More than that means that the header does not belong to these data.
    if (file_.size() - end >= alignment) {
      fail("the last tensor ends at byte " + std::to_string(end) + ", but the file ends at byte " +
           std::to_string(file_.size()));
    }
  }

  std::span<const std::byte> file_;
  const std::string& place_;
  ByteReader reader_;
  uint32_t version_ = 0;
  uint64_t values_ = 0;
  GgufContents contents_{0, {}, JsonValue::object(), {}};
  std::unordered_set<std::string> key_names_, names_;
  std::vector<uint64_t> offsets_;  // of each tensor, from the start of the data
};

}  // namespace

GgufContents parse_gguf(std::span<const std::byte> file, const std::string& place) {
  return GgufParser(file, place).parse();
}

}  // namespace weft
