#include "format/quantised_rows.h"

#include <utility>

#include "base/error.h"

namespace weft {
namespace {

class ReorderedRows final : public QuantisedRows {
 public:
  ReorderedRows(std::shared_ptr<const QuantisedRows> rows, std::function<uint64_t(uint64_t)> source,
                std::span<const std::byte> stored)
      : rows_(std::move(rows)), source_(std::move(source)), stored_(stored) {}

  const char* method() const override { return rows_->method(); }
  std::span<const std::byte> stored() const override { return stored_; }
  void values(uint64_t row, std::span<float> out) const override { rows_->values(source_(row), out); }
  bool has_blocks(DType type) const override { return rows_->has_blocks(type); }
  void blocks(uint64_t row, DType type, std::byte* out) const override { rows_->blocks(source_(row), type, out); }
  bool blocks_are_rounded(DType type) const override { return rows_->blocks_are_rounded(type); }

 private:
  std::shared_ptr<const QuantisedRows> rows_;
  std::function<uint64_t(uint64_t)> source_;
  std::span<const std::byte> stored_;
};

}  // namespace

void QuantisedRows::blocks(uint64_t, DType, std::byte*) const {
  throw Error(Code::internal, "these rows have no blocks", "quantised tensor");
}

std::shared_ptr<const QuantisedRows> reordered(std::shared_ptr<const QuantisedRows> rows,
                                               std::function<uint64_t(uint64_t)> source,
                                               std::span<const std::byte> stored) {
  return std::make_shared<const ReorderedRows>(std::move(rows), std::move(source), stored);
}

}  // namespace weft
