// The models of a server. Each is loaded when it is first asked for; where its memory is short, the least recently used
// ones are given back.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "../weft/common.h"
#include "conversation.h"
#include "embeddings.h"
#include "engine.h"
#include "pictures.h"
#include "rerank.h"
#include "transcriptions.h"

namespace weft::serve {

// A model that is ready.
struct Loaded {
  const api::Model& model;
  ModelFacts facts;
  Engine* engine;                      // nullptr: it does not write
  Embedder* embedder;                  // nullptr: it has no encoder
  Transcriber* transcriber;            // nullptr: it does not hear
  Rater* rater;                        // of a model that writes
  States* states;                      // nullptr: there are no slots
  const Conversations* conversations;  // of a model that writes
  Pictures* pictures;                  // the same

  // Why no request can be answered any more; empty: they can.
  std::string broken() const {
    return engine ? engine->broken() : embedder ? embedder->broken() : transcriber->broken();
  }
};

class Models {
 public:
  struct Options {
    std::vector<cli::ModelArgs> models;  // at least one; their memory budget is of all together
    std::uint32_t sessions, queue;
    weft_speculation speculation;
    std::string lora;    // an adapter's file or folder; "": none
    double token_share;  // of the time, for tokens, beside prompts
    std::string mmproj;  // the encoder of pictures, a file or folder; "": the model's own
    std::uint32_t duty;  // most of the time, in percent, that the device is busy with all models
  };
  // The metrics and the states outlive it. Throws UsageError for two models of one name, and for a file that is not
  // there.
  Models(Options options, Metrics& metrics, States* states);
  ~Models();
  Models(const Models&) = delete;
  Models& operator=(const Models&) = delete;

  bool several() const { return entries_.size() > 1; }
  // The model of this name, which stays while the caller has it; of one model any name will do, "" is the first. Loads
  // it, and waits for memory that others use, while `check` does not throw. Throws RequestError, Unavailable and
  // api::Failure.
  std::shared_ptr<const Loaded> get(const std::string& name, const std::function<void()>& check);

  struct Known {
    std::string name;
    bool hears;
    std::shared_ptr<const Loaded> loaded;  // nullptr: it is not
  };
  std::vector<Known> list() const;
  Engine::Load load() const;  // of all
  // Seconds that the device was busy with all of them; nothing without a duty.
  std::optional<double> busy() const { return duty_ ? std::optional(duty_->busy_seconds()) : std::nullopt; }
  std::string broken() const;
  void close();  // ends all requests, and takes no more

 private:
  class Served;
  struct Entry {
    cli::ModelArgs args;
    std::string name;
    bool hears = false;  // known of several models only
    std::shared_ptr<Served> served = {};
    std::uint64_t used = 0;  // when it was asked for last, in uses
  };
  Entry& find(const std::string& name);
  void load(Entry& entry, std::unique_lock<std::mutex>& lock, const std::function<void()>& check);
  bool is_short(const Entry& entry, std::unique_lock<std::mutex>& lock) const;
  bool give_back(std::unique_lock<std::mutex>& lock);

  const Options options_;
  std::optional<api::Duty> duty_;  // none: without a limit
  Metrics& metrics_;
  States* const states_;
  mutable std::mutex mutex_;  // of everything below
  std::condition_variable changed_;
  std::vector<Entry> entries_;
  std::uint64_t clock_ = 0;
  bool loading_ = false;  // one model at a time
  bool closing_ = false;
};

}  // namespace weft::serve
