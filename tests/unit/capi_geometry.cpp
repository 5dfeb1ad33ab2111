// Rows, products and states of the vocabulary table through the C API.
#include "weft/geometry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "support/model_maker.h"
#include "weft/soft.hpp"

namespace weft {
namespace {

using Floats = std::vector<float>;

TEST(CapiGeometryTest, LogitsAreProductsOfStatesAndRows) {
  std::string folder = (std::filesystem::temp_directory_path() / "weft-test-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/m.gguf";
  setenv("WEFT_CACHE_DIR", "", 1);
  make_gguf(path, LlamaShape(), {DType::q8_0, 5, ""});
  std::optional<api::Model> model;
  try {
    model.emplace(path);
  } catch (const api::Failure& failure) {
    if (failure.status() == WEFT_NO_DEVICE) GTEST_SKIP() << failure.what();
    throw;
  }
  const uint32_t width = model->info().width, vocab = model->info().vocab_size;
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < 19; ++i) ids.push_back(3 + i * 7 % 200);
  const size_t count = ids.size();
  weft_error error;
  Floats states(count * width), dots(count * vocab), rows(count * width);
  ASSERT_EQ(weft_table_states(model->get(), ids.data(), count, states.data(), &error), WEFT_OK) << error.sentence;
  ASSERT_EQ(weft_table_dots(model->get(), states.data(), count, dots.data(), &error), WEFT_OK) << error.sentence;
  ASSERT_EQ(weft_table_rows(model->get(), ids.data(), count, rows.data(), &error), WEFT_OK) << error.sentence;
  api::Session session(*model);
  for (const size_t last : {size_t{0}, size_t{7}, count - 1}) {  // in the first pass of products, and in a later one
    session.prompt({ids.begin(), ids.begin() + static_cast<ptrdiff_t>(last) + 1});
    const Floats logits = session.logits();
    for (uint32_t id = 0; id < vocab; ++id)
      ASSERT_NEAR(dots[last * vocab + id], logits[id], 1e-3 * (1 + std::fabs(logits[id]))) << last << " " << id;
    for (size_t i = 0; i < count; ++i) {
      double product = 0;
      for (uint32_t j = 0; j < width; ++j) product += double{rows[i * width + j]} * states[last * width + j];
      ASSERT_NEAR(dots[last * vocab + ids[i]], product, 1e-3 * (1 + std::fabs(product))) << last << " " << i;
    }
  }
  // The model is tied and has no scale of embeddings.
  EXPECT_EQ(rows, api::rows(*model, ids));

  const uint32_t none = vocab;
  EXPECT_EQ(weft_table_rows(model->get(), &none, 1, rows.data(), &error), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_table_states(model->get(), &none, 1, states.data(), &error), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_table_dots(model->get(), nullptr, 1, dots.data(), &error), WEFT_INVALID_ARGUMENT);
  const std::vector<uint32_t> many(model->info().max_context, 1);
  EXPECT_EQ(weft_table_states(model->get(), many.data(), many.size(), states.data(), &error), WEFT_CONTEXT_FULL);
  for (const auto call : {weft_table_rows, weft_table_states})
    EXPECT_EQ(call(model->get(), nullptr, 0, nullptr, &error), WEFT_OK);
  EXPECT_EQ(weft_table_dots(model->get(), nullptr, 0, nullptr, &error), WEFT_OK);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft
