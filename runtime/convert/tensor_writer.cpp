#include "convert/tensor_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "base/all_cores.h"
#include "base/error.h"
#include "base/number.h"
#include "base/quote.h"
#include "convert/rounding/rounding.h"
#include "format/quants.h"
#include "model/tensors.h"

namespace weft {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
constexpr uint64_t kWorthThreads = uint64_t{1} << 16;  // elements
constexpr float kMostHalf = 65504, kMostFloat = std::numeric_limits<float>::max();

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

// A tensor's rows in the order of the new one, and as it has their columns.
struct Source {
  explicit Source(const ConvertTensor& to) : tensor(to), made(to.transposed || to.tiling.columns) {
    const TensorView first = made ? as_bytes(*to.sources[0], computed) : *to.sources[0];
    if (made) bytes = to.transposed ? transposed(first) : with_tiled_columns(to, first);
    whole = {first.name, first.dtype, to.shape, bytes};
    columns = to.columns();
    rows = columns == 0 ? 0 : element_count(to.shape) / columns;
    own = std::max<uint64_t>(rows / to.sources.size(), 1);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  const TensorView& view(uint64_t row) const { return made ? whole : *tensor.sources[row / own]; }
  uint64_t row_of_view(uint64_t row) const { return tensor.source_row(row) % own; }

  const ConvertTensor& tensor;
  bool made;
  std::vector<float> computed;
  std::vector<std::byte> bytes;
  TensorView whole;
  uint64_t columns, rows, own;  // own: rows of each source
};

// Rows of a tensor as the bytes of a type. Each thread has its own.
class RowWriter {
 public:
  RowWriter(const Source& source, DType type, std::span<const float> importance)
      : source_(source),
        type_(type),
        importance_(importance),
        searched_(is_rounded_by_search(type)),
        packer_(searched_ || type == DType::f32 ? DType::f16 : type, packed_columns()),
        floats_(source.columns),
        kept_(searched_ ? source.columns : 0) {}

  void write(uint64_t row, std::byte* out) {
    const TensorView& view = source_.view(row);
    const uint64_t from = source_.row_of_view(row);
    if (searched_) return write_searched(view, from, row, out);
    if (type_ == DType::f32) return write_floats(view, from, out);
    write_packed(packer_.pack(view, from, rounding_), out);
  }
  const Rounding& rounding() const { return rounding_; }

 private:
  uint64_t packed_columns() const { return searched_ || type_ == DType::f32 ? 0 : source_.columns; }

  void write_floats(const TensorView& view, uint64_t from, std::byte* out) {
    to_float(view, from * source_.columns, floats_);
    const ConvertTensor& tensor = source_.tensor;
    for (float& value : floats_) value = tensor.minus_exp ? -std::exp(value) : value + tensor.offset;
    std::memcpy(out, floats_.data(), floats_.size() * sizeof(float));
  }

  // Blocks of the same type stay as they are; their numbers need only be finite.
  void write_searched(const TensorView& view, uint64_t from, uint64_t row, std::byte* out) {
    const uint64_t columns = source_.columns, bytes = columns / block_elements(type_) * block_bytes(type_);
    to_float(view, from * columns, floats_);
    const bool copied = is_copied(view, type_);
    for (uint64_t i = 0; i < columns; ++i)
      if (!(std::abs(floats_[i]) <= (copied ? kMostFloat : kMostHalf))) refuse(view, from, i);
    if (copied) {
      std::memcpy(out, &view.bytes[from * bytes], bytes);
      return;
    }
    round_row(type_, floats_, importance_of(row), out);
    to_float({view.name, type_, {columns}, {out, bytes}}, 0, kept_);
    for (uint64_t i = 0; i < columns; ++i) {
      rounding_.largest_error = std::max<double>(rounding_.largest_error, std::abs(kept_[i] - floats_[i]));
      rounding_.largest_value = std::max<double>(rounding_.largest_value, std::abs(floats_[i]));
    }
  }

  [[noreturn]] void refuse(const TensorView& view, uint64_t row, uint64_t column) const {
    const std::string element = "element (" + std::to_string(view.first_row + row) + ", " + std::to_string(column) +
                                ") is " + number_text(floats_[column]);
    const bool copied = is_copied(view, type_);
    throw Error(Code::unsupported, element + (copied ? ", not finite" : ", f16 holds finite values up to 65504"),
                "tensor " + printable(view.name));
  }

  // A tensor of experts has a matrix for each of them.
  std::span<const float> importance_of(uint64_t row) const {
    const uint64_t matrices = importance_.size() / source_.columns;
    if (matrices <= 1) return importance_;
    return importance_.subspan(row / (source_.rows / matrices) * source_.columns, source_.columns);
  }

  void write_packed(const PackedRow& row, std::byte* out) const {
    const auto put = [&out](const void* from, size_t bytes) {
      std::memcpy(out, from, bytes);
      out += bytes;
    };
    if (type_ == DType::f16) return put(row.halves.data(), source_.columns * sizeof(uint16_t));
    for (size_t block = 0; block < row.halves.size(); ++block) {
      const int8_t* const values = &row.bytes[block * kQ8BlockElements];
      put(&row.halves[block], sizeof(uint16_t));
      if (type_ == DType::q8_0) {
        put(values, kQ8BlockElements);
        continue;
      }
      put(&row.minima[block], sizeof(uint16_t));
      uint8_t nibbles[kQ8BlockElements / 2];  // the low halves hold the first 16, the high halves the others
      for (size_t e = 0; e < std::size(nibbles); ++e)
        nibbles[e] = static_cast<uint8_t>(values[e] | values[e + std::size(nibbles)] << 4);
      put(nibbles, sizeof nibbles);
    }
  }

  const Source& source_;
  DType type_;
  std::span<const float> importance_;
  bool searched_;
  RowPacker packer_;
  std::vector<float> floats_, kept_;
  Rounding rounding_;
};

}  // namespace

Rounding TensorWriter::write(const ConvertTensor& tensor, DType type, std::span<const float> importance,
                             uint64_t padding) {
  const Source source(tensor);
  const uint64_t row_bytes = source.columns / block_elements(type) * block_bytes(type);
  const uint64_t at_once = std::max<uint64_t>(kPieceBytes / std::max<uint64_t>(row_bytes, 1), 1);
  Rounding rounding;
  std::mutex mutex;  // of rounding
  for (uint64_t first = 0; first < source.rows; first += at_once) {
    const uint64_t count = std::min(at_once, source.rows - first);
    piece_.resize(count * row_bytes);
    const auto write_rows = [&](uint64_t begin, uint64_t end) {
      RowWriter rows(source, type, importance);
      for (uint64_t row = begin; row < end; ++row) rows.write(first + row, &piece_[row * row_bytes]);
      const std::lock_guard lock(mutex);
      rounding.largest_error = std::max(rounding.largest_error, rows.rounding().largest_error);
      rounding.largest_value = std::max(rounding.largest_value, rows.rounding().largest_value);
    };
    if (count * source.columns < kWorthThreads)
      write_rows(0, count);
    else
      on_all_cores(count, write_rows);
    if (first + count < source.rows) flush();
  }
  piece_.resize(piece_.size() + padding);
  flush();
  return rounding;
}

void TensorWriter::flush() {
  file_.write(piece_);
  done_ += piece_.size();
  progress_(std::min(1.0f, static_cast<float>(done_) / static_cast<float>(std::max<uint64_t>(total_, 1))));
  piece_.clear();
}

}  // namespace weft
