#include "models.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <weft/probe.hpp>

#include "exchange.h"

namespace weft::serve {

// A loaded model, and what answers with it.
class Models::Served {
 public:
  Served(const cli::ModelArgs& args, const std::string& name, const Options& options, Metrics& metrics, States* states,
         const api::Duty* duty)
      : model_(cli::load_model(args)) {
    const weft_model_info info = model_.info();
    const bool hears = std::string_view(info.family) == "whisper";
    if (info.reads_prompt_apart && !hears)
      throw api::Failure(WEFT_UNSUPPORTED, "an encoder-decoder cannot be served", "model", "weft generate uses it");
    ModelFacts facts = {name, info.vocab_size, info.max_context, options.sessions, info.width};
    if (hears) transcriber_.emplace(model_, options.queue, duty);
    if (hears || make_embedder(options.queue, duty)) {
      if (embedder_) facts.width = weft_model_embedding_size(model_.get());
      if (args.ctx) throw cli::UsageError("--ctx", "an encoder's input has its own limit");
      if (options.speculation != WEFT_SPECULATE_OFF) throw cli::UsageError("--speculate", "an encoder writes no text");
      if (!options.lora.empty()) throw cli::UsageError("--lora", "an encoder takes no adapter");
    } else {
      facts.context = cli::session_context(args, info);
      if (!options.lora.empty()) adapter_.emplace(cli::load_lora(model_, options.lora));
      engine_.emplace(model_, metrics, states, options.sessions, options.queue,
                      cli::session_options(args, facts.context), options.speculation, adapter_ ? &*adapter_ : nullptr,
                      options.token_share, duty);
      conversations_.emplace(model_);
      pictures_.emplace(model_, options.mmproj.empty() ? cli::model_path(args.model) : options.mmproj, duty);
      rater_.emplace(model_, options.queue, duty);
    }
    loaded_.emplace(Loaded{model_, facts, engine_ ? &*engine_ : nullptr, embedder_ ? &*embedder_ : nullptr,
                           transcriber_ ? &*transcriber_ : nullptr, rater_ ? &*rater_ : nullptr, states,
                           conversations_ ? &*conversations_ : nullptr, pictures_ ? &*pictures_ : nullptr});
  }

  const Loaded& loaded() const { return *loaded_; }
  std::uint64_t device_bytes() const { return model_.info().device_bytes; }
  void close() {
    if (engine_) engine_->close();
    if (embedder_) embedder_->close();
    if (transcriber_) transcriber_->close();
    if (rater_) rater_->close();
  }

 private:
  // False if the model has no encoder.
  bool make_embedder(std::uint32_t queue, const api::Duty* duty) {
    try {
      embedder_.emplace(model_, queue, duty);
      return true;
    } catch (const api::Failure& failure) {
      if (failure.status() != WEFT_UNSUPPORTED) throw;
      return false;
    }
  }

  api::Model model_;
  std::optional<api::Adapter> adapter_;
  std::optional<Engine> engine_;
  std::optional<Embedder> embedder_;
  std::optional<Transcriber> transcriber_;
  std::optional<Rater> rater_;
  std::optional<Conversations> conversations_;
  std::optional<Pictures> pictures_;
  std::optional<Loaded> loaded_;
};

namespace {

// Reads the model's description, without loading it.
bool hears(const cli::ModelArgs& args) {
  const std::string json = api::probe(cli::model_path(args.model), 0, cli::model_options(args)).json;
  const Json report = Json::parse(json, nullptr, false);
  return report.is_object() && report.contains("model") && report["model"].value("family", "") == "whisper";
}

}  // namespace

Models::Models(Options options, Metrics& metrics, States* states)
    : options_(std::move(options)), metrics_(metrics), states_(states) {
  if (options_.duty < 100) duty_.emplace(static_cast<float>(options_.duty) / 100);
  for (const cli::ModelArgs& args : options_.models) {
    const std::string name = cli::model_name(args.model);
    if (std::ranges::find(entries_, name, &Entry::name) != entries_.end())
      throw cli::UsageError("-m", "two models are called \"" + name + "\"");
    const std::string path = cli::model_path(args.model);
    if (options_.models.size() > 1 && !path.empty() && !std::filesystem::exists(path))
      throw api::Failure(WEFT_NOT_FOUND, "there is no such file or folder", path);
    entries_.push_back({args, name, options_.models.size() > 1 && hears(args)});
  }
}

Models::~Models() = default;

Models::Entry& Models::find(const std::string& name) {
  if (!several() || name.empty()) return entries_.front();
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  if (found == entries_.end())
    throw RequestError(404, "invalid_request_error", "model_not_found",
                       "There is no model \"" + name.substr(0, 80) + "\" here.", "model");
  return *found;
}

std::shared_ptr<const Loaded> Models::get(const std::string& name, const std::function<void()>& check) {
  std::unique_lock lock(mutex_);
  Entry& entry = find(name);
  while (!entry.served) {
    if (closing_) throw Unavailable(Unavailable::Reason::closing, "the server is shutting down");
    check();
    if (loading_) {
      changed_.wait_for(lock, kLook);
      continue;
    }
    loading_ = true;
    try {
      load(entry, lock, check);
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      loading_ = false;
      changed_.notify_all();
      throw;
    }
    loading_ = false;
    changed_.notify_all();
  }
  entry.used = ++clock_;
  return {entry.served, &entry.served->loaded()};
}

// The lock is held before and after it.
void Models::load(Entry& entry, std::unique_lock<std::mutex>& lock, const std::function<void()>& check) {
  while (is_short(entry, lock)) {
    const bool none = std::ranges::none_of(entries_, [](const Entry& other) { return other.served != nullptr; });
    if (none) break;  // it may do with less
    if (give_back(lock)) continue;
    changed_.wait_for(lock, kLook);
    check();
  }
  for (;;) {
    lock.unlock();
    try {
      auto served =
          std::make_shared<Served>(entry.args, entry.name, options_, metrics_, states_, duty_ ? &*duty_ : nullptr);
      lock.lock();
      entry.served = std::move(served);
      if (closing_) entry.served->close();
      return;
    } catch (const api::Failure& failure) {
      lock.lock();
      if (failure.status() != WEFT_OUT_OF_MEMORY || !give_back(lock)) throw;
    }
  }
}

// True if the model does not fit beside those that are loaded.
bool Models::is_short(const Entry& entry, std::unique_lock<std::mutex>& lock) const {
  if (!several()) return false;
  api::ModelOptions options = cli::model_options(entry.args);
  options.memory_budget = 0;
  const weft_session_options session = cli::session_options(entry.args, entry.args.ctx);
  lock.unlock();
  weft_probe_report report{};
  try {
    report = api::probe(cli::model_path(entry.args.model), 0, options, session).report;
  } catch (const api::Failure&) {
    // The load tells the reason.
  }
  lock.lock();
  std::uint64_t used = 0;
  for (const Entry& other : entries_) used += other.served ? other.served->device_bytes() : 0;
  if (entry.args.memory_budget > 0 && used + report.needed_bytes > entry.args.memory_budget) return true;
  return report.fit == WEFT_FIT_NO;
}

// Frees the least recently used model that no request has. Returns false if every model has one.
bool Models::give_back(std::unique_lock<std::mutex>& lock) {
  Entry* oldest = nullptr;
  for (Entry& entry : entries_)
    if (entry.served && entry.served.use_count() == 1 && (!oldest || entry.used < oldest->used)) oldest = &entry;
  if (!oldest) return false;
  std::shared_ptr<Served> unused = std::move(oldest->served);
  lock.unlock();
  unused.reset();
  lock.lock();
  return true;
}

std::vector<Models::Known> Models::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<Known> all;
  for (const Entry& entry : entries_) {
    all.push_back({entry.name, entry.hears, {}});
    if (entry.served) all.back().loaded = {entry.served, &entry.served->loaded()};
  }
  return all;
}

Engine::Load Models::load() const {
  Engine::Load sum;
  for (const Known& known : list()) {
    if (!known.loaded || !known.loaded->engine) continue;
    const Engine::Load load = known.loaded->engine->load();
    sum = {sum.waiting + load.waiting, sum.running + load.running, sum.most + load.most};
  }
  return sum;
}

std::string Models::broken() const {
  for (const Known& known : list())
    if (known.loaded && !known.loaded->broken().empty()) return known.loaded->broken();
  return {};
}

void Models::close() {
  const std::lock_guard lock(mutex_);
  closing_ = true;
  if (duty_) duty_->set_share(1);  // present work is waited for: without pauses
  for (const Entry& entry : entries_)
    if (entry.served) entry.served->close();
}

}  // namespace weft::serve
