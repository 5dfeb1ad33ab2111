// Hidden states, what is kept of them, and the basis that a vocabulary table gets from it.
#include "run/hidden_states.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "base/error.h"
#include "gpu/pipeline_cache.h"
#include "reference/table_row.h"
#include "support/model_test.h"
#include "support/op_inputs.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

class HiddenStatesTest : public GpuTest {
 protected:
  TemporaryFolder folder_;
};

LlamaShape small_shape() {
  LlamaShape shape;
  shape.width = 72, shape.heads = 4, shape.kv_heads = 2, shape.ffn = 96, shape.vocab = 200, shape.context = 512;
  return shape;
}

// States of every token, through several chunks: with the table's rows they give the logits that a session has there.
TEST_F(HiddenStatesTest, AreWhatTheTableIsMultipliedBy) {
  const std::filesystem::path path = folder_.path() / "m.gguf";
  make_gguf(path, small_shape(), {DType::f32, 3, ""});
  const auto model = load_model(open_device(), path, Format::f16);
  const std::vector<uint32_t> ids = some_ids(150, model->config.vocab);
  const uint32_t width = model->config.width;
  const std::vector<float> states = hidden_states(*model, ids);
  ASSERT_EQ(states.size(), ids.size() * width);
  const ModelFile file = open_model(path);
  const std::vector<float> table = stored_table(Format::f16, *file.find("token_embd.weight"));
  Session session(*model, 300, {});
  for (const size_t length : {1u, 64u, 65u, 150u}) {
    session.prompt({ids.data(), length});
    const std::vector<float> logits = session.logits();
    for (uint32_t row = 0; row < model->config.vocab; ++row) {
      double logit = 0, size = 0;
      for (uint32_t i = 0; i < width; ++i) {
        const double product = double{table[row * width + i]} * states[(length - 1) * width + i];
        logit += product;
        size += std::abs(product);
      }
      ASSERT_NEAR(logits[row], logit, 1e-5 * size + 1e-6) << "row " << row << " after " << length;
    }
  }
}

// The first load has a table of the text's tokens alone, and the whole one afterwards.
void check_rows_of_tokens(const std::filesystem::path& path) {
  const auto whole = load_model(open_device(), path, Format::q8);
  const std::vector<uint32_t> ids = some_ids(70, whole->config.vocab);
  DeviceFormats formats(Format::q8);
  formats.rows = ids;
  std::ranges::sort(formats.rows);
  formats.rows.erase(std::unique(formats.rows.begin(), formats.rows.end()), formats.rows.end());
  std::vector<uint32_t> places;
  for (const uint32_t id : ids)
    places.push_back(static_cast<uint32_t>(std::ranges::find(formats.rows, id) - formats.rows.begin()));
  const ModelFile file = open_model(path);
  Config config = read_config(file);
  const std::shared_ptr<Device> device = open_device();
  Weights weights = load_weights(device, file, config, formats, [](float) {});
  EXPECT_EQ(weights.embedding->rows(), formats.rows.size());
  Model part = {device, config, std::move(weights)};
  EXPECT_EQ(hidden_states(part, places), hidden_states(*whole, ids));
  formats.rows.clear();
  reload_vocabulary(device, file, part.config, formats, part.weights, {});
  EXPECT_EQ(part.weights.output_table().rows(), whole->config.vocab);
  Session of_part(part, 100, {}), of_whole(*whole, 100, {});
  EXPECT_EQ(generate(of_part, ids, 20), generate(of_whole, ids, 20));

  formats.rows = {whole->config.vocab};
  try {
    load_weights(device, file, config, formats, [](float) {});
    ADD_FAILURE() << "a row that no table has";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::bad_file);
    const std::string words = "the tokenizer has an id " + std::to_string(whole->config.vocab) + ", the tensor";
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
  }
}

TEST_F(HiddenStatesTest, NeedOnlyTheRowsOfTheirTokens) {
  const std::filesystem::path path = folder_.path() / "m.gguf";
  for (const bool tied : {true, false}) {
    LlamaShape shape = small_shape();
    shape.tied = tied;
    make_gguf(path, shape, {DType::q8_0, 3, ""});
    check_rows_of_tokens(path);
  }
  check_rows_of_tokens(source_folder() /
                       "tests/model/golden/gemma4");  // a row of per-layer embeddings is a token's too
}

TEST(StateStatistics, AreMeanAndVarianceWithoutTheFirstStates) {
  const uint32_t width = 3;
  Random random(1);
  std::vector<float> states;
  for (int t = 0; t < 100; ++t)
    for (uint32_t i = 0; i < width; ++i)
      states.push_back(t < 8 ? 1e6f : static_cast<float>(i) + random.normals(1)[0] * static_cast<float>(i));
  const auto statistics = statistics_of(states, width);
  ASSERT_TRUE(statistics);
  for (uint32_t i = 0; i < width; ++i) {
    double mean = 0, square = 0;
    for (size_t t = 8; t < 100; ++t) mean += states[t * width + i] / 92.0;
    for (size_t t = 8; t < 100; ++t) square += std::pow(states[t * width + i] - mean, 2) / 92;
    EXPECT_NEAR(statistics->mean[i], mean, 1e-6);
    EXPECT_NEAR(statistics->variance[i], square, 1e-6);
  }
  EXPECT_EQ(statistics->variance[0], 0);
  // A few states are all taken.
  const auto few = statistics_of(std::span(states).first(2 * width), width);
  ASSERT_TRUE(few);
  EXPECT_EQ(few->mean[1], 1e6f);
  for (const float bad : {NAN, INFINITY}) {
    states[50 * width] = bad;
    EXPECT_FALSE(statistics_of(states, width)) << bad;
  }
}

std::vector<uint32_t> words_of(const StateStatistics& states, const std::vector<float>& table, uint32_t rows) {
  const uint32_t width = static_cast<uint32_t>(states.mean.size());
  return basis_for(states, {"t", DType::f32, {rows, width}, std::as_bytes(std::span(table))}).words();
}

// The order is that of s r; scales make the product of both norms what Cauchy and Schwarz allow at least, and keep the
// table's own.
TEST(TableBasis, BalancesRowsAndStates) {
  const uint32_t rows = 3000, width = 100;
  Random random(2);
  StateStatistics states = {random.normals(width), {}};
  std::vector<double> s(width), r(width);
  std::vector<float> table(size_t{rows} * width);
  for (uint32_t i = 0; i < width; ++i) {
    states.variance.push_back(static_cast<float>(std::exp(random.uniform(-6, 6))));
    s[i] = std::sqrt(states.variance[i]);
    r[i] = std::exp(random.uniform(-2, 2));
    for (uint32_t row = 0; row < rows; ++row) table[row * width + i] = static_cast<float>(row % 2 != 0 ? r[i] : -r[i]);
  }
  const reference::TableBasis basis(words_of(states, table, rows));
  double products = 0, row_energy = 0, state_energy = 0, table_energy = 0, last = INFINITY;
  for (size_t i = 0; i < basis.columns.size(); ++i) {
    const uint32_t column = basis.columns[i];
    if (column == reference::TableBasis::kNone) continue;
    EXPECT_LE(s[column] * r[column], last * (1 + 1e-6)) << i;
    last = s[column] * r[column];
    products += last;
    table_energy += r[column] * r[column];
    row_energy += std::pow(r[column] / basis.scales[i], 2);
    state_energy += std::pow(s[column] * basis.scales[i], 2);
  }
  EXPECT_NEAR(row_energy * state_energy, products * products, 1e-5 * products * products);
  EXPECT_NEAR(row_energy, table_energy, 1e-5 * table_energy);
}

// Columns without energy, tables of zeros, of one row, and with numbers that packing refuses: all scales are usable.
TEST(TableBasis, TakesEveryTable) {
  const uint32_t width = 40;
  std::vector<float> ones(size_t{5} * width, 1), zeros(ones.size()), odd = ones;
  odd[3] = NAN;
  odd[7] = INFINITY;
  odd[9] = 1e30f;
  std::vector<float> flat(width), one_large(width);
  one_large[11] = 1e30f;
  for (const std::vector<float>& variance : {flat, one_large, std::vector<float>(width, 1)})
    for (const std::vector<float>& table : {ones, zeros, odd})
      for (const uint32_t rows : {1u, 5u}) {
        const std::vector<float> first(table.begin(), table.begin() + rows * width);
        const reference::TableBasis basis(words_of({std::vector<float>(width, 1), variance}, first, rows));
        std::set<uint32_t> columns;
        for (size_t i = 0; i < basis.columns.size(); ++i) {
          if (basis.columns[i] == reference::TableBasis::kNone) continue;
          columns.insert(basis.columns[i]);
          EXPECT_TRUE(basis.scales[i] > 0 && std::isfinite(basis.scales[i])) << basis.scales[i];
        }
        EXPECT_EQ(columns.size(), width);
      }
}

class StatisticsFileTest : public testing::Test {
 protected:
  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string read() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "states.bin";
};

TEST_F(StatisticsFileTest, IsReadAsWritten) {
  const StateStatistics states = {{1, -2, 3.5f}, {0, 4, 1e-20f}};
  write_statistics(path_, states);
  const auto got = read_statistics(path_, 3);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->mean, states.mean);
  EXPECT_EQ(got->variance, states.variance);
  EXPECT_FALSE(read_statistics(path_, 2));
  EXPECT_FALSE(read_statistics(folder_.path() / "none.bin", 3));
}

TEST_F(StatisticsFileTest, OfAnotherUserIsNone) {
  namespace fs = std::filesystem;
  write_statistics(path_, {{1, -2, 3.5f}, {0, 4, 1}});
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  ASSERT_TRUE(read_statistics(path_, 3));
  fs::permissions(folder_.path(), fs::perms::all);
  EXPECT_FALSE(read_statistics(path_, 3));
  set_user_cache_folder(folder_.path());
  EXPECT_FALSE(statistics_path(1));
  fs::permissions(folder_.path(), fs::perms::owner_all);
  EXPECT_TRUE(statistics_path(1));
  set_user_cache_folder(std::nullopt);
  fs::permissions(path_, fs::perms::others_write, fs::perm_options::add);
  EXPECT_FALSE(read_statistics(path_, 3));
}

TEST_F(StatisticsFileTest, ADamagedOneIsNone) {
  write_statistics(path_, {{1, -2, 3.5f}, {0, 4, 1}});
  const std::string whole = read();
  for (size_t length = 0; length < whole.size(); ++length) {
    write(whole.substr(0, length));
    ASSERT_FALSE(read_statistics(path_, 3)) << length;
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 64);
    write(changed);
    ASSERT_FALSE(read_statistics(path_, 3)) << at;
  }
  // Complete files with useless numbers.
  for (const StateStatistics& states :
       {StateStatistics{{1, NAN, 3}, {0, 4, 1}}, {{1, 2, 3}, {0, INFINITY, 1}}, {{1, 2, 3}, {0, -1, 1}}}) {
    write_statistics(path_, states);
    EXPECT_FALSE(read_statistics(path_, 3));
  }
}

}  // namespace
}  // namespace weft::test
