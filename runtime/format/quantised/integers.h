// Rows of integers of 4 or 8 bits whose columns have scales and zero points in groups: scale * (integer - zero). Not
// for other modules.
#pragma once

#include <vector>

#include "format/quantised/folder.h"

namespace weft {

// A number of a tensor of I32, of F16, BF16 or F32.
int32_t integer_at(const TensorView& tensor, uint64_t index);
float float_at(const TensorView& tensor, uint64_t index);

// "bits": 4 or 8.
uint32_t bits_of(const JsonObject& config);
// "group_size" for so many columns; -1: all of them.
uint64_t group_of(const JsonObject& config, uint64_t columns);

struct IntegerLayout;

// The columns' groups as a tensor of I32 has them; empty if they are neighbours, or if the tensor is missing and not
// needed.
std::vector<uint32_t> read_groups(QuantisedFolder& folder, const std::string& name, const IntegerLayout& layout,
                                  bool needed);

struct IntegerLayout {
  uint64_t rows, columns;
  uint64_t group;                       // columns that share a scale; the last group may have fewer
  uint32_t bits;                        // 4 or 8
  std::vector<uint32_t> group_of = {};  // of each column, if groups are no neighbouring columns; else empty

  uint64_t groups() const { return (columns + group - 1) / group; }
};

class IntegerRows : public QuantisedRows {
 public:
  explicit IntegerRows(IntegerLayout layout) : layout_(std::move(layout)) {}

  // Reads all scales and zero points, and chooses the type that holds the numbers. Throws
  // Error(bad_file) for a scale that is not finite. Comes first.
  DType check(const QuantisedFolder& folder);

  void values(uint64_t row, std::span<float> out) const override;
  bool has_blocks(DType type) const override;
  void blocks(uint64_t row, DType type, std::byte* out) const override;
  bool blocks_are_rounded(DType type) const override { return rounded_ || type == DType::q4_1; }

 protected:
  const IntegerLayout& layout() const { return layout_; }
  // The integers of a row, from 0 to 2^bits - 1.
  virtual void integers(uint64_t row, std::span<uint8_t> out) const = 0;
  virtual float scale(uint64_t row, uint64_t group) const = 0;
  virtual int zero(uint64_t row, uint64_t group) const = 0;  // from 0 to 2^bits - 1
  virtual const TensorView& scales() const = 0;              // for errors

 private:
  IntegerLayout layout_;
  DType type_ = DType::f32;
  bool rounded_ = false;  // some scale is no f16
};

// Checks the rows, and puts them as the matrix MODULE.weight in the place of a tensor.
void put_integers(QuantisedFolder& folder, const TensorView& in_place_of, const std::string& module,
                  const IntegerLayout& layout, std::shared_ptr<IntegerRows> rows);

}  // namespace weft
