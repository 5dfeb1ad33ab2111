// Saved sessions: they go on like a session that never stopped, and wrong files are refused.
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "model/fingerprint.h"
#include "support/model_test.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Writes a file whose checksum fits its bytes, as an attacker would.
void write_summed(const std::filesystem::path& path, std::string bytes) {
  Fingerprint sum;
  sum.add(std::as_bytes(std::span(bytes)).first(bytes.size() - 8));
  const uint64_t value = sum.value();
  std::memcpy(&bytes[bytes.size() - 8], &value, 8);
  write(path, bytes);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  EXPECT_EQ(from.size(), to.size());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// A layer with a window of 32 and one without.
std::filesystem::path golden(const char* name) { return source_folder() / "tests/model/golden-long" / name; }

class SessionFileTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    model_ = load_model(open_device(), golden("gemma3"), Format::q8);
    path_ = folder_.path() / "session";
  }

  void refused(Session& session, Code code, const std::string& sentence) {
    const std::vector<uint32_t> before = session.ids();
    try {
      session.restore(path_);
      ADD_FAILURE() << "not refused: " << sentence;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code);
      EXPECT_NE(e.sentence().find(sentence), std::string::npos) << e.sentence();
      EXPECT_EQ(e.place(), path_.string());
    }
    EXPECT_EQ(session.ids(), before);
  }

  TemporaryFolder folder_;
  std::filesystem::path path_;
  std::unique_ptr<Model> model_;
};

std::vector<uint32_t> go_on(Session& session, uint32_t count) {
  std::vector<uint32_t> ids;
  session.generate(count, true, [&](uint32_t id) {
    ids.push_back(id);
    return true;
  });
  return ids;
}

// Generates 40 tokens in one session; and the first 15 of them in one, the rest in another.
void check_goes_on(const Model& model, const Sampling& sampling, uint32_t prompt, const std::filesystem::path& path,
                   const ops::CacheFormat& cache = {}) {
  const std::vector<uint32_t> ids = some_ids(prompt, model.config.vocab);
  Session whole(model, 700, {}, cache), first(model, 700, {}, cache), second(model, 700, {}, cache);
  whole.set_sampling(sampling);
  first.set_sampling(sampling);
  const std::vector<uint32_t> biased = {3, 9};
  const std::vector<float> biases = {0.75f, -2.5f};
  for (Session* session : {&whole, &first}) session->set_bias(biased, biases);
  const std::vector<uint32_t> all = generate(whole, ids, 40);
  std::vector<uint32_t> got = generate(first, ids, 15);
  first.save(path, "a note \"\xc3\xa9\"");
  generate(second, {1, 2, 3}, 5);  // what it held is gone
  EXPECT_EQ(second.restore(path), "a note \"\xc3\xa9\"");
  const uint64_t computed = second.stats().prompt_tokens;
  const std::vector<uint32_t> rest = go_on(second, 25);
  EXPECT_EQ(second.stats().prompt_tokens, computed + 1);
  got.insert(got.end(), rest.begin(), rest.end());
  EXPECT_EQ(got, all);
}

TEST_F(SessionFileTest, GoesOnAsOneNeverStopped) {
  Sampling sampled;
  sampled.temperature = 1.5f;
  sampled.top_k = 0;
  sampled.repeat_penalty = 1.3f;
  sampled.seed = (1ull << 40) + 3;
  Sampling counted = greedy();
  counted.presence_penalty = 0.5f;
  counted.frequency_penalty = 1.5f;
  check_goes_on(*model_, counted, 20, path_);
  counted.typical_p = 0.8f;
  counted.temperature = 1;
  check_goes_on(*model_, counted, 20, path_);
  for (const uint32_t prompt : {1u, 110u, 300u}) {  // the ring of 128 wraps before, at and after the save
    check_goes_on(*model_, greedy(), prompt, path_);
    check_goes_on(*model_, sampled, prompt, path_);
  }
}

// A session continues from another session's computed context as if it had computed that itself.
void check_prefix(const Model& model, uint32_t shared, uint32_t more, const ops::CacheFormat& cache,
                  uint32_t expected) {
  const std::vector<uint32_t> ids = some_ids(shared + more, model.config.vocab);
  Session first(model, 700, {}, cache), second(model, 700, {}, cache), alone(model, 700, {}, cache);
  for (Session* session : {&first, &second, &alone}) session->set_sampling(greedy());
  std::vector<uint32_t> other(ids.begin(), ids.begin() + shared);
  other.push_back(shared + more > shared ? (ids[shared] + 1) % model.config.vocab : 0);
  generate(first, other, 12);
  generate(second, some_ids(9, model.config.vocab), 3);  // what it held is gone
  second.prompt({ids.begin(), ids.end()});
  const uint64_t reused = second.stats().reused_tokens, computed = second.stats().prompt_tokens;
  const size_t own = second.copy_prefix(second);
  EXPECT_EQ(second.copy_prefix(first), expected ? expected : own);
  EXPECT_EQ(second.stats().reused_tokens - reused, expected ? expected - own : 0);
  const std::vector<uint32_t> got = go_on(second, 30);
  EXPECT_EQ(second.stats().prompt_tokens - computed, ids.size() - (expected ? expected : own));
  alone.prompt({ids.begin(), ids.begin() + (expected ? expected : own) + 1});  // the same passes
  go_on(alone, 1);
  EXPECT_EQ(generate(alone, ids, 30), got);
  EXPECT_EQ(second.copy_prefix(first), second.ids().size() - 1);  // it has more itself
}

TEST_F(SessionFileTest, APrefixIsCopied) {
  for (const Format cache : {Format::f16, Format::q8, Format::q4})
    for (const uint32_t shared : {30u, 64u, 100u, 300u}) check_prefix(*model_, shared, 20, cache, shared);
  check_prefix(*model_, 40, 1, Format::f16, 40);
  // Positions that the ring of a layer with a window has lost cannot be copied.
  Session far(*model_, 700, {}), near(*model_, 700, {});
  generate(far, some_ids(300, model_->config.vocab), 5);
  near.prompt(some_ids(100, model_->config.vocab));
  EXPECT_EQ(near.copy_prefix(far), 0u);
  // The last token of a whole context is computed again.
  near.prompt(some_ids(300, model_->config.vocab));
  EXPECT_EQ(near.copy_prefix(far), 299u);
  Session shorter(*model_, 500, {}), empty(*model_, 700, {});
  shorter.prompt(some_ids(300, model_->config.vocab));
  EXPECT_THROW(shorter.copy_prefix(far), Error);
  EXPECT_THROW(empty.copy_prefix(far), Error);
}

TEST_F(SessionFileTest, RoundedCachesGoOnToo) {
  check_goes_on(*model_, greedy(), 110, path_, Format::q8);
  check_goes_on(*model_, greedy(), 110, path_, {Format::q4, Format::q4});
  check_goes_on(*model_, greedy(), 300, path_, {Format::q8, Format::q4});
}

TEST_F(SessionFileTest, KeepsWhatIsInUse) {
  Session session(*model_, 512, {});
  generate(session, some_ids(10, model_->config.vocab), 5);
  session.save(path_, "");
  EXPECT_LT(std::filesystem::file_size(path_),
            session.kv_bytes() / 5 + 1024);  // a tile each of the ring's two and the other layer's eight
  EXPECT_EQ(session.restore(path_), "");
}

// Files from before the layout was stored, whose q8 caches had another layout.
TEST_F(SessionFileTest, AnEarlierLayoutIsRefused) {
  const auto without_layout = [&](Format cache) {
    Session session(*model_, 256, {}, cache);
    generate(session, some_ids(10, model_->config.vocab), 5);
    session.save(path_, "");
    write_summed(path_, replaced(read(path_), "\"cache_layout\"", "\"not_a_layout\""));
  };
  without_layout(Format::q8);
  Session of_q8(*model_, 256, {}, Format::q8);
  refused(of_q8, Code::unsupported, "it was saved with a cache of layout 1, here it is 2");
  without_layout(Format::f16);
  Session of_f16(*model_, 256, {}, Format::f16);
  EXPECT_EQ(of_f16.restore(path_), "");
}

TEST_F(SessionFileTest, AnotherModelTypeOrContextIsRefused) {
  Session session(*model_, 256, {}), shorter(*model_, 255, {});
  EXPECT_THROW(session.save(path_, ""), Error);  // nothing to save yet
  generate(session, some_ids(10, model_->config.vocab), 5);
  session.save(path_, "");
  refused(shorter, Code::unsupported, "it was saved with a context of 256, here it is 255");
  Session of_q8(*model_, 256, {}, Format::q8);
  refused(of_q8, Code::unsupported, "it was saved with a cache of type f16, here it is q8");
  Session of_both(*model_, 256, {}, {Format::q8, Format::q4});
  refused(of_both, Code::unsupported, "it was saved with a cache of type f16, here it is q8/q4");
  const auto halves = load_model(open_device(), golden("gemma3"), Format::f16);
  Session of_halves(*halves, 256, {});
  refused(of_halves, Code::unsupported, "it was saved with weights of type q8, here it is f16");
  DeviceFormats formats(Format::q4);
  formats.tables = Format::q8;
  const auto fine_table = load_model(open_device(), golden("gemma3"), formats);
  std::swap(formats.matrices, formats.tables);
  const auto coarse_table = load_model(open_device(), golden("gemma3"), formats);
  EXPECT_EQ(fine_table->weights.type(), coarse_table->weights.type());
  Session fine(*fine_table, 256, {}), coarse(*coarse_table, 256, {});
  generate(fine, some_ids(10, model_->config.vocab), 5);
  fine.save(path_, "");
  refused(coarse, Code::unsupported, "it was saved with a vocabulary table of type q8, here it is q4");
  const TemporaryFolder folder;
  make_gguf(folder.path() / "twice.gguf", {}, {.second_table = DType::f16});
  DeviceFormats apart;
  apart.tie = false;
  const auto tied = load_model(open_device(), folder.path() / "twice.gguf", {}),
             untied = load_model(open_device(), folder.path() / "twice.gguf", apart);
  Session of_tied(*tied, 256, {}), of_untied(*untied, 256, {});
  generate(of_tied, some_ids(10, tied->config.vocab), 5);
  of_tied.save(path_, "");
  refused(of_untied, Code::unsupported, "it was saved with a vocabulary that is tied, here it is untied");
  session.save(path_, "");
  const auto other = load_model(open_device(), golden("mistral"), Format::q8);
  Session of_other(*other, 256, {});
  refused(of_other, Code::unsupported, "it was saved with a model of fingerprint");
}

TEST_F(SessionFileTest, DamageIsFound) {
  Session session(*model_, 256, {});
  generate(session, some_ids(10, model_->config.vocab), 5);
  session.save(path_, "");
  const std::string whole = read(path_);
  for (const size_t length :
       {size_t{8}, size_t{16}, size_t{23}, size_t{24}, size_t{200}, whole.size() - 8, whole.size() - 1}) {
    write(path_, whole.substr(0, length));
    refused(session, Code::bad_file, "its checksum does not fit");
  }
  for (size_t at = 8; at < whole.size(); at += 997) {
    std::string damaged = whole;
    damaged[at] ^= 4;
    write(path_, damaged);
    refused(session, Code::bad_file, "its checksum does not fit");
  }
  for (const std::string& none : {std::string(), std::string("weft-kv"), std::string("weft-kv2") + whole.substr(8)}) {
    write(path_, none);
    refused(session, Code::bad_file, "it is no session that this Weft saved");
  }
  write(path_, whole);
  session.restore(path_);
}

TEST_F(SessionFileTest, LiesAreFound) {
  Session session(*model_, 256, {});
  generate(session, some_ids(10, model_->config.vocab), 5);
  session.save(path_, "");
  const std::string whole = read(path_);
  const auto lie = [&](const std::string& from, const std::string& to, const std::string& sentence) {
    write_summed(path_, replaced(whole, from, to));
    refused(session, Code::bad_file, sentence);
  };
  lie("\"ids\":15", "\"ids\":99", "bytes of ids and cache");
  lie("\"ids\":15", "\"ids\":-5", "ids is missing or wrong");
  lie("\"ids\":15", "\"ids\":1e", "");
  lie("\"ids\":15", "\"idx\":15", "ids is missing or wrong");
  lie("\"ids\":15", "\"ids\":13", "cached is missing or wrong");  // fewer than are cached
  lie("\"cached\":14", "\"cached\":99", "cached is missing or wrong");
  lie("\"cached\":14", "\"cached\":[]", "cached is missing or wrong");
  lie("\"sampling\":{", "\"sampling\":[", "");
  lie("\"top_k\":40", "\"top_k\":\"\"", "top_k is missing or wrong");
  std::string longer = whole;
  longer[8 + 6] = 1;  // of the header's length
  write_summed(path_, longer);
  refused(session, Code::bad_file, "its checksum does not fit");
}

}  // namespace
}  // namespace weft::test
