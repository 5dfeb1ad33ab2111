// Structs of the C API that carry their size: programs with an older or a newer header.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "support/capi_test.h"
#include "weft/audio.h"
#include "weft/batch.h"
#include "weft/lens.h"
#include "weft/probe.h"

namespace weft {
namespace {

class CapiStructsTest : public CapiModelTest {
 protected:
  void SetUp() override {
    CapiModelTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(weft_model_load((folder_ / "m.gguf").c_str(), nullptr, &model_, nullptr), WEFT_OK);
    ASSERT_EQ(weft_session_create(model_, nullptr, &session_, nullptr), WEFT_OK);
  }
  void TearDown() override {
    weft_session_free(session_);
    weft_model_free(model_);
    CapiModelTest::TearDown();
  }

  weft_model* model_ = nullptr;
  weft_session* session_ = nullptr;
};

// A struct of a newer header: the known one, and fields after it.
template <class Struct>
struct Newer {
  Struct known;
  uint64_t more[2] = {};
};

template <class Struct, class Call>
void expect_sizes_are_checked(const char* name, Struct (*defaults)(), const Call& call) {
  const std::string scope = name;
  SCOPED_TRACE(scope);
  const auto status_of = [&](const Struct& given, weft_error& error) { return call(&given, &error); };
  weft_error error = {};
  Newer<Struct> newer = {defaults()};
  EXPECT_EQ(newer.known.size, sizeof(Struct));
  EXPECT_EQ(status_of(newer.known, error), WEFT_OK) << error.sentence;

  newer.known.size = sizeof newer;
  EXPECT_EQ(status_of(newer.known, error), WEFT_OK) << error.sentence;
  newer.more[1] = 1;
  EXPECT_EQ(status_of(newer.known, error), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(error.place, scope);
  EXPECT_NE(std::string(error.sentence).find(scope + " has " + std::to_string(sizeof newer)), std::string::npos)
      << error.sentence;
  for (const size_t wrong : {size_t{0}, sizeof(Struct) - 1, size_t{4097}, SIZE_MAX}) {
    newer.known.size = wrong;
    EXPECT_EQ(status_of(newer.known, error), WEFT_INVALID_ARGUMENT) << wrong;
    EXPECT_EQ(error.place, scope);
    EXPECT_NE(std::string(error.sentence).find(scope + ".size is " + std::to_string(wrong)), std::string::npos)
        << error.sentence;
    EXPECT_NE(std::string(error.hint).find(scope + "_default()"), std::string::npos) << error.hint;
  }
}

TEST_F(CapiStructsTest, ACallersStructMayBeNewerAndIsNeverReadBeyondItsSize) {
  const uint32_t id = 5;
  ASSERT_EQ(weft_session_prompt(session_, &id, 1, nullptr), WEFT_OK);
  expect_sizes_are_checked(
      "weft_model_options", weft_model_options_default, [&](const auto* options, weft_error* error) {
        weft_model* model = nullptr;
        const weft_status status = weft_model_load((folder_ / "m.gguf").c_str(), options, &model, error);
        weft_model_free(model);
        return status;
      });
  expect_sizes_are_checked("weft_session_options", weft_session_options_default,
                           [&](const auto* options, weft_error* error) {
                             weft_session* session = nullptr;
                             const weft_status status = weft_session_create(model_, options, &session, error);
                             weft_session_free(session);
                             return status;
                           });
  expect_sizes_are_checked("weft_sampling", weft_sampling_default, [&](const auto* sampling, weft_error* error) {
    return test::change_request(
        session_, [&](weft_request& request) { request.sampling = sampling, request.keep_sampling = 0; }, error);
  });
  expect_sizes_are_checked("weft_request", weft_request_default, [&](const auto* request, weft_error* error) {
    return weft_session_set_request(session_, request, error);
  });
  expect_sizes_are_checked("weft_request", weft_request_default, [&](const auto* request, weft_error* error) {
    weft_generate_options options = test::generate_options(1);
    options.request = request;
    return weft_session_generate(session_, &options, nullptr, error);
  });
  expect_sizes_are_checked(
      "weft_generate_options", +[] { return test::generate_options(1); },
      [&](const auto* options, weft_error* error) { return weft_session_generate(session_, options, nullptr, error); });
  expect_sizes_are_checked(
      "weft_generate_options", +[] { return test::generate_options(1); },
      [&](const auto* options, weft_error* error) {
        weft_batch_entry entry = {session_, options, WEFT_STOP_LENGTH};
        return weft_generate_batch(&entry, 1, error);
      });
  expect_sizes_are_checked("weft_lens_options", weft_lens_options_default, [&](const auto* options, weft_error* error) {
    return weft_session_lens(
        session_, options, [](void*, const weft_lens_row*) { return 0; }, nullptr, error);
  });
}

// The library refuses the size before it looks at anything else.
TEST(CapiStructs, SizesAreCheckedWithoutADevice) {
  weft_session_options session = weft_session_options_default();
  session.size = 8;
  weft_probe_report report = {};
  weft_error error = {};
  EXPECT_EQ(weft_probe(nullptr, 0, nullptr, &session, &report, sizeof report, nullptr, &error), WEFT_INVALID_ARGUMENT);
  EXPECT_STREQ(error.place, "weft_session_options");
}

// The bytes after `size` are the caller's, and fields beyond what the library knows are 0.
template <class Struct, class Get>
void expect_getter_keeps_to_size(const Get& get) {
  Struct whole;
  std::memset(&whole, 0xee, sizeof whole);
  get(&whole, sizeof whole);
  const size_t shorter = sizeof(Struct) - 8, longer = sizeof(Struct) + 16;
  alignas(Struct) static unsigned char room[8192];
  ASSERT_LT(longer + 8, sizeof room);
  for (const size_t size : {shorter, longer}) {
    std::memset(room, 0xee, sizeof room);
    get(reinterpret_cast<Struct*>(room), size);
    EXPECT_EQ(std::memcmp(room, &whole, shorter), 0);
    for (size_t i = sizeof whole; i < size; ++i) EXPECT_EQ(room[i], 0) << i;
    for (size_t i = size; i < longer + 8; ++i) EXPECT_EQ(room[i], 0xee) << i;
  }
  get(nullptr, sizeof whole);
}

TEST_F(CapiStructsTest, GettersWriteNoMoreThanTheCallersSize) {
  expect_getter_keeps_to_size<weft_model_info>(
      [&](weft_model_info* info, size_t size) { weft_model_get_info(model_, info, size); });
  expect_getter_keeps_to_size<weft_stats>(
      [&](weft_stats* stats, size_t size) { weft_session_get_stats(session_, stats, size); });
  expect_getter_keeps_to_size<weft_speculation_stats>(
      [&](weft_speculation_stats* stats, size_t size) { weft_session_get_speculation_stats(session_, stats, size); });
  const std::string path = (folder_ / "m.gguf").string();
  // Its last field, which other programs change, is not compared.
  expect_getter_keeps_to_size<weft_probe_report>([&](weft_probe_report* report, size_t size) {
    if (!report) return;
    EXPECT_EQ(weft_probe(path.c_str(), 0, nullptr, nullptr, report, size, nullptr, nullptr), WEFT_OK);
  });
  EXPECT_EQ(test::info_of(model_).layers, 2u);
}

}  // namespace
}  // namespace weft
