// Rerankers in C++: a thin, header-only face over rerank.h, as weft.hpp is over weft.h.
#ifndef WEFT_RERANK_HPP
#define WEFT_RERANK_HPP

#include <weft/rerank.h>

#include <weft/weft.hpp>

namespace weft::api {

// See weft_reranker. May be used by one thread at a time.
class Reranker {
 public:
  struct Rating {
    float score;         // 0 to 1
    std::size_t tokens;  // of the prompt
  };

  explicit Reranker(const Model& model) {
    weft_reranker* reranker = nullptr;
    detail::check([&](weft_error* error) { return weft_reranker_create(model.get(), &reranker, error); });
    handle_.reset(reranker);
  }

  // See weft_reranker_use_duty.
  void use_duty(const Duty& duty) {
    detail::check([&](weft_error* error) { return weft_reranker_use_duty(handle_.get(), duty.get(), error); });
  }
  void use_duty(std::nullptr_t) {  // no longer
    detail::check([&](weft_error* error) { return weft_reranker_use_duty(handle_.get(), nullptr, error); });
  }

  // How well a document answers a query. instruction empty: the usual one; see weft_reranker_score.
  Rating rate(const std::string& query, const std::string& document, const std::string& instruction = {}) {
    Rating rating = {};
    const char* const asked = instruction.empty() ? nullptr : instruction.c_str();
    detail::check([&](weft_error* error) {
      return weft_reranker_score(handle_.get(), asked, query.c_str(), document.c_str(), &rating.score, &rating.tokens,
                                 error);
    });
    return rating;
  }

 private:
  struct Free {
    void operator()(weft_reranker* reranker) const noexcept { weft_reranker_free(reranker); }
  };
  std::unique_ptr<weft_reranker, Free> handle_;
};

}  // namespace weft::api

#endif
