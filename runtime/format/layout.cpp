#include "format/layout.h"

#include <algorithm>

#include "base/error.h"
#include "base/quote.h"

namespace weft {

void place_tensor(TensorView& tensor, uint64_t offset, std::span<const std::byte> data, const std::string& place) {
  uint64_t bytes = 0;
  try {
    bytes = bytes_for(tensor.dtype, tensor.shape);
  } catch (const Error& error) {
    throw Error(error.code(), "tensor " + printable(tensor.name) + ": " + error.sentence(), place);
  }
  if (offset > data.size() || bytes > data.size() - offset) {
    throw Error(Code::bad_file,
                "tensor " + printable(tensor.name) + " needs " + std::to_string(bytes) + " bytes from byte " +
                    std::to_string(offset) + " of the data, but the data end at byte " + std::to_string(data.size()),
                place, "the file may have been cut short: compare its size with the original's");
  }
  tensor.bytes = data.subspan(offset, bytes);
}

uint64_t check_disjoint(const std::vector<TensorView>& tensors, std::span<const std::byte> file,
                        const std::string& place) {
  struct Range {
    uint64_t begin, end;
    const TensorView* tensor;
  };
  std::vector<Range> ranges;
  for (const TensorView& tensor : tensors) {
    if (tensor.bytes.empty()) continue;
    const auto begin = static_cast<uint64_t>(tensor.bytes.data() - file.data());
    ranges.push_back({begin, begin + tensor.bytes.size(), &tensor});
  }
  if (ranges.empty()) return 0;
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < ranges.size(); ++i) {
    const Range &before = ranges[i - 1], &after = ranges[i];
    if (before.end <= after.begin) continue;
    throw Error(Code::bad_file,
                "tensors " + printable(before.tensor->name) + " and " + printable(after.tensor->name) +
                    " overlap: the first ends at byte " + std::to_string(before.end) + ", the second begins at byte " +
                    std::to_string(after.begin),
                place);
  }
  return ranges.back().end;
}

}  // namespace weft
