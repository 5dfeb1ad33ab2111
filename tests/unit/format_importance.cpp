// Importance matrices: both formats, and what is refused.
#include "format/importance.h"

#include <cmath>
#include <limits>

#include "format/gguf_writer.h"
#include "format_support.h"

namespace weft {
namespace {

std::string floats(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) bytes += le(value);
  return bytes;
}

// Sums (matrices, columns) and a count for each matrix.
std::string gguf_of(const std::vector<float>& sums, const std::vector<float>& counts, const char* type = "imatrix") {
  GgufWriter w;
  w.key("general.type", type);
  w.tensor("blk.0.ffn_up.weight.in_sum2", {counts.size(), sums.size() / counts.size()}, 0, sums.size() * 4);
  w.tensor("blk.0.ffn_up.weight.counts", {counts.size(), 1}, 0, counts.size() * 4);
  return w.header() + floats(sums) + std::string(w.padding(sums.size() * 4), '\0') + floats(counts) +
         std::string(w.padding(counts.size() * 4), '\0');
}

std::string old_format(const std::vector<float>& values, int32_t passes, int32_t columns) {
  const std::string name = "blk.0.ffn_up.weight";
  return le<int32_t>(1) + le(static_cast<int32_t>(name.size())) + name + le(passes) + le(columns) + floats(values) +
         le<int32_t>(7) + le<int32_t>(4) + "text";
}

std::vector<float> factors_of(const std::string& file) {
  const Bytes bytes(file);
  const Importance found = parse_importance(bytes, "x");
  EXPECT_EQ(found.tensors.size(), 1u);
  EXPECT_EQ(found.find("blk.1.ffn_up.weight"), nullptr);
  const Importance::Tensor* const own = found.find("blk.0.ffn_up.weight");
  return own ? own->factors : std::vector<float>();
}

TEST(Importance, BothFormatsAreMeansOfSquares) {
  EXPECT_EQ(factors_of(gguf_of({2, 4, 0, 8}, {2})), (std::vector<float>{1, 2, 0, 4}));
  EXPECT_EQ(factors_of(old_format({2, 4, 0, 8}, 2, 4)), (std::vector<float>{1, 2, 0, 4}));
  // Experts have counts of their own; one that no token has used has none.
  EXPECT_EQ(factors_of(gguf_of({2, 4, 0, 8, 5, 5}, {2, 4, 0})), (std::vector<float>{1, 2, 0, 2, 0, 0}));
}

TEST(Importance, OtherFilesAreRefused) {
  const auto refuse = [](const std::string& file, const std::vector<std::string>& fragments) {
    const Bytes bytes(file);
    expect_error(Code::bad_file, fragments, [&] { parse_importance(bytes, "some.imatrix"); });
  };
  refuse(gguf_of({1, 2}, {1}, "model"), {"some.imatrix: general.type is not 'imatrix'"});
  refuse(gguf_of({1, NAN}, {1}), {"some.imatrix, tensor blk.0.ffn_up.weight.in_sum2: element 1 is nan"});
  refuse(gguf_of({-1, 2}, {1}), {"element 0 is -1"});
  refuse(gguf_of({1, 2}, {-1}), {"tensor blk.0.ffn_up.weight.counts: element 0 is -1"});
  refuse(old_format({1, std::numeric_limits<float>::infinity()}, 1, 2),
         {"tensor blk.0.ffn_up.weight: element 1 is inf"});
  refuse(gguf_of({1, 2}, {0.5f}), {"tensor blk.0.ffn_up.weight.counts: element 0 is 0.5", "no count"});
  refuse(gguf_of({1e30f, 2}, {1e-30f}), {"tensor blk.0.ffn_up.weight.counts: element 0 is 1e-30, no count"});
  refuse(gguf_of({1, 2}, {NAN}), {"element 0 is nan, no count"});
  refuse(old_format({1, 2}, 0, 2), {"some.imatrix, tensor blk.0.ffn_up.weight: the number of passes is 0"});
  refuse(old_format({1, 2}, 1, -2), {"some.imatrix, tensor blk.0.ffn_up.weight: the number of columns is -2"});
  std::string twice = old_format({1, 2}, 1, 2);
  const std::string tensor = twice.substr(4, twice.size() - 16);
  twice = le<int32_t>(2) + tensor + tensor;
  refuse(twice, {"some.imatrix, tensor blk.0.ffn_up.weight: it is there twice"});
  refuse(old_format({1, 2}, 1, 2000), {"a tensor's numbers needs 8000 bytes", "the file ends"});
  refuse("", {"the number of tensors needs 4 bytes"});
  refuse("some text", {"a tensor's name needs"});
  GgufWriter lone;
  lone.key("general.type", "imatrix");
  refuse(lone.header(), {"it has no tensors"});
  lone.tensor("a.in_sum2", {1, 2}, 0, 8);
  refuse(lone.file_of_zeros(), {"the tensor 'a.counts' is missing"});
}

TEST(Importance, SumsThatNoFloatHoldsAreNotWritten) {
  const std::vector<SquaredInputs> inputs = {{"blk.0.ffn_up.weight", {1, 1e39}, 2}};
  expect_error(Code::unsupported,
               {"tensor blk.0.ffn_up.weight.in_sum2: a sum of squared inputs is above the largest float"},
               [&] { importance_file(inputs, "text", 1, 512); });
}

}  // namespace
}  // namespace weft
