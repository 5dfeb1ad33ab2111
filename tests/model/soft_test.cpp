// Soft tokens: a row of a token's own in place of the vocabulary table's. With the table's row they are the token.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/fingerprint.h"
#include "model/table_rows.h"
#include "session/batch.h"
#include "session/lookup.h"
#include "support/model_test.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

using Ids = std::vector<uint32_t>;
using Floats = std::vector<float>;

const std::filesystem::path kModels = source_folder() / "tests/model";

Floats rows_of(const Model& model, std::span<const uint32_t> ids) {
  return table_rows(model, *model.weights.embedding, ids, model.config.embedding_scale);
}

// Some of the tokens by their rows: the first and the last one, and one on either side of a pass's end.
struct Mixed {
  Mixed(const Model& model, const Ids& ids) {
    std::vector<size_t> ends = {1, 5, 9, 60, 70, ids.size() - 1, ids.size()};
    std::erase_if(ends, [&](size_t end) { return end > ids.size(); });
    size_t begin = 0;
    bool soft = true;
    for (const size_t end : ends) {
      if (end <= begin) continue;
      const std::span<const uint32_t> some = std::span(ids).subspan(begin, end - begin);
      rows.push_back(soft || end == ids.size() ? rows_of(model, some) : Floats());
      plain.push_back(rows.back().empty() ? Ids(some.begin(), some.end()) : Ids());
      soft = !soft;
      begin = end;
    }
    for (size_t i = 0; i < rows.size(); ++i) parts.push_back({plain[i], rows[i]});
  }
  Mixed(const Mixed&) = delete;
  std::vector<Floats> rows;
  std::vector<Ids> plain;
  std::vector<PromptPart> parts;
};

Ids go_on(Session& session, uint32_t count) {
  Ids out;
  session.generate(count, true, [&](uint32_t id) {
    out.push_back(id);
    return true;
  });
  return out;
}

class SoftTest : public GpuTest {
 protected:
  std::unique_ptr<Model> load(const char* name, Format format = Format::q8) {
    return load_model(open_device(), kModels / "golden" / name, format);
  }
};
class SoftFamiliesTest : public SoftTest, public testing::WithParamInterface<std::string> {};

std::vector<std::string> decoders() {
  // The lens's models: the others differ only after the embedding.
  std::vector<std::string> names;
  std::ifstream file(kModels / "golden_lens.json");
  const nlohmann::json goldens = nlohmann::json::parse(file);
  for (const auto& item : goldens.items())
    if (item.key() != "gemma4" && std::filesystem::exists(kModels / "golden" / item.key())) names.push_back(item.key());
  return names;
}

TEST_P(SoftFamiliesTest, AnOwnRowGivesTheBitsOfTheId) {
  const auto model = load(GetParam().c_str());
  const Ids ids = some_ids(75, model->config.vocab);
  const Mixed mixed(*model, ids);
  Session one(*model, 128, {}), other(*model, 128, {});
  one.set_sampling(greedy());
  other.set_sampling(greedy());
  one.prompt(ids);
  other.prompt_parts(mixed.parts);
  const Floats want = one.logits();
  EXPECT_EQ(other.logits(), want);
  EXPECT_EQ(go_on(other, 5), go_on(one, 5));
  // Another row gives something else.
  Floats changed = mixed.rows.back();  // not the first: windows leave it behind
  changed[0] += 1;
  std::vector<PromptPart> parts = mixed.parts;
  parts.back().rows = changed;
  other.prompt_parts(parts);
  EXPECT_NE(other.logits(), want);
}

std::string underscored(const testing::TestParamInfo<std::string>& model) {
  std::string name = model.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Models, SoftFamiliesTest, testing::ValuesIn(decoders()), underscored);

// Tables of every type and both layouts; in passes of one token, too.
TEST_F(SoftTest, AnOwnRowGivesTheBitsOfTheIdInEveryType) {
  for (const char* name : {"gemma3", "gpt2", "qwen3-untied"})
    for (const Format format : {Format::f16, Format::q8, Format::q4}) {
      const auto model = load(name, format);
      Session one(*model, 128, {}), other(*model, 128, {});
      for (const uint32_t count : {1u, 2u, 64u, 65u}) {
        const Ids ids = some_ids(count, model->config.vocab);
        const Mixed mixed(*model, ids);
        one.reset();
        other.reset();
        one.prompt(ids);
        other.prompt_parts(mixed.parts);
        ASSERT_EQ(other.logits(), one.logits()) << name << " " << weft::name(format) << " " << count;
      }
    }
}

// The rows are the table's with the family's scale: in f16, those of the file.
TEST_F(SoftTest, RowsAreTheTables) {
  for (const auto& [name, scaled] : {std::pair{"gemma3", true}, {"llama3", false}}) {
    const auto model = load(name, Format::f16);
    const uint32_t width = model->config.width, vocab = model->config.vocab;
    Ids all(vocab);
    for (uint32_t id = 0; id < vocab; ++id) all[id] = vocab - 1 - id;  // more than are read at once
    const Floats rows = rows_of(*model, all);
    ASSERT_EQ(rows.size(), size_t{vocab} * width);
    const Floats plain = table_rows(*model, *model->weights.embedding, all, 1);
    const double scale = scaled ? std::sqrt(width) : 1;
    double length = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      ASSERT_NEAR(rows[i], plain[i] * scale, 1e-5 * scale) << i;
      length += std::fabs(rows[i]);
    }
    EXPECT_GT(length, 0);
    for (const uint32_t id : {0u, 1u, vocab - 1}) {
      const Ids single = {id};
      const Floats row = rows_of(*model, single);
      EXPECT_TRUE(std::equal(row.begin(), row.end(), rows.begin() + static_cast<ptrdiff_t>((vocab - 1 - id) * width)));
    }
    EXPECT_EQ(model->config.embedding_scale != 1, scaled);
  }
}

TEST_F(SoftTest, ReusesAPrefixOfTheSameRows) {
  const auto model = load("gemma3");
  const uint32_t width = model->config.width;
  const Ids ids = some_ids(30, model->config.vocab);
  Floats rows = rows_of(*model, std::span(ids).subspan(10, 10));
  rows[4 * width + 2] = 0;
  Session session(*model, 128, {}), fresh(*model, 128, {});
  const auto prompt = [&](Session& to) {
    const PromptPart parts[] = {{std::span(ids).first(10), {}}, {{}, rows}, {std::span(ids).subspan(20), {}}};
    to.prompt_parts(parts);
    to.logits();
  };
  const auto reused_by = [&] {
    const uint64_t before = session.stats().reused_tokens;
    prompt(session);
    return session.stats().reused_tokens - before;
  };
  prompt(session);
  EXPECT_EQ(session.ids()[10], SOFT_ID);
  EXPECT_EQ(session.ids()[19], SOFT_ID + 9);
  EXPECT_EQ(reused_by(), 29u);
  rows[4 * width + 2] = -0.0f;  // another row, of the same value
  EXPECT_EQ(reused_by(), 14u);
  rows[6 * width] += 1;
  EXPECT_EQ(reused_by(), 16u);
  const Floats got = session.logits();
  fresh.prompt(ids);
  EXPECT_NE(got, fresh.logits());
  fresh.reset();
  prompt(fresh);
  fresh.copy_prefix(session);  // nothing: it is all there
  session.prompt(ids);
  EXPECT_EQ(session.stats().reused_tokens, 29u + 14u + 16u + 10u);
  // From another session, up to the row that differs.
  Session third(*model, 128, {});
  const Floats before = rows;
  rows[8 * width] += 1;
  const PromptPart parts[] = {{std::span(ids).first(10), {}}, {{}, rows}, {std::span(ids).subspan(20), {}}};
  third.prompt_parts(parts);
  EXPECT_EQ(third.copy_prefix(fresh), 18u);
}

TEST_F(SoftTest, SavedSessionsKeepTheRows) {
  const auto model = load("gemma3");
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "session";
  const Ids ids = some_ids(75, model->config.vocab);
  const Mixed mixed(*model, ids);
  Session session(*model, 128, {}), other(*model, 128, {});
  session.set_sampling(greedy());
  session.prompt_parts(mixed.parts);
  const Ids before = go_on(session, 3);
  session.save(path, "");
  const Ids want = go_on(session, 6);
  other.restore(path);
  EXPECT_EQ(other.ids(), [&] {
    Ids all = session.ids();
    all.resize(all.size() - 6);
    return all;
  }());
  EXPECT_EQ(go_on(other, 6), want);
  // The rows themselves were kept: a changed row is detected, and the context can be computed again.
  other.restore(path);
  const uint64_t reused = other.stats().reused_tokens;
  Floats changed = mixed.rows[2];
  changed[0] += 1;
  std::vector<PromptPart> parts = mixed.parts;
  parts[2].rows = changed;
  other.prompt_parts(parts);
  EXPECT_EQ(other.stats().reused_tokens - reused, 5u);
  other.restore(path);
  other.leave_device();
  other.enter_device();
  EXPECT_EQ(other.ids().size(), ids.size() + 3);
  EXPECT_EQ(go_on(other, 6), want);

  // Writes a file whose checksum fits its bytes, as an attacker would.
  std::ifstream file(path, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(file), {}};
  const auto refused = [&](std::string bytes) {
    Fingerprint sum;
    sum.add(std::as_bytes(std::span(bytes)).first(bytes.size() - 8));
    const uint64_t value = sum.value();
    std::memcpy(&bytes[bytes.size() - 8], &value, 8);
    std::ofstream(path, std::ios::binary) << bytes;
    try {
      other.restore(path);
      return false;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::bad_file) << error.sentence();
      return true;
    }
  };
  uint64_t header = 0;
  std::memcpy(&header, &good[8], 8);
  const size_t first = 16 + header, row = first + (ids.size() + 3 + 1) / 2 * 8;
  const auto with_word = [&](size_t at, uint32_t word) {
    std::string bytes = good;
    std::memcpy(&bytes[at], &word, 4);
    return bytes;
  };
  EXPECT_FALSE(refused(good));
  EXPECT_TRUE(refused(with_word(first, SOFT_ID + 1)));
  EXPECT_TRUE(refused(with_word(first, 5)));
  EXPECT_TRUE(refused(with_word(first + 4, UINT32_MAX)));
  EXPECT_TRUE(refused(with_word(row, 0x7f800000)));
  EXPECT_FALSE(refused(with_word(row, 0x3f800000)));
  std::string fewer = good;
  const size_t at = fewer.find("\"soft\":");
  ASSERT_NE(at, std::string::npos);
  --fewer[at + 7];
  EXPECT_TRUE(refused(fewer));
  // A model generates no soft token: the last one, of the prompt, as if it had been generated.
  for (const char* prompt : {"74", "0 "}) {
    std::string generated = good;
    const size_t end = generated.find("\"prompt\":75");
    ASSERT_NE(end, std::string::npos);
    generated.replace(end + 9, 2, prompt);
    EXPECT_TRUE(refused(generated)) << prompt;
  }
}

// A row has no embeddings of the layers' own.
TEST_F(SoftTest, PerLayerEmbeddingsTakeNone) {
  const auto model = load("gemma4");
  const Ids ids = some_ids(9, model->config.vocab);
  const Mixed mixed(*model, ids);
  Session session(*model, 64, {});
  session.prompt(ids);
  try {
    session.prompt_parts(mixed.parts);
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unsupported);
  }
  EXPECT_EQ(session.ids(), ids);
}

TEST_F(SoftTest, EverythingElseTakesThemAsTokens) {
  const auto model = load("gemma3");
  const Ids ids = some_ids(75, model->config.vocab);
  const Mixed mixed(*model, ids);
  Session one(*model, 128, {}), other(*model, 128, {});
  const auto prompt = [&] {
    one.reset();
    other.reset();
    one.prompt(ids);
    other.prompt_parts(mixed.parts);
  };
  // The lens.
  prompt();
  const auto states = [&](Session& session) {
    std::vector<Floats> all;
    session.lens({0, ids.size(), {0, 3}, false}, [&](const LensRow& row) {
      all.emplace_back(row.hidden.begin(), row.hidden.end());
      return true;
    });
    return all;
  };
  EXPECT_EQ(states(other), states(one));
  // A lost device.
  other.leave_device();
  other.enter_device();
  EXPECT_EQ(states(other), states(one));
  // A timed pass.
  other.prompt_parts(mixed.parts);
  EXPECT_FALSE(other.time_passes(3, 2).empty());
  EXPECT_EQ(other.logits(), one.logits());
  // Guesses from the context: none is a soft token.
  prompt();
  one.set_sampling(greedy());
  other.set_sampling(greedy());
  other.set_drafter(std::make_unique<Lookup>());
  const Ids want = go_on(one, 30);
  EXPECT_EQ(go_on(other, 30), want);
  other.set_drafter(nullptr);
  // A batch, with a prompt whose only token to compute is a soft one: the session computes it, not the batch.
  prompt();
  other.logits();
  Ids in_batch;
  const auto add = [&](uint32_t id) {
    in_batch.push_back(id);
    return true;
  };
  one.logits();
  const Ids alone = go_on(one, 8);
  Session third(*model, 128, {});
  third.prompt(Ids(9, 5));
  generate_batch({{other, 8, true, add}, {third, 8, true, [](uint32_t) { return true; }}});
  EXPECT_EQ(in_batch, alone);
  // Penalties ignore soft tokens.
  prompt();
  Sampling sampling = greedy();
  sampling.repeat_penalty = 1.5f;
  sampling.frequency_penalty = 0.5f;
  other.set_sampling(sampling);
  EXPECT_EQ(go_on(other, 5).size(), 5u);
  // Lists of the prompt's tokens ignore them, too.
  prompt();
  VocabHead head;
  head.keep = Ids{1, 2};
  head.keep_prompt = true;
  other.set_sampling(greedy());
  other.set_head(head);
  for (const uint32_t id : go_on(other, 5)) EXPECT_LT(id, model->config.vocab);
  other.set_head({});
  // A text without them comes after one with them.
  other.prompt(ids);
  one.prompt(ids);
  EXPECT_EQ(other.logits(), one.logits());
  EXPECT_EQ(other.score(ids), one.score(ids));
  // A score leaves no rows behind: with them the saved session could not be read.
  other.prompt_parts(mixed.parts);
  other.score(ids);
  const TemporaryFolder folder;
  other.save(folder.path() / "session", "");
  one.restore(folder.path() / "session");
  EXPECT_EQ(one.ids(), ids);
}

template <class Call>
Code refusal(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return Code::internal;
}

TEST_F(SoftTest, RefusesWhatIsNoPrompt) {
  const auto model = load("llama3");
  const uint32_t width = model->config.width;
  Session session(*model, 16, {});
  session.prompt(Ids{1, 2, 3});
  session.logits();
  const Floats want = session.logits();  // in a pass of one token, as the last one
  const auto code = [&](const Ids& ids, const Floats& rows) {
    const PromptPart parts[] = {{ids, {}}, {{}, rows}};
    const Code result = refusal([&] { session.prompt_parts(parts); });
    EXPECT_EQ(session.ids(), (Ids{1, 2, 3}));
    return result;
  };
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    Floats rows(3 * width, 1);
    rows.back() = bad;
    EXPECT_EQ(code({1}, rows), Code::invalid_argument);
  }
  EXPECT_EQ(code({}, {}), Code::invalid_argument);
  EXPECT_EQ(code({1}, Floats(width + 1)), Code::invalid_argument);
  EXPECT_EQ(code({model->config.vocab}, Floats(width)), Code::invalid_argument);
  EXPECT_EQ(code({SOFT_ID}, Floats(width)), Code::invalid_argument);
  EXPECT_EQ(code(Ids(10, 1), Floats(6 * width)), Code::context_full);
  EXPECT_EQ(refusal([&] { session.prompt(Ids{1, SOFT_ID}); }), Code::invalid_argument);
  EXPECT_EQ(session.logits(), want);
}

TEST_F(SoftTest, EncoderDecodersTakeNone) {
  const auto model = load_model(open_device(), kModels / "golden_seq2seq/t5", Format::q8);
  Session session(*model, 64, {});
  const Floats row(model->config.width, 1);
  const PromptPart parts[] = {{{}, row}};
  EXPECT_EQ(refusal([&] { session.prompt_parts(parts); }), Code::unsupported);
}

}  // namespace
}  // namespace weft::test
