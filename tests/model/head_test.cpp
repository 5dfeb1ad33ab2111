// Heads in sessions: with every head the tokens are the full head's, and the device counts what it costs.
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "format/model_file.h"
#include "keep/keep_list.h"
#include "reference/filter.h"
#include "reference/json_schema.h"
#include "reference/sample.h"
#include "support/model_test.h"
#include "support/source_folder.h"
#include "tokenizer/tokenizer.h"

namespace weft::test {
namespace {

// Steps of each comparison with real models; the soak (label soak) takes 20,000.
uint32_t steps() {
  const char* wanted = std::getenv("WEFT_HEAD_STEPS");
  return wanted ? static_cast<uint32_t>(std::atoi(wanted)) : 32;
}

Sampling sampling(float temperature, uint32_t top_k, float top_p, float min_p, float penalty, uint64_t seed) {
  return {temperature, top_k, top_p, min_p, penalty, seed};
}

// Adds OpenAI's penalties and typical sampling.
Sampling extra(Sampling sampling, float presence, float frequency, float typical_p) {
  sampling.presence_penalty = presence;
  sampling.frequency_penalty = frequency;
  sampling.typical_p = typical_p;
  return sampling;
}

const Sampling kSamplings[] = {greedy(),
                               sampling(0, 0, 1, 0, 1.3f, 0),
                               sampling(0.8f, 40, 0.95f, 0.05f, 1, 1),
                               sampling(1, 5, 1, 0, 1.2f, 2),
                               sampling(1, 0, 1, 0.1f, 1, 3),
                               sampling(0.7f, 0, 0.9f, 0, 1, 4),
                               sampling(0.9f, 0, 1, 0, 1, 5),
                               sampling(0.9f, 0, 1, 0, 0.9f, 6),
                               extra(greedy(), 0.4f, 0.2f, 1),
                               extra(sampling(0.9f, 0, 1, 0, 1.1f, 7), -1, -0.3f, 1),
                               extra(sampling(1, 30, 1, 0, 1, 8), 0.5f, 0, 0.7f),
                               extra(sampling(1, 0, 1, 0.02f, 1, 9), 0, 0.5f, 0.8f)};

VocabHead head(VocabHead::Mode mode, std::optional<std::vector<uint32_t>> keep = {}, bool keep_prompt = true) {
  VocabHead made;
  made.mode = mode;
  made.keep = std::move(keep);
  made.keep_prompt = keep_prompt;
  return made;
}

class HeadTest : public GpuTest {
 protected:
  void make(const LlamaShape& shape, Format format, const Tuning& tuning = {}) {
    make_gguf(folder_.path() / "m.gguf", shape, {DType::q8_0, 5, ""});
    model_ = load_model(open_device(tuning), folder_.path() / "m.gguf", format);
  }
  TemporaryFolder folder_;
  std::unique_ptr<Model> model_;
};

// Runs of a context's length until `count` tokens were compared.
void expect_same(const Model& model, const Sampling& sampling, const VocabHead& full, const VocabHead& other,
                 uint32_t count, bool biased = false) {
  const uint32_t context = std::min(model.config.context, 256u);
  Session a(model, context, {}), b(model, context, {});
  a.set_head(full);
  b.set_head(other);
  if (biased) {
    std::vector<uint32_t> ids;
    std::vector<float> biases;
    for (uint32_t id = 0; id < model.config.vocab; id += 3) {
      ids.push_back(id);
      biases.push_back(static_cast<float>(id % 13) / 4 - 1.5f);
    }
    for (Session* session : {&a, &b}) session->set_bias(ids, biases);
  }
  for (uint32_t run = 0, done = 0; done < count; ++run) {
    Sampling seeded = sampling;
    seeded.seed += run;
    a.set_sampling(seeded);
    b.set_sampling(seeded);
    std::vector<uint32_t> prompt = some_ids(3 + run % 5, model.config.vocab);
    prompt[0] = run % model.config.vocab;
    const uint32_t tokens = std::min(count - done, context - static_cast<uint32_t>(prompt.size()));
    const std::vector<uint32_t> want = generate(a, prompt, tokens), got = generate(b, prompt, tokens);
    ASSERT_EQ(got, want) << "run " << run;
    done += tokens;
  }
}

TEST_F(HeadTest, CertifiedGivesTheFullHeadsTokens) {
  LlamaShape shape;
  shape.vocab = 777;
  for (const Format format : kFormats) {
    make(shape, format);
    for (const Sampling& sampling : kSamplings)
      expect_same(*model_, sampling, {}, head(VocabHead::Mode::certified), 80);
    for (const size_t i : {0u, 2u, 6u, 8u, 9u})
      expect_same(*model_, kSamplings[i], {}, head(VocabHead::Mode::certified), 40, true);
  }
}

// Top-p without top-k, alone and with min-p: seeds, temperatures and shares, by every head that promises the tokens,
// and by `fast`, whose seven deviations all errors of this model keep.
TEST_F(HeadTest, TopPAloneGivesTheFullHeadsTokens) {
  LlamaShape shape;
  shape.vocab = 1500;
  make(shape, Format::q8);
  std::vector<uint32_t> kept;
  for (uint32_t id = 5; id < shape.vocab; id += 3) kept.push_back(id);
  uint64_t seed = 100;
  for (const VocabHead::Mode mode : {VocabHead::Mode::certified, VocabHead::Mode::sure, VocabHead::Mode::fast})
    for (const float top_p : {0.1f, 0.5f, 0.9f, 0.95f, 0.99f})
      for (const float temperature : {0.2f, 0.7f, 1.0f}) {
        const float min_p = seed % 2 == 0 ? 0.0f : 0.05f;
        SCOPED_TRACE(std::to_string(top_p) + " at " + std::to_string(temperature) + ", min-p " + std::to_string(min_p));
        expect_same(*model_, sampling(temperature, 0, top_p, min_p, 1, seed++), {}, head(mode), 20);
        if (temperature == 0.7f)
          expect_same(*model_, sampling(temperature, 0, top_p, min_p, 1.2f, seed + 50),
                      head(VocabHead::Mode::full, kept), head(mode, kept), 20, true);
      }
}

// Log-probabilities are the same with every head, because all rows are read for them.
TEST_F(HeadTest, LogprobsAreTheLogits) {
  LlamaShape shape;
  shape.vocab = 777;
  make(shape, Format::q8);
  std::vector<uint32_t> kept;
  for (uint32_t id = 5; id < 777; id += 3) kept.push_back(id);
  for (const VocabHead& head :
       {head(VocabHead::Mode::full), head(VocabHead::Mode::certified), head(VocabHead::Mode::certified, kept, false)}) {
    Session session(*model_, 256, {}), plain(*model_, 256, {});
    session.set_head(head);
    session.set_sampling(extra(sampling(1, 40, 1, 0, 1.2f, 1), 0.5f, 0, 1));
    session.set_logprobs(7);
    std::vector<uint32_t> context = some_ids(6, 777);
    session.prompt(context);
    std::vector<std::pair<uint32_t, Logprobs>> got;
    session.generate(15, true, [&](uint32_t id) {
      got.emplace_back(id, session.logprobs());
      return true;
    });
    ASSERT_EQ(got.size(), 15u);
    EXPECT_EQ(session.stats().head_rows, (head.keep ? kept.size() : 777) * 15);
    for (const auto& [id, logprobs] : got) {
      plain.prompt(context);
      const std::vector<float> logits = plain.logits();
      std::vector<std::pair<float, uint32_t>> ranked;
      double sum = 0;
      for (uint32_t i = 0; i < logits.size(); ++i) {
        if (head.keep && i % 3 != 2) continue;
        if (head.keep && i < 5) continue;
        ranked.emplace_back(-logits[i], i);
        sum += std::exp(double{logits[i]});
      }
      std::sort(ranked.begin(), ranked.end());
      ASSERT_EQ(logprobs.likeliest.size(), 7u);
      for (size_t i = 0; i < 7; ++i) {
        EXPECT_EQ(logprobs.likeliest[i].first, ranked[i].second) << i;
        EXPECT_NEAR(logprobs.likeliest[i].second, -ranked[i].first - std::log(sum), 1e-4) << i;
      }
      EXPECT_NEAR(logprobs.chosen, logits[id] - std::log(sum), 1e-4);
      context.push_back(id);
    }
  }
}

TEST_F(HeadTest, EveryTuningAndManySlices) {
  LlamaShape shape;
  shape.vocab = 3000;
  for (const Tuning& tuning : {Tuning{.plain = true}, Tuning{.split = 4, .row_tiles = 1, .texel_products = false},
                               Tuning{.slice_bytes = 64 << 10}}) {
    make(shape, Format::q8, tuning);
    for (const Sampling& sampling : {kSamplings[0], kSamplings[2]})
      expect_same(*model_, sampling, {}, head(VocabHead::Mode::certified), 60);
  }
}

TEST_F(HeadTest, KeepListsGiveOnlyTheirTokens) {
  LlamaShape shape;
  shape.vocab = 777;
  make(shape, Format::q8);
  std::vector<uint32_t> kept;
  for (uint32_t id = 5; id < 777; id += 3) kept.push_back(id);
  for (const Sampling& sampling : kSamplings) {
    Session session(*model_, 256, {});
    session.set_head(head(VocabHead::Mode::full, kept, false));
    session.set_sampling(sampling);
    const std::vector<uint32_t> got = generate(session, some_ids(6, 777), 40);
    for (const uint32_t id : got) ASSERT_EQ(id % 3, 2u);
    EXPECT_EQ(session.stats().head_rows, kept.size() * session.stats().head_tokens);
    expect_same(*model_, sampling, head(VocabHead::Mode::full, kept), head(VocabHead::Mode::certified, kept), 40);
  }
}

TEST_F(HeadTest, PromptTokensAreKeptUnlessRefused) {
  LlamaShape shape;
  shape.vocab = 300;
  make(shape, Format::q8);
  const std::vector<uint32_t> prompt = {7, 8, 9};
  for (const bool refused : {false, true}) {
    Session session(*model_, 256, {});
    session.set_head(head(VocabHead::Mode::full, std::vector<uint32_t>{100, 200}, !refused));
    session.prompt(prompt);
    std::vector<uint32_t> ids;
    for (const TokenLogit& token : session.head_logits()) ids.push_back(token.id);
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(ids, refused ? (std::vector<uint32_t>{100, 200}) : (std::vector<uint32_t>{7, 8, 9, 100, 200}));
  }
}

TEST_F(HeadTest, ScoresUnderAKeepListAreOverItsTokens) {
  LlamaShape shape;
  shape.vocab = 300;
  make(shape, Format::f16);
  std::vector<uint32_t> kept, ids = some_ids(40, 300);
  for (uint32_t id = 0; id < 300; id += 2) kept.push_back(id);
  Session session(*model_, 256, {});
  session.set_head(head(VocabHead::Mode::full, kept, false));
  const std::vector<float> scores = session.score(ids);
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    if (ids[i + 1] % 2 == 1) {
      EXPECT_TRUE(std::isinf(scores[i])) << i;
      continue;
    }
    session.prompt(std::span(ids).first(i + 1));
    double sum = 0, logit = 0;
    for (const TokenLogit& token : session.head_logits()) {
      sum += std::exp(double{token.logit});
      if (token.id == ids[i + 1]) logit = token.logit;
    }
    EXPECT_NEAR(scores[i], std::log(sum) - logit, 1e-3) << i;
  }
}

// A tokenizer of single bytes, then pairs of letters.
Tokenizer byte_tokenizer(uint32_t vocab) {
  JsonValue tokens = JsonValue::array(), types = JsonValue::array(), scores = JsonValue::array();
  const auto add = [&](const std::string& text, int type) {
    tokens.push_back(text);
    types.push_back(type);
    scores.push_back(-static_cast<double>(tokens.size()));
  };
  add("<unk>", 2), add("<s>", 3), add("</s>", 3);
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", byte);
    add(text, 6);
  }
  for (char a = 'a'; a <= 'z' && tokens.size() < vocab; ++a)
    for (char b = 'a'; b <= 'z' && tokens.size() < vocab; ++b) add({a, b}, 1);
  while (tokens.size() < vocab) add("x" + std::to_string(tokens.size()), 1);
  return Tokenizer::from_gguf({{"tokenizer.ggml.model", "llama"},
                               {"tokenizer.ggml.tokens", tokens},
                               {"tokenizer.ggml.token_type", types},
                               {"tokenizer.ggml.scores", scores},
                               {"tokenizer.ggml.bos_token_id", 1},
                               {"tokenizer.ggml.eos_token_id", 2}},
                              "test");
}

std::unique_ptr<Matcher> matcher(const Tokenizer& tokenizer, Grammar grammar) {
  return std::make_unique<Matcher>(std::make_shared<const Grammar>(std::move(grammar)),
                                   std::make_shared<const TokenTrie>(tokenizer.token_bytes()), tokenizer.stop_ids());
}

// Generates under a grammar by masking all logits on the CPU, greedily. kept: the only tokens; none: all.
std::vector<uint32_t> mask_after_full(Session& session, Matcher& grammar, std::vector<uint32_t> context, uint32_t most,
                                      const std::vector<uint32_t>& kept = {}) {
  std::vector<uint32_t> ids;
  while (ids.size() < most && !grammar.finished()) {
    session.prompt(context);
    const std::vector<float> logits = session.logits();
    const TokenSet& allowed = grammar.allowed();
    uint32_t best = UINT32_MAX;
    for (uint32_t id = 0; id < logits.size(); ++id)
      if (allowed.contains(id) && (kept.empty() || std::ranges::binary_search(kept, id)) &&
          (best == UINT32_MAX || logits[id] > logits[best]))
        best = id;
    grammar.accept(best);
    ids.push_back(best);
    context.push_back(best);
  }
  return ids;
}

TEST_F(HeadTest, GrammarsGiveTheTokensThatMaskingGives) {
  for (const uint32_t vocab : {900u, 6000u}) {  // short lists, and more tokens than a list may have
    LlamaShape shape;
    shape.vocab = vocab;
    make(shape, Format::q8);
    const Tokenizer tokenizer = byte_tokenizer(vocab);
    const auto grammar = [] { return Grammar::from_regex("([a-z0-9]{3,8} ){4}[yn]", "test"); };
    const std::vector<uint32_t> prompt = some_ids(5, vocab);
    Session plain(*model_, 256, tokenizer.stop_ids());
    const auto by_hand = matcher(tokenizer, grammar());
    const std::vector<uint32_t> want = mask_after_full(plain, *by_hand, prompt, 60);
    ASSERT_GT(want.size(), 8u);
    for (const VocabHead::Mode mode : {VocabHead::Mode::full, VocabHead::Mode::certified}) {
      Session session(*model_, 256, tokenizer.stop_ids());
      session.set_sampling(greedy());
      session.set_head(head(mode));
      session.set_matcher(matcher(tokenizer, grammar()));
      session.prompt(prompt);
      std::vector<uint32_t> got;
      const Stop stop = session.generate(60, false, [&](uint32_t id) {
        got.push_back(id);
        return true;
      });
      EXPECT_EQ(got, want) << vocab;
      EXPECT_EQ(stop, Stop::grammar);
    }
    // Seeded sampling: full and certified draw the same.
    std::vector<std::vector<uint32_t>> draws;
    for (const VocabHead::Mode mode : {VocabHead::Mode::full, VocabHead::Mode::certified}) {
      Session session(*model_, 256, tokenizer.stop_ids());
      session.set_sampling(sampling(1, 40, 0.95f, 0, 1, 7));
      session.set_head(head(mode));
      session.set_matcher(matcher(tokenizer, grammar()));
      draws.push_back(generate(session, prompt, 60));
    }
    EXPECT_EQ(draws[0], draws[1]);
  }
}

// A table with the file's bits: full alone reads it, for grammars too. Other heads are refused, and auto is full.
TEST_F(HeadTest, NativeTables) {
  LlamaShape shape;
  shape.width = 256;
  shape.ffn = 512;
  shape.vocab = 900;
  make_gguf(folder_.path() / "m.gguf", shape, {DType::q6_k, 5, ""});
  DeviceFormats native;
  native.native_table = true;
  model_ = load_model(open_device(), folder_.path() / "m.gguf", native);
  EXPECT_EQ(model_->weights.type(), "q6");
  EXPECT_EQ(model_->weights.output_table().bytes(),
            960u * 212u);  // whole tiles; 6.5 bits, and two bytes for 256 columns
  const Tokenizer tokenizer = byte_tokenizer(shape.vocab);
  const auto grammar = [] { return Grammar::from_regex("([a-z0-9]{3,8} ){4}[yn]", "test"); };
  const std::vector<uint32_t> prompt = some_ids(5, shape.vocab);
  Session plain(*model_, 256, tokenizer.stop_ids()), session(*model_, 256, tokenizer.stop_ids());
  const auto by_hand = matcher(tokenizer, grammar());
  const std::vector<uint32_t> want = mask_after_full(plain, *by_hand, prompt, 60);
  session.set_sampling(greedy());
  session.set_matcher(matcher(tokenizer, grammar()));
  EXPECT_EQ(generate(session, prompt, 60), want);
  session.set_matcher(nullptr);
  VocabHead automatic = head(VocabHead::Mode::sure);
  automatic.automatic = true;
  for (const size_t i : {0u, 2u, 4u, 8u}) expect_same(*model_, kSamplings[i], {}, automatic, 40, i == 2);
  for (const VocabHead& wrong :
       {head(VocabHead::Mode::certified), head(VocabHead::Mode::sure), head(VocabHead::Mode::full, {{1, 2, 3}})}) {
    try {
      session.set_head(wrong);
      FAIL() << "the head was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::unsupported);
      EXPECT_NE(error.sentence().find("the file's bits"), std::string::npos) << error.what();
    }
  }
}

// The same with seeded sampling: the full head's logits masked, then the reference's draw.
TEST_F(HeadTest, GrammarsDrawWhatMaskingDraws) {
  LlamaShape shape;
  shape.vocab = 900;
  make(shape, Format::f16);
  const Tokenizer tokenizer = byte_tokenizer(900);
  const auto grammar = [] { return Grammar::from_regex("([a-z0-9]{3,8} ){4}[yn]", "test"); };
  uint32_t compared = 0;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    Session session(*model_, 256, tokenizer.stop_ids()), plain(*model_, 256, tokenizer.stop_ids());
    session.set_sampling(sampling(1, 20, 0.9f, 0.02f, 1, seed));
    session.set_matcher(matcher(tokenizer, grammar()));
    const std::vector<uint32_t> prompt = some_ids(5, 900), got = generate(session, prompt, 60);
    const auto by_hand = matcher(tokenizer, grammar());
    std::vector<uint32_t> context = prompt;
    for (const uint32_t id : got) {
      plain.prompt(context);
      std::vector<float> logits = plain.logits();
      const TokenSet& allowed = by_hand->allowed();
      for (uint32_t i = 0; i < logits.size(); ++i)
        if (!allowed.contains(i)) logits[i] = -INFINITY;
      const reference::Allowed kept = reference::filter(logits, {20, 0.9f, 0.02f});
      const reference::Sample sample =
          reference::sample_seeded(logits, kept.ids, seed, static_cast<uint32_t>(context.size()));
      if (kept.margin > 1e-5 && sample.lead > 1e-5) {  // else fp32 may differ from the reference's double
        ASSERT_EQ(id, sample.id) << "seed " << seed << " token " << context.size();
        ++compared;
      }
      by_hand->accept(id);
      context.push_back(id);
    }
  }
  EXPECT_GT(compared, 60u);
}

TEST_F(HeadTest, AHundredTextsKeepToASchema) {
  const nlohmann::json schema = nlohmann::json::parse(R"({"type": "object", "additionalProperties": false,
    "required": ["kind", "rows", "size"], "properties": {
      "kind": {"enum": ["lamp", "fan", null, 7]},
      "name": {"type": "string", "maxLength": 6},
      "size": {"type": "number", "minimum": -2, "maximum": 99},
      "rows": {"type": "array", "maxItems": 2, "items": {"type": "array", "maxItems": 2,
               "items": {"type": "integer", "minimum": 0, "maximum": 300}}}}})");
  LlamaShape shape;
  shape.vocab = 900;
  make(shape, Format::q8);
  const Tokenizer tokenizer = byte_tokenizer(900);
  Session session(*model_, 512, tokenizer.stop_ids());
  session.set_matcher(matcher(tokenizer, Grammar::from_json_schema(schema.dump(), "schema")));
  for (uint64_t seed = 0; seed < 100; ++seed) {
    session.set_sampling(sampling(1, seed % 2 ? 40 : 0, 1, 0, 1, seed));
    session.set_head(head(seed % 3 ? VocabHead::Mode::full : VocabHead::Mode::certified));
    session.prompt(some_ids(1 + seed % 4, 900));
    std::vector<uint32_t> ids;
    const Stop stop = session.generate(400, false, [&](uint32_t id) {
      ids.push_back(id);
      return true;
    });
    ASSERT_TRUE(stop == Stop::grammar || stop == Stop::token) << "seed " << seed;
    std::string text;
    for (const uint32_t id : ids) text += tokenizer.bytes(id);
    const nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
    ASSERT_FALSE(value.is_discarded()) << text;
    ASSERT_EQ(reference::why_invalid(value, schema, schema), "") << text;
  }
}

// The first token has few possibilities, which are listed; the next ones have many, which are a mask over the
// keep-list.
TEST_F(HeadTest, AKeepListIsWholeAgainAfterAShortList) {
  LlamaShape shape;
  shape.vocab = 6000;
  make(shape, Format::q8);
  const Tokenizer tokenizer = byte_tokenizer(shape.vocab);
  const auto grammar = [] { return Grammar::from_regex("y[a-z0-9]{40}", "test"); };
  const auto pair = [](char a, char b) { return static_cast<uint32_t>(259 + 26 * (a - 'a') + (b - 'a')); };
  std::vector<uint32_t> kept;  // as many that begin with a, which the short list overwrites, as with y
  for (const char first : {'a', 'y'})
    for (char second = 'a'; second <= 'z'; ++second) kept.push_back(pair(first, second));
  Session plain(*model_, 256, tokenizer.stop_ids()), session(*model_, 256, tokenizer.stop_ids());
  session.set_sampling(greedy());
  session.set_head(head(VocabHead::Mode::full, kept, false));
  session.set_matcher(matcher(tokenizer, grammar()));
  bool overwritten = false;
  for (uint32_t length = 2; length < 10; ++length) {
    const std::vector<uint32_t> prompt = some_ids(length, shape.vocab);
    const auto by_hand = matcher(tokenizer, grammar());
    const std::vector<uint32_t> want = mask_after_full(plain, *by_hand, prompt, 4, kept);
    overwritten |= std::ranges::any_of(want, [&](uint32_t id) { return id <= pair('a', 'z'); });
    EXPECT_EQ(generate(session, prompt, 4), want);
  }
  EXPECT_TRUE(overwritten);
}

TEST_F(HeadTest, TwoAllowedTokensReadTwoRows) {
  LlamaShape shape;
  shape.vocab = 400;
  make(shape, Format::q8);
  const Tokenizer tokenizer = byte_tokenizer(400);
  Session session(*model_, 256, tokenizer.stop_ids());
  session.set_matcher(matcher(tokenizer, Grammar::from_regex("[yn]{9}", "test")));  // single bytes: y and n
  session.prompt(some_ids(5, 400));
  ASSERT_EQ(session.head_logits().size(), 2u);
  generate(session, some_ids(5, 400), 9);
  EXPECT_EQ(session.stats().head_rows, 2 * session.stats().head_tokens);
  EXPECT_EQ(session.stats().head_tokens, 9u);
}

// Both where the allowed rows are listed and where they are a mask of more than 4096.
TEST_F(HeadTest, GrammarAndKeepListWithoutACommonTokenSaySo) {
  const std::pair<uint32_t, const char*> cases[] = {{400, "[yn]{9}"}, {6000, "x[0-9]+"}};
  for (const auto& [vocab, regex] : cases) {
    LlamaShape shape;
    shape.vocab = vocab;
    make(shape, Format::q8);
    const Tokenizer tokenizer = byte_tokenizer(vocab);
    Session session(*model_, 256, tokenizer.stop_ids());
    session.set_head(head(VocabHead::Mode::full, std::vector<uint32_t>{300, 301}, false));
    session.set_matcher(matcher(tokenizer, Grammar::from_regex(regex, "test")));
    try {
      generate(session, some_ids(5, 400), 9);
      ADD_FAILURE() << regex;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      EXPECT_NE(error.sentence().find("the keep-list has none of the "), std::string::npos) << error.what();
    }
  }
}

TEST_F(HeadTest, RealModels) {
  const auto shared = shared_folder();
  if (!shared) GTEST_SKIP() << "../shared is not there";
  std::vector<std::filesystem::path> paths = {*shared / "models/tinystories-656K",
                                              *shared / "models/stories260K/tinyllamas-stories-260k-f32.gguf"};
  const std::filesystem::path pocket = source_folder() / "apps/pocket/pocket.gguf";
  if (std::filesystem::exists(pocket)) paths.push_back(pocket);
  for (const std::filesystem::path& path : paths)
    for (const Format format : kFormats) {
      SCOPED_TRACE(path.string() + " " + name(format));
      const auto model = load_model(open_device(), path, format);
      expect_same(*model, greedy(), {}, head(VocabHead::Mode::certified), steps());
      for (const Sampling& sampling : kSamplings)
        expect_same(*model, sampling, {}, head(VocabHead::Mode::certified), steps() / std::size(kSamplings));
    }
}

}  // namespace
}  // namespace weft::test
